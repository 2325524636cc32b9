"""Step Encoder."""
