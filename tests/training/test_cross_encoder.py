"""A cross-encoder that teaches: its folder checked, its scores those of sentence-transformers,
kept on disk.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.tiny_cross_encoder import build_cross_encoder
from safetensors.numpy import load_file

from engine.core.errors import CancelledError, ModelError
from engine.core.events import Event, TrainStep
from engine.encoders.hardware import Hardware
from engine.reranking.folder import CrossEncoderFolder, resolve_cross_encoder
from engine.training.batches import Batch
from engine.training.compute.peers import Peers
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.objectives.pair_scores import PairScorer, pair_scores
from engine.training.trainer import TrainResult

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
T = TypeVar("T")
QUERIES = ["heat flow", "court notice about the law"]
CHUNKS = [
    "heat and flow of a wing",
    "the judge",
    "law " * 90,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("cross") / "reranker")


def scorer(
    folder: Path, caches: Path, workers: Workers, pause: Callable[[], None] = lambda: None
) -> PairScorer:
    return PairScorer(
        resolve_cross_encoder(folder, caches),
        CPU,
        workers,
        256,
        pause,
    )


@pytest.mark.parametrize("labels", [1, 2])
def test_the_scores_are_those_of_sentence_transformers(tmp_path: Path, labels: int) -> None:
    from sentence_transformers import CrossEncoder
    from torch import nn

    made = build_cross_encoder(tmp_path / "made", labels)
    oracle = CrossEncoder(
        str(made),
        device="cpu",
        local_files_only=True,
    )
    logits = oracle.predict([(q, c) for q in QUERIES for c in CHUNKS], activation_fn=nn.Identity())
    wanted = (logits if labels == 1 else logits[:, 1] - logits[:, 0]).reshape(2, 3)
    with Workers(2) as workers:
        found = scorer(made, tmp_path, workers).scores(QUERIES, CHUNKS, None)
    np.testing.assert_allclose(
        found,
        wanted,
        atol=1e-5,
    )
    assert np.ptp(found) > 0.01


def test_a_folder_that_sentence_transformers_saved_is_read(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(folder), device="cpu", local_files_only=True).save_pretrained(
        str(tmp_path / "saved")
    )
    with Workers(1) as workers:
        saved = scorer(tmp_path / "saved", tmp_path / "one", workers).scores(QUERIES, CHUNKS, None)
        np.testing.assert_array_equal(
            saved, scorer(folder, tmp_path / "two", workers).scores(QUERIES, CHUNKS, None)
        )


def test_only_wanted_pairs_are_scored_and_each_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = np.array([[True, False, True], [False, False, True]])
    with Workers(1) as workers:
        first = scorer(folder, tmp_path, workers)
        found = first.scores(QUERIES, CHUNKS, wanted)
        assert len(first.cache) == 3
        assert (found != 0).tolist() == wanted.tolist()
        again = scorer(folder, tmp_path, workers)
        monkeypatch.delattr(Workers, "map")  # what the cache has is not computed again
        np.testing.assert_array_equal(again.scores(QUERIES, CHUNKS, wanted), found)
        np.testing.assert_array_equal(again.scores(QUERIES[1:], CHUNKS[2:], None), found[1:, 2:])
        with pytest.raises(AttributeError):
            again.scores(QUERIES, CHUNKS, None)


def test_the_same_pair_twice_in_a_batch_is_one(folder: Path, tmp_path: Path) -> None:
    with Workers(1) as workers:
        made = scorer(folder, tmp_path, workers)
        found = made.scores(
            [QUERIES[0]] * 2,
            CHUNKS,
            None,
        )
    assert len(made.cache) == 3
    assert found[0].tolist() == found[1].tolist()


def test_only_the_leader_of_several_processes_scores(
    data: TrainingData, folder: Path, tmp_path: Path
) -> None:
    batch = Batch(
        np.array([0, 1]), np.array([3, 7, 9]), np.array([0, 1]), np.zeros((2, 3), np.float32)
    )
    given = replace(data, cross_encoder=resolve_cross_encoder(folder, tmp_path))
    sent: list[Any] = []

    class Process(Peers):
        count = 2

        def __init__(self, rank: int) -> None:
            self.rank = rank

        def decide(self, value: T) -> T:
            sent.append(value)
            return sent[0]  # type: ignore[no-any-return]

    def asked() -> None:
        raise AssertionError("the others do not ask at that moment")

    with Workers(1) as workers:
        leader = pair_scores(given, CPU, workers, 256, asked, Process(0))(batch)
        missing = replace(
            given, cross_encoder=CrossEncoderFolder(folder / "not there", "x", tmp_path / "none")
        )
        follower = pair_scores(missing, CPU, workers, 256, asked, Process(1))(batch)
    assert leader.shape == (2, 3)
    np.testing.assert_array_equal(follower, leader)


@pytest.mark.parametrize(
    "damage",
    [
        "missing",
        "no config",
        "no tokenizer",
        "no weights",
        "pickle",
        "torn",
        "code",
        "embedding model",
        "three classes",
    ],
)
def test_an_unusable_folder_is_refused_before_it_is_loaded(
    folder: Path, tmp_path: Path, damage: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = broken / "model.safetensors"
    config = json.loads((broken / "config.json").read_text())
    if damage == "missing":
        shutil.rmtree(broken)
    elif damage in ("no config", "no tokenizer"):
        (broken / {"no config": "config.json", "no tokenizer": "tokenizer.json"}[damage]).unlink()
    elif damage == "torn":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage in ("no weights", "pickle"):
        weights.rename(broken / ("pytorch_model.bin" if damage == "pickle" else "other"))
    else:
        config |= {
            "code": {"auto_map": {"AutoModel": "x.Y"}},
            "embedding model": {"architectures": ["BertModel"]},
            "three classes": {"id2label": {"0": "a", "1": "b", "2": "c"}},
        }[damage]
        (broken / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError) as caught:
        resolve_cross_encoder(broken, tmp_path)
    assert caught.value.why
    assert caught.value.to_do


def test_weights_that_do_not_load_are_a_model_error(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "config.json").write_text(
        json.dumps({"architectures": ["NoneForSequenceClassification"]})
    )
    with Workers(1) as workers, fails(ModelError, "cross-encoder-invalid"):
        scorer(broken, tmp_path, workers)


def test_the_fingerprint_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    one = resolve_cross_encoder(folder, tmp_path)
    two = resolve_cross_encoder(tmp_path / "copy", tmp_path)
    assert one.fingerprint == two.fingerprint
    assert two.cache.parent == tmp_path
    (tmp_path / "copy" / "tokenizer_config.json").write_text("{}")
    assert resolve_cross_encoder(tmp_path / "copy", tmp_path).fingerprint != one.fingerprint


@pytest.mark.parametrize("objective", ["listnet", "mixed", "plackett_luce"])
def test_it_teaches_and_resumes_to_the_bit(
    run: Callable[..., TrainResult],
    recipe: TrainingConfig,
    data: TrainingData,
    folder: Path,
    tmp_path: Path,
    objective: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engine.training import meter

    monkeypatch.setattr(meter, "EMIT_SECONDS", 0.0)
    changes = {
        "objective": objective,
        "teacher": "cross-encoder",
        "cross_encoder": "x",
        "false_negatives": "drop",
        "queries_per_step": 4,
        "steps": 6,
        "eval_every": 3,
    }
    taught = {
        name: replace(data, cross_encoder=resolve_cross_encoder(folder, tmp_path / name))
        for name in "ab"
    }
    whole = run(
        recipe,
        "whole",
        given=taught["a"],
        **changes,
    )
    reached = [0]

    def listen(event: Event) -> None:
        reached[0] = event.step if isinstance(event, TrainStep) else reached[0]

    with pytest.raises(CancelledError):
        run(
            recipe,
            "broken",
            given=taught["b"],
            emit=listen,
            should_stop=lambda: reached[0] >= 4,
            **changes,
        )
    resumed = run(
        recipe,
        "broken",
        given=taught["b"],
        **changes,
    )
    plain = run(
        recipe,
        "plain",
        **(changes | {"teacher": "auto", "cross_encoder": ""}),
    )
    found = [
        load_file(result.adapter / "adapter_model.safetensors")
        for result in (whole, resumed, plain)
    ]
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    assert whole.history == resumed.history
    assert whole.history[-1]["loss"] != plain.history[-1]["loss"], "another teacher, another loss"


def test_data_of_another_teacher_are_other_data(
    data: TrainingData, folder: Path, tmp_path: Path
) -> None:
    assert (
        replace(data, cross_encoder=resolve_cross_encoder(folder, tmp_path)).digest()
        != data.digest()
    )
