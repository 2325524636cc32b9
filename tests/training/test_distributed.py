"""Several processes train what one trains.

They are launched here as torchrun and `accelerate launch` do it.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from fixtures.errors import fails
from fixtures.pipeline import WAIT_SECONDS
from fixtures.tiny_decoder import build_tiny_decoder
from fixtures.training import check_same_encoder

from engine.core.errors import UsageError
from engine.encoders.geometry.similarity import unit_rows
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.training.compute import launch as launches
from engine.training.compute.launch import Launch, find_launch, is_follower
from engine.training.compute.peers import ALONE, Peers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job
from engine.training.trainer import train

CPU = Hardware(
    "cpu",
    "float32",
    1,
    (),
)
ROOT = Path(__file__).resolve().parents[2]

# What every process of a launch runs: rank 0 is given a job, the others are not.
PROCESS = """
import json, pickle, sys
from pathlib import Path
from engine.core.environment import prepare
prepare()
from engine.training.distributed import follow, train_together
from engine.training.job import Job
from engine.training.compute.launch import is_follower
from engine.core.errors import CancelledError
folder = Path(sys.argv[1])
if is_follower():
    follow()
    print(json.dumps({"followed": True}))
    sys.exit(0)
model, data, config, hardware, stop_after = pickle.loads((folder / "job").read_bytes())
events, asked = [], []
def stop():
    asked.append(1)
    return stop_after is not None and len([e for e in events if type(e).__name__ == "TrainStep"]) >= stop_after
try:
    result = train_together(Job(model, data, config, hardware, folder / "run", events.append, stop))
except CancelledError as error:
    print(json.dumps({"cancelled": error.what}))
    sys.exit(130)
