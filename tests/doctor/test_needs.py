"""What a run needs, against sums by hand; and how the doctor tells it."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.project_files import create_project

from engine.doctor import findings
from engine.doctor.findings import (
    estimate_disk_space,
    estimate_needs,
    estimate_training_memory,
    examine_gpu,
)
from engine.encoders import hardware as gpus_module
from engine.encoders.hardware import Gpu, Gpus, Hardware
from engine.encoders.model_size import ModelSize
from engine.project.folder import ProjectFolder
from engine.settings.load import validate
from engine.training.config import TrainingConfig

SIZE = ModelSize(
    parameters=1000,
    blocks=2,
    width=10,
    heads=2,
    block_sides=100,
)
RECIPE = TrainingConfig(
    queries_per_step=4,
    negatives_per_query=1,
    max_tokens=8,
    micro_batch_tokens=16,
    graph_memory_mb=0,
    lora_rank=3,
)
CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
CUDA = Hardware(
    "cuda",
    "bfloat16",
    2,
    (),
)
TOKEN = 2 * (24 * 10 + 2 * 2 * 8) * 4  # bytes of a graph for each token: 2176


def test_memory_of_micro_batches_side_by_side() -> None:
    need = estimate_training_memory(
        SIZE,
        RECIPE,
        CPU,
        chunks=50,
        free=10**9,
    )
    assert need == 1000 * 4 + 3 * 2 * 16 * TOKEN + 50 * 10 * 4 + 500_000_000
    tight = estimate_training_memory(
        SIZE, RECIPE, CPU, chunks=50, free=3 * 16 * TOKEN
    )  # half of it holds one
    assert need - tight == 3 * 16 * TOKEN
    least = estimate_training_memory(
        SIZE, RECIPE, CPU, chunks=50, free=0
    )  # of the other block its input
    assert tight - least == 3 * 16 * (24 * 10 + 2 * 2 * 8 - 2 * 10) * 4


def test_memory_of_whole_steps() -> None:
    whole = TrainingConfig(
        queries_per_step=4,
        negatives_per_query=1,
        max_tokens=8,
        micro_batch_tokens=16,
        graph_memory_mb=512,
    )
    need = estimate_training_memory(
        SIZE,
        whole,
        CPU,
        chunks=0,
        free=10**9,
    )
    assert need == 1000 * 4 + 3 * 4 * 3 * 8 * TOKEN + 500_000_000  # far less than 512 MB


def test_memory_of_a_gpu_holds_weights_and_graphs() -> None:
    need = estimate_training_memory(
        SIZE,
        RECIPE,
        CUDA,
        chunks=50,
        free=10**9,
    )
    assert (
        need == 1000 * 2 + 4 * 3 * 8 * TOKEN // 2
    )  # a micro-batch of 512 tokens would hold the whole step


def test_memory_of_all_weights_in_training() -> None:
    layers = estimate_training_memory(
        SIZE,
        RECIPE,
        CPU,
        chunks=50,
        free=10**9,
    )
    weights = estimate_training_memory(
        SIZE, replace(RECIPE, weights="all"), CPU, chunks=50, free=10**9
    )
    assert weights - layers == 1000 * (
        4 + 4 + 4 + 8 + 4 + 16
    )  # master, gradients, moments, best, checkpoint
    layers = estimate_training_memory(
        SIZE,
        RECIPE,
        CUDA,
        chunks=50,
        free=10**9,
    )
    weights = estimate_training_memory(
        SIZE, replace(RECIPE, weights="all"), CUDA, chunks=50, free=10**9
    )
    assert weights - layers == 1000 * (4 + 4 + 4 + 8)


def test_a_gpu_that_is_small_for_the_model_holds_less_at_a_time() -> None:
    """As plan.py decides it: micro-batches shrink to half of what is free, then blocks are
    computed twice.
    """
    many = replace(
        RECIPE,
        queries_per_step=1000,
        graph_memory_mb=512,
    )
    token = TOKEN // 2
    free = 2 * 100 * token  # half of it holds 100 tokens, between 64 and 512
    assert (
        estimate_training_memory(SIZE, many, CUDA, chunks=0, free=2000 + free) == 2000 + 100 * token
    )
    tight = 2 * 63 * token  # fewer than the least micro-batch
    assert (
        estimate_training_memory(SIZE, many, CUDA, chunks=0, free=2000 + tight) == 2000 + 63 * token
    )
    plain = replace(many, gradient_checkpointing="off")
    assert (
        estimate_training_memory(SIZE, plain, CUDA, chunks=0, free=2000 + tight)
        == 2000 + 64 * token
    )


def test_disk() -> None:
    settings = validate(
        {
            "evaluation": {"interpolation_weights": [0.5]},
            "queries": {"max_queries": 70},
            "ranking": {"k": 40},
        }
    )
    first = estimate_disk_space(
        SIZE,
        RECIPE,
        settings,
        chunks=50,
        text_bytes=1234,
        base_graph=True,
    )
    later = estimate_disk_space(
        SIZE, RECIPE, settings, chunks=50, text_bytes=1234, base_graph=False
    )
    vectors = 3 * 50 * (2 * 10 + 32)
    index = 50 * (3 * 10 + 160)
    rankings = 70 * 40 * 12
    adapter = 3 * 100 * 4
    assert later == vectors + index + 2 * 1000 * 4 + rankings + 14 * adapter + 1234
    assert first == later + 1000 * 4
    every = replace(RECIPE, weights="all")
    whole = estimate_disk_space(
        SIZE,
        every,
        settings,
        chunks=50,
        text_bytes=1234,
        base_graph=False,
    )
    assert whole - later == 14 * 4 * (1000 - 3 * 100)


def test_the_next_run_of_a_project(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "project.toml").write_text('[encoder]\ndevice = "cpu"\ndtype = "float32"\n')
    memory, disk = estimate_needs(
        project,
        project.settings(),
        "all-MiniLM-L6-v2",
    )
    assert (memory.topic, memory.state) == ("memory need", "good")
    assert (disk.topic, disk.state, disk.found) == ("disk need", "good", findings.NOT_KNOWN)
    monkeypatch.setattr(
        findings,
        "measure_free_memory",
        lambda _hardware: (300_000_000, ""),
    )
    monkeypatch.setattr(
        findings,
        "measure_corpus",
        lambda _project: (1_000_000, 10**9),
    )
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(
        findings.shutil,
        "disk_usage",
        lambda _path: usage(0, 0, 10**9),
    )
    memory, disk = estimate_needs(
        project,
        project.settings(),
        "all-MiniLM-L6-v2",
    )
    assert (memory.state, disk.state) == ("problem", "problem")
    assert "300.0 MB free" in memory.found
    assert "encoder.max_tokens" in memory.follows
    assert "1.0 GB free" in disk.found


def test_disk_need_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.txt": "x" * 2_048_000, "left-out.exe": "x" * 9_000_000}
    folder = create_project(
        tmp_path,
        files,
        encoder={"device": "cpu", "dtype": "float32"},
    )
    _, disk = estimate_needs(
        folder,
        folder.settings(),
        "all-MiniLM-L6-v2",
    )
    assert disk.state == "good"
    assert "2.0 MB of documents" in disk.follows
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(
        findings.shutil,
        "disk_usage",
        lambda _path: usage(0, 0, 30_000_000),
    )
    _, disk = estimate_needs(
        folder,
        folder.settings(),
        "all-MiniLM-L6-v2",
    )
    assert disk.state == "problem"
    documents = tmp_path / "documents"
    (documents / "a.txt").unlink()
    documents.rename(tmp_path / "moved")
    _, disk = estimate_needs(
        folder,
        folder.settings(),
        "all-MiniLM-L6-v2",
    )
    assert disk.found == findings.NOT_KNOWN


def test_a_model_that_is_gone_has_no_needs(project: ProjectFolder, tmp_path: Path) -> None:
    assert estimate_needs(project, project.settings(), str(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    ("there", "found", "follows"),
    [
        (Gpus((), False, 0), "this torch is built for CPUs only", findings.WITH_A_GPU),
        (
            Gpus((), False, 1),
            "lists 1 NVIDIA card (a CUDA build of torch is needed)",
            findings.WITH_A_GPU,
        ),
        (Gpus((), True, 2), "lists 2 NVIDIA cards (its driver is needed)", findings.WITH_A_GPU),
        (
            Gpus((Gpu("Big", 80 * 10**9, 79 * 10**9, True),), True, 1),
            "Big, 79.0 GB of 80.0 GB free",
            "use them",
        ),
        (
            Gpus((Gpu("Old", 8 * 10**9, 7 * 10**9, False),), True, 1),
            "Old, 7.0 GB",
            "encodes in float16",
        ),
    ],
)
def test_what_a_gpu_is_or_would_be(
    monkeypatch: pytest.MonkeyPatch, there: Gpus, found: str, follows: str
) -> None:
    monkeypatch.setattr(
        gpus_module,
        "find_gpus",
        lambda: there,
    )
    (finding,) = examine_gpu()
    assert (finding.topic, finding.state) == ("gpu", "good" if there.usable else "absent")
    assert found in finding.found
    assert follows in finding.follows
