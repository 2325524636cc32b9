"""A project as one file, and back.

A bundle is a ZIP file with the project's files and `manifest.json`. Its comment, which ends the
file, is the sha256 of every byte before it. An encrypted one holds such a file in age's format
instead.
"""
