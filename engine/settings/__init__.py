"""project.toml: its schema, reading it, and changing it without losing comments."""
