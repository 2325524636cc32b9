"""Asks the engine while the user types: the newest question wins, keyword search answers while
the encoder keeps one waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from bmembed_tui.client.engine_client import Ask, GoneError, SupersededError
from bmembed_tui.client.in_app import advice, with_ways
from bmembed_tui.steps.search.model import ALL, Answer, Question
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Found, Judge, Mode, ReadJudgments, WarmUp

Start = Callable[[Callable[[], Coroutine[Any, Any, None]], str], None]
"""Starts some work; that of the same group that still goes on is given up."""
SERVER_PAUSE = 0.6  # seconds without a key before a server is sent the query
PATIENCE = 0.5  # seconds without an answer before keyword search stands in


class Searching:
    """The question, and the newest answer of each mode.

    `changed(mode)` is called when one has come.

    `encoder`: `""` before the first search, `loading`, or `ready`. Every search is of a series of
        its mode, so that the
    engine leaves out those that a newer one has overtaken. `rerank_pause`: seconds without a key
    before a server is sent the hits.
    """

    def __init__(self, ask: Ask, start: Start, changed: Callable[[str], None]) -> None:
        self._ask = ask
        self._start = start
        self.changed = changed
        self.question = Question("")
        self.answers: dict[str, Answer] = {}
        self.pending: set[str] = set()
        self.encoder = ""
        self.rerank_pause = 0.0
        self._bridged = False

    def warm_up(self) -> None:
        if not self.encoder:
            self.encoder = "loading"
            self._start(self._warm_up, "warm")

    async def _warm_up(self) -> None:
        try:
            await self._ask(WarmUp())
        except GoneError:
            self.lose()
        except EngineError:
            self.encoder = "ready"  # a search shows the same error
        else:
            self.encoder = "ready"
        self.changed("")

    def lose(self) -> None:
        """The engine's process has ended, and what it had loaded is gone.

        The next question has it loaded again.
        """
        self.encoder = ""

    def look(self, question: Question, mode: str, *, again: bool = False) -> None:
        """Look for something in a mode, or in all.

        What was answered already is kept unless `again`.
        """
        if question != self.question:
            self.question = question
            self.forget()
        if question.empty:
            return
        self.warm_up()
        wanted = set(MODES if mode == ALL else (mode,))
        if self._bridged:
            wanted.add("bm25")
        elif mode != "bm25":
            self._start(partial(self._bridge, question), "bridge")
        for one in MODES:
            if one in wanted and (again or not self._known(one)):
                self._begin(question, one)

    def _begin(self, question: Question, mode: Mode) -> None:
        self.pending.add(mode)
        self._start(partial(self._search, question, mode), f"search-{mode}")

    async def _bridge(self, question: Question) -> None:
        await asyncio.sleep(PATIENCE)
        if question == self.question and self.pending:
            self._bridged = True
            if not self._known("bm25"):
                self._begin(question, "bm25")

    def _known(self, mode: str) -> bool:
        answer = self.answers.get(mode)
        return mode in self.pending or (answer is not None and not answer.error)

    def forget(self) -> None:
        """What was found no longer holds; the question stands."""
        self.answers.clear()
        self.pending.clear()
        self._bridged = self.encoder != "ready"

    def answer(self, mode: str) -> Answer | None:
        """The newest answer of a mode; that of keyword search while the encoder keeps one
        waiting.
        """
        return self.answers.get(mode) or (self.answers.get("bm25") if self._bridged else None)

    async def _search(self, question: Question, mode: Mode) -> None:
        started = time.perf_counter()
        try:
            request = question.filters.request(
                question.query,
                mode,
                facets=question.facets,
                by_document=question.by_document,
                by_date=question.by_date,
            )
            found = await self._ask(request)
            answer = answer_of(question, found, started)
            self._take(question, mode, answer)
            if found.can_rerank:  # these hits stand until they are in order
                await asyncio.sleep(self.rerank_pause)
                again = replace(request, rerank=None, series=f"reranked-{mode}")
                try:
                    answer = answer_of(question, await self._ask(again), started)
                except EngineError:
                    answer = replace(answer, reranking=False)
                self._take(question, mode, answer)
        except SupersededError:
            return
        except EngineError as error:
            text = " ".join(part for part in (error.what, error.why, advice(error)) if part)
            self._take(question, mode, Answer(question, mode, (), error=text))

    def _take(self, question: Question, mode: str, answer: Answer) -> None:
        if question == self.question:
            self.pending.discard(mode)
            self.answers[mode] = answer
            self.changed(mode)


def answer_of(question: Question, found: Found, started: float) -> Answer:
    """What was found, since `started` on the clock."""
    note = with_ways(" ".join(found.notes), found.commands) + (
        " F4 takes the correction." if found.suggestion else ""
    )
    return Answer(
        question,
        found.mode,
        found.hits,
        note,
        time.perf_counter() - started,
        facets=found.facets,
        suggestion=found.suggestion,
        reranked=found.reranked,
        reranking=found.can_rerank,
    )


class Judgments:
    """How hits of the query were judged, read once the user pauses."""

    def __init__(self, ask: Ask, start: Start, changed: Callable[[], None]) -> None:
        self._ask = ask
        self._start = start
        self._changed = changed
        self.query = ""
        self.judged: dict[int, bool] = {}
        self.judged_queries = 0

    def of(self, query: str) -> None:
        if query != self.query:
            self.query = query
            self.judged = {}

    def read(self, query: str) -> None:
        self.of(query)
        self._start(partial(self._read, query), "judgments")

    async def _read(self, query: str) -> None:
        try:
            found = await self._ask(ReadJudgments(query))
        except EngineError:
            return  # judging shows what is wrong
        if query == self.query:
            self.judged = dict(found.chunks)
            self.judged_queries = found.judged_queries
            self._changed()

    async def judge(self, query: str, chunk_id: int, relevant: bool | None) -> None:
        """Keep a judgment; None takes it back.

        Raises EngineError, ProjectBusyError during a run among them.
        """
        self.judged_queries = (await self._ask(Judge(query, chunk_id, relevant))).judged_queries
        if query == self.query:
            self.judged.pop(chunk_id, None)
            if relevant is not None:
                self.judged[chunk_id] = relevant
        self._changed()
