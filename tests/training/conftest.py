from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fixtures.tiny_model import WORDS

from engine.core.environment import prepare
from engine.core.events import Event
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.ranking.sampling import SampledLists
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job

if TYPE_CHECKING:
    from engine.training.trainer import TrainResult

prepare()
CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> ModelFolder:
    return resolve_model(str(tiny_model))


@pytest.fixture(scope="session")
def data(tiny: ModelFolder) -> TrainingData:
    """200 chunks of random words; a query is four words of its chunk; rankings count shared
    words.
    """
    from engine.encoders.transformer import TransformerEncoder

    rng = np.random.default_rng(0)
    chunks = [" ".join(rng.choice(WORDS, rng.integers(4, 16))) for _ in range(200)]
    positives = rng.integers(0, 200, 100)
    queries = [" ".join(rng.choice(chunks[p].split(), 4)) for p in positives]
    overlap = np.array(
        [[len(set(q.split()) & set(c.split())) for c in chunks] for q in queries], dtype=np.float32
    )
    ids = np.argsort(-overlap, axis=1, kind="stable")[:, :50]
    scores = np.take_along_axis(
        overlap,
        ids,
        axis=1,
    )
    base = TransformerEncoder.load(tiny, hardware=CPU)
    return TrainingData(
        queries[:80],
        positives[:80],
        ids[:80],
        scores[:80],
        chunks,
        base.encode_queries(queries[:80]),
        base.encode_chunks(chunks),
        heldout_queries=queries[80:],
        heldout_positives=positives[80:],
        heldout_hard=ids[80:, :5],
        lists=SampledLists(np.arange(80), ids[:80, ::7], scores[:80, ::7]),
    )


@pytest.fixture(scope="session")
def recipe() -> TrainingConfig:
    return TrainingConfig(
        steps=12,
        queries_per_step=4,
        negatives_per_query=1,
        learning_rate=3e-3,
        eval_every=4,
        patience=9,
        heldout_pool=40,
        checkpoint_every=3,
        micro_batch_tokens=256,
    )


@pytest.fixture(scope="session")
def whole(
    tiny: ModelFolder,
    data: TrainingData,
    recipe: TrainingConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> TrainResult:
    """The recipe's training, unbroken."""
    from engine.training.trainer import train

    return train(Job(tiny, data, recipe, CPU, tmp_path_factory.mktemp("whole")))


@pytest.fixture
def every_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.training import meter

    monkeypatch.setattr(meter, "EMIT_SECONDS", 0.0)


@pytest.fixture
def run(
    tiny: ModelFolder,
    data: TrainingData,
    tmp_path: Path,
) -> Callable[..., TrainResult]:
    """Train in `tmp_path/NAME`; keyword arguments change the recipe."""

    def go(
        recipe: TrainingConfig,
        name: str = "run",
        *,
        emit: Callable[[Event], None] = lambda event: None,
        should_stop: Callable[[], bool] = lambda: False,
        should_finish: Callable[[], bool] = lambda: False,
        given: TrainingData = data,
        hardware: Hardware = CPU,
        **changes: Any,
    ) -> TrainResult:
        from engine.training.trainer import train

        changed = replace(recipe, **changes)
        return train(
            Job(tiny, given, changed, hardware, tmp_path / name, emit, should_stop, should_finish)
        )

    return go


@pytest.fixture(scope="session")
def masked(recipe: TrainingConfig) -> TrainingConfig:
    return replace(
        recipe,
        method="PT",
        pretrain_steps=10,
        pretrain_chunks_per_step=8,
        pretrain_learning_rate=5e-3,
        lora_rank=4,
    )


@pytest.fixture(scope="session")
def bare(data: TrainingData) -> TrainingData:
    return replace(
        data,
        heldout_queries=(),
        heldout_positives=np.empty(0, int),
        heldout_hard=None,
    )


@pytest.fixture
def go(
    tiny: ModelFolder,
    data: TrainingData,
    tmp_path: Path,
) -> Callable[..., TrainResult]:
    """Pre-train in `tmp_path/NAME`; keyword arguments change the recipe."""

    def run(
        recipe: TrainingConfig,
        name: str = "run",
        *,
        emit: Callable[[Event], None] = lambda event: None,
        should_stop: Callable[[], bool] = lambda: False,
        should_finish: Callable[[], bool] = lambda: False,
        given: TrainingData = data,
        model: ModelFolder = tiny,
        hardware: Hardware = CPU,
        **changes: Any,
    ) -> TrainResult:
        from engine.training.pretraining.loop import pretrain

        changed = replace(recipe, **changes)
        return pretrain(
            Job(model, given, changed, hardware, tmp_path / name, emit, should_stop, should_finish)
        )

    return run


@pytest.fixture(scope="session")
def with_head(tiny: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The tiny model, saved with a head for masked words."""
    import shutil

    import torch
    from transformers import AutoModelForMaskedLM

    folder = tmp_path_factory.mktemp("head") / "tiny"
    shutil.copytree(tiny.path, folder)
    torch.manual_seed(5)
    whole = AutoModelForMaskedLM.from_pretrained(str(tiny.path))
    with torch.no_grad():
        whole.cls.predictions.bias.copy_(torch.randn(whole.config.vocab_size))
    whole.save_pretrained(folder, safe_serialization=True)
    return resolve_model(str(folder))
