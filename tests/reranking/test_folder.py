"""A cross-encoder in a folder, as search uses it."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.tiny_cross_encoder import build_cross_encoder

from engine.core.environment import prepare
from engine.core.errors import EngineError, ModelError
from engine.project.folder import ProjectFolder
from engine.reranking import cross_encoder
from engine.reranking.chosen import reranker_of
from engine.settings.load import validate

prepare()
QUERY = "heat flow"
PASSAGES = [
    "heat and flow of a wing",
    "the judge",
    "law " * 900,
    "",
    "a \ud800 b",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("cross") / "reranker")


def settings(name: Path | str) -> object:
    return validate(
        {"search": {"reranker": str(name)}, "encoder": {"device": "cpu", "dtype": "float32"}}
    )


def test_the_scores_are_those_of_sentence_transformers(
    folder: Path, project: ProjectFolder
) -> None:
    """Those of more passages than a batch has."""
    from sentence_transformers import CrossEncoder
    from torch import nn

    passages = [*PASSAGES, *(f"Berth {number} is free." for number in range(cross_encoder.BATCH))]
    shutil.copytree(folder, project.path / "own")
    reranker = reranker_of(project, settings("own"))  # type: ignore[arg-type]
    assert reranker is not None
    found = reranker.scores(QUERY, passages)
    oracle = CrossEncoder(
        str(folder),
        device="cpu",
        local_files_only=True,
    )
    pairs = [(QUERY, text.encode("utf-8", "replace").decode()) for text in passages]
    wanted = oracle.predict(pairs, activation_fn=nn.Identity())
    np.testing.assert_allclose(
        found,
        wanted,
        atol=1e-5,
    )
    assert found.dtype == np.float32
    assert len(set(found[: len(PASSAGES)].tolist())) == len(PASSAGES)
    assert reranker.scores(QUERY, []).shape == (0,)


def test_a_batch_that_takes_longer_than_the_time_is_not_waited_for(
    folder: Path, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    reranker = reranker_of(project, settings(folder))  # type: ignore[arg-type]
    assert reranker is not None
    reranker.load()
    right = cross_encoder.CrossEncoder.scores

    def slow(*arguments: object) -> object:
        free.wait(60)
        return right(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(
        cross_encoder.CrossEncoder,
        "scores",
        slow,
    )
    with fails(EngineError, "reranker-slow"):
        reranker.scores(QUERY, PASSAGES, 0.05)
    free.set()
    assert len(reranker.scores(QUERY, PASSAGES, 60.0)) == len(PASSAGES)


def test_a_missing_folder_is_refused_before_loading(folder: Path, project: ProjectFolder) -> None:
    with fails(ModelError, "cross-encoder-invalid"):
        reranker_of(project, settings(project.path / "missing"))  # type: ignore[arg-type]


def test_a_model_that_fails_or_gives_no_numbers_is_an_error(
    folder: Path, project: ProjectFolder, tmp_path: Path
) -> None:
    from safetensors.torch import load, save_file

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    weights = load((copy / "model.safetensors").read_bytes())
    name = next(name for name in weights if name.startswith("classifier"))
    save_file(
        {**weights, name: weights[name] * float("nan")},
        copy / "model.safetensors",
        metadata={"format": "pt"},
    )
    reranker = reranker_of(project, settings(copy))  # type: ignore[arg-type]
    assert reranker is not None
    with fails(EngineError, "scores-not-finite"):
        reranker.scores(QUERY, PASSAGES)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(
        json.dumps(config | {"architectures": ["NoneForSequenceClassification"]})
    )
    broken = reranker_of(project, settings(copy))  # type: ignore[arg-type]
    assert broken is not None
    assert broken.fingerprint != reranker.fingerprint
