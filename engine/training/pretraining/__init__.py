"""Masked-language-model pre-training on the corpus."""
