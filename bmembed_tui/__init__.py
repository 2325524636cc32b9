"""The app in the terminal: it starts the engine, follows its event log and searches through it.

It does no work of its own. Of the engine it imports `core`, `settings` and `project`; everything
else goes through processes (`client.engine_client`).
"""

import os

# Textual reads its frame rate when it is imported. At the default of 60, an answer that has just
# missed a frame waits as long as its painting takes.
os.environ.setdefault("TEXTUAL_FPS", "120")
