"""Work given out to other machines by Ray, where the user asks for it (`engine run --ray`).

It comes in shards, and what comes of one depends on its content alone, so that it may be done
twice.
"""
