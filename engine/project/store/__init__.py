"""The only SQL: files, documents, chunks, queries, judgments and artifacts of one project, in
SQLite (WAL).
"""
