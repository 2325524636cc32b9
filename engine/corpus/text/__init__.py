"""Blocks, pages and lines → text."""
