"""Preferences are exported with judgments, and purged with them."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.ranked_project import built, project

from engine.evaluation.lists.preferences import PREFERENCES_FILE, Preference, keep_preference
from engine.evaluation.lists.systems import ListedSystem
from engine.export.purge import purge
from engine.export.source import Source
from engine.export.texts import write_beir
from engine.project.folder import ProjectFolder

__all__ = ["built", "project"]

BASE = ListedSystem(
    "b",
    "b",
    "hybrid",
    "weighted",
    0.5,
)
ADAPTED = ListedSystem(
    "a",
    "a",
    "hybrid",
    "weighted",
    0.5,
)


def export(project: ProjectFolder, folder: Path) -> Path:
    store = project.store()
    write_beir(Source(project, project.settings(), store), folder)
    store.close()
    return folder / "beir" / "preferences.jsonl"


def test_preferences_are_exported_if_the_project_has_any(
    project: ProjectFolder, tmp_path: Path
) -> None:
    assert not export(project, tmp_path / "without").exists()
    keep_preference(project, Preference("who signs", ADAPTED, BASE, "second", 1.0))
    (row,) = map(json.loads, export(project, tmp_path / "with").read_text().splitlines())
    assert (row["query"], row["answer"], row["first"]["queries"], row["second"]["share"]) == (
        "who signs",
        "second",
        "a",
        0.5,
    )


def test_a_purge_takes_them_away(project: ProjectFolder) -> None:
    keep_preference(project, Preference("who signs", ADAPTED, BASE, "first", 1.0))
    assert (project.path / "imports" / PREFERENCES_FILE).is_file()
    removed = {one.path for one in purge(project).removed}
    assert "imports" in removed
    assert not (project.path / "imports").exists()
