"""BM25 over chunks.

In: `(chunk id, embedded text)` pairs from the corpus room. Out: ranked chunk ids with BM25 scores
(k1 = 1.2, b = 0.75, with the (k1 + 1) factor: tantivy's scale), document frequencies, and the
positions of a query's words in a text.

`Analyzer` turns text into terms, the same way for chunks and queries. `LexicalIndex` is the index
on disk (tantivy), `Vocabulary` the terms in it. `PostingsScorer` gives tantivy's scores from
memory, for mining thousands of queries. `import engine.lexical` loads neither tantivy nor numpy.
"""
