"""Work on a Ray cluster of three nodes on this machine."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from fixtures.cluster_work import open_fault, open_slow_squares
from fixtures.errors import fails
from fixtures.pipeline import SETTINGS, copy_documents, engine, environment
from fixtures.ray_cluster import SMALL_NODE, kill_node, ray_cluster
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.tiny_model import encoder_settings

from engine.cluster import nodes as cluster_nodes
from engine.cluster.nodes import VARIABLE, Nodes
from engine.core.disk import read_tree
from engine.core.errors import CancelledError, InputError, StageError, UsageError
from engine.core.events import Choice, Event, read
from engine.core.extras import EXTRAS, missing_packages
from engine.core.records import Chunk
from engine.corpus.sandbox.nodes import open_reading
from engine.corpus.sandbox.outcome import Limits
from engine.encoders.embedding_cache import EmbeddingCache
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import LOADED
from engine.llm.chat import FileChatModel
from engine.llm.requests import NullReporter
from engine.project.folder import ProjectFolder
from engine.queries.llm.answer import Passage
from engine.queries.llm.nodes import NodesWriter
from engine.queries.llm.prompted import PromptedWriter
from engine.settings.schema import EncoderSettings, QuerySettings
from engine.vectors.nodes import open_embedding

# Ray takes the token from the environment when it is imported, so nothing here may do that before
# the cluster is there.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing_packages("ray")), reason="Ray is not installed"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(3) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, found.address)
        yield found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def never() -> None:
    """A `check` that lets all go on."""


@pytest.mark.slow
def test_shards_come_back_in_order_though_a_node_is_killed(cluster: Any) -> None:
    node = cluster.add_node(**SMALL_NODE)
    nodes = Nodes[int, int](open_slow_squares, 0.2, never)
    assert nodes.capacity == nodes.count == 4
    found = nodes.in_order(range(40))
    first = next(found)
    kill_node(node)
    assert [first, *found] == [number * number for number in range(40)]
    nodes.close()
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
def test_errors_and_faults_of_a_shard_come_back(cluster: Any) -> None:
    nodes = Nodes[int, int](open_slow_squares, 0.0, never)
    with fails(InputError, "input-invalid", "negative"):
        nodes(-1)
    assert nodes(3) == 9
    nodes.close()
    nodes = Nodes[int, int](open_fault, None, never)
    with fails(StageError, "internal-fault", "ZeroDivisionError"):
        nodes(1)
    nodes.close()


def test_a_run_that_is_cancelled_leaves_the_cluster(cluster: Any) -> None:
    asked: list[int] = []

    def ask(*_: object) -> None:
        asked.append(1)

    def cancel() -> None:
        if asked:
            raise CancelledError("Cancelled.")

    former = signal.signal(signal.SIGTERM, ask)
    try:
        nodes = Nodes[int, int](open_slow_squares, 600.0, cancel)
        assert (
            signal.getsignal(signal.SIGTERM) is ask
        )  # with Ray's own, the next line would end the tests
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(CancelledError):
            next(nodes.in_order(range(9)))
        nodes.close()
        assert signal.getsignal(signal.SIGTERM) is ask
    finally:
        signal.signal(signal.SIGTERM, former)
    with pytest.raises(CancelledError):
        nodes(1)


def test_ray_does_not_end_while_a_thread_waits_for_it(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    get = ray.get
    shutdown = ray.shutdown
    waiting: list[int] = []
    when_it_ended: list[int] = []

    def slow_get(*given: Any) -> Any:
        waiting.append(1)
        try:
            return get(*given)
        finally:
            time.sleep(0.5)
            waiting.pop()

    def ended() -> None:
        when_it_ended.append(len(waiting))
        shutdown()

    nodes = Nodes[int, int](open_slow_squares, 0.05, never)
    monkeypatch.setattr(ray, "get", slow_get)
    monkeypatch.setattr(ray, "shutdown", ended)
    with ThreadPoolExecutor(5) as threads:
        calls = [threads.submit(nodes, number) for number in range(100)]
        assert calls[0].result() == 0
        nodes.close()
    assert when_it_ended == [0]
    assert {type(call.exception()) for call in calls} == {type(None), CancelledError}


def test_what_is_no_address(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a.example")
    with fails(UsageError, "cluster-not-found", "HOST:PORT"):
        Nodes[int, int](open_slow_squares, 0.0, never)


def test_another_version_of_the_program_is_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_nodes, "__version__", "0.0.9")
    with fails(UsageError, "versions-differ", "0.0.9"):
        Nodes[int, int](open_slow_squares, 0.0, never)


def test_another_version_of_ray_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "__version__", "2.0.0")
    with fails(UsageError, "versions-differ", "2.0.0"):
        Nodes[int, int](open_slow_squares, 0.0, never)


LACKING = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "engine":
            raise ModuleNotFoundError("No module named 'engine'")

sys.meta_path.insert(0, Lacking())
"""


