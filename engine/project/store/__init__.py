"""The only SQL: one project's files, documents, chunks, queries, judgments, artifacts in SQLite."""
