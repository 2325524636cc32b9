"""Checkpoints under kill -9: at every moment a whole one is there to resume from."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from engine.training.checkpoint import TrainingState, load_newest, save

KEY = "key"


def state(step: int, stale: int = 0) -> TrainingState:
    return TrainingState(step=step, stale=stale)


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"adapter/a": torch.full((4,), value)}


def loaded(folder: Path) -> tuple[int, int, float]:
    found = load_newest(folder, KEY)
    assert found is not None
    return found[0].step, found[0].stale, found[1]["adapter/a"][0].item()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process that is killed is forked")
@pytest.mark.parametrize("call", ["rename", "fsync"])
@pytest.mark.posix(reason="fork and SIGKILL")
def test_killed_while_one_is_written_the_former_checkpoint_is_whole(
    tmp_path: Path, call: str
) -> None:
    save(
        tmp_path,
        KEY,
        state(50),
        tensors(1.0),
    )
    child = os.fork()
    if child == 0:

        def die(*_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if call == "rename":
            Path.rename = die  # type: ignore[assignment,method-assign]
        else:
            os.fsync = die
        save(
            tmp_path,
            KEY,
            state(51, stale=1),
            tensors(2.0),
        )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert loaded(tmp_path) == (50, 0, 1.0)
    save(
        tmp_path,
        KEY,
        state(51, stale=1),
        tensors(2.0),
    )
    assert loaded(tmp_path) == (51, 1, 2.0)
    assert not list(tmp_path.glob(".writing-*"))


def test_a_step_is_not_written_again(tmp_path: Path) -> None:
    save(
        tmp_path,
        KEY,
        state(50),
        tensors(1.0),
    )
    (made,) = tmp_path.iterdir()
    before = made.stat()
    save(
        tmp_path,
        KEY,
        state(50),
        tensors(1.0),
    )
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_damaged_one_is_written_again(tmp_path: Path) -> None:
    save(
        tmp_path,
        KEY,
        state(50),
        tensors(1.0),
    )
    (tmp_path / "step-00000050" / "tensors.safetensors").write_bytes(b"torn")
    save(
        tmp_path,
        KEY,
        state(50),
        tensors(1.0),
    )
    assert loaded(tmp_path) == (50, 0, 1.0)


def test_later_ones_of_another_training_do_not_crowd_out_the_own(tmp_path: Path) -> None:
    for step in (9, 12):
        save(
            tmp_path,
            "another",
            state(step),
            tensors(9.0),
        )
    for step in (3, 6):
        save(
            tmp_path,
            KEY,
            state(step),
            tensors(step),
        )
        assert loaded(tmp_path) == (step, 0, float(step))
