"""From `bmembed-tui` to hits, by keys alone, in a terminal: `python
tests/benchmarks/first_hits.py FOLDER WORD [COUNT]`.

COUNT office files (60) of at most 2 MB, chosen from FOLDER by a seed, are copied to a folder of
their own. There the app is started with nothing made before, and WORD is searched for: Down and
Enter choose "Search this folder", the rest are the letters of WORD. Then the app is started once
more, with the project, and its first hybrid hits are awaited: its processes are cold.

Printed: every key, and the seconds from the start of the process to the first screen, to hits by
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

OFFICE = {
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
WAIT = 180.0


def chosen(folder: Path, count: int) -> list[Path]:
    """`count` office files, each of another name."""
    files = (
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower()[1:] in OFFICE and path.is_file()
    )
    by_name = {path.name: path for path in files if path.stat().st_size <= MAX_BYTES}
    return random.Random(SEED).sample(list(by_name.values()), count)


def main(folder: Path, word: str, count: int = 60) -> None:
    home = Path(tempfile.mkdtemp(prefix="first-hits-"))
    documents = home / "reports"
    documents.mkdir()
    for path in chosen(folder, count):
        shutil.copy(path, documents)
    os.chdir(documents)
    first = Terminal(home, (120, 40), all_cores=True)
    began = time.monotonic()

    def at(what: str, *texts: str) -> None:
        first.until(*texts, seconds=WAIT)
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    print(f"{count} files, load {os.getloadavg()[0]:.1f} before")
    try:
        first.start()
        at("the first screen", "Search this folder")
        for key in ("Down", "Enter", *word):
            first.press(key)
            print(f"{time.monotonic() - began:6.1f} s  key {first.keys}: {key}")
        at("first hits by keywords", "hits by keywords", "hits · ")
        at("first hybrid hits", "hits · ")
        at("all is embedded", "✓ 7 Search        done")
        first.press("C-q")
        first.press("Enter")
        first.until_ended()
        first.cut()
        began = time.monotonic()
        first.start("reports")
        at("started again, with the project: its search", "F5 hybrid")
        first.type(word)
        at("hits by keywords", "hits by keywords", "hits · ")
        at("hybrid hits", "hits · ")
        print(f"{count} files, load {os.getloadavg()[0]:.1f} after\n{first.screen()}")
    finally:
        first.cut()
        shutil.rmtree(home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:4]))
