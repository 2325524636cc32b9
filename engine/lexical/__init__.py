"""Chunks ⇄ BM25.

In: `(chunk id, embedded text)` pairs from the corpus room. Out: ranked chunk ids with BM25 scores (k1 = 1.2, b = 0.75,
with the (k1 + 1) factor: tantivy's scale), document frequencies, and the places of a query's words in a text.

`Analyzer` turns text into terms, the same way for chunks and queries; `LexicalIndex` is the index on disk (tantivy);
mining thousands of queries goes through `PostingsScorer`, which gives tantivy's scores from memory. `import
engine.lexical` loads neither tantivy nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.lexical.analysis import Analyzer as Analyzer
    from engine.lexical.analysis import matched_spans as matched_spans
    from engine.lexical.index import LexicalIndex as LexicalIndex
    from engine.lexical.languages import detect_language as detect_language
    from engine.lexical.languages import supported_languages as supported_languages

_HOMES = {
    "Analyzer": "analysis",
    "LexicalIndex": "index",
    "detect_language": "languages",
    "matched_spans": "analysis",
    "supported_languages": "languages",
}
__all__ = ["Analyzer", "LexicalIndex", "detect_language", "matched_spans", "supported_languages"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"engine.lexical.{_HOMES[name]}"), name)
    raise AttributeError(name)
