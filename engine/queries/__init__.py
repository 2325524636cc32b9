"""Chunks to training queries.

In: chunks and their documents' titles. Out: `Query` records, each with the verbatim evidence in its source chunk.

Who writes them is a `QueryBackend` (`backend.py`, chosen in `opening.py`). The built-in generator needs no model: it
asks, compresses and abbreviates what the chunks' own salient sentences say. A language model, in a GGUF file
(`gguf.py`, the only user of llama_cpp here) or on a server (`endpoint.py`), is asked with the prompts of assets/prompts
(`prompted.py`); its answers are kept one by one (`ledger.py`). `attach_imported` joins queries written elsewhere to the
chunks that hold their evidence. `deduplicate` and `consistency_filter` are the filters that all queries pass; `sample`
shows what a backend would make before a run does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.queries.consistency import Filtered, Rejected, consistency_filter
    from engine.queries.dedupe import Deduplicated, Repeated, deduplicate
    from engine.queries.extractive import KINDS, generate
    from engine.queries.imported import RejectedItem, attach_imported
    from engine.queries.statistics import TermStatistics

_HOMES = {
    "Filtered": "consistency", "consistency_filter": "consistency", "Rejected": "consistency",
    "Repeated": "dedupe", "deduplicate": "dedupe", "Deduplicated": "dedupe",
    "KINDS": "extractive", "generate": "extractive", "attach_imported": "imported", "RejectedItem": "imported",
    "TermStatistics": "statistics",
}  # fmt: skip
__all__ = [
    "KINDS", "Deduplicated", "Filtered", "Rejected", "RejectedItem", "Repeated", "TermStatistics", "attach_imported",
    "consistency_filter", "deduplicate", "generate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
