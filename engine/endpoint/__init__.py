"""HTTP to a model server on this host or site: addresses, requests, and which servers got text."""