@pytest.mark.slow
def test_a_node_without_the_program_is_named(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LACKING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        node = cluster.add_node(**SMALL_NODE)
    try:
        with fails(UsageError, "cluster-node-unfit"):
            Nodes[int, int](open_slow_squares, 0.0, never)
    finally:
        cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
def test_a_cluster_that_asks_for_no_token_is_refused(tmp_path: Path) -> None:
    project = small_project(tmp_path / "project")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        "--port",
        str(port),
        "--temp-dir",
        str(folder),
        "--include-dashboard=false",
        "--num-cpus=1",
        f"--object-store-memory={100 * 2**20}",
    ]
    environ = environment() | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    head = subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        code = "cluster-not-found"
        while code == "cluster-not-found":
            assert head.poll() is None
            code = refusal(
                project,
                f"127.0.0.1:{port}",
                RAY_AUTH_TOKEN="0" * 64,
            )
    finally:
        for process in [*psutil.Process(head.pid).children(recursive=True), head]:
            process.kill()
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)
    assert code == "cluster-open"


@pytest.mark.slow
def test_a_wrong_token_is_refused(cluster: Any, tmp_path: Path) -> None:
    assert (
        refusal(small_project(tmp_path / "project"), cluster.address, RAY_AUTH_TOKEN="0" * 64)
        == "cluster-refused"
    )


def small_project(path: Path) -> Path:
    ProjectFolder.create(path, SETTINGS)
    copy_documents(
        path / "documents",
        ("policies",),
        2,
    )
    return path


