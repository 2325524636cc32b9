"""Runs of text whose font or position changes what their letters mean: symbol fonts,
superscripts.
"""
