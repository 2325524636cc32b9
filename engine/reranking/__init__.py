"""Reranking: scores of passages for a query, by a cross-encoder's folder or a server on site."""
