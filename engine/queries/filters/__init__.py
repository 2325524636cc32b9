"""Filters that every query passes, whoever wrote it."""
