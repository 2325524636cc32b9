"""Service: a query and passages → scores, by a cross-encoder in a folder or on a server on site,
within a time.
"""
