"""What follows each kill of `kill.py`: `recover.py PROJECT DOCUMENTS`.

Creates the project, and a tiny encoder beside it. Then each line of standard input holds stages and
words: the stages are run in this process, and each word must find its document. Answers "good" or
what went wrong.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from fixtures.pipeline import stages_in_this_process
from fixtures.tiny_model import build_tiny_model

from engine.api import Project


def run_and_search(project: Project, stages: Sequence[str], words: Sequence[str]) -> str:
    """Return "good" if the run succeeds and every word finds its document."""
    try:
        with stages_in_this_process():
            project.run(stages)
        lost = []
        for word in words:
            hits = project.search(word, mode="bm25", top=1).hits
            if [hit.path for hit in hits] != [f"{word}.txt"]:
                lost.append(word)
    except Exception:
        return traceback.format_exc()
    return f"lost: {lost}" if lost else "good"


def main(path: str, documents: str) -> None:
    """Answer until standard input ends."""
    model = build_tiny_model(Path(path).with_name("model"))
    encoder = {"model": str(model), "device": "cpu", "dtype": "float32"}
    project = Project.create(path, [documents], encoder=encoder)
    for line in sys.stdin:
        stages, words = json.loads(line)
        print("answer", json.dumps(run_and_search(project, stages, words)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
