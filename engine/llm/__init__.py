"""Language models: prompts, chat with a server, and GGUF files served by a process of their own."""
