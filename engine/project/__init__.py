"""A project on disk: its folder, its database, its stages' records."""
