"""How long a new user waits for hits, from the start of `bmembed-tui`, by keys alone.

`python tests/benchmarks/first_hits.py FOLDER WORD [COUNT]`: COUNT office files (60) of at most 2
MB, chosen from FOLDER by a seed, are copied to a folder of their own. There the app is started for
the first time, and WORD is searched for: Down and Enter choose "Search this folder", the rest are
the letters of WORD. Then the app is started once more, with the project, until its first hybrid
hits.

Prints every key, and the seconds from the start of the process to the first screen, to hits by
keywords, and to hybrid hits.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fixtures.terminal import Terminal

OFFICE_ENDINGS = {
    "doc",
    "docx",
    "xls",
    "xlsx",
    "ppt",
    "pptx",
    "odt",
    "ods",
    "odp",
    "rtf",
    "pdf",
    "msg",
    "eml",
}
MAX_BYTES = 2_000_000
SEED = 0
WAIT_SECONDS = 180.0


def choose_files(folder: Path, count: int) -> list[Path]:
    """Return `count` office files below a folder, each of another name."""
    by_name = {}
    for path in sorted(folder.rglob("*")):
        is_office = path.suffix.lower()[1:] in OFFICE_ENDINGS and path.is_file()
        if is_office and path.stat().st_size <= MAX_BYTES:
            by_name[path.name] = path
    return random.Random(SEED).sample(list(by_name.values()), count)


def main(
    folder: Path,
    word: str,
    count: int = 60,
) -> None:
    home = Path(tempfile.mkdtemp(prefix="first-hits-"))
    documents = home / "reports"
    documents.mkdir()
    for path in choose_files(folder, count):
        shutil.copy(path, documents)
    os.chdir(documents)
    terminal = Terminal(
        home,
        (120, 40),
        all_cores=True,
    )
    started = time.monotonic()

    def wait_for(what: str, *texts: str) -> None:
        """Wait until the screen shows one of the texts, and print when that was."""
        terminal.until(*texts, seconds=WAIT_SECONDS)
        print(f"{time.monotonic() - started:6.1f} s  {what}", flush=True)

    print(f"{count} files, load {os.getloadavg()[0]:.1f} before")
    try:
        terminal.start()
        wait_for("the first screen", "Search this folder")
        for key in ("Down", "Enter", *word):
            terminal.press(key)
            print(f"{time.monotonic() - started:6.1f} s  key {terminal.keys}: {key}")
        wait_for("first hits by keywords", "hits by keywords", "hits · ")
        wait_for("first hybrid hits", "hits · ")
        wait_for("all is embedded", "✓ 7 Search        done")
        terminal.press("C-q")
        terminal.press("Enter")
        terminal.until_ended()
        terminal.cut()
        started = time.monotonic()
        terminal.start("reports")
        wait_for("started again, with the project: its search", "F5 hybrid")
        terminal.type(word)
        wait_for("hits by keywords", "hits by keywords", "hits · ")
        wait_for("hybrid hits", "hits · ")
        print(f"{count} files, load {os.getloadavg()[0]:.1f} after\n{terminal.screen()}")
    finally:
        terminal.cut()
        shutil.rmtree(home)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        *map(int, sys.argv[3:4]),
    )
