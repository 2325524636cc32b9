"""`torchrun … -m engine train PROJECT` and `accelerate launch … -m engine train PROJECT`, with
two processes on the CPU.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.pipeline import copy_documents, engine, environment
from fixtures.training import check_same_encoder

from engine import Project
from engine.core.events import (
    Choice,
    Event,
    RunFinished,
    RunStarted,
    StageFailed,
    StageFinished,
    StageSkipped,
    TrainStep,
    read,
)
from engine.encoders.model_folder import resolve_model

TORCHRUN = [
    "torch.distributed.run",
    "--nproc-per-node",
    "2",
    "--master-addr",
    "127.0.0.1",
    "--master-port",
]
ACCELERATE = [
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes",
    "2",
    "--num_machines",
    "1",
    "--mixed_precision",
    "no",
    "--dynamo_backend",
    "no",
    "--main_process_ip",
    "127.0.0.1",
    "--main_process_port",
]
# With --cpu, accelerate starts one process alone; --multi_gpu starts as many as it is told, GPUs or
# none.
LAUNCHERS = {"torchrun": TORCHRUN, "accelerate": ACCELERATE}


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory, make_project: Callable[..., Path]) -> Path:
    """A project that is ready to train, for a few steps. Tests copy it."""
    quick: dict[str, Any] = {
        "steps": 4,
        "eval_every": 2,
        "checkpoint_every": 2,
        "learning_rate": 1e-3,
    }
    path = make_project(tmp_path_factory.mktemp("ranked") / "project", training=quick)
    copy_documents(
        path / "documents",
        ("incidents", "policies"),
        6,
    )
    engine(
        "run",
        str(path),
        "--only",
        "ingest,index,generate,rank",
    )
    return path


def launched(launcher: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        *LAUNCHERS[launcher],
        str(port),
        "-m",
        "engine",
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=240, check=False
    )


def check_same_training(
    first: Path,
    other: Path,
    model: Path,
) -> None:
    """Assert that the adapters of two projects with the same documents were trained alike."""
    documents = sorted((first / "documents").rglob("*.md"))[:20]
    texts = [path.read_text(encoding="utf-8")[:400] for path in documents]
    (ours,) = (first / "adapters").iterdir()
    (theirs,) = (other / "adapters").iterdir()
    check_same_encoder(
        resolve_model(str(model)),
        ours,
        theirs,
        texts,
    )


def read_events(project: Path, kind: type[Event]) -> list[Any]:
    newest = max((project / "runs").iterdir())
    return [event for event, _ in read(newest / "events.jsonl", 0) if isinstance(event, kind)]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_two_launched_processes_train_the_projects_adapter(
    ranked: Path, tiny_model: Path, tmp_path: Path, launcher: str
) -> None:
    if launcher == "accelerate" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    alone, both = (Path(shutil.copytree(ranked, tmp_path / name)) for name in ("alone", "both"))
    engine("train", str(alone))
    completed = launched(
        launcher,
        "train",
        str(both),
    )
    assert completed.returncode == 0, completed.stderr
    check_same_training(alone, both, tiny_model)
    assert len(read_events(both, RunStarted)) == 1
    assert len(read_events(both, StageFinished)) == 1
    assert [event.value for event in read_events(both, Choice) if event.setting == "processes"] == [
        "2"
    ]
    # What is up to date is not trained again, and the second process does not wait for it.
    again = launched(
        launcher,
        "train",
        str(both),
    )
    assert again.returncode == 0, again.stderr
    assert read_events(both, StageSkipped)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_launch_that_is_cancelled_ends_without_a_traceback(ranked: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(ranked, tmp_path / "project"))
    opened = Project.open(project)
    opened.folder.change_settings({"training.steps": 5000, "training.eval_every": 5000})
    opened.close()
    with ThreadPoolExecutor() as pool:
        launch = pool.submit(
            launched,
            "torchrun",
            "train",
            str(project),
        )
        end = time.monotonic() + 120
        while not (list((project / "runs").glob("*")) and read_events(project, TrainStep)):
            assert time.monotonic() < end, "no step was trained"
            assert not launch.done(), launch.result().stderr
            time.sleep(0.2)
        engine("cancel", str(project))
        completed = launch.result(timeout=120)
    assert "Traceback" not in completed.stdout + completed.stderr
    assert "ChildFailedError" not in completed.stderr
    assert completed.returncode == 0
    assert read_events(project, TrainStep)[-1].step < 5000
    assert not read_events(project, StageFailed)
    (finished,) = read_events(project, RunFinished)
    assert finished.state == "cancelled"


@pytest.mark.slow
def test_an_error_of_the_leader_ends_the_launch(tmp_path: Path) -> None:
    completed = launched(
        "torchrun",
        "train",
        str(tmp_path / "nowhere"),
    )
    assert completed.returncode != 0
    assert "nowhere" in completed.stderr


def node(
    port: int, *arguments: str, options: Sequence[str] = (), without: Path | None = None
) -> subprocess.Popen[str]:
    """One machine of a launch over two: a torchrun of its own, in a process group of its own,
    `without` a folder.
    """
    if without:
        hidden = [
            "unshare",
            "-rm",
            "sh",
            "-c",
            'mount -t tmpfs none "$0" && exec "$@"',
            str(without),
        ]
    else:
        hidden = []
    command = [
        *hidden,
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "1",
        "--rdzv-id",
        "training",
        "--rdzv-endpoint",
        f"127.0.0.1:{port}",
        "--local-addr",
        "127.0.0.1",
        *options,
        "-m",
        "engine",
        *arguments,
    ]
    pipe = subprocess.PIPE
    variables = environment() | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=variables, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def can_hide(folder: Path) -> bool:
    command = [
        "unshare",
        "-rm",
        "mount",
        "-t",
        "tmpfs",
        "none",
        str(folder),
    ]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def free_port() -> int:
    """Return a free port that the system hands to no other program meanwhile."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.mark.timeout(600)