def refusal(
    project: Path,
    address: str,
    **environ: str,
) -> str:
    """The code of the error that a run on a cluster ends with."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        done = engine(
            "run", str(project), "--only", "ingest", "--ray", address, "--json", check=False
        )
    assert done.returncode == UsageError.exit_code
    return str(json.loads(done.stderr.splitlines()[-1])["code"])


def test_outside_a_cluster(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "127.0.0.1:9")
    with fails(UsageError, "cluster-not-found", "127.0.0.1:9"):
        Nodes[int, int](open_slow_squares, 0.0, never)


def test_without_ray_a_run_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        EXTRAS,
        "ray",
        {"no_such_module": "ray"},
    )
    with fails(UsageError, "package-missing", "[ray]"):
        Nodes[int, int](open_slow_squares, 0.0, never)


def test_a_node_needs_no_more_than_it_is_sent(tiny_model: Path, tmp_path: Path) -> None:
    """The folders are gone when what was sent is opened."""
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    source = encoder_source(EncoderSettings(model=str(model), device="cpu", dtype="float32"))
    texts = ["The door of the freezer was left open.", "Valve nine failed."]
    wanted = source.load(64).encode_chunks(texts)
    sent = pickle.dumps((source, "float32", read_tree(model, LOADED), {}, 64, 1.0))
    shutil.rmtree(model)
    assert np.array_equal(open_embedding(pickle.loads(sent))(texts), wanted)
    read_there = open_reading((Limits(), ()))
    outcome = read_there(("note.md", "md", b"# Freezer\n\nThe door was left open.\n"))
    assert [(one.title, one.text.split()[-1]) for one in outcome.documents] == [
        ("Freezer", "open.")
    ]


def test_a_language_model_writes_on_nodes_what_it_writes_here(cluster: Any, tmp_path: Path) -> None:
    path = build_tiny_gguf(tmp_path / "tiny.gguf")
    words = "the door of the freezer in room four was left open over night and all samples thawed"
    texts = [f"{words}, reported {place} minutes later" for place in range(6)]
    passages = [
        Passage(
            number,
            Chunk(number, 0, 0, len(text), text, (), 18, text, f"{number:064x}"),
            f"Title {number}",
        )
        for number, text in enumerate(texts)
    ]
    chosen = QuerySettings(
        context_tokens=4096, prompt="one-step", per_chunk=2, answer_tokens=200, kinds=["question"]
    )
    writer = NodesWriter(
        path,
        chosen,
        7,
        never,
    )
    assert writer.nodes.count == 3
    there = dict(writer.answers(passages))
    writer.close()
    here = PromptedWriter(
        FileChatModel(path, 4096, NullReporter(), lambda: False), "one-step", 2, 200, 7
    )
    assert list(there) == [0, 1, 2, 3, 4, 5]
    for number, answer in here.answers(passages):
        assert (there[number].items, there[number].dropped, there[number].problem) == (
            answer.items,
            answer.dropped,
            answer.problem,
        )
    assert any(answer.items or answer.dropped for answer in there.values())
    here.close()


@pytest.mark.slow
def test_a_run_on_three_nodes_gives_what_one_machine_gives_though_one_is_killed(
    cluster: Any, tiny_model: Path, tmp_path: Path
) -> None:
    encoder = encoder_settings(tiny_model)
    alone = tmp_path / "alone"
    there = tmp_path / "there"
    ProjectFolder.create(alone, {**SETTINGS, "encoder": encoder})
    copy_documents(
        alone / "documents",
        ("incidents", "policies"),
        6,
    )
    for number in range(150):
        text = (
            f"# Report {number}\n\n"
            + f"The pump in hall {number} failed its test. Valve {number} was open.\n\n" * 4
        )
        (alone / "documents" / f"report-{number}.md").write_text(text)
    shutil.copytree(alone, there)
    engine(
        "run",
        str(alone),
        timeout=900,
    )
    command = [
        sys.executable,
        "-m",
        "engine",
        "run",
        str(there),
        "--ray",
        cluster.address,
    ]
    running = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while "reading" not in chosen(there) and running.poll() is None:
        time.sleep(0.05)
    lost = cluster.worker_nodes.copy().pop()
    kill_node(lost)
    killed = time.time()
    said = running.communicate(timeout=600)[1]
    assert running.returncode == 0, said
    cluster.remove_node(lost, allow_graceful=False)
    cluster.add_node(**SMALL_NODE)
    assert chosen(there)["reading"] == "on 3 nodes"
    assert chosen(there)["embedding"] in (
        "on 2 nodes",
        "on 3 nodes",
    )  # Ray may not have missed it yet
    lines = map(
        json.loads, (max((there / "runs").iterdir()) / "events.jsonl").read_text().splitlines()
    )
    assert killed < next(
        line["time"] for line in lines if line["event"] == "stage_finished"
    )  # that of reading
    for table in ("documents", "chunks"):
        assert rows(there, table) == rows(alone, table)
    assert len(rows(there, "documents")) >= 150
    ours = vectors(there)
    theirs = vectors(alone)
    assert ours.shape == theirs.shape
    assert len(ours) > 150
    assert np.abs(ours - theirs).max() <= 1e-5


@pytest.mark.slow
def test_a_run_ends_when_all_nodes_are_lost(cluster: Any, tmp_path: Path) -> None:
    project = small_project(tmp_path / "project")
    for number in range(200):
        (project / "documents" / f"report-{number}.md").write_text(
            f"# Report {number}\n\nA pump failed its test.\n"
        )
    command = [
        sys.executable,
        "-m",
        "engine",
        "run",
        str(project),
        "--ray",
        cluster.address,
        "--json",
    ]
    running = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while "reading" not in chosen(project) and running.poll() is None:
        time.sleep(0.05)
    for node in (cluster.head_node, *cluster.worker_nodes):
        kill_node(node)
    said = running.communicate(timeout=120)[1]
    for _ in range(3):
        cluster.add_node(**SMALL_NODE)
    assert running.returncode == StageError.exit_code
    assert json.loads(said.splitlines()[-1])["code"] == "cluster-lost"


def told(project: Path) -> list[Event]:
    if (project / "runs").is_dir():
        newest = max((project / "runs").iterdir(), default=None)
    else:
        newest = None
    if newest:
        return [event for event, _ in read(newest / "events.jsonl", 0)]
    return []


def chosen(project: Path) -> dict[str, str]:
    return {event.setting: event.value for event in told(project) if isinstance(event, Choice)}


def rows(project: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(project / "project.db")) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()


def vectors(project: Path) -> np.ndarray:
    """All cached ones (n, d), in the order in which they were made."""
    (folder,) = (path for path in (project / "cache").iterdir() if len(path.name) == 64)
    found = EmbeddingCache(project / "cache")
    return np.concatenate(
        found.open_vectors(folder.name, found.read_width(folder.name)).blocks
    ).astype(np.float32)
