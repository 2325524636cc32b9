"""Runs of text whose font or position changes the meaning of their letters.

These are symbol fonts and superscripts.
"""
