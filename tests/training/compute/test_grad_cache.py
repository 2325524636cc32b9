"""GradCache against the plain step: one graph, one padded batch, one backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from fixtures.training import moved
from torch import Tensor

from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.training.compute.grad_cache import compute_gradients
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.workers import Workers, choose_workers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.model.student import Rows, Student
from engine.training.objectives import losses

QUERIES = 6


def make_student(
    tiny: ModelFolder,
    recipe: TrainingConfig,
    **changes: object,
) -> Student:
    return moved(tiny, replace(recipe, **changes), 0.3)  # type: ignore[arg-type]


def make_rows(student: Student, data: TrainingData) -> Rows:
    return student.query_rows(data.queries[:QUERIES]) + student.chunk_rows(data.chunks[:14])


def contrast(vectors: Tensor) -> Tensor:
    scores = vectors[:QUERIES] @ vectors[QUERIES:].T
    return losses.infonce(scores, torch.arange(QUERIES))


def forward_of(student: Student, rows: Rows) -> Callable[[MicroBatch], Tensor]:
    return lambda micro: student.forward([rows[i] for i in micro.places])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keep_graphs", [True, False])
def test_equals_the_plain_step(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData, threads: int, keep_graphs: bool
) -> None:
    student = make_student(tiny, recipe)
    rows = make_rows(student, data)
    student.training_mode()
    plain_loss = contrast(student.forward(rows))
    plain = torch.autograd.grad(plain_loss, student.working)
    batches = micro_batches([len(row) for row in rows], 100)
    assert len(batches) > 4
    with Workers(threads) as workers:
        value, ours = compute_gradients(
            forward_of(student, rows),
            student.working,
            batches,
            contrast,
            workers,
            keep_graphs=keep_graphs,
            dropout=False,
        )
    assert value == pytest.approx(plain_loss.item(), abs=1e-5)
    assert max(part.abs().max().item() for part in plain) > 1e-2
    for mine, theirs in zip(ours, plain, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)


def test_the_second_pass_repeats_the_dropout_of_the_first(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    student = make_student(
        tiny,
        recipe,
        lora_dropout=0.3,
        model_dropout=True,
    )
    rows = make_rows(student, data)
    batches = micro_batches([len(row) for row in rows], 100)
    student.training_mode()

    def both(keep_graphs: bool, seed: int) -> tuple[float, list[Tensor]]:
        torch.manual_seed(seed)
        with Workers(2) as workers:
            return compute_gradients(
                forward_of(student, rows),
                student.working,
                batches,
                contrast,
                workers,
                keep_graphs=keep_graphs,
                dropout=True,
            )

    one_pass = both(True, 5)
    two_pass = both(False, 5)
    other = both(False, 6)
    assert one_pass[0] == pytest.approx(two_pass[0], abs=1e-6)
    for mine, theirs in zip(two_pass[1], one_pass[1], strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)
    assert abs(other[0] - two_pass[0]) > 1e-3


def test_the_number_of_workers_changes_nothing(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    student = make_student(tiny, recipe)
    rows = make_rows(student, data)
    batches = micro_batches([len(row) for row in rows], 100)
    found = []
    for threads in (1, 3):
        with Workers(threads) as workers:
            found.append(
                compute_gradients(
                    forward_of(student, rows),
                    student.working,
                    batches,
                    contrast,
                    workers,
                    keep_graphs=False,
                    dropout=False,
                )
            )
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


def test_workers_restore_the_thread_count() -> None:
    before = torch.get_num_threads()
    with Workers(2) as workers:
        assert workers.map(lambda item: (item * 2, torch.get_num_threads()), [1, 2, 3]) == [
            (2, 1),
            (4, 1),
            (6, 1),
        ]
    assert torch.get_num_threads() == before


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    def fail(item: int) -> int:
        raise MemoryError(f"item {item}")

    with Workers(2) as workers, pytest.raises(MemoryError, match="item"):
        workers.map(fail, [1, 2, 3])


def test_workers_are_chosen_by_cores_memory_and_dropout(
    tiny: ModelFolder, recipe: TrainingConfig
) -> None:
    cpu = Hardware(
        "cpu",
        "float32",
        8,
        (),
    )
    gpu = Hardware(
        "cuda",
        "bfloat16",
        8,
        (),
    )
    student = make_student(tiny, recipe)
    # Two layers × (8 × 32 + 4 × 64 + 2 × 2 × 256) values × 4 bytes; twice computed: two inputs and
    # one layer
    assert student.bytes_per_token(256) == 2 * (8 * 32 + 4 * 64 + 2 * 2 * 256) * 4
    assert (
        student.bytes_per_token(256, checkpointing=True)
        == (2 * 32 + 8 * 32 + 4 * 64 + 2 * 2 * 256) * 4
    )
    one = int(256 * student.bytes_per_token(256))
    assert choose_workers(student, recipe, cpu, available=2 * 100 * one)[:2] == (8, 1)
    assert choose_workers(student, recipe, cpu, available=2 * 3 * one)[:2] == (3, 1)
    assert choose_workers(student, recipe, cpu, available=1)[:2] == (1, 8)
    assert choose_workers(student, recipe, gpu, available=2 * 100 * one)[:2] == (1, 8)
    with_dropout = make_student(
        tiny,
        recipe,
        lora_dropout=0.1,
    )
    assert choose_workers(with_dropout, recipe, cpu, available=2 * 100 * one)[:2] == (1, 8)


def test_gradients_are_summed_as_they_come(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData
) -> None:
    """Kept to the end, they would hold fast the memory of every graph before them."""
    student = make_student(tiny, recipe)
    rows = make_rows(student, data)
    batches = micro_batches([len(row) for row in rows], 50)
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def forward(micro: MicroBatch) -> Tensor:
        nonlocal most
        most = max(most, sum(part() is not None for part in alive))
        return student.forward([rows[i] for i in micro.places])

    differentiate = torch.autograd.grad

    def watched(
        outputs: Tensor, inputs: Tensor | list[Tensor], *upstream: Tensor
    ) -> tuple[Tensor, ...]:
        found = differentiate(
            outputs,
            inputs,
            *upstream,
        )
        if upstream:  # else of the loss by the vectors
            alive.append(weakref.ref(found[0]))
        return found

    with pytest.MonkeyPatch.context() as patch, Workers(1) as workers:
        patch.setattr(
            torch.autograd,
            "grad",
            watched,
        )
        compute_gradients(
            forward, student.working, batches, contrast, workers, keep_graphs=False, dropout=False
        )
    assert len(alive) == len(batches) > 5
    assert most <= 2  # the sum, and the one that is being added
