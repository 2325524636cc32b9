"""Which encoder: those on this machine, and the languages that each knows."""
