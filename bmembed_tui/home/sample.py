"""The sample project, made from the documents, queries and judged questions of the product."""

from __future__ import annotations

import itertools

from bmembed_tui.client.engine_client import run_command
from engine.core.assets import asset_path
from engine.core.errors import EngineError
from engine.project.folder import (
    SAMPLE_MEASURING,
    SAMPLE_QUERIES,
    SAMPLE_QUESTIONS,
    SAMPLE_SETTINGS,
    ProjectFolder,
    projects_root,
)

NAME = "sample"


async def import_questions(project: ProjectFolder) -> None:
    """Import the training queries and the judged questions, if that was not done yet.

    Raises EngineError.
    """
    imports = project.path / "imports"
    if not any(imports.glob("queries-*.jsonl")):
        await run_command(
            "import-queries",
            str(project.path),
            str(asset_path(SAMPLE_QUERIES)),
        )
    if not any(imports.glob("judgments-*.jsonl")):
        await run_command(
            "import-judgments",
            str(project.path),
            str(asset_path(SAMPLE_QUESTIONS)),
        )
        await run_command(
            "import-judgments", str(project.path), str(asset_path(SAMPLE_MEASURING)), "--measure"
        )


def open_sample_project() -> ProjectFolder:
    """Return the sample project; create it if there is none, as sample, sample-2 and so on.

    Raises EngineError where it cannot be created.
    """
    documents = str(asset_path("sample/documents"))
    path = projects_root() / NAME
    for number in itertools.count(2):
        if (path / "project.toml").is_file():
            if _has_source(ProjectFolder(path), documents):
                return ProjectFolder(path)
        elif not path.exists() or (path.is_dir() and not any(path.iterdir())):
            break
        path = projects_root() / f"{NAME}-{number}"
    return ProjectFolder.create(path, {"corpus": {"paths": [documents]}, **SAMPLE_SETTINGS})


def _has_source(project: ProjectFolder, documents: str) -> bool:
    """Return whether the folder `documents` is among the sources of a project."""
    try:
        return documents in project.settings().corpus.paths
    except EngineError:
        return False
