"""Chunks to training queries.

In: chunks and their documents' titles. Out: `Query` records, each with the verbatim evidence in its
    source chunk.

`choosing.py` says who writes them: rules (`rules/`), a language model in a GGUF file or on a server
(`llm/`), or the user (`imported.py`). All queries pass the `filters/`.
"""
