"""Service: GGUF files on this machine: their headers, where they are, what they need."""
