"""A budget of queries or hours: what it reaches is told after three chunks, and covers the
corpus wherever it ends.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fixtures.fake_endpoint import Raw, Request, completion, good, serving
from fixtures.pipeline import generate_here
from fixtures.records import build_chunk
from fixtures.shown_numbers import numbers
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError
from engine.core.events import Choice, Progress
from engine.core.records import Chunk
from engine.lexical.analysis import Analyzer
from engine.project.folder import ProjectFolder
from engine.queries.llm.cost import Budget, Pace, RunProgress
from engine.queries.llm.coverage import covering_order, word_vectors
from engine.queries.llm.ledger import answer_files
from engine.queries.sample import sample

Make = Callable[..., ProjectFolder]


def never() -> None:
    pass


def chunk(
    number: int,
    document: int,
    text: str = "",
) -> Chunk:
    digest = f"{number:064x}"
    return build_chunk(
        text,
        number + 1,
        document,
        ordinal=number,
        content_hash=digest,
    )


def groups(sizes: list[int], spread: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors in groups around far apart directions, and the group of each."""
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes), 16, dtype=np.float32)[of] + spread * rng.standard_normal(
        (len(of), 16)
    ).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), of


def test_the_beginning_of_the_order_covers_what_the_first_files_do_not() -> None:
    vectors, of = groups([60, 12, 12, 12])
    chunks = [chunk(number, document=number // 10) for number in range(len(of))]
    order, clusters = covering_order(
        chunks,
        vectors,
        0,
        never,
    )
    assert sorted(order) == list(range(len(of)))
    assert 4 <= clusters <= 10
    assert len(set(of[:clusters].tolist())) == 1, "the first files are all of one kind"
    assert len(set(of[order[:clusters]].tolist())) == 4
    share = np.bincount(of[order[: 2 * clusters]], minlength=4) / (2 * clusters)
    assert share.min() > 0.08


def test_documents_take_turns_within_a_cluster() -> None:
    vectors, _ = groups([2])
    same = np.repeat(
        vectors[:1],
        9,
        axis=0,
    )
    chunks = [chunk(number, document=number // 3) for number in range(9)]
    order, _ = covering_order(
        chunks,
        same,
        0,
        never,
    )
    assert [
        sorted(chunks[place].document_id for place in order[at : at + 3]) for at in (0, 3, 6)
    ] == [[0, 1, 2]] * 3


def test_the_order_is_seeded_and_does_not_depend_on_the_order_of_the_chunks() -> None:
    vectors, _ = groups([5, 5, 5])
    chunks = [chunk(number, document=number) for number in range(15)]
    order, _ = covering_order(
        chunks,
        vectors,
        0,
        never,
    )
    back, _ = covering_order(
        chunks[::-1],
        vectors[::-1],
        0,
        never,
    )
    assert [14 - place for place in back] == order
    assert covering_order(chunks, vectors, 1, never)[0] != order
    twice, _ = covering_order(
        [*chunks, *chunks],
        np.concatenate([vectors, vectors]),
        0,
        never,
    )
    assert twice == order, "a copy is asked about once"
    assert covering_order([], vectors[:0], 0, never) == ([], 0)


def test_word_vectors_by_hand() -> None:
    texts = ["pump pump oil", "pump valve", "valve valve"]
    vectors = word_vectors(
        [chunk(n, n, text) for n, text in enumerate(texts)], Analyzer("none"), never
    ).toarray()
    # (1 + ln tf) (1 + ln((1 + n)/(1 + df))), at unit length
    common = 1 + np.log(4 / 3)
    pump = (1 + np.log(2)) * common
    oil = 1 + np.log(4 / 2)
    assert vectors[0] @ vectors[1] == pytest.approx(pump / np.hypot(pump, oil) / np.sqrt(2))
    assert vectors[0] @ vectors[2] == 0
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert not word_vectors([chunk(0, 0, "…")], Analyzer("none"), never).toarray().any()


def test_a_budget_and_what_it_reaches_by_hand() -> None:
    pace = Pace(
        chunks=3,
        seconds=6.0,
        queries=4,
    )
    assert (pace.seconds_per_chunk, numbers(pace.summary())) == (2.0, [2.0, 1.3, 3])
    assert pace.chunks_within(Budget(8, 0), 100) == 6
    assert pace.chunks_within(Budget(8, 5.0), 100) == 3
    assert pace.chunks_within(Budget(1000, 0), 100) == 100
    assert Pace(3, 6.0, 0).chunks_within(Budget(8, 0), 100) == 100
    assert not Budget(8, 0).is_spent(7, 1e9)
    assert Budget(8, 5).is_spent(0, 5.0)
    assert Budget(8, 5).is_spent(8, 0)


def generated(
    project: ProjectFolder, stop: Callable[[], bool] = lambda: False
) -> dict[str, tuple[str, str]]:
    """The choices that the stage tells."""
    return {
        event.setting: (event.value, event.reason)
        for event in generate_here(project, stop)
        if isinstance(event, Choice)
    }


def pointed(
    make: Make,
    url: str,
    **more: Any,
) -> ProjectFolder:
    return make(**{"backend": "endpoint", "endpoint": url, "prompt": "one-step", **more})


def test_a_run_reports_after_three_chunks_what_all_of_them_take(asked_project: Make) -> None:
    with serving(good) as server:
        choices = generated(pointed(asked_project, server.url, max_queries=13))
    cost, why = choices["cost"]
    assert numbers(cost)[-3:] == [2, 5, 6], "chunks left, within the budget, in all"
    assert numbers(why)[1:] == [3.0, 2, 13], "queries a chunk, chunks measured, queries at most"
    assert "queries.max_queries" in why
    assert numbers(choices["chunks asked"][0]) == [2], "clusters"


def test_what_a_resumed_run_will_take_is_measured_on_its_own_chunks(asked_project: Make) -> None:
    """Two chunks were answered at once before the stop; each of the four that are left takes 0.3
    s.
    """
    stopped = False

    def script(request: Request, number: int) -> Any:
        nonlocal stopped
        if number == 2:
            stopped = True
            return Raw(503)
        if number > 2:
            time.sleep(0.3)
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server.url)
        with pytest.raises(CancelledError):
            generated(project, lambda: stopped)
        stopped = False
        cost, why = generated(project)["cost"]
    assert numbers(cost)[-2:] == [1, 6], "chunks left, in all"
    each, _, measured, *_ = numbers(why)
    assert 0.3 <= each < 1, "the two that took no time are no part of the mean"
    assert measured == 2


def test_how_far_a_run_is_follows_the_answers_as_they_come(asked_project: Make) -> None:
    """The first of six chunks is held back until cost and progress of the others were told."""
    log: list[Any] = []
    release = threading.Event()

    def far(events: list[Any]) -> bool:
        cost = any(isinstance(event, Choice) and event.setting == "cost" for event in events)
        return cost and any(isinstance(event, Progress) and event.done >= 4 for event in events)

    def watch() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not far(list(log)):
            time.sleep(0.05)
        release.set()

    def script(request: Request, number: int) -> Raw:
        wait = release if number == 0 else None
        time.sleep(0.3)
        return Raw(body=json.dumps(completion(good(request, number))).encode(), wait=wait)

    with serving(script) as server:
        project = pointed(
            asked_project,
            server.url,
            concurrency=2,
        )
        watcher = threading.Thread(target=watch)
        watcher.start()
        begun = time.monotonic()
        generate_here(project, told=log)
        watcher.join()
    assert time.monotonic() - begun < 15, "it was told while the first chunk was under way"
    steps = [event for event in log if isinstance(event, Progress) and event.unit == "chunks"]
    assert (steps[0].done, steps[-1].done, steps[-1].total) == (0, 6, 6)
    cost = next(event for event in log if isinstance(event, Choice) and event.setting == "cost")
    assert numbers(cost.value)[-2:] == [3, 6], "chunks left, in all"


def test_what_a_run_before_has_spent_and_given_counts_by_hand() -> None:
    """Of 5 s, 3 are spent on two chunks that took longer than those of this run, 0.5 s each:
    four more, of 100.
    """
    progress = RunProgress(Budget(1000, 5.0))
    for seconds in (1.0, 0.5):
        progress.add(Pace(1, seconds, 2), own=False)
    progress.add(Pace(1, 0.5, 2), own=True)
    assert progress.pace == progress.done, (
        "the first one of this run says nothing of those that follow"
    )
    for _ in range(2):
        progress.add(Pace(1, 0.5, 2), own=True)
    assert (progress.answered, progress.pace) == (3, Pace(2, 1.0, 4))
    progress.add(Pace(1, 0.0, 2), own=False)
    assert progress.reachable_chunks(100) == 6 + 4
    assert progress.reachable_chunks(7) == 7
    fewer = RunProgress(Budget(5, 0))
    fewer.add(Pace(1, 1.0, 2), own=True)
    assert fewer.reachable_chunks(100) == 3, "two queries a chunk, and five are wanted"


def test_hours_end_the_asking_and_what_was_spent_before_counts(asked_project: Make) -> None:
    def slow(request: Request, number: int) -> str:
        time.sleep(0.2)
        return good(request, number)

    with serving(slow) as server:
        project = pointed(
            asked_project,
            server.url,
            max_hours=0.5 / 3600,
        )
        choices = generated(project)
        request_count = len(server.requests)
        assert 1 <= request_count <= 3
        generated(project)
        assert len(server.requests) == request_count, "a second run has no time of its own"
        project.change_settings({"queries.max_hours": 0})
        choices = generated(project)
        assert len(server.requests) == 6
        assert len(set(server.passages())) == 6
    assert "chunks asked" not in choices, "all of them are asked"
    assert len(answer_files(project)) == 1


def test_time_that_brought_no_answer_is_spent(asked_project: Make) -> None:
    """Every request is answered with an error after a tenth of a second: a quarter of one is
    spent on the first chunks.
    """

    def script(*_: object) -> Raw:
        time.sleep(0.1)
        return Raw(503)

    with serving(script) as server:
        project = pointed(
            asked_project,
            server.url,
            max_hours=0.25 / 3600,
        )
        generated(project)
        assert len(server.requests) in (2, 4), "each chunk is tried twice, and there are six"


def test_a_sample_heeds_the_hours(asked_project: Make, tmp_path: Any) -> None:
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(
        backend="gguf", model=str(model), answer_tokens=64, prompt="one-step", max_hours=1e-9
    )
    estimate = sample(project, 3).estimate
    assert (numbers(estimate.basis)[2], numbers(estimate.basis)[-1]) == (
        2,
        1e-9,
    ), "chunks measured, hours at most"
    assert "queries.max_hours" in estimate.basis
    assert estimate.chunks == 1


def test_a_stop_is_heard_while_chunks_are_put_in_order(
    asked_project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def analyse(_self: object, _text: str) -> list[str]:
        nonlocal calls
        calls += 1
        return ["word"]

    monkeypatch.setattr(Analyzer, "analyse", analyse)
    with serving(good) as server:
        project = pointed(
            asked_project,
            server.url,
            max_queries=4,
        )
        with pytest.raises(CancelledError):
            generated(project, lambda: calls == 3)
        assert (calls, server.requests) == (3, [])
