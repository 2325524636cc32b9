"""The reranker and the gate: one that is right comes into use, one that reverses the order never
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.core.errors import CancelledError, EngineError
from engine.evaluation import reranking
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.reranking import RerankerChoice, RerankerTrial
from engine.lexical.filenames import FilenameMatch
from engine.settings.load import validate

DEPTH = 5
QUERIES = 330
RANKING = np.tile(np.arange(1, DEPTH + 1), (QUERIES, 1))
TEXTS = {chunk: f"passage {chunk}" for chunk in range(1, DEPTH + 1)}
Score = Callable[[str, str], float]


class Given:
    """A reranker that scores by a function, in no time."""

    name = "given"
    fingerprint = "f"
    batch_share = 1.0
    first_batch = 4

    def __init__(self, score: Score) -> None:
        self._score = score
        self.pairs = 0

    def load(self) -> None:
        pass

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> np.ndarray:
        self.pairs += len(passages)
        return np.array([self._score(query, passage) for passage in passages], np.float32)


def right_of(row: int) -> int:
    """The relevant chunk of a query: the first for two thirds of them, else the third."""
    return 3 if row % 3 == 0 else 1


def build_query_set(kind: Any = "judged", queries: int = QUERIES) -> QuerySet:
    judgments = [
        Judgment(str(row), f"q{row}", "chunk", {right_of(row): 1}) for row in range(queries)
    ]
    query_set = QuerySet(
        kind,
        kind,
        judgments,
        [FilenameMatch(judgment.text) for judgment in judgments],
        made="extractive",
    )
    query_set.rankings["now"] = RANKING[:queries]
    return query_set


def choose(
    monkeypatch: pytest.MonkeyPatch,
    score: Score,
    *sets: QuerySet,
    mode: str = "hybrid",
    stop: bool = False,
    max_queries: int = 600,
) -> RerankerChoice:
    settings = validate(
        {
            "search": {"reranker": "x", "rerank_seconds": 1.5},
            "evaluation": {"bootstrap_samples": 500},
        }
    )
    reranker = Given(score)
    monkeypatch.setattr(
        reranking,
        "reranker_of",
        lambda *_: reranker,
    )

    def check() -> None:
        if stop:
            raise CancelledError("The run was cancelled.")

    warned: list[str] = []
    context: Any = SimpleNamespace(
        settings=settings,
        project=None,
        check_stop=check,
        progress=lambda *_: None,
        warn=warned.append,
    )
    trial = RerankerTrial(
        context,
        mode,
        lambda query_set: query_set.rankings["now"],
        lambda _: TEXTS,
        lambda ids: ids,
        max_queries,
    )
    choice = trial.choose(sets or (build_query_set(),))
    assert choice is not None
    return choice


def perfect(query: str, passage: str) -> float:
    return float(passage == TEXTS[right_of(int(query[1:]))])


def reverse(_query: str, passage: str) -> float:
    return float(passage.split()[1])


def test_a_perfect_one_comes_into_use(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(monkeypatch, perfect)
    assert choice.in_use
    assert choice.decision is not None
    (result,) = choice.decision.candidates
    # a third of the right chunks comes first in place of third: nDCG 1 in place of 1/2
    assert result.difference is not None
    assert result.difference.value == pytest.approx(100 * 0.5 / 3)
    assert (result.outcome, result.in_use) == ("proved", True)
    assert (choice.decision.rung, choice.passages, choice.fingerprint) == ("judged", 100, "f")
    assert choice.seconds == 1.5


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_one_that_reverses_the_order_never_does(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    choice = choose(
        monkeypatch,
        reverse,
        mode=mode,
    )
    assert not choice.in_use
    assert choice.decision is not None
    assert choice.decision.candidates[0].outcome == "excluded"
    assert choice.decision.mode == mode
    assert choice.reason


def test_one_that_changes_nothing_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not choose(monkeypatch, lambda *_: 1.0).in_use


@pytest.mark.parametrize("sets", [(build_query_set("synthetic"),), (build_query_set(queries=8),)])
def test_extractive_or_few_queries_cannot_put_it_into_use(
    monkeypatch: pytest.MonkeyPatch, sets: tuple[QuerySet, ...]
) -> None:
    assert not choose(monkeypatch, perfect, *sets).in_use


def test_where_semantic_search_is_the_default_that_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = choose(
        monkeypatch,
        perfect,
        mode="semantic",
    )
    assert (choice.in_use, choice.mode) == (True, "semantic")


def test_titles_decide_where_judged_questions_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(
        monkeypatch,
        perfect,
        build_query_set("document"),
        build_query_set(queries=8),
    )
    assert choice.decision is not None
    assert (choice.in_use, choice.decision.rung) == (True, "document")


def test_no_more_queries_are_measured_than_take_some_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = choose(
        monkeypatch,
        perfect,
        max_queries=60,
    )
    assert choice.decision is not None
    assert choice.decision.queries == 60


def test_one_that_fails_is_not_in_use_and_does_not_stop_the_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: str) -> float:
        raise EngineError("It died.", code="endpoint-no-answer")

    choice = choose(monkeypatch, fail)
    assert (choice.in_use, choice.decision) == (False, None)
    assert choice.reason


def test_a_cancelled_run_ends_within(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CancelledError):
        choose(monkeypatch, perfect, stop=True)
