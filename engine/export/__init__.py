"""What was made of the documents → a folder to take away, readable without this program.

In: a project. Out: a folder that is complete or absent, with what was asked for: the adapter, the
    merged encoder, vectors,
chunks, queries and judgments; and a model card that holds no document text.
"""
