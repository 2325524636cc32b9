"""The app under Wine, without a terminal: `app.py`.

Creates a project of two documents and lets `walk.py` go through the app with it. Ends with 1 if a
step is not reached.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from smoke import run_engine
from wine import run_python, windows_path

SECONDS = 1800.0
STEP_SECONDS = 600
STEPS = ("files counted", "documents read", "keyword search", "settings", "result")
TEXTS = {
    "tides.txt": "The ferry waits for high water before it leaves the quay.",
    "lights.txt": "A lighthouse keeper counts ships.",
}


def main() -> int:
    """Make the project and walk."""
    os.environ["BMEMBED_TEST_WAIT"] = str(STEP_SECONDS)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        documents = Path(folder) / "documents"
        documents.mkdir()
        for name, text in TEXTS.items():
            (documents / name).write_text(text)
        project = windows_path(Path(folder) / "project")
        run_engine("new", project, windows_path(documents))
        walk = windows_path(Path(__file__).with_name("walk.py"))
        done = run_python([walk, project, "lighthouse", "lights.txt"], SECONDS)
        # The run that the app has started may go on, and may have ended.
        with suppress(RuntimeError):
            run_engine("cancel", project)
    print(done.stdout)
    reached = [step for step in STEPS if f"{step}: done" in done.stdout]
    print(f"{len(reached)} of {len(STEPS)} steps")
    return int(reached != list(STEPS) or done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
