"""What decides which encoder, fusion and threshold search uses."""
