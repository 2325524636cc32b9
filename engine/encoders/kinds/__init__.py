"""The kinds of encoders, and which of them settings name.

What they have in common is in engine/encoders/encoder.py.
"""
