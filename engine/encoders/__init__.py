"""Service: text → vectors.

In: a model folder on disk (and an optional LoRA adapter), texts. Out: float32 arrays of shape (n,
    d), one unit-norm row
per text, and fingerprints that name what made them. Importing this package loads neither torch nor
transformers.
"""
