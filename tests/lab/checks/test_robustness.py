"""Perturbed queries measured: the same queries under every condition, with losses against the
clean ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.records import build_chunk

from engine.core.figures import Interval
from engine.encoders.geometry.similarity import COSINE
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import products_of, rank_within
from engine.lab.checks import robustness
from engine.lab.checks.perturbation import CONDITIONS
from engine.lab.checks.robustness import (
    PerturbedQueries,
    RobustnessStudy,
    measure_perturbed,
    perturb_queries,
)
from engine.lab.checks.substitutes import Question, drop_unused_substitutes
from engine.lexical.filenames import FilenameMatch
from engine.settings.schema import Settings

WORDS = [
    "roof",
    "garden",
    "window",
    "kitchen",
    "cellar",
    "chimney",
    "staircase",
    "balcony",
    "corridor",
    "terrace",
]


CHUNKS = [build_chunk(f"{word} repair costs", row) for row, word in enumerate(WORDS * 4, 1)]


def terms(text: str) -> list[str]:
    return [word for word in text.lower().split() if word != "the"]


def query_set(count: int = 40) -> QuerySet:
    judgments = [
        Judgment(f"q{n}", "", "chunk", {n: 1} if n != 3 else {}) for n in range(1, count + 1)
    ]
    matches = [
        FilenameMatch(
            f"the {WORDS[(n - 1) % 10]} number", frozenset({7}) if n == 5 else frozenset()
        )
        for n in range(1, count + 1)
    ]
    return QuerySet("judged queries", "judged", judgments, matches)


CHANGING = tuple(one for one in CONDITIONS if not one.kind.startswith("substitute"))
"""No word of the queries has a synonym among `CHUNKS`."""


def document_of(ids: np.ndarray) -> np.ndarray:
    return ids


def test_the_answer_of_a_whole_document_is_its_chunk_that_shares_most_words() -> None:
    texts = ["roof and garden repair", "the roof leaks", "window repair"]
    chunks = [
        build_chunk(text, number, 1 if number < 3 else 2) for number, text in enumerate(texts, 1)
    ]
    judgment = Judgment(
        "q",
        "leaks in the roof of the garden",
        "document",
        {1: 1},
    )
    source = QuerySet(
        "judged",
        "judged",
        [judgment],
        [FilenameMatch(judgment.text)],
    )
    trial = perturb_queries(source, chunks, terms)
    assert trial is not None
    masked = dict(zip((one.kind for one in trial.conditions), trial.query_set.texts, strict=True))[
        "mask shared"
    ]
    assert masked == "leaks in the [MASK] of the [MASK]", (
        "two words of the first chunk, as many as of the second"
    )


def test_every_usable_query_stands_once_under_every_condition() -> None:
    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
    )
    assert trial is not None
    assert trial.queries == 39  # one has no answer in the corpus
    assert len(trial.query_set.judgments) == len(trial.query_set.texts) == 39 * len(CHANGING)
    assert trial.conditions == CHANGING
    assert trial.query_set.texts[:2] == ["the roof number", "the garden number"]
    keys = [judgment.key for judgment in trial.query_set.judgments]
    assert keys[39:78] == keys[:39]
    named = [place % 39 for place, match in enumerate(trial.query_set.matches) if match.documents]
    assert named == [3] * len(CHANGING)
    assert trial.changed[0] == 0
    masked = trial.query_set.texts[39 * 4 : 39 * 5]  # mask, one word: the one that the answer has
    assert set(masked) == {"the [MASK] number"}


def test_a_large_query_set_is_sampled_and_one_without_answers_gives_no_trial() -> None:
    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
        max_queries=12,
    )
    assert trial is not None
    assert trial.queries == 12
    empty = QuerySet(
        "judged queries", "judged", [Judgment("a", "", "chunk", {})], [FilenameMatch("roof")]
    )
    assert perturb_queries(empty, CHUNKS, terms) is None


def test_losses_are_against_the_same_queries_unchanged() -> None:
    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
    )
    assert trial is not None
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.query_set.judgments])
    fragile = answers.copy()
    fragile[39 * 4 : 39 * 7] = -1  # finds nothing where words are masked
    found = measure_perturbed(
        trial, {"steady": answers, "fragile": fragile}, document_of, samples=500
    )
    assert (found.name, found.kind, found.queries) == ("judged queries", "judged", 39)
    assert [(row.kind, row.words) for row in found.rows] == [
        (one.kind, one.words) for one in CHANGING
    ]
    clean = found.rows[0]
    masked = found.rows[4]
    assert clean.differences == {}
    assert clean.systems["fragile"]["hit@10"].value == 100.0
    assert masked.systems["fragile"]["ndcg@10"].value == 0.0
    assert (
        masked.differences["fragile"]["ndcg@10"].value,
        masked.differences["fragile"]["ndcg@10"].verdict,
    ) == (
        -100.0,
        "worse",
    )
    assert masked.differences["steady"]["ndcg@10"].verdict == "no difference shown"
    assert found.rows[4].systems["steady"]["ndcg@10"] == Interval(100.0, 100.0, 100.0)


def test_other_metrics_drop_as_well_and_each_has_its_verdict() -> None:
    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
    )
    assert trial is not None
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.query_set.judgments])
    second = np.stack(
        [np.full(len(answers), 10_000), answers[:, 0]], axis=1
    )  # the answer is the second hit
    second[: trial.queries] = second[: trial.queries, ::-1]
    found = measure_perturbed(
        trial,
        {"slipping": second},
        document_of,
        samples=500,
    )
    drops = found.rows[1].differences["slipping"]
    assert set(drops) == {"ndcg@10", "hit@1", "hit@4", "hit@10", "mrr@10", "map@10"}
    assert (drops["hit@1"].value, drops["hit@4"].verdict) == (-100.0, "no difference shown")
    assert (drops["mrr@10"].value, drops["mrr@10"].verdict) == (-50.0, "worse")
    assert drops["hit@10"].verdict == "no difference shown"


def test_what_is_lost_of_mrr_by_hand() -> None:
    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
    )
    assert trial is not None
    changed = {
        (one.kind, one.words): number
        for one, number in zip(trial.conditions, trial.changed, strict=True)
    }
    assert [changed["corrupt", words] for words in (1, 2, 3)] == [
        1,
        2,
        2,
    ]  # the third word only joins others
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.query_set.judgments])
    second = np.stack([np.full(len(answers), 10_000), answers[:, 0]], axis=1)
    second[: trial.queries] = second[: trial.queries, ::-1]
    found = measure_perturbed(
        trial, {"halved": second, "lost": np.full_like(answers, -1)}, document_of, samples=500
    )
    assert found.median_words == 3.0
    assert found.rows[0].mrr_losses == {}
    for row in found.rows[1:]:
        assert row.mrr_losses == {"halved": pytest.approx(50)}  # the other had nothing to lose


def test_queries_with_evidence_have_map_multihop_as_well() -> None:
    one = query_set(2)
    held = [
        Judgment(j.key, "", "chunk", j.grades, {n: (0, 1)}, 2)
        for n, j in enumerate(one.judgments, 1)
    ]
    trial = perturb_queries(
        QuerySet("judged queries", "judged", held, one.matches),
        CHUNKS,
        terms,
    )
    assert trial is not None
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.query_set.judgments])
    answers[2:] = -1
    found = measure_perturbed(
        trial,
        {"fragile": answers},
        document_of,
        samples=100,
    )
    # Both strings at rank 1, of two: 2/1 divided by 2.
    assert found.rows[0].systems["fragile"]["map@10 (multihop)"].value == 100.0
    assert found.rows[1].differences["fragile"]["map@10 (multihop)"].value == -100.0


def test_a_language_models_words_come_before_the_documents_own() -> None:
    def ask(asked):
        return [
            {"roof": "top of the house"} if "roof" in question.words else {} for question in asked
        ], "small"

    trial = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
        ask=ask,
    )
    assert trial is not None
    exchanged = trial.query_set.texts[39 * 7 : 39 * 8]
    assert exchanged[0] == "the top of the house number"
    assert not any("top of the house" in text for text in exchanged[1:9])
    assert trial.synonyms.model == "small"
    # Of "roof number", "garden number" …: "roof" alone, four times in 39 queries of two words.
    assert trial.synonyms.share == 100 * 4 / 78
    none = perturb_queries(
        query_set(),
        CHUNKS,
        terms,
        ask=lambda asked: ([], ""),
    )
    assert none is not None
    assert (none.synonyms.model, none.synonyms.share) == ("", 0.0)


def test_a_language_model_is_asked_about_shared_words_first() -> None:
    text = "how often does one inspect and repaint the old chimney of the building"
    judgments = [Judgment("q", text, "chunk", {6: 1})]
    queries = QuerySet(
        "judged queries",
        "judged",
        judgments,
        [FilenameMatch(text)],
    )
    asked: list[Sequence[str]] = []

    def ask(questions):
        asked.extend(question.words for question in questions)
        return [{}], "small"

    assert perturb_queries(queries, CHUNKS, terms, ask=ask) is not None
    assert asked[0][:2] == ["chimney", "how"]
    assert sorted(asked[0]) == sorted(word for word in text.split() if word not in ("the", "of"))


def test_shared_words_are_only_exchanged_for_words_of_the_language_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learnt = {"garden": "yard", "roof": "cover"}
    monkeypatch.setattr(
        robustness,
        "corpus_synonyms",
        lambda *_: learnt,
    )

    def ask(asked):
        return [{"roof": "top"} if "roof" in question.words else {} for question in asked], "small"

    texts = {}
    for name, asker in (("model", ask), ("none", None)):
        trial = perturb_queries(
            query_set(),
            CHUNKS,
            terms,
            ask=asker,
        )
        assert trial is not None
        for place, condition in enumerate(trial.conditions):
            start = place * trial.queries
            texts[name, condition.kind, condition.words] = trial.query_set.texts[start : start + 2]
    shared = ("substitute shared", 0)
    assert texts["model", *shared] == ["the top number", "the garden number"]
    assert texts["none", *shared] == ["the cover number", "the yard number"]
    assert texts["model", "substitute", 1] == ["the top number", "the yard number"]


class CountingRankers:
    """Rankers over `CHUNKS`, all of one vector."""

    def __init__(self) -> None:
        self.chunks = CHUNKS
        self.adapter = Path("adapter")
        self.ids = np.array([one.id for one in CHUNKS], dtype=np.int64)
        self.asked: list[tuple[float, int]] = []
        self.lexical = SimpleNamespace(
            scores_many=lambda texts, ids: np.zeros(ids.shape, dtype=np.float32)
        )

    def find_allowed(self, queries):
        return [None] * len(queries.texts)

    def document_of(self, ids):
        return ids

    def bm25(self, texts, _among):
        return np.tile(self.ids[:10], (len(texts), 1)), np.ones((len(texts), 10), dtype=np.float32)

    def candidate(self, weight):
        vectors = np.array([[1.0, 0.0]] * len(CHUNKS), dtype=np.float32)

        def query_vectors(texts):
            self.asked.append((weight, len(texts)))
            return np.array([[1.0, weight]] * len(texts), dtype=np.float32)

        return SimpleNamespace(
            query_vectors=query_vectors, chunk_vectors=lambda _: vectors, similarity=COSINE
        )

    def nearest(self, queries, chunks, among, similarity):
        return rank_within(
            similarity.query_form(queries), similarity.chunk_form(chunks), self.ids, 10, among
        )

    def scores_of(self, queries, chunks, ids, similarity):
        return products_of(
            similarity.query_form(queries), similarity.chunk_form(chunks), self.ids, ids
        )


@pytest.mark.parametrize(
    ("semantic", "hybrid", "encoded"),
    [
        (0.0, 0.0, [0.0, 1.0]),
        (1.0, 1.0, [0.0, 1.0]),
        (1.0, 0.0, [0.0, 1.0]),
        (0.5, 0.5, [0.0, 0.5, 1.0]),
        (0.5, 0.25, [0.0, 0.5, 0.25, 1.0]),
    ],
)
def test_queries_are_encoded_once_for_each_encoder(semantic, hybrid, encoded) -> None:
    rankers = CountingRankers()
    context = SimpleNamespace(
        settings=Settings(evaluation={"bootstrap_samples": 100, "depth": 10}),
        check_stop=lambda: None,
        store=None,
        need=lambda *_: SimpleNamespace(info=SimpleNamespace(language="none")),
    )
    study = RobustnessStudy(
        context,
        rankers,
        (semantic, hybrid),
        None,
    )
    found = study.measure([query_set()])
    assert [one for one, _ in rankers.asked] == encoded
    assert {count for _, count in rankers.asked} == {39 * len(CHANGING)}
    assert list(found.rows[0].systems) == [
        "bm25",
        "base",
        "adapted",
        "in_use",
        "hybrid base",
        "hybrid in use",
    ]
    # All cosines are equal: the first ten chunks are found, of which the third answers none of the
    # queries that count.
    hits = {name: cells["hit@10"].value for name, cells in found.rows[0].systems.items()}
    assert (hits["base"], hits["adapted"], hits["in_use"]) == pytest.approx([900 / 39] * 3)


@pytest.mark.parametrize(
    ("robustness", "backend", "endpoint", "left"),
    [
        (True, "endpoint", "http://127.0.0.1:1/v1", True),
        (
            True,
            "endpoint",
            "",
            True,
        ),  # the server's address is missing: a mistake, which may be mended
        (True, "extractive", "", False),
        (False, "endpoint", "http://127.0.0.1:1/v1", False),
    ],
)
def test_words_of_a_language_model_stay_while_one_is_asked(
    tmp_path, robustness, backend, endpoint, left
) -> None:
    kept = tmp_path / "cache" / "substitutes-former.jsonl"
    kept.parent.mkdir()
    kept.write_text('{"key": "k", "words": {"secret": "word"}}\n')
    settings = Settings(
        queries={"backend": backend, "endpoint": endpoint, "endpoint_model": "small"},
    )
    snapshot = SimpleNamespace(
        settings=settings,
        project=SimpleNamespace(path=tmp_path),
        store=SimpleNamespace(artifact=lambda _kind: None),
    )
    drop_unused_substitutes(snapshot, robustness=robustness)
    assert kept.exists() == left


def test_keywords_of_a_language_model_are_masked_in_place_of_all_shared_words() -> None:
    asked: list[Question] = []

    def choose(questions: Sequence[Question]) -> list[frozenset[str]]:
        asked.extend(questions)
        return [frozenset({"number"}), *(frozenset[str]() for _ in questions[1:])]

    def masked(trial: PerturbedQueries | None) -> list[str]:
        assert trial is not None
        kinds = [condition.kind for condition in trial.conditions]
        start = kinds.index("mask shared") * trial.queries
        return list(trial.query_set.texts[start : start + trial.queries])

    all_shared = masked(perturb_queries(query_set(), CHUNKS, terms))
    chosen = masked(perturb_queries(query_set(), CHUNKS, terms, choose=choose))
    assert all_shared[0] == "the [MASK] number"
    assert chosen[0] == "the roof [MASK]"
    assert chosen[1:] == all_shared[1:], "all shared words where the model names none"
    assert asked[0].words == ["roof"]
    assert asked[0].passage in {chunk.text for chunk in CHUNKS}
