"""Chunks to training queries.

In: chunks and their documents' titles. Out: `Query` records, each with the verbatim evidence in its source chunk.

`choosing.py` says who writes them. The built-in generator (`rules/`) needs no model: it asks, compresses and abbreviates what the
chunks' own salient sentences say. A language model (`llm/`), in a GGUF file or on a server, answers the prompts of assets/prompts;
its answers are kept one by one. `imported.py` joins queries written elsewhere to the chunks that hold their evidence. All queries
pass the `filters/`; `sample.py` shows what a backend would make before a run does.
"""
