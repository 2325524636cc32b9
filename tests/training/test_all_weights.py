"""Fine-tuning of all weights: the same steps as a plain loop, and encoders with what it learned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.training import CPU, After, adapter, same_training
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from engine.core.errors import CancelledError, ModelError, SettingsError
from engine.encoders.geometry.spaces import read_geometry
from engine.encoders.hardware import Hardware
from engine.encoders.loading import WHOLE
from engine.encoders.model_folder import ModelFolder
from engine.encoders.saving import save_encoder
from engine.encoders.transformer import TransformerEncoder
from engine.settings.load import validate
from engine.training.batches import BatchSampler
from engine.training.config import PRESETS, TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job
from engine.training.model.student import Student
from engine.training.recipe import config_of
from engine.training.trainer import TrainResult, train

pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Train = Callable[..., TrainResult]
STEPS = 5


@pytest.fixture(scope="module")
def all_weights(recipe: TrainingConfig) -> TrainingConfig:
    return replace(
        recipe,
        weights="all",
        objective="infonce",
        steps=STEPS,
        learning_rate=2e-3,
        eval_every=0,
        checkpoint_every=2,
    )


@pytest.fixture(scope="module")
def trained(
    tiny: ModelFolder,
    data: TrainingData,
    all_weights: TrainingConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainResult:
    return train(Job(tiny, data, all_weights, CPU, tmp_path_factory.mktemp("all-weights")))


def by_a_plain_loop(
    model: ModelFolder, data: TrainingData, config: TrainingConfig
) -> tuple[Any, list[float]]:
    """sentence-transformers' model after InfoNCE with torch's AdamW, one batch a step; and the
    losses.
    """
    sampler = BatchSampler(data, config)
    plain = SentenceTransformer(str(model.path), device="cpu")
    plain.eval()
    used = [value for name, value in plain[0].auto_model.named_parameters() if "pooler" not in name]
    optimizer = torch.optim.AdamW(
        used,
        lr=0.0,
        weight_decay=config.weight_decay,
    )
    rising = round(config.warmup * config.steps)
    losses = []

    def vectors(texts: list[str]) -> torch.Tensor:
        features = plain.tokenize(texts)
        return torch.nn.functional.normalize(plain(features)["sentence_embedding"], dim=1)

    for step in range(config.steps):
        batch = sampler.batch(step)
        queries = vectors([data.queries[place] for place in batch.queries])
        chunks = vectors([data.chunks[place] for place in batch.chunks])
        logits = queries @ chunks.T / config.student_temperature
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.positives))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(used, config.clip_norm)
        left = (config.steps - step) / (config.steps - rising)
        rate = (step + 1) / rising if step < rising else left
        optimizer.param_groups[0]["lr"] = config.learning_rate * rate
        optimizer.step()
        losses.append(loss.item())
    return plain, losses


def test_losses_and_vectors_are_those_of_a_plain_loop(
    tiny: ModelFolder, data: TrainingData, all_weights: TrainingConfig, tmp_path: Path
) -> None:
    reported = After(STEPS)
    result = train(Job(tiny, data, all_weights, CPU, tmp_path, emit=reported.listen))
    plain, losses = by_a_plain_loop(tiny, data, all_weights)
    np.testing.assert_allclose(
        reported.losses(),
        losses,
        atol=2e-5,
    )
    texts = list(data.chunks[:40])
    encoder = TransformerEncoder.load(
        tiny,
        adapter=result.adapter,
        hardware=CPU,
    )
    expected = plain.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(
        encoder.encode_chunks(texts),
        expected,
        atol=1e-4,
    )
    base = TransformerEncoder.load(tiny, hardware=CPU).encode_chunks(texts)
    assert np.abs(base - expected).max() > 0.01


def weights_of(encoder: TransformerEncoder) -> dict[str, np.ndarray]:
    transformer = encoder.text_model.modules[0].auto_model
    return {
        WHOLE + name: value.detach().numpy().copy()
        for name, value in transformer.named_parameters()
    }


def test_the_adapter_holds_every_weight_that_vectors_depend_on(
    tiny: ModelFolder, trained: TrainResult
) -> None:
    held = adapter(trained)
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    assert held.keys() == {name for name in base if "pooler" not in name}
    assert all(np.abs(held[name] - base[name]).max() > 0 for name in held)
    settings = json.loads((trained.adapter / "adapter_config.json").read_text())
    assert settings == {
        "peft_type": "ALL_WEIGHTS",
        "base_model_name_or_path": tiny.name,
        "base_weights_sha256": tiny.weights_sha256,
        "tensors": len(held),
    }


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0])
def test_interpolation_scales_the_difference_to_the_base_model(
    tiny: ModelFolder, trained: TrainResult, scale: float
) -> None:
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    held = adapter(trained)
    loaded = weights_of(
        TransformerEncoder.load(tiny, adapter=trained.adapter, adapter_scale=scale, hardware=CPU)
    )
    for name, value in base.items():
        expected = value + scale * (held.get(name, value) - value)
        np.testing.assert_allclose(
            loaded[name],
            expected,
            atol=1e-7,
        )
    if scale == 1.0:
        assert all(np.array_equal(loaded[name], held[name]) for name in held)


def test_the_exported_model_gives_the_encoders_vectors(
    tiny: ModelFolder, data: TrainingData, trained: TrainResult, tmp_path: Path
) -> None:
    texts = list(data.queries[:20])
    for scale in (0.5, 1.0):
        folder = tmp_path / str(scale)
        save_encoder(
            tiny,
            folder,
            adapter=trained.adapter,
            scale=scale,
            max_tokens=64,
        )
        encoder = TransformerEncoder.load(
            tiny, adapter=trained.adapter, adapter_scale=scale, hardware=CPU, max_tokens=64
        )
        exported = SentenceTransformer(str(folder), device="cpu").encode(texts)
        np.testing.assert_allclose(
            exported,
            encoder.encode_queries(texts),
            atol=1e-5,
        )


def test_a_broken_off_training_ends_as_an_unbroken_one(
    tiny: ModelFolder,
    data: TrainingData,
    all_weights: TrainingConfig,
    trained: TrainResult,
    tmp_path: Path,
) -> None:
    stopping = After(3)
    with fails(CancelledError, "cancelled"):
        train(
            Job(tiny, data, all_weights, CPU, tmp_path, emit=stopping.listen, should_stop=stopping)
        )
    resumed = After(STEPS)
    result = train(Job(tiny, data, all_weights, CPU, tmp_path, emit=resumed.listen))
    assert len(resumed.losses()) == STEPS - 3
    assert same_training(result, trained)


@pytest.mark.parametrize("memory", [0.0, 1e3], ids=["texts twice", "graphs kept"])
def test_how_gradients_are_computed_changes_nothing(
    run: Train, data: TrainingData, all_weights: TrainingConfig, memory: float, tiny: ModelFolder
) -> None:
    one = run(
        all_weights,
        "one",
        micro_batch_tokens=100_000,
        graph_memory_mb=1e3,
    )
    other = run(
        all_weights,
        "other",
        micro_batch_tokens=64,
        graph_memory_mb=memory,
    )
    texts = list(data.chunks[:20])
    vectors = [
        TransformerEncoder.load(tiny, adapter=result.adapter, hardware=CPU).encode_chunks(texts)
        for result in (one, other)
    ]
    np.testing.assert_allclose(
        vectors[0],
        vectors[1],
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"adapter_scope": "queries", "shared_chunks": 40},
        {"similarity": "lorentz"},
        {"objective": "mixed"},
        {"objective": "listnet"},
        {"model_dropout": True},
        {"lora_dropout": 0.1},
    ],
    ids=str,
)
def test_other_recipes_train_all_weights(
    run: Train,
    tiny: ModelFolder,
    data: TrainingData,
    all_weights: TrainingConfig,
    changes: dict[str, Any],
) -> None:
    result = run(
        all_weights,
        **changes,
        eval_every=5,
    )
    held = adapter(result)
    texts = list(data.queries[:10])
    student = Student(
        tiny,
        replace(all_weights, **changes),
        CPU,
    )
    encoder = TransformerEncoder.load(
        tiny,
        adapter=result.adapter,
        hardware=CPU,
    )
    base = TransformerEncoder.load(tiny, hardware=CPU)
    student.load({name: torch.from_numpy(value) for name, value in held.items()})
    student.text_model.geometry = encoder.text_model.geometry
    student.evaluation_mode()
    with torch.no_grad():
        vectors = student.forward(student.query_rows(texts)).numpy()
    np.testing.assert_allclose(
        encoder.encode_queries(texts),
        vectors,
        atol=1e-5,
    )
    assert np.abs(vectors - base.encode_queries(texts)).max() > 0.01


def test_weights_begin_unrounded_where_training_runs_in_bfloat16(
    tiny: ModelFolder, all_weights: TrainingConfig
) -> None:
    student = Student(
        tiny,
        all_weights,
        Hardware("cpu", "bfloat16", 1, ()),
    )
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    assert {tensor.dtype for tensor in student.working} == {torch.bfloat16}
    for name, master in student.masters.items():
        np.testing.assert_array_equal(master.detach().numpy(), base[name])


def test_pre_training_of_all_weights_is_where_fine_tuning_begins(
    tiny: ModelFolder, bare: TrainingData, masked: TrainingConfig, tmp_path: Path
) -> None:
    from engine.training.pretraining.loop import pretrain

    config = replace(
        masked,
        method="PT-FT",
        weights="all",
        pretrain_weights="all",
    )
    start = pretrain(Job(tiny, bare, config, CPU, tmp_path / "pt"))
    unmoved = replace(
        config,
        steps=1,
        learning_rate=1e-9,
        weight_decay=0.0,
    )
    result = train(Job(tiny, bare, unmoved, CPU, tmp_path / "ft", start=start.adapter))
    before = adapter(start)
    after = adapter(result)
    assert before.keys() == after.keys()
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    assert max(np.abs(before[name] - base[name]).max() for name in before) > 1e-3
    for name, value in after.items():
        np.testing.assert_allclose(
            value,
            before[name],
            atol=1e-7,
        )


@pytest.mark.parametrize("preset", ["quick", "standard", "paper", "cl", "mafin", "pipelines"])
def test_the_learning_rate_goes_by_what_is_trained(preset: str) -> None:
    layers = config_of(validate({"training": {"preset": preset, "weights": "adapter"}}))
    assert layers.learning_rate == PRESETS[preset].learning_rate
    weights = config_of(validate({"training": {"preset": preset, "weights": "all"}}))
    assert (weights.weights, weights.learning_rate) == ("all", 2e-5)
    assert (weights.pretrain_weights, weights.pretrain_learning_rate) == ("all", 5e-5)
    chosen = {
        "preset": preset,
        "weights": "all",
        "learning_rate": 3e-4,
    }
    assert config_of(validate({"training": chosen})).learning_rate == 3e-4


@pytest.mark.parametrize("kind", ["mafin", "lambda-mafin"])
def test_a_small_model_beside_a_black_box_is_trained_whole(
    tiny: ModelFolder, data: TrainingData, all_weights: TrainingConfig, tmp_path: Path, kind: Any
) -> None:
    rng = np.random.default_rng(1)
    count = len(data.heldout_queries)
    other = rng.normal(size=(len(data.queries) + count, 16)).astype(np.float32)
    other /= np.linalg.norm(
        other,
        axis=1,
        keepdims=True,
    )
    chunks = rng.normal(size=(len(data.chunks), 16)).astype(np.float32)
    chunks /= np.linalg.norm(
        chunks,
        axis=1,
        keepdims=True,
    )
    beside = replace(
        data, base_queries=other[:-count], base_chunks=chunks, base_heldout=other[-count:]
    )
    config = replace(
        all_weights,
        augmentation=kind,
        objective="plackett_luce",
        in_batch=True,
    )
    result = train(Job(tiny, beside, config, CPU, tmp_path))
    geometry = read_geometry(result.adapter)
    assert (geometry is None) == (kind == "mafin")
    loaded = weights_of(TransformerEncoder.load(tiny, adapter=result.adapter, hardware=CPU))
    held = adapter(result)
    base = weights_of(TransformerEncoder.load(tiny, hardware=CPU))
    for name, value in held.items():
        np.testing.assert_array_equal(loaded[name], value)
        assert np.abs(value - base[name]).max() > 0


def test_lora_layers_are_not_pre_trained_for_fine_tuning_of_all_weights() -> None:
    with fails(SettingsError, "training-settings-conflict"):
        TrainingConfig(
            weights="all",
            method="PT-FT",
            pretrain_weights="adapter",
        )


def test_weights_of_another_model_are_refused(
    tiny: ModelFolder, trained: TrainResult, tmp_path: Path
) -> None:
    other = replace(tiny, weights_sha256="0" * 64)
    with fails(ModelError, "adapter-mismatch"):
        TransformerEncoder.load(
            other,
            adapter=trained.adapter,
            hardware=CPU,
        )
    for name, value in (
        ("nowhere.weight", np.zeros(3, "f")),
        ("embeddings.LayerNorm.weight", np.zeros(3, "f")),
    ):
        copy = tmp_path / name
        copy.mkdir()
        (copy / "adapter_config.json").write_bytes(
            (trained.adapter / "adapter_config.json").read_bytes()
        )
        save_file(adapter(trained) | {WHOLE + name: value}, copy / "adapter_model.safetensors")
        with fails(ModelError, "adapter-mismatch"):
            TransformerEncoder.load(
                tiny,
                adapter=copy,
                hardware=CPU,
            )


def test_missing_weights_are_refused(
    tiny: ModelFolder, trained: TrainResult, tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_bytes(
        (trained.adapter / "adapter_config.json").read_bytes()
    )
    file = trained.adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors.pop(WHOLE + "encoder.layer.1.output.dense.weight")
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    with fails(ModelError, "adapter-mismatch"):
        TransformerEncoder.load(
            tiny,
            adapter=tmp_path,
            hardware=CPU,
        )
