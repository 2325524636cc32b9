"""The model that is trained: its LoRA layers, its encoding of texts, its adapter folder."""
