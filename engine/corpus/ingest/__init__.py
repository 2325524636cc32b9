"""Bring project.db in line with the files."""
