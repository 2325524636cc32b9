"""Filters of training queries; `quality` looks only at those that a language model wrote."""
