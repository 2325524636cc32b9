"""Queries to hits, by meaning, by BM25 or both, with filters and snippets, and the JSON-RPC server.

In: a project whose `index` stage (for BM25) or `embed` stage (for semantic search) has run. Out:
`Hit`s, best first.
"""
