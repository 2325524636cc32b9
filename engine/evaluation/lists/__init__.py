"""Two systems' lists of hits: how they differ, which people prefer, and what that shows."""
