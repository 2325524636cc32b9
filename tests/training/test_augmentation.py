"""A student of a black box: loss and held-out checks are those of the joined vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.tiny_model import build_tiny_model
from fixtures.training import CPU, adapter, same

from engine.core.errors import CancelledError, SettingsError
from engine.encoders.geometry.spaces import OwnLengths, read_geometry
from engine.encoders.kinds.augmented import AugmentedSource
from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.settings.load import validate
from engine.training.batches import Batch, BatchSampler
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.model.augmentation import add_black_box
from engine.training.model.student import Student
from engine.training.objectives.objective import Objective
from engine.training.recipe import config_of
from engine.training.trainer import TrainResult

Run = Callable[..., TrainResult]
MAFIN = {
    "objective": "plackett_luce",
    "in_batch": True,
    "augmentation": "mafin",
    "max_tokens": 64,
}


@pytest.fixture(scope="module")
def black_box(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return resolve_model(
        str(build_tiny_model(tmp_path_factory.mktemp("black box") / "other", seed=1))
    )


@pytest.fixture(scope="module")
def beside(data: TrainingData, black_box: ModelFolder) -> TrainingData:
    encoder = TransformerEncoder.load(
        black_box,
        hardware=CPU,
        max_tokens=64,
    )
    return replace(
        data,
        base_queries=encoder.encode_queries(data.queries),
        base_chunks=encoder.encode_chunks(data.chunks),
        base_heldout=encoder.encode_queries(data.heldout_queries),
        lists=None,
    )


def test_the_loss_is_of_the_summed_similarity() -> None:
    """One query and its two chunks: cosines .6 and 0 by the black box, 0 and .8 by the student,
    by hand.
    """
    data = TrainingData(
        ["q"],
        np.array([0]),
        np.array([[0, 1]]),
        np.ones((1, 2)),
        ["a", "b"],
        base_queries=np.array([[1.0, 0]]),
        base_chunks=np.array([[0.6, 0.8], [0, 1]]),
    )
    batch = Batch(
        np.array([0]),
        np.array([0, 1]),
        np.array([0]),
        np.zeros((1, 2), np.float32),
    )
    config = replace(
        TrainingConfig(),
        student_temperature=0.5,
        label_smoothing=0.2,
        **MAFIN,
    )
    loss = add_black_box(
        data,
        batch,
        Objective(config, None, "cpu").build_loss(batch)[0],
    )
    student = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.8, 0.6, 0]], requires_grad=True)
    logits = np.array([(0.6 + 0) / 2, (0 + 0.8) / 2]) / 0.5
    log_p = logits - np.log(np.exp(logits).sum())
    assert loss(student).item() == pytest.approx(-(0.9 * log_p[0] + 0.1 * log_p[1]), abs=1e-6)


@pytest.mark.parametrize("kind", ["mafin", "lambda-mafin"])
def test_what_is_checked_in_training_is_what_is_served(
    run: Run,
    recipe: TrainingConfig,
    beside: TrainingData,
    black_box: ModelFolder,
    tiny: ModelFolder,
    kind: str,
) -> None:
    config = replace(recipe, **{**MAFIN, "augmentation": kind})
    result = run(config, given=beside)
    assert 0 < result.best_step <= 12
    source = AugmentedSource.of(
        FolderSource.of(black_box, "cpu", "float32"), FolderSource.of(tiny, "cpu", "float32")
    )
    served = source.load(64, result.adapter)
    pool = build_pool(beside, config)
    assert pool is not None
    queries = served.encode_queries([beside.heldout_queries[i] for i in pool.queries])
    chunks = served.encode_chunks([beside.chunks[i] for i in pool.chunks])
    np.testing.assert_allclose(
        np.linalg.norm(chunks, axis=1),
        1,
        atol=1e-5,
    )
    assert measure(queries, chunks, pool.positives).ndcg_at_10 == pytest.approx(
        result.best_ndcg_at_10, abs=1e-3
    )
    geometry = read_geometry(result.adapter)
    if kind == "mafin":
        assert geometry is None
        of_part = measure(
            queries[:, :32],
            chunks[:, :32],
            pool.positives,
        )
        black_box_alone = measure(
            beside.base_heldout[pool.queries],  # type: ignore[index]
            beside.base_chunks[pool.chunks],  # type: ignore[index]
            pool.positives,
        )
        np.testing.assert_array_equal(of_part.ndcg, black_box_alone.ndcg)
    else:
        plain = TransformerEncoder.load(
            tiny,
            hardware=CPU,
            max_tokens=64,
        )
        plain.text_model.geometry = OwnLengths(1.0)
        lengths = np.linalg.norm(
            [plain.forward(plain.text_model.token_rows([one]), 0)[0] for one in beside.chunks],
            axis=1,
        )
        assert lengths.std() > 0.01
        assert isinstance(geometry, OwnLengths)
        assert geometry.small_scale == pytest.approx(1 / lengths.mean(), rel=1e-5)


def test_a_stop_while_lengths_are_matched_is_a_stop(
    run: Run, recipe: TrainingConfig, beside: TrainingData
) -> None:
    config = replace(recipe, **{**MAFIN, "augmentation": "lambda-mafin"})
    with fails(CancelledError, "cancelled"):
        run(
            config,
            given=beside,
            should_stop=lambda: True,
        )


def test_texts_that_run_twice_train_the_same(
    run: Run, recipe: TrainingConfig, beside: TrainingData
) -> None:
    config = replace(
        recipe, **{**MAFIN, "augmentation": "lambda-mafin", "steps": 3, "eval_every": 0}
    )
    kept, twice = (
        adapter(run(config, f"{size}", given=beside, graph_memory_mb=size)) for size in (512.0, 0.0)
    )
    assert same(kept, twice)
    black_box_alone = replace(beside, base_queries=beside.base_queries[::-1])  # type: ignore[index]
    assert not same(
        kept, adapter(run(config, "512.0", given=black_box_alone))
    )  # nothing of another black box is resumed


def test_only_the_small_models_layers_are_trained(
    beside: TrainingData, tiny: ModelFolder, recipe: TrainingConfig
) -> None:
    student = Student(
        tiny,
        replace(recipe, **MAFIN),
        CPU,
    )
    trained = {name for name, one in student.transformer.named_parameters() if one.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    batch = BatchSampler(beside, replace(recipe, **MAFIN)).batch(0)
    rows = student.query_rows([beside.queries[i] for i in batch.queries])
    rows += student.chunk_rows([beside.chunks[i] for i in batch.chunks])
    loss, _ = Objective(replace(recipe, **MAFIN), None, "cpu").build_loss(batch)
    add_black_box(beside, batch, loss)(student.forward(rows)).backward()  # type: ignore[no-untyped-call]
    assert {
        name for name, one in student.transformer.named_parameters() if one.grad is not None
    } == trained


def test_the_recipe_of_a_small_model() -> None:
    small = {"encoder": {"small_model": "all-MiniLM-L6-v2"}}
    assert config_of(validate({"training": {"preset": "mafin"}})).augmentation is None
    found = config_of(validate({**small, "training": {"preset": "mafin"}}))
    assert (found.augmentation, found.adapter_scope, found.objective, found.in_batch) == (
        "mafin",
        "both",
        "plackett_luce",
        True,
    )
    assert (found.epochs, found.patience, found.needs_vectors) == (20, 4, True)
    assert (found.negatives_per_query, found.learning_rate) == (0, 1e-4)
    chosen = config_of(validate({**small, "training": {"augmentation": "lambda-mafin"}}))
    assert (chosen.augmentation, chosen.adapter_scope) == ("lambda-mafin", "both")
    with fails(SettingsError, "training-settings-conflict"):
        config_of(validate({**small, "training": {"adapter_scope": "queries"}}))