def test_a_machine_that_has_neither_project_nor_model_helps_to_train(
    ranked: Path, tmp_path: Path, tiny_model: Path
) -> None:
    if not can_hide(tiny_model):
        pytest.skip("this system lets nobody mount anything")
    alone, both = (Path(shutil.copytree(ranked, tmp_path / name)) for name in ("alone", "both"))
    engine("train", str(alone))
    port = free_port()
    launches = []
    for rank, (project, without) in enumerate(((both, None), (tmp_path / "nowhere", tiny_model))):
        options = [
            "--nnodes",
            "2",
            "--node-rank",
            str(rank),
            "--rdzv-backend",
            "static",
        ]
        launches.append(node(port, "train", str(project), options=options, without=without))
    for process in launches:
        assert process.communicate(timeout=240)[1].count("Traceback") == 0
    assert [launch.returncode for launch in launches] == [0, 0]
    check_same_training(alone, both, tiny_model)
    assert [event.value for event in read_events(both, Choice) if event.setting == "processes"] == [
        "2"
    ]
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_goes_on_with_fewer_machines_from_its_checkpoint(
    ranked: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """One machine of two is lost by kill -9, its launcher with it: the other begins again from
    the checkpoint, alone.
    """
    alone, both = (Path(shutil.copytree(ranked, tmp_path / name)) for name in ("alone", "both"))
    for path in (alone, both):
        opened = Project.open(path)
        opened.folder.change_settings(
            {"training.steps": 300, "training.eval_every": 100, "training.checkpoint_every": 10}
        )
        opened.close()
    engine("train", str(alone))
    port = free_port()
    options = [
        "--nnodes",
        "1:2",
        "--max-restarts",
        "3",
        "--rdzv-backend",
        "c10d",
        "--rdzv-conf",
    ]
    launches = [
        node(port, "train", str(both), options=[*options, f"last_call_timeout=5,is_host={host}"])
        for host in (1, 0)
    ]  # the host has the lower process id, and so rank 0
    follower = 0
    end = time.monotonic() + 300
    while not (follower and list((both / "checkpoints").glob("*/step-*"))):
        assert time.monotonic() < end, "no checkpoint was written by two processes"
        time.sleep(0.1)
        follower = follower or next(
            (child.pid for child in processes_of(launches) if child.environ().get("RANK") == "1"), 0
        )
    (lost,) = (
        launch for launch in launches if follower in {child.pid for child in processes_of([launch])}
    )
    (remaining,) = (launch for launch in launches if launch is not lost)
    os.killpg(lost.pid, signal.SIGKILL)
    os.kill(follower, signal.SIGKILL)
    output = remaining.communicate(timeout=600)[1]
    assert remaining.returncode == 0, output
    lost.communicate()
    _, first, *_, last = sorted((both / "runs").iterdir())  # after the one that made it ready
    assert [
        [e.value for e in chosen(run) if e.setting == "processes"] for run in (first, last)
    ] == [["2"], []]
    (failed,) = (
        event for event, _ in read(first / "events.jsonl", 0) if isinstance(event, StageFailed)
    )
    assert failed.error["code"] == "processes-not-connected"
    assert (
        "/" not in failed.error["why"]
    )  # what the library says, with paths of its source, is in the stage's log
    (step,) = (int(event.value) for event in chosen(last) if event.setting == "first step")
    assert 0 < step < 300
    check_same_training(alone, both, tiny_model)


def processes_of(launches: Sequence[subprocess.Popen[str]]) -> list[psutil.Process]:
    """The processes that launchers have started."""
    return [
        child
        for launch in launches
        if launch.poll() is None
        for child in psutil.Process(launch.pid).children()
    ]


def chosen(run: Path) -> list[Choice]:
    return [event for event, _ in read(run / "events.jsonl", 0) if isinstance(event, Choice)]
