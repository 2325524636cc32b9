"""`engine serve --http`: local programs search projects and use their encoders, on loopback."""
