"""Blocks that run twice: the same gradients, less memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from fixtures.tiny_decoder import build_tiny_decoder
from fixtures.training import moved
from torch import Tensor

from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.training.compute.grad_cache import compute_gradients
from engine.training.compute.micro_batches import micro_batches
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.model.student import Rows, Student
from engine.training.objectives import losses


@pytest.fixture(scope="module", params=["bert", "decoder"])
def model(
    request: pytest.FixtureRequest, tiny: ModelFolder, tmp_path_factory: pytest.TempPathFactory
) -> ModelFolder:
    if request.param == "bert":
        return tiny
    return resolve_model(
        str(build_tiny_decoder(tmp_path_factory.mktemp("decoder") / "tiny", "qwen3-embedding"))
    )


def contrast(vectors: Tensor) -> Tensor:
    return losses.infonce(vectors[:6] @ vectors[6:].T, torch.arange(6))


def step(
    student: Student, rows: Rows, keep_graphs: bool, threads: int = 1
) -> tuple[float, list[Tensor]]:
    student.training_mode()
    batches = micro_batches([len(row) for row in rows], 150)
    torch.manual_seed(3)
    with Workers(threads) as workers:
        return compute_gradients(
            lambda micro: student.forward([rows[i] for i in micro.places]),
            student.working,
            batches,
            contrast,
            workers,
            keep_graphs=keep_graphs,
            dropout=student.has_dropout,
        )


def assert_same(
    found: tuple[float, Sequence[Tensor]], wanted: tuple[float, Sequence[Tensor]]
) -> None:
    assert found[0] == pytest.approx(wanted[0], abs=1e-6)
    assert max(part.abs().max().item() for part in wanted[1]) > 1e-2
    for mine, theirs in zip(found[1], wanted[1], strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keep_graphs", [True, False])
def test_checkpointing_equals_the_plain_step(
    model: ModelFolder, recipe: TrainingConfig, data: TrainingData, keep_graphs: bool, threads: int
) -> None:
    plain = moved(model, recipe, 0.2)
    thrifty = moved(model, recipe, 0.2)
    thrifty.checkpoint_blocks()
    rows = plain.query_rows(data.queries[:6]) + plain.chunk_rows(data.chunks[:14])
    assert_same(step(thrifty, rows, keep_graphs, threads), step(plain, rows, True))


def test_checkpointing_repeats_the_dropout(
    model: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    dropped = replace(
        recipe,
        lora_dropout=0.3,
        model_dropout=True,
    )
    plain = moved(model, dropped, 0.2)
    thrifty = moved(model, dropped, 0.2)
    thrifty.checkpoint_blocks()
    rows = plain.query_rows(data.queries[:6]) + plain.chunk_rows(data.chunks[:14])
    for keep_graphs in (True, False):
        assert_same(step(thrifty, rows, keep_graphs), step(plain, rows, keep_graphs))


def kept_bytes(student: Student, rows: Rows) -> int:
    """What a graph holds on to, weights and shared storage counted once."""
    seen: dict[int, int] = {}
    weights = {p.untyped_storage().data_ptr() for p in student.transformer.parameters()}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        vectors = student.forward(rows)
        total = sum(seen.values())
    assert vectors.requires_grad
    return total


def test_checkpointing_keeps_less(
    model: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    plain = moved(model, recipe, 0.2)
    thrifty = moved(model, recipe, 0.2)
    thrifty.checkpoint_blocks()
    rows = plain.chunk_rows(data.chunks[:8])
    assert kept_bytes(thrifty, rows) < kept_bytes(plain, rows) / 4
    assert thrifty.bytes_per_token(64) < plain.bytes_per_token(64)
    assert thrifty.bytes_per_token(64) == plain.bytes_per_token(64, checkpointing=True)


def test_a_reworked_model_still_gives_the_encoders_vectors(
    model: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    plain = moved(model, recipe, 0.2)
    thrifty = moved(model, recipe, 0.2)
    thrifty.checkpoint_blocks()
    rows = plain.chunk_rows(data.chunks[:8])
    with torch.no_grad():
        assert torch.equal(plain.forward(rows), thrifty.forward(rows))
