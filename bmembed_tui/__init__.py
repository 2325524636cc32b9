"""bmembed's face: a Textual app that starts the engine, watches its event log and searches
through it.

It does no work of its own. Of the engine it imports `project`, `settings`, `events` and `errors`
only; everything else goes through processes (`engine_client`).
"""

import os

# Textual paints what has changed at the next of so many moments in a second, and reads it when it
# is imported. At its usual 60 an answer that has just missed one waits as long as its painting
# takes.
os.environ.setdefault("TEXTUAL_FPS", "120")
