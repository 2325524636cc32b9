"""Hits come at once, and are replaced once they are reranked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from fixtures.found import build_hit

from bmembed_tui.client.engine_client import SupersededError
from bmembed_tui.steps.search.model import Question
from bmembed_tui.steps.search.search_as_you_type import Searching
from bmembed_tui.steps.search.text import format_status
from engine.core.errors import EngineError
from engine.core.messages.search import Found, Reranked, Search

HITS = (build_hit(1), build_hit(2))


@dataclass
class Engine:
    """Answers as `engine serve` does where a reranker is in use.

    `second`: the answer to the reranked search.
    """

    second: Found | Exception
    can_rerank: bool = True
    asked: list[Search] = field(default_factory=list)

    async def __call__(self, request: Any) -> Any:
        if not isinstance(request, Search):
            return True
        self.asked.append(request)
        if request.rerank is False:
            return Found(
                request.query,
                "hybrid",
                HITS,
                can_rerank=self.can_rerank,
            )
        if isinstance(self.second, Exception):
            raise self.second
        return self.second


def look(engine: Engine, mode: str = "hybrid") -> list[tuple[list[int], str]]:
    """The chunks and the status line of every answer in turn."""
    seen: list[tuple[list[int], str]] = []
    tasks: list[asyncio.Task[None]] = []

    def start(work: Callable[[], Coroutine[Any, Any, None]], _group: str) -> None:
        tasks.append(asyncio.ensure_future(work()))

    def changed(mode: str) -> None:
        if mode:
            found = searching.answers[mode]
            seen.append(([hit.chunk_id for hit in found.hits], format_status(mode, searching)))

    searching = Searching(engine, start, changed)
    searching.encoder = "ready"

    async def run() -> None:
        searching.search(Question("q"), mode)
        await asyncio.gather(*tasks)

    asyncio.run(run())
    return seen


def test_hits_are_replaced_by_the_same_in_the_rerankers_order() -> None:
    engine = Engine(Found("q", "hybrid", HITS[::-1], reranked=Reranked(17, 0.9)))
    (first, waiting), (second, done) = look(engine)
    assert (first, second) == ([1, 2], [2, 1])
    assert waiting.endswith("…")
    assert "17" in done
    assert [request.rerank for request in engine.asked] == [False, None]
    assert engine.asked[0].series != engine.asked[1].series


def test_without_a_reranker_in_use_one_answer_is_all() -> None:
    engine = Engine(Found("q", "hybrid", HITS[::-1]), can_rerank=False)
    ((first, line),) = look(engine)
    assert (first, len(engine.asked)) == ([1, 2], 1)
    assert not line.endswith("…")


@pytest.mark.parametrize("error", [EngineError("It failed."), SupersededError("It waits no more.")])
def test_if_the_second_search_fails_the_first_hits_stay(error: Exception) -> None:
    found = look(Engine(error))
    assert [chunks for chunks, _ in found] == [[1, 2], [1, 2]]
    assert [line.endswith("…") for _, line in found] == [True, False]