print(json.dumps({
    "history": result.history, "steps": result.steps,
    "reported": [[e.setting, e.value] for e in events if type(e).__name__ == "Choice"],
}))
"""  # noqa: E501


def launch(
    folder: Path,
    job: Sequence[Any],
    count: int = 2,
) -> list[tuple[int, dict[str, Any]]]:
    """Exit code and answer of every process, by rank."""
    folder.mkdir(exist_ok=True)
    (folder / "job").write_bytes(pickle.dumps(tuple(job)))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [
            sys.executable,
            "-c",
            PROCESS,
            str(folder),
        ]
        processes.append(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True))
    try:
        answers = [process.communicate(timeout=WAIT_SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        (process.returncode, json.loads(answer.splitlines()[-1]) if answer.strip() else {})
        for process, answer in zip(processes, answers, strict=True)
    ]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return resolve_model(
        str(build_tiny_decoder(tmp_path_factory.mktemp("decoder") / "tiny", "qwen3-embedding"))
    )


def with_random_base(data: TrainingData) -> TrainingData:
    queries, chunks, heldout = (
        unit_rows(np.random.default_rng(n).normal(size=(len(texts), 16)))
        for n, texts in enumerate((data.queries, data.chunks, data.heldout_queries))
    )
    return replace(
        data,
        base_queries=queries,
        base_chunks=chunks,
        base_heldout=heldout,
    )


@pytest.mark.warm
@pytest.mark.parametrize(
    ("kind", "graphs"),
    [
        ("bert", 512),
        *(
            pytest.param(kind, 0, marks=pytest.mark.slow)
            for kind in ("decoder", "beside a black box")
        ),
    ],
)
def test_two_processes_train_what_one_does(
    tiny: ModelFolder,
    decoder: ModelFolder,
    recipe: TrainingConfig,
    data: TrainingData,
    tmp_path: Path,
    kind: str,
    graphs: float,
) -> None:
    model = decoder if kind == "decoder" else tiny
    config = replace(
        recipe,
        steps=6,
        eval_every=3,
        learning_rate=1e-3,
        graph_memory_mb=graphs,
    )
    if kind == "beside a black box":
        config = replace(config, augmentation="lambda-mafin")
        data = with_random_base(data)
    alone = train(Job(model, data, config, CPU, tmp_path / "alone"))
    (code, answer), follower = launch(tmp_path / "both", [model, data, config, CPU, None])
    assert code == 0
    assert follower == (0, {"followed": True})
    check_same_encoder(
        model,
        tmp_path / "alone" / "adapter",
        tmp_path / "both" / "run" / "adapter",
        data.chunks[:20],
    )
    assert ["processes", "2"] in answer["reported"]
    assert [entry["step"] for entry in answer["history"]] == [0, 3, 6]
    for mine, theirs in zip(answer["history"], alone.history, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-4)
        assert mine["ndcg_at_10"] == pytest.approx(theirs["ndcg_at_10"], abs=1e-3)


@pytest.mark.slow
def test_more_processes_than_micro_batches(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData, tmp_path: Path
) -> None:
    config = replace(
        recipe, steps=3, eval_every=0, queries_per_step=3, micro_batch_tokens=4096
    )  # two micro-batches
    train(Job(tiny, data, config, CPU, tmp_path / "alone"))
    answers = launch(
        tmp_path / "three",
        [tiny, data, config, CPU, None],
        count=3,
    )
    assert [code for code, _ in answers] == [0, 0, 0]
    check_same_encoder(
        tiny,
        tmp_path / "alone" / "adapter",
        tmp_path / "three" / "run" / "adapter",
        data.chunks[:20],
    )


@pytest.mark.slow
def test_a_stopped_training_is_resumed_by_both(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData, tmp_path: Path
) -> None:
    config = replace(
        recipe,
        steps=6,
        eval_every=3,
        learning_rate=1e-3,
        checkpoint_every=2,
    )
    train(Job(tiny, data, config, CPU, tmp_path / "alone"))
    (code, answer), follower = launch(tmp_path / "both", [tiny, data, config, CPU, 1])
    assert code == 130
    assert "step" in answer["cancelled"]
    assert follower == (0, {"followed": True})
    (code, answer), follower = launch(tmp_path / "both", [tiny, data, config, CPU, None])
    assert (code, follower[0]) == (0, 0)
    assert any(setting == "first step" and int(value) > 0 for setting, value in answer["reported"])
    check_same_encoder(
        tiny,
        tmp_path / "alone" / "adapter",
        tmp_path / "both" / "run" / "adapter",
        data.chunks[:20],
    )


@pytest.mark.slow
def test_a_follower_leaves_when_the_leader_ends_without_training(tmp_path: Path) -> None:
    (code, _), follower = launch(
        tmp_path, [None, None, None, None]
    )  # too short a job: the leader breaks off
    assert code == 1
    assert follower[0] == 0


ENVIRONMENT = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, Launch(1, 2, 1, 2)),
        ({"RANK": "0", "LOCAL_RANK": "0"}, Launch(0, 2, 0, 2)),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, Launch(1, 2, 0, 1)),
        ({"WORLD_SIZE": "1", "RANK": "0"}, None),
        ({"WORLD_SIZE": "two"}, None),
        ({"RANK": "2"}, None),
        ({"MASTER_PORT": ""}, None),
    ],
)
def test_a_launch_is_known_by_its_environment(
    changes: dict[str, str], wanted: Launch | None
) -> None:
    assert find_launch(ENVIRONMENT | changes) == wanted


def test_only_ranks_beyond_the_first_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_follower()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert is_follower()
    monkeypatch.setenv("RANK", "0")
    assert not is_follower()


def test_after_the_first_training_children_know_of_no_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launches, "spent", False)
    launches.spend()
    alone = {"HOME": "/home/ann"}
    assert launches.child_environment(alone) == alone  # there was none
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    given = ENVIRONMENT | alone
    assert launches.child_environment(given) == given
    assert not launches.trains_alone(given)
    launches.spend()
    left = launches.child_environment(given)
    assert left == alone | {launches.SPENT: "1"}
    assert find_launch(left) is None
    assert launches.trains_alone(left)


def test_shares_are_even_and_complete() -> None:
    shares = []
    for rank in range(3):
        peer = Peers()
        peer.rank = rank
        peer.count = 3
        shares.append(peer.own_share("abcdefgh"))
    assert shares == [["a", "d", "g"], ["b", "e", "h"], ["c", "f"]]
    assert ALONE.own_share("abc") == ["a", "b", "c"]
    assert ALONE.leads


def test_a_leader_that_is_reaped_while_it_is_looked_at_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engine.training import distributed

    class Ended(Exception):
        """Takes the place of the end of this process."""

    def end(code: int) -> None:
        raise Ended(code)

    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    leader = psutil.Process(child.pid)

    def reap() -> bool:
        child.communicate()
        return True

    monkeypatch.setattr(leader, "is_running", reap)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Ended):
        distributed.exit_after(leader)


def test_more_processes_than_gpus_are_refused(
    tiny: ModelFolder,
    recipe: TrainingConfig,
    data: TrainingData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from engine.training.distributed import train_together

    for name, value in (ENVIRONMENT | {"RANK": "0", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        torch.cuda,
        "device_count",
        lambda: 1,
    )
    gpu = Hardware(
        "cuda",
        "bfloat16",
        1,
        (),
    )
    with fails(UsageError, "processes-too-many", "2 processes", "1 GPU"):
        train_together(Job(tiny, data, recipe, gpu, tmp_path))
