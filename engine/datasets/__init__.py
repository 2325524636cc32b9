"""BEIR folders, and queries and judgments that a user imports."""
