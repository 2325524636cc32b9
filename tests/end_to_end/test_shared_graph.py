"""The base query encoder lies once in the data folder, through all that a user does with
projects.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.pipeline import copy_documents, engine_here
from fixtures.project_files import mode, total_size
from fixtures.user_folders import DATA

from engine.core.platforms.users import is_superuser
from engine.encoders.graph.graph_files import FILES, FOLDER, MODEL
from engine.encoders.graph.query_graph import QueryGraph, is_settled
from engine.encoders.graph.shared_graphs import POINTER, forget_project, unused_graphs
from engine.export.purge import GRAPH, measure_purge, purge
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import VectorsInfo

QUERY = "leave of absence"


@dataclass(frozen=True)
class Machine:
    """A user's data folder, and a project on that machine."""

    data: Path
    project: Path

    @property
    def graphs(self) -> list[Path]:
        return sorted(self.data.glob(f"bmembed/query-encoders/*/{MODEL}"))


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory, make_project: Callable[..., Path], tiny_model: Path
) -> Machine:
    """A project that was run once. Its model lies where tests may remove it."""
    root = tmp_path_factory.mktemp("machine")
    machine = Machine(root / "data", root / "project")
    machine.data.mkdir()
    model = shutil.copytree(tiny_model, root / "model")
    make_project(machine.project, encoder={"model": str(model)})
    copy_documents(
        machine.project / "documents",
        ("policies",),
        6,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA, str(machine.data))
        engine_here("run", str(machine.project))
    return machine


@pytest.fixture
def machine(
    first: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Machine:
    """A copy of the first, the only one that uses its data folder."""
    copy = Machine(tmp_path / "data", tmp_path / "project")
    shutil.copytree(first.data, copy.data)
    shutil.copytree(first.project, copy.project)
    monkeypatch.setenv(DATA, str(copy.data))
    forget_project(first.project)
    return copy


def index_of(project: Path) -> Path:
    (index,) = project.glob("vectors/*")
    return index


def encoder_of(project: Path) -> str:
    store = ProjectFolder(project).store()
    vectors = store.artifact(VectorsInfo)
    store.close()
    assert vectors is not None
    return vectors.info.encoder


def scores(project: Path) -> dict[int, float]:
    """Of the chunks that are found by meaning."""
    output = engine_here("search", str(project), QUERY, "--mode", "semantic", "--json").stdout
    return {hit["chunk_id"]: hit["score"] for hit in json.loads(output)["hits"]}


def test_a_second_project_takes_no_room_for_it(
    machine: Machine, make_project: Callable[..., Path], tmp_path: Path
) -> None:
    (graph,) = machine.graphs
    written = graph.stat().st_mtime_ns
    settings = ProjectFolder(machine.project).settings()
    second = make_project(tmp_path / "second", encoder={"model": settings.encoder.model})
    copy_documents(
        second / "documents",
        ("minutes",),
        6,
    )
    engine_here("run", str(second))
    assert [(path, path.stat().st_mtime_ns) for path in machine.graphs] == [(graph, written)]
    for project in (machine.project, second):
        assert [path.name for path in (index_of(project) / FOLDER).iterdir()] == [POINTER]
        assert total_size(index_of(project) / FOLDER) < 200
        assert QueryGraph.open(index_of(project), encoder_of(project)) is not None

    size = measure_purge(ProjectFolder(second))[1]
    assert size < total_size(second) + 1000, "the graph stays for the other project"
    assert GRAPH not in {item.what for item in purge(ProjectFolder(second)).removed}
    assert machine.graphs == [graph]
    (purged,) = [
        item for item in purge(ProjectFolder(machine.project)).removed if item.what == GRAPH
    ]
    assert (purged.path, purged.files) == (str(graph.parent), len(FILES))
    assert machine.graphs == []


@pytest.mark.parametrize("way", ["cut", "gone"])
def test_one_that_is_damaged_is_missed_by_nobody_and_written_again(
    machine: Machine, way: str
) -> None:
    (graph,) = machine.graphs
    expected = scores(machine.project)
    vectors = {path.name: path.read_bytes() for path in index_of(machine.project).glob("*.vec")}
    assert vectors
    if way == "cut":
        os.truncate(graph, graph.stat().st_size // 2)
    else:
        shutil.rmtree(graph.parent)
    assert scores(machine.project) == pytest.approx(expected, abs=1e-4)
    assert not is_settled(index_of(machine.project))
    completed = engine_here(
        "run",
        str(machine.project),
        "--json",
    )
    embedded = [json.loads(line) for line in completed.stdout.splitlines()]
    summaries = [event["summary"] for event in embedded if event["event"] == "stage_finished"]
    assert [summary["embedded"] for summary in summaries if "embedded" in summary] == [0]
    assert machine.graphs == [graph]
    assert is_settled(index_of(machine.project))
    assert {
        path.name: path.read_bytes() for path in index_of(machine.project).glob("*.vec")
    } == vectors
    assert scores(machine.project) == pytest.approx(expected, abs=1e-4)


def test_a_bundle_holds_it_and_needs_neither_the_data_folder_nor_the_model(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scores(machine.project)
    model = Path(ProjectFolder(machine.project).settings().encoder.model)
    engine_here(
        "bundle",
        str(machine.project),
        str(tmp_path / "file.bundle"),
    )
    monkeypatch.setenv(DATA, str(tmp_path / "elsewhere"))
    model.rename(model.with_name("hidden"))
    try:
        unpacked = tmp_path / "made"
        engine_here(
            "unbundle",
            str(tmp_path / "file.bundle"),
            str(unpacked),
        )
        index = index_of(unpacked)
        assert {path.name for path in (index / FOLDER).iterdir()} == {*FILES}
        assert is_settled(index)
        assert scores(unpacked) == expected
    finally:
        model.with_name("hidden").rename(model)
    assert not list(tmp_path.glob(f"elsewhere/**/{MODEL}"))


@pytest.mark.skipif(not is_superuser(), reason="only root may give files to any group")
def test_a_group_gets_a_copy_and_runs_keep_it_so(machine: Machine) -> None:
    (graph,) = machine.graphs
    engine_here(
        "share",
        str(machine.project),
        "--group",
        "daemon",
        "--yes",
    )
    folder = index_of(machine.project) / FOLDER
    assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(FILES, 0o640)
    assert mode(graph) == 0o600
    assert unused_graphs() == [graph.parent]
    copy_documents(
        machine.project / "documents",
        ("minutes",),
        2,
    )
    engine_here("run", str(machine.project))
    folder = index_of(machine.project) / FOLDER
    assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(FILES, 0o640)
    assert mode(graph) == 0o600


def test_a_purge_leaves_no_former_place_of_a_moved_project(machine: Machine) -> None:
    engine_here(
        "embed",
        str(machine.project),
        "--force",
    )
    moved = machine.project.rename(machine.project.with_name("renamed"))
    engine_here(
        "embed",
        str(moved),
        "--force",
    )
    records = machine.data / "bmembed" / "query-encoders" / "projects"
    assert {json.loads(record.read_text()) for record in records.iterdir()} == {
        str(machine.project),
        str(moved),
    }
    purge(ProjectFolder.open(moved))
    assert [*records.iterdir()] == []
