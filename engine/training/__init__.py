"""Training of an adapter from ranked lists.

From queries with their evidence chunk and BM25 rankings, chunk texts and a model folder comes a
LoRA adapter as a peft folder, with the held-out figures by which it was chosen. Importing the room
loads neither torch nor peft.
"""
