"""`python -m engine.queries.sample_process FOLDER COUNT`: a sample of queries by a model that may crash llama.cpp."""

from __future__ import annotations

from pathlib import Path

from engine.core.messages.wire import to_json
from engine.core.subprocesses import answer
from engine.project.folder import ProjectFolder
from engine.queries.sample import sample_here

if __name__ == "__main__":
    answer(
        lambda should_stop, folder, count: to_json(sample_here(ProjectFolder(Path(folder)), int(count), should_stop))
    )
