"""Chunks to training queries.

In: chunks and their documents' titles. Out: `Query` records, each with verbatim evidence from its
source chunk. `choosing.py` decides who writes them: rules (`rules/`), a language model (`llm/`) or
the user (`imported.py`).
"""
