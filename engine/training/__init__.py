"""Room: ranked lists → adapter.

In: queries with their evidence chunk and BM25 rankings (from `ranking`), chunk texts, a model
    folder. Out: a LoRA
adapter as a peft folder, with the held-out figures it was chosen by. Importing it loads no torch
and no peft.
"""
