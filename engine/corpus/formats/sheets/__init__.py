"""Spreadsheets as their programs show them: number formats, and what of a file they are applied
to.
"""
