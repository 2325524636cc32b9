"""The vector index: the chunks' vectors on disk, to find those nearest to a query's vector.

In: chunk ids and their unit vectors (float32, (n, d)). Out: a folder with the index, and a manifest
with the checksums of its files, which `VectorIndex.open` opens.
"""
