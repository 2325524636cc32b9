"""Runs a project in one process, for `kill.py`: `recover.py PROJECT DOCUMENTS`.

Creates the project if there is none, with the encoder in the folder `model` beside it. Then each
line of standard input holds stages and words: the stages are run in this process, and each word
must find its document. Answers "good" or what went wrong.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from fixtures.pipeline import stages_in_this_process

from engine.api import Project
from engine.project.stage import SEARCH
from engine.runs.pipeline import load_stage


def open_project(path: str, documents: str) -> Project:
    """Open the project, or create it."""
    if Path(path).exists():
        return Project.open(path)
    model = str(Path(path).with_name("model"))
    encoder = {
        "model": model,
        "device": "cpu",
        "dtype": "float32",
    }
    return Project.create(
        path,
        [documents],
        encoder=encoder,
    )


def run_and_search(
    project: Project,
    stages: Sequence[str],
    words: Sequence[str],
) -> str:
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
    """Say that the libraries are loaded, then answer until standard input ends."""
    with closing(open_project(path, documents)) as project:
        for stage in SEARCH:
            load_stage(stage)
        print(
            "answer",
            json.dumps("ready"),
            flush=True,
        )
        for line in sys.stdin:
            stages, words = json.loads(line)
            print(
                "answer",
                json.dumps(run_and_search(project, stages, words)),
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
