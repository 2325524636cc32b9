"""Query → hits: semantic, BM25 or hybrid; filters; snippets; and the server that speaks JSON-RPC on standard input.

In: a project whose `index` stage (for BM25) or `embed` stage (for semantic) has run. Out: `Hit`s, best first.
"""

from engine.search.explaining import Explained, Standing
from engine.search.filters import SearchFilter
from engine.search.hits import Found, Hit
from engine.search.searcher import Searcher

__all__ = ["Explained", "Found", "Hit", "SearchFilter", "Searcher", "Standing"]
