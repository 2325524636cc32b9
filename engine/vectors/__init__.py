"""Chunks × encoder → vector index.

In: chunk ids and their unit vectors (float32, (n, d)). Out: a folder with the index, and a manifest
with the checksums of its files. `VectorIndex.open` opens it to find the chunks nearest to a query
vector by cosine.
"""
