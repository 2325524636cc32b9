"""bmembed's face: a Textual app that starts the engine, watches its event log and searches through it.

It does no work of its own. Of the engine it imports `project`, `settings`, `events` and `errors` only; everything else
goes through processes (`engine_client`).
"""
