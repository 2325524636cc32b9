"""The app without a terminal: `app.py` under Wine, `app.py --here` on this system.

Creates a project of two documents and lets `walk.py` go through the app with it. Ends with 1 if a
step is not reached.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from smoke import HERE, name_path, run_engine
from wine import ROOT, run_python

SECONDS = 1800.0
STEP_SECONDS = 600
STEPS = (
    "files counted",
    "documents read",
    "keyword search",
    "settings",
    "every step",
)
TEXTS = {
    "tides.txt": "The ferry waits for high water before it leaves the quay.",
    "lights.txt": "A lighthouse keeper counts ships.",
}


def run_walk(arguments: Sequence[str]) -> str:
    """Return what the walk prints."""
    if not HERE:
        return run_python(arguments, SECONDS).stdout
    folders = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": folders},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
        check=False,
    ).stdout


def main() -> int:
    """Make the project and walk."""
    os.environ["BMEMBED_TEST_WAIT"] = str(STEP_SECONDS)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        documents = Path(folder) / "documents"
        documents.mkdir()
        for name, text in TEXTS.items():
            (documents / name).write_text(text)
        project = name_path(Path(folder) / "project")
        run_engine(
            "new",
            project,
            name_path(documents),
        )
        walk = name_path(Path(__file__).with_name("walk.py"))
        output = run_walk([walk, project, "lighthouse", "lights.txt"])
        # The run that the app has started may go on, and may have ended.
        with suppress(RuntimeError):
            run_engine("cancel", project)
    print(output)
    reached = [step for step in STEPS if f"{step}: done" in output]
    print(f"{len(reached)} of {len(STEPS)} steps")
    return int(reached != list(STEPS))


if __name__ == "__main__":
    sys.exit(main())
