"""Decoder embedding models in training: the encoder's vectors, LoRA on every projection, exact
GradCache, an adapter.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.sentence_encoders import SentenceTransformer
from fixtures.tiny_decoder import KINDS, Kind, build_tiny_decoder, oracle_options
from fixtures.training import moved
from safetensors.torch import load_file
from torch import Tensor

from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.training.compute.grad_cache import compute_gradients
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job
from engine.training.model.student import Student
from engine.training.objectives import losses
from engine.training.trainer import TrainResult, train

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
PROJECTIONS = (
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
)
Folders = dict[tuple[Kind, str], ModelFolder]
SIDES = [(kind, side) for kind in KINDS for side in ("left", "right")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("decoders")
    return {
        (kind, side): resolve_model(str(build_tiny_decoder(root / f"{kind}-{side}", kind, side)))
        for kind, side in SIDES
    }


@pytest.mark.parametrize(("kind", "side"), SIDES)
def test_training_sees_the_encoders_vectors(
    models: Folders, recipe: TrainingConfig, data: TrainingData, kind: Kind, side: str
) -> None:
    model = models[kind, side]
    student = Student(model, recipe, CPU)
    encoder = TransformerEncoder.load(model, hardware=CPU)
    long = [*data.chunks[:12], " ".join(data.chunks)]
    with torch.no_grad():
        chunks = student.forward(student.chunk_rows(long), student.chunk_prompt_length).numpy()
        queries = student.forward(
            student.query_rows(data.queries[:12]), student.query_prompt_length
        ).numpy()
    np.testing.assert_allclose(
        chunks,
        encoder.encode_chunks(long),
        atol=1e-5,
    )
    np.testing.assert_allclose(
        queries,
        encoder.encode_queries(data.queries[:12]),
        atol=1e-5,
    )
    assert student.query_prompt_length > 5
    lengths = [len(row) for row in student.chunk_rows(long)]
    assert lengths[-1] == min(256, model.max_tokens)
    assert min(lengths) < 20


@pytest.mark.parametrize("kind", KINDS)
def test_lora_is_on_every_projection(
    models: Folders,
    recipe: TrainingConfig,
    kind: Kind,
) -> None:
    names = list(Student(models[kind, "left"], recipe, CPU).masters)
    assert len(names) == 2 * 2 * len(PROJECTIONS)  # A and B, two blocks
    for projection in PROJECTIONS:
        assert sum(f".{projection}." in name for name in names) == 4


@pytest.mark.parametrize("keep_graphs", [True, False])
@pytest.mark.parametrize(("kind", "side"), SIDES)
def test_grad_cache_equals_the_plain_step(
    models: Folders,
    recipe: TrainingConfig,
    data: TrainingData,
    kind: Kind,
    side: str,
    keep_graphs: bool,
) -> None:
    student = moved(
        models[kind, side],
        recipe,
        0.1,
    )
    queries = 6
    rows = student.query_rows(data.queries[:queries]) + student.chunk_rows(data.chunks[:14])

    def contrast(vectors: Tensor) -> Tensor:
        scores = vectors[:queries] @ vectors[queries:].T
        return losses.infonce(scores, torch.arange(queries))

    def forward(micro: MicroBatch) -> Tensor:
        return student.forward([rows[i] for i in micro.places])

    student.training_mode()
    plain_loss = contrast(student.forward(rows))
    plain = torch.autograd.grad(plain_loss, student.working)
    batches = micro_batches([len(row) for row in rows], 100)
    assert len(batches) > 4
    with Workers(2) as workers:
        value, ours = compute_gradients(
            forward,
            student.working,
            batches,
            contrast,
            workers,
            keep_graphs=keep_graphs,
            dropout=False,
        )
    assert value == pytest.approx(plain_loss.item(), abs=1e-5)
    largest = max(part.abs().max().item() for part in plain)
    assert largest > 1e-2
    for mine, theirs in zip(ours, plain, strict=True):
        assert (mine - theirs).abs().max() < 1e-5 * max(1, largest)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_adapter_is_merged_and_encodes(
    models: Folders, recipe: TrainingConfig, data: TrainingData, tmp_path: Path, kind: Kind
) -> None:
    model = models[kind, "left"]
    short = replace(
        recipe,
        steps=6,
        eval_every=0,
        learning_rate=1e-3,
    )
    result = train(Job(model, data, short, CPU, tmp_path / "run"))
    base = TransformerEncoder.load(model, hardware=CPU).encode_chunks(data.chunks[:20])
    for scale in (0.5, 1.0):
        merged = TransformerEncoder.load(
            model, adapter=result.adapter, adapter_scale=scale, hardware=CPU
        )
        found = merged.encode_chunks(data.chunks[:20])
        np.testing.assert_allclose(
            found, by_formula(model, kind, result, data.chunks[:20], scale), atol=2e-5
        )
        assert np.abs(found - base).max() > 1e-3


def by_formula(
    model: ModelFolder, kind: Kind, result: TrainResult, texts: list[str], scale: float
) -> np.ndarray:
    """W + λ · (α / r) · B A in a plain sentence-transformers model."""
    plain = SentenceTransformer(
        str(model.path),
        device="cpu",
        **oracle_options(kind),
    )
    plain.max_seq_length = 256
    weights = dict(plain[0].auto_model.named_parameters())
    tensors = load_file(result.adapter / "adapter_model.safetensors")
    layers = {name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in tensors}
    assert len(layers) == 14
    with torch.no_grad():
        for layer in layers:
            a, b = (tensors[f"base_model.model.{layer}.lora_{part}.weight"] for part in "AB")
            weights[f"{layer}.weight"] += scale * (32 / 16) * (b @ a)
    vectors: np.ndarray = plain.encode(
        texts, batch_size=1, normalize_embeddings=True, show_progress_bar=False
    )
    return vectors
