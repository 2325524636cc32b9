"""Chunks to training queries.

In: chunks and their documents' titles. Out: `Query` records, each with the verbatim evidence in its source chunk.

Who writes them is a `QueryBackend` (`backend.py`, chosen in `opening.py`). The built-in generator needs no model: it
asks, compresses and abbreviates what the chunks' own salient sentences say. A language model, in a GGUF file
(`gguf.py`, the only user of llama_cpp here) or on a server (`endpoint.py`), is asked with the prompts of assets/prompts
(`prompted.py`); its answers are kept one by one (`ledger.py`). `attach_imported` joins queries written elsewhere to the
chunks that hold their evidence. `deduplicate` and `consistency_filter` are the filters that all queries pass; `sample`
shows what a backend would make before a run does.
"""
