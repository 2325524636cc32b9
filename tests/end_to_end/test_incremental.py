"""A changed folder re-does only what changed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import SAMPLE, engine

POLICY = "The zanzibar clause: {} must be countersigned by the quarry warden before the lorry leaves the yard.\n"


def events_of(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in engine(*arguments, "--json").stdout.splitlines()]


def summary(*arguments: str) -> dict[str, Any]:
    """The summary of a stage that ran alone; empty when it was skipped."""
    finished = [event for event in events_of(*arguments) if event["event"] == "stage_finished"]
    return finished[-1]["summary"] if finished else {}


def paths(project: Path, query: str) -> list[str]:
    found = json.loads(engine("search", str(project), query, "--mode", "bm25", "--json").stdout)
    return [hit["path"] for hit in found["hits"]]


def set_drift(project: Path, drift: float) -> None:
    settings = project / "project.toml"
    settings.write_text(re.sub(r"^drift = .*$", f"drift = {drift}", settings.read_text(), flags=re.M))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, make_project: Callable[[Path], Path]) -> Path:
    """Twenty small documents, ingested and indexed."""
    path = make_project(tmp_path_factory.mktemp("indexed") / "project")
    (path / "documents").mkdir()
    for number in range(20):
        (path / "documents" / f"{number:02}.md").write_text(f"# Rule {number}\n\n" + POLICY.format(f"order {number}"))
    assert summary("ingest", str(path))["files_read"] == 20
    assert summary("index", str(path))["added"] == 20
    return path


@pytest.fixture
def small(indexed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(indexed, tmp_path / "small"))


def test_one_changed_file_is_all_that_is_read_indexed_and_embedded(project: Path) -> None:
    set_drift(project, 0.5)
    changed = project / "documents" / "policies" / "new.txt"
    changed.write_text(POLICY.format("nothing"))
    first = summary("ingest", str(project))
    assert (first["files_read"], first["files_unchanged"], first["new_chunks"]) == (1, 24, 1)
    changed.write_text(POLICY.format("everything"))
    second = summary("ingest", str(project))
    assert (second["files_read"], second["files_unchanged"], second["new_chunks"]) == (1, 24, 1)
    indexed = summary("index", str(project))
    assert (indexed["added"], indexed["removed"], indexed["updated"]) == (1, 0, True)
    assert summary("embed", str(project))["added"] == 1
    assert paths(project, "zanzibar everything")[0] == "policies/new.txt"


def test_a_file_touched_without_change_makes_nothing_stale(project: Path) -> None:
    for path in (project / "documents").rglob("*.*"):
        os.utime(path)
    told = events_of("run", str(project))
    (ingest,) = [event["summary"] for event in told if event["event"] == "stage_finished"]
    assert (ingest["files_read"], ingest["files_unchanged"], ingest["new_chunks"]) == (0, 24, 0)
    skipped = [event["stage"] for event in told if event["event"] == "stage_skipped"]
    assert skipped == ["index", "generate", "rank", "train", "evaluate", "embed"]


def test_a_deleted_file_is_never_shown_again_once_ingest_has_run(small: Path) -> None:
    assert "07.md" in paths(small, "rule 7")
    (small / "documents" / "07.md").unlink()
    assert summary("ingest", str(small))["files_removed"] == 1
    assert "07.md" not in paths(small, "rule 7")
    assert len(paths(small, "zanzibar")) == 10  # the others move up
    assert summary("index", str(small))["removed"] == 1
    assert "07.md" not in paths(small, "rule 7")


def test_a_changed_file_is_still_found_between_ingest_and_index(small: Path) -> None:
    (small / "documents" / "07.md").write_text("# Rule 7\n\nNothing about the yard any more: pelicans only.\n")
    engine("ingest", str(small))
    assert paths(small, "zanzibar order 7"), "the former index must go on answering"
    engine("index", str(small))
    assert paths(small, "pelicans") == ["07.md"]
    assert "07.md" not in paths(small, "zanzibar")


def test_a_renamed_file_is_found_under_its_new_name_only(small: Path) -> None:
    (small / "documents" / "07.md").rename(small / "documents" / "seven.md")
    done = summary("ingest", str(small))
    assert (done["files_read"], done["files_removed"]) == (1, 1)
    engine("index", str(small))
    found = paths(small, "rule 7")
    assert "seven.md" in found
    assert "07.md" not in found


def test_a_file_that_comes_back_is_found_again(small: Path) -> None:
    text = (small / "documents" / "07.md").read_text()
    (small / "documents" / "07.md").unlink()
    engine("ingest", str(small))
    (small / "documents" / "07.md").write_text(text)
    assert summary("ingest", str(small))["files_read"] == 1
    engine("index", str(small))
    assert "07.md" in paths(small, "rule 7")


def test_below_the_drift_the_adapter_is_kept_and_the_reason_told(project: Path) -> None:
    set_drift(project, 0.3)
    shutil.copy(SAMPLE / "documents" / "mail" / "2031-03-03-heron-decision.txt", project / "documents")
    engine("ingest", str(project))
    engine("index", str(project))
    (skipped,) = [event for event in events_of("generate", str(project)) if event["event"] == "stage_skipped"]
    assert "kept" in skipped["reason"]
    assert "30 %" in skipped["reason"]
    assert "corpus.drift" in skipped["reason"]
    for stage in ("rank", "train", "evaluate"):
        assert [event["event"] for event in events_of(stage, str(project))].count("stage_skipped") == 1, stage
    states = {
        row["stage"]: row["state"] for row in json.loads(engine("status", str(project), "--json").stdout)["stages"]
    }
    assert states == {**dict.fromkeys(states, "done"), "embed": "stale"}


def test_above_the_drift_the_adapter_is_made_anew(project: Path) -> None:
    set_drift(project, 0.001)
    shutil.rmtree(project / "documents" / "incidents")
    engine("ingest", str(project))
    engine("index", str(project))
    stages = json.loads(engine("status", str(project), "--json").stdout)["stages"]
    states = {row["stage"]: row["state"] for row in stages}
    assert (states["index"], states["generate"], states["train"], states["embed"]) == (
        "done",
        "stale",
        "stale",
        "stale",
    )
