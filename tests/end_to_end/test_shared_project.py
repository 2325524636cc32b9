"""A project that others search: with the rights of a group that may only read, and while a run
writes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here, environment
from fixtures.project_files import create_project
from fixtures.tiny_model import encoder_settings

from engine.core.platforms.users import is_superuser
from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.skipif(not is_superuser(), reason="only root can become another user")
READER = 64_001
GROUP = 1
STRANGER = 2
WORKS = """
import json, os, select, signal, subprocess, sys, traceback
import psutil
from pathlib import Path
from engine.core import environment
from engine.core.errors import EngineError
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

environment.prepare()
own, project, group, mode, times = sys.argv[1:]
warm = Searcher(ProjectFolder(Path(own)))  # its modules lie where only root reads
warm.search(Search("harbour", mode, top=30))
try:
    ProjectFolder(Path(own, "none")).is_running()
except EngineError as error:
    json.dumps(error.as_dict())
ProjectFolder(Path(own)).is_running()
os.setgroups([])
os.setresgid(int(group), int(group), int(group))
os.setresuid(64_001, 64_001, 64_001)
print("ready", flush=True)
sys.stdin.readline()
found, searcher, told = [], None, False
while not told if times == "0" else len(found) < int(times):
    told = times == "0" and bool(select.select([sys.stdin], [], [], 0.05)[0])  # then one search more
    try:
        searcher = searcher or Searcher(ProjectFolder(Path(project)))
        answer = searcher.search(Search("harbour", mode, top=30))
        found.append([[hit.path, hit.snippet] for hit in answer.hits])
        searcher.project.is_running()
    except EngineError as error:
        found.append(error.as_dict())
    except Exception as fault:
        found.append({"code": repr(fault), "where": traceback.format_exc()})
    if times == "0" and len(found) == 1:
        print("searched", flush=True)
print(json.dumps(found), flush=True)
os._exit(0)
"""  # noqa: E501


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can pass, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def shared(place: Path, tiny_model: Path) -> ProjectFolder:
    """Twelve documents, indexed and embedded, for a group to read."""
    project = create_project(place, encoder=encoder_settings(tiny_model))
    write(place, 0)
    engine_here("run", str(project.path))
    shutil.copytree(project.path, place / "own")
    engine_here(
        "share",
        str(project.path),
        "--group",
        "daemon",
        "--yes",
    )
    return project


def write(place: Path, turn: int) -> None:
    for number in range(12):
        text = f"harbour {number} of turn {turn}. The law of contract {number}.\n"
        (place / "documents" / f"{number}.txt").write_text(text)


def reader(
    project: ProjectFolder,
    group: int,
    mode: str,
    times: int,
) -> subprocess.Popen[str]:
    """A process of another user's that searches so many times when it is told to, or until it is
    told to stop for 0.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            WORKS,
            str(project.path.with_name("own")),
            str(project.path),
            str(group),
            mode,
            str(times),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd="/",
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def answers(process: subprocess.Popen[str]) -> list[Any]:
    assert process.stdout
    searches: list[Any] = json.loads(process.stdout.readline())
    process.wait(60)
    return searches


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (status.st_mtime_ns, status.st_size, status.st_mode)
        for path in folder.rglob("*")
        for status in [path.lstat()]
    }


@pytest.mark.parametrize("writer", [False, True])
@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_one_who_may_only_read_searches_and_leaves_nothing(
    shared: ProjectFolder, mode: str, writer: bool
) -> None:
    expected = json.loads(
        engine_here(
            "search",
            str(shared.path),
            "harbour",
            "--mode",
            mode,
            "--passages",
            "--top",
            "30",
            "--json",
        ).stdout
    )
    if writer:
        store = shared.store()
    else:
        store = None
    try:
        process = reader(
            shared,
            GROUP,
            mode,
            2,
        )
        before = tree(shared.path)
        tell(process)
        searches = answers(process)
        assert tree(shared.path) == before
    finally:
        if store:
            store.close()
    hits = [[hit["path"], hit["snippet"]] for hit in expected["hits"]]
    assert searches == [hits, hits]
    assert len(hits) == 12


def test_one_outside_the_group_reads_nothing(shared: ProjectFolder) -> None:
    process = reader(
        shared,
        STRANGER,
        "bm25",
        1,
    )
    tell(process)
    (error,) = answers(process)
    assert isinstance(error, dict)
    assert "harbour" not in json.dumps(error)


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_readers_see_whole_states_while_a_run_writes(shared: ProjectFolder, mode: str) -> None:
    readers = [reader(shared, GROUP, mode, 0) for _ in range(3)]
    for process in readers:
        tell(process)
        assert process.stdout
        assert process.stdout.readline() == "searched\n"
    for turn in (1, 2):
        write(shared.path.parent, turn)
        engine_here(
            "run", str(shared.path), *(("--only", "ingest,index") if mode == "bm25" else ())
        )
    states = set()
    for process in readers:
        tell(process)  # of its end
        turns: set[int] = set()
        for hits in answers(process):
            assert isinstance(hits, list), hits
            turns = set()
            for path, snippet in hits:
                number = snippet.split(" ")[1]
                turn = snippet.split(" ")[4].rstrip(".")
                assert path == f"{number}.txt"
                turns.add(int(turn))
            states |= turns
        assert turns == {2}  # the last search began after the run
    assert 0 in states
    assert states <= {0, 1, 2}
    with closing(shared.store()) as store:
        assert store.counts()["documents"] == 12
