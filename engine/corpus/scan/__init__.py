"""Which files there are, and what each is."""
