"""Readers of notes that other programs write: Evernote and Jupyter."""
