"""The kinds of encoders, and which of them the settings name.

Their common interface is in engine/encoders/encoder.py.
"""
