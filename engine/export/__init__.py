"""A project's results as a folder to take away, readable without this program.

The folder is complete or absent. It holds the adapter, the merged encoder, vectors, chunks, queries
and judgments as requested, and a model card without document text.
"""
