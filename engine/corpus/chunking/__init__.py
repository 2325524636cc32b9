"""Documents → chunks."""
