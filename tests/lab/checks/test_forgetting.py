"""General knowledge: the set that ships, how it is measured, and that a broken encoder is found
out.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from engine.core.assets import asset_path
from engine.core.errors import DatasetError
from engine.core.figures import Interval
from engine.lab.checks.forgetting import (
    measure_answers,
    measure_general,
    read_bundled_set,
    read_general_set,
)


def test_the_set_is_sixty_pairs_and_as_many_other_passages_in_twelve_fields() -> None:
    known = read_bundled_set()
    assert (len(known.questions), len(known.passages)) == (60, 120)
    assert (len(set(known.questions)), len(set(known.passages))) == (60, 120)
    assert all(question.endswith("?") for question in known.questions)
    assert all(8 <= len(passage.split()) <= 60 for passage in known.passages)
    rows = [
        json.loads(row)
        for row in asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert set(Counter(row["topic"] for row in rows).values()) == {10}
    right = {row["question"]: row["passage"] for row in rows if row["question"]}
    assert [right[question] for question in known.questions] == list(known.passages[:60])


def test_questions_do_not_repeat_their_passages() -> None:
    known = read_bundled_set()
    for question, passage in zip(known.questions, known.passages, strict=False):
        words = [word for word in question.lower().strip("?").split() if len(word) > 4]
        assert sum(word in passage.lower() for word in words) <= len(words) / 2 + 1, question


def test_answers_by_hand() -> None:
    passages = np.eye(3, dtype=np.float32)
    questions = np.array(
        [[1, 0, 0], [0.8, 0.6, 0], [0.8, 0.6, 0]], np.float32
    )  # right at rank 1, 2 and 3
    found = measure_answers(
        questions,
        passages,
        ({0: 1}, {1: 1}, {2: 1}),
    )
    assert found["hit@1"].tolist() == [1, 0, 0]
    assert found["mrr@10"] == pytest.approx([1, 1 / 2, 1 / 3])


def write_beir(folder, entries, judged):
    """A BEIR folder of `entries` (id → text) and `judged` (query → ids)."""
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": key, "title": f"T {key}", "text": text} for key, text in entries.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": f"q {text}", "text": text}) for text in judged)
    )
    lines = [f"q {text}\t{key}\t1" for text, keys in judged.items() for key in keys]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines))


def test_a_users_own_set_is_read_from_a_beir_folder(tmp_path) -> None:
    entries = {name: f"about {name}" for name in "abcdefgh"}
    write_beir(
        tmp_path / "wiki",
        entries,
        {"where is c": ["c"], "what of x": ["x"], "which of both": ["b", "c", "x"]},
    )
    known = read_general_set(tmp_path / "wiki")
    assert known.name == "wiki"
    assert known.questions == (
        "where is c",
        "which of both",
    )  # what answers the other one is not there
    assert known.passages[:2] == ("T b about b", "T c about c")
    assert sorted(known.passages) == [f"T {name} about {name}" for name in "abcdefgh"]
    assert known.right == ({1: 1}, {0: 1, 1: 1})
    # Passage 1, the first answer, comes sixth; passage 0, the best of the second question, fourth.
    passages = np.eye(8, dtype=np.float32)
    questions = np.array([[1, 2, 9, 8, 7, 6, 5, 0], [3, 2, 9, 8, 7, 0, 0, 0]], np.float32)
    found = measure_answers(
        questions,
        passages,
        known.right,
    )
    assert found["hit@5"].tolist() == [0, 1]
    assert found["mrr@10"] == pytest.approx([1 / 6, 1 / 4])
    few = read_general_set(
        tmp_path / "wiki",
        seed=1,
        max_questions=1,
        max_passages=4,
    )
    assert (len(few.questions), len(few.passages)) == (1, 4)
    assert read_general_set(None) == read_bundled_set()


def test_a_set_that_cannot_be_asked_is_refused(tmp_path) -> None:
    with pytest.raises(DatasetError):
        read_general_set(tmp_path)
    write_beir(
        tmp_path / "other",
        {"a": "text"},
        {"what of x": ["x"]},
    )
    with pytest.raises(DatasetError):
        read_general_set(tmp_path / "other")


def test_what_was_forgotten_is_shown_with_interval_and_verdict() -> None:
    right = np.ones(60)
    half = np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.array([0.5, 1.0, 1.0, 1.5]), "adapted": np.array([1.0, 1.5, 1.5, 2.0])}
    geometry = {"base": {"isotropy I_A": 0.5}}
    found = measure_general(
        read_bundled_set(),
        values,
        geometry,
        distances,
        samples=500,
    )
    assert found is not None
    assert (found.questions, found.passages, found.name, found.geometry) == (60, 120, "", geometry)
    assert found.systems["base"]["hit@1"] == Interval(100.0, 100.0, 100.0)
    loss = found.differences["adapted"]["hit@1"]
    assert (loss.value, loss.verdict) == (-50.0, "worse")
    assert -65 < loss.low < -50 < loss.high < -35
    as_written = dataclasses.asdict(found)
    assert json.loads(json.dumps(as_written)) == as_written
    apart = found.distances
    assert apart is not None
    assert apart["chunks"] == 4
    assert {
        name: (cell["mean"], cell["percentile_50"]) for name, cell in apart["systems"].items()
    } == {"base": (1.0, 1.0), "adapted": (1.5, 1.5)}
    assert 0.6 < np.trapezoid(apart["systems"]["base"]["density"], apart["axis"]) <= 1.001
    assert 0.0 <= min(apart["axis"]) < 0.5 < max(apart["axis"]) == 2.0
    assert measure_general(read_bundled_set(), {"base": values["base"]}, {}, {}) is None
    assert measure_general(read_bundled_set(), {"adapted": values["base"]}, {}, {}) is None


def test_the_bundled_encoder_knows_most_and_noise_on_its_vectors_shows() -> None:
    from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model
    from engine.encoders.transformer import TransformerEncoder

    encoder = TransformerEncoder.load(resolve_model(DEFAULT_MODEL))
    known = read_bundled_set()
    questions = encoder.encode_queries(known.questions)
    passages = encoder.encode_chunks(known.passages)
    base = measure_answers(
        questions,
        passages,
        known.right,
    )
    assert 0.7 < base["hit@1"].mean() < 0.9  # an encoder can become worse, and better
    noise = questions + np.random.default_rng(0).normal(0, 0.08, questions.shape).astype(np.float32)
    values = {"base": base, "adapted": measure_answers(noise, passages, known.right)}
    found = measure_general(
        known,
        values,
        {},
        {},
        samples=1_000,
    )
    assert found is not None
    assert found.differences["adapted"]["mrr@10"].verdict == "worse"
