"""Query → hits: semantic, BM25 or hybrid; filters; snippets; and the server that speaks JSON-RPC
on standard input.

In: a project whose `index` stage (for BM25) or `embed` stage (for semantic) has run. Out: `Hit`s,
    best first.
"""
