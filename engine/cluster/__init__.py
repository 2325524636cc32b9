"""Work distributed to other machines by Ray, on request (`engine run --ray`).

It comes in shards whose results depend on their contents alone, so that a shard may be repeated.
"""
