"""Queries that people wrote: imported ones, those of BEIR folders, and those in documents."""
