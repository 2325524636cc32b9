"""Graphs without an adapter lie once in the data folder; indexes point to them, and nothing
breaks where they are not sound.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fixtures.pipeline import environment
from fixtures.project_files import mode, names, total_size
from fixtures.user_folders import DATA

from engine.core.disk import SHARED
from engine.encoders.graph import onnx_file
from engine.encoders.graph.graph_files import FILES, FOLDER, read_facts
from engine.encoders.graph.query_graph import QueryGraph, is_settled, take_over, write_query_graph
from engine.encoders.graph.shared_graphs import (
    LOCK_SECONDS,
    POINTER,
    PROJECTS,
    copy_shared_graphs,
    files_in_place_of,
    find_graph,
    forget_project,
    graph_name,
    graphs_root,
    publish_graph,
    unused_graphs,
    use_shared_graph,
)
from engine.encoders.kinds.folder import FolderSource

MAX_TOKENS = 48
TEXTS = ["the contract party", "the wing, at speed"]
pytestmark = pytest.mark.usefixtures("own_data_folder")


@pytest.fixture(scope="module")
def written(source: FolderSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a sound graph. Tests copy it."""
    index = tmp_path_factory.mktemp("project") / "vectors" / "index"
    index.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA, str(tmp_path_factory.mktemp("data")))
        write_query_graph(
            source,
            MAX_TOKENS,
            None,
            1.0,
            index,
            TEXTS,
        )
        copy_shared_graphs(index.parents[1])
    return index / FOLDER


@pytest.fixture(scope="module")
def encoder(source: FolderSource) -> str:
    return source.vectors_fingerprint(MAX_TOKENS)


def make_index(project: Path, written: Path | None = None) -> Path:
    """Return the folder of a new index in a project, with a graph of its own or with an empty
    folder for one.
    """
    index = project / "vectors" / "index"
    index.mkdir(parents=True)
    if written is None:
        (index / FOLDER).mkdir()
    else:
        shutil.copytree(written, index / FOLDER)
    return index


def test_the_graph_lies_in_the_data_folder_and_a_second_project_adds_a_pointer(
    source: FolderSource,
    encoder: str,
    own_data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = tmp_path / "first" / "vectors" / "index"
    second = tmp_path / "second" / "vectors" / "index"
    for index in (first, second):
        index.mkdir(parents=True)
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        first,
        TEXTS,
    )
    root = own_data_folder / "bmembed" / "query-encoders"
    graph = root / graph_name(encoder)
    assert names(graph) == set(FILES)
    assert [mode(path) for path in (root, graph)] == [0o700, 0o700]
    assert {mode(graph / name) for name in FILES} == {0o600}
    assert names(first / FOLDER) == {POINTER}

    monkeypatch.setattr(onnx_file, "write_graph", None)  # it is not written again
    before = total_size(root)
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        second,
        TEXTS,
    )
    assert names(second / FOLDER) == {POINTER}
    assert total_size(second) < 200
    assert total_size(root) - before < 1000
    for index in (first, second):
        opened = QueryGraph.open(index, encoder)
        assert opened is not None
        assert opened.fingerprint == encoder
        assert is_settled(index)
        assert QueryGraph.open(index, "of another encoder") is None


def test_other_lengths_and_prompts_are_other_graphs(source: FolderSource, encoder: str) -> None:
    prompted = FolderSource.of(source.folder.with_prompts("query: ", None))
    fingerprints = {
        encoder,
        source.vectors_fingerprint(MAX_TOKENS - 1),
        prompted.vectors_fingerprint(MAX_TOKENS),
    }
    assert len({graph_name(fingerprint) for fingerprint in fingerprints}) == 3


def test_that_of_an_adapted_encoder_stays_in_its_project(
    source: FolderSource, encoder: str, adapter: Path, tmp_path: Path
) -> None:
    index = tmp_path / "project" / "vectors" / "index"
    index.mkdir(parents=True)
    write_query_graph(
        source,
        MAX_TOKENS,
        adapter,
        0.5,
        index,
        TEXTS,
    )
    assert names(index / FOLDER) == set(FILES)
    assert not graphs_root().exists()
    adapted = source.vectors_fingerprint(MAX_TOKENS, adapter, 0.5)
    assert QueryGraph.open(index, adapted) is not None
    assert QueryGraph.open(index, encoder) is None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["cut", "flipped", "gone", "empty"])
