"""Queries that people wrote: imported, with and without judgments; those of BEIR folders; those
that documents hold.
"""
