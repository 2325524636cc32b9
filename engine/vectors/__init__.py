"""Chunks × encoder → vector index.

In: chunk ids and their unit vectors (float32, (n, d)). Out: a folder with the index and a manifest
    that carries its
sha256, opened by `VectorIndex.open`, which answers the nearest chunks of a query vector. Cosine
throughout.
"""
