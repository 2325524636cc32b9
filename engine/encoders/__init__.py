"""Encoders: from texts to vectors.

In: a model folder on disk (and optionally a LoRA adapter) and texts. Out: float32 arrays of shape
(n, d), one unit-norm row per text, and fingerprints that identify what made them. Importing this
package loads neither torch nor transformers.
"""
