"""Service: HTTP to an OpenAI-compatible server on this host or site."""