def test_a_damaged_one_is_not_used_and_is_written_again_for_all(
    source: FolderSource, encoder: str, written: Path, tmp_path: Path, name: str, way: str
) -> None:
    first = make_index(tmp_path / "first", written)
    publish_graph(first, encoder)
    file = graphs_root() / graph_name(encoder) / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    if way != "gone":
        file.write_bytes({"cut": data[: len(data) // 2], "flipped": data, "empty": b""}[way])
    assert QueryGraph.open(first, encoder) is None
    assert not is_settled(first)
    assert not take_over(first, tmp_path / "next")
    second = make_index(tmp_path / "second")
    assert not use_shared_graph(second, encoder)

    shutil.rmtree(second)
    second = make_index(tmp_path / "second", written)
    publish_graph(second, encoder)
    for index in (first, second):
        assert names(index / FOLDER) == {POINTER}
        assert QueryGraph.open(index, encoder) is not None


def test_one_that_is_gone_leaves_a_pointer_to_nothing(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    index = make_index(tmp_path / "project", written)
    publish_graph(index, encoder)
    shutil.rmtree(graphs_root())
    assert QueryGraph.open(index, encoder) is None
    assert not is_settled(index)
    assert files_in_place_of(index / FOLDER / POINTER) == [index / FOLDER / POINTER]
    copy_shared_graphs(tmp_path / "project")
    assert names(index / FOLDER) == {POINTER}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"graph": 1}', '{"graph": "../../elsewhere"}', "\udcff"]
)
def test_an_invalid_pointer_leads_nowhere(
    encoder: str, written: Path, tmp_path: Path, text: str
) -> None:
    index = make_index(tmp_path / "project")
    shutil.copytree(written, graphs_root().parents[1] / "elsewhere")
    (index / FOLDER / POINTER).write_text(text, errors="surrogateescape")
    assert find_graph(index) == index / FOLDER
    assert QueryGraph.open(index, encoder) is None
    assert not is_settled(index)
    assert unused_graphs() == []


KILLED = """
import os, signal, sys
from pathlib import Path
from engine.core import disk
from engine.encoders.graph.shared_graphs import publish_graph

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[3] == "written":
    disk.sync_tree = kill
else:
    Path.rename = kill
publish_graph(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.posix(reason="SIGKILL")
@pytest.mark.parametrize("point", ["written", "before-rename"])
def test_a_killed_publishing_leaves_no_graph_and_the_next_one_cleans_up(
    encoder: str, written: Path, tmp_path: Path, point: str
) -> None:
    index = make_index(tmp_path / "project", written)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(index), encoder, point], env=environment(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not (graphs_root() / graph_name(encoder)).exists()
    assert list(graphs_root().glob(".tmp-*"))
    assert QueryGraph.open(index, encoder) is not None  # its own is still there
    publish_graph(index, encoder)
    assert names(graphs_root()) - {".lock"} == {graph_name(encoder), PROJECTS}
    assert read_facts(graphs_root() / graph_name(encoder)) is not None


def test_several_writers_leave_one_graph(
    encoder: str,
    written: Path,
    tmp_path: Path,
) -> None:
    indexes = [make_index(tmp_path / str(number), written) for number in range(4)]
    threads = [threading.Thread(target=publish_graph, args=(index, encoder)) for index in indexes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LOCK_SECONDS)
    assert names(graphs_root()) - {".lock"} == {graph_name(encoder), PROJECTS}
    assert [names(index / FOLDER) for index in indexes] == [{POINTER}] * 4
    assert all(is_settled(index) for index in indexes)


def test_a_data_folder_that_cannot_be_written_to_leaves_the_graph_in_the_index(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    graphs_root().parent.mkdir(parents=True)
    graphs_root().write_text("in the way")
    index = make_index(tmp_path / "project", written)
    publish_graph(index, encoder)
    assert names(index / FOLDER) == set(FILES)
    assert is_settled(index)
    assert not use_shared_graph(make_index(tmp_path / "other"), encoder)


@pytest.mark.posix(reason="modes of files")
def test_a_project_that_a_group_reads_has_a_copy(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    first = make_index(tmp_path / "first", written)
    publish_graph(first, encoder)
    graph = graphs_root() / graph_name(encoder)
    (tmp_path / "first").chmod(SHARED["folders"])
    assert not is_settled(first), "the others of the group cannot follow its pointer"

    second = make_index(tmp_path / "second")
    (tmp_path / "second").chmod(SHARED["folders"])
    assert take_over(first, second.with_name("next"))  # also from an index of when it was private
    assert use_shared_graph(second, encoder)
    copy_shared_graphs(tmp_path / "first")
    for folder in (first, second, second.with_name("next")):
        assert names(folder / FOLDER) == set(FILES)
        assert is_settled(folder)
        inodes = {(folder / FOLDER / name).stat().st_ino for name in FILES}
        assert not inodes & {(graph / name).stat().st_ino for name in FILES}, (
            "permissions belong to a file, not a name"
        )

    third = make_index(tmp_path / "third", written)
    (tmp_path / "third").chmod(SHARED["folders"])
    publish_graph(third, encoder)
    assert names(third / FOLDER) == set(FILES)


def test_an_older_project_keeps_its_own_until_the_data_folder_has_it(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    older = make_index(tmp_path / "older", written)
    assert QueryGraph.open(older, encoder) is not None
    assert take_over(older, older.with_name("second"))
    assert names(older.with_name("second") / FOLDER) == set(FILES)
    publish_graph(make_index(tmp_path / "newer", written), encoder)
    assert take_over(older, older.with_name("third"))
    assert names(older.with_name("third") / FOLDER) == {POINTER}
    assert is_settled(older.with_name("third"))


def test_what_no_project_uses_is_removed(
    encoder: str,
    written: Path,
    tmp_path: Path,
) -> None:
    index = make_index(tmp_path / "project", written)
    publish_graph(index, encoder)
    other = graphs_root() / graph_name("other")
    shutil.copytree(written, other)
    graph = graphs_root() / graph_name(encoder)
    assert unused_graphs() == [other]
    assert unused_graphs(without=[tmp_path / "project"]) == sorted([other, graph])

    (tmp_path / "project").rename(tmp_path / "moved")
    assert unused_graphs() == sorted([other, graph])
    assert (
        find_graph(tmp_path / "moved" / "vectors" / "index") == graph
    )  # a search in its new place
    assert unused_graphs() == [other]

    publish_graph(make_index(tmp_path / "new", written), encoder)
    assert names(graphs_root()) - {".lock"} == {graph.name, PROJECTS}
    known = {json.loads(file.read_text()) for file in (graphs_root() / PROJECTS).iterdir()}
    assert known == {str(tmp_path / "moved"), str(tmp_path / "new")}
    forget_project(tmp_path / "new")
    forget_project(tmp_path / "moved")
    assert unused_graphs() == [graph]
    shutil.rmtree(graphs_root())
    assert unused_graphs() == []


def test_another_machine_gets_the_files_of_the_graph(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    index = make_index(tmp_path / "project", written)
    assert files_in_place_of(index / FOLDER / "model.onnx") == [index / FOLDER / "model.onnx"]
    publish_graph(index, encoder)
    graph = graphs_root() / graph_name(encoder)
    assert files_in_place_of(index / FOLDER / POINTER) == [graph / name for name in FILES]


def test_a_graph_is_never_taken_from_a_project(
    encoder: str,
    written: Path,
    tmp_path: Path,
) -> None:
    """One that came in a stranger's bundle says of itself whose it is."""
    foreign = make_index(tmp_path / "foreign", written)
    assert take_over(foreign, foreign.with_name("next"))
    QueryGraph.open(foreign, encoder)
    copy_shared_graphs(tmp_path / "foreign")
    assert not graphs_root().exists()


def test_what_cannot_be_noted_is_used_all_the_same(
    encoder: str, written: Path, tmp_path: Path
) -> None:
    index = make_index(tmp_path / "project", written)
    publish_graph(index, encoder)
    shutil.rmtree(graphs_root() / PROJECTS)
    (graphs_root() / PROJECTS).write_text("in the way")
    assert QueryGraph.open(index, encoder) is not None
