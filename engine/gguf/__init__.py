"""GGUF files on this machine: headers, places, memory, and loading by llama.cpp."""
