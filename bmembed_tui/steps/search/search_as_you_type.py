"""Searches while the user types: the newest question wins.

Keyword search stands in for modes that take long, as while the encoder is loading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from bmembed_tui.client.engine_client import Ask, GoneError, SupersededError
from bmembed_tui.client.in_app import add_app_keys, format_advice
from bmembed_tui.steps.search.model import ALL, Answer, Question
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Found, Judge, Mode, ReadJudgments, Search, WarmUp

Start = Callable[[Callable[[], Coroutine[Any, Any, None]], str], None]
"""Starts some work in a named group, and cancels what is still in progress in that group."""
DEBOUNCE = 0.15  # seconds without a key before a search
SERVER_PAUSE = 0.6  # seconds without a key before the query is sent to a server
PATIENCE = 0.5  # seconds without an answer before keyword search answers instead


class Searching:
    """The question, and the newest answer of each mode.

    `changed` is called with the mode of each new answer, and with "" once the encoder is loaded.
    `patience`: see `PATIENCE`. The searches of a mode form a series, so that the engine can skip
    those that a newer one has replaced.
    """

    def __init__(
        self, ask: Ask, start: Start, changed: Callable[[str], None], patience: float = PATIENCE
    ) -> None:
        self._ask = ask
        self._start = start
        self.changed = changed
        self._patience = patience
        self.question = Question("")
        self.answers: dict[str, Answer] = {}
        self.pending: set[str] = set()  # the modes that are searching
        self.encoder = ""  # `loading` or `ready`; empty before the first search
        self.rerank_pause = 0.0  # seconds without a key before hits are sent to a server
        self._uses_keywords = False  # whether keyword search answers for modes that take long

    def warm_up(self) -> None:
        """Have the engine load the encoder, unless that was requested before."""
        if not self.encoder:
            self.encoder = "loading"
            self._start(self._warm_up, "warm")

    async def _warm_up(self) -> None:
        """Wait until the encoder is loaded, and report that."""
        try:
            await self._ask(WarmUp())
        except GoneError:
            self.mark_encoder_lost()
        except EngineError:
            self.encoder = "ready"  # a search shows the same error
        else:
            self.encoder = "ready"
        self.changed("")

    def mark_encoder_lost(self) -> None:
        """Note that the engine's process has ended: the next question loads the encoder again."""
        self.encoder = ""

    def search(
        self,
        question: Question,
        mode: str,
        *,
        again: bool = False,
    ) -> None:
        """Search in a mode, or in all modes.

        Existing answers are kept unless `again`.
        """
        if question != self.question:
            self.question = question
            self.forget()
        if question.empty:
            return
        self.warm_up()
        wanted_modes = set(MODES if mode == ALL else (mode,))
        if self._uses_keywords:
            wanted_modes.add("bm25")
        elif mode != "bm25":
            self._start(partial(self._fall_back_to_keywords, question), "fallback")
        for candidate in MODES:
            if candidate in wanted_modes and (again or not self._is_answered(candidate)):
                self._begin(question, candidate)

    def _begin(self, question: Question, mode: Mode) -> None:
        self.pending.add(mode)
        self._start(partial(self._search, question, mode), f"search-{mode}")

    async def _fall_back_to_keywords(self, question: Question) -> None:
        """Search by keywords if the other modes have not answered after a while."""
        await asyncio.sleep(self._patience)
        if question == self.question and self.pending:
            self._uses_keywords = True
            if not self._is_answered("bm25"):
                self._begin(question, "bm25")

    def _is_answered(self, mode: str) -> bool:
        """Return whether a mode has an answer without an error, or will have one."""
        answer = self.answers.get(mode)
        return mode in self.pending or (answer is not None and not answer.error)

    def forget(self) -> None:
        """Drop all answers, but keep the question."""
        self.answers.clear()
        self.pending.clear()
        self._uses_keywords = self.encoder != "ready"

    def answer(self, mode: str) -> Answer | None:
        """Return the newest answer of a mode, or of keyword search while the mode takes long."""
        answer = self.answers.get(mode)
        if answer is None and self._uses_keywords:
            return self.answers.get("bm25")
        return answer

    async def _search(self, question: Question, mode: Mode) -> None:
        """Search in a mode and accept the answer.

        If the project has a reranker, then accept the reranked answer.
        """
        started = time.perf_counter()
        try:
            request = question.filters.build_request(
                question.query,
                mode,
                facets=question.facets,
                by_document=question.by_document,
                by_date=question.by_date,
            )
            response = await self._ask(request)
            answer = build_answer(question, response, started)
            self._accept(question, mode, answer)
            if response.can_rerank:  # these hits are shown until they are reranked
                await asyncio.sleep(self.rerank_pause)
                reranked = await self._rerank(request, answer, started)
                self._accept(question, mode, reranked)
        except SupersededError:
            return
        except EngineError as error:
            text = " ".join(filter(None, (error.what, error.why, format_advice(error))))
            self._accept(
                question,
                mode,
                Answer(question, mode, (), error=text),
            )

    async def _rerank(
        self,
        request: Search,
        answer: Answer,
        started: float,
    ) -> Answer:
        """Return the answer to the same search with the reranker, or `answer` if that fails."""
        # None leaves the choice to the project's settings, which name a reranker.
        reranking = replace(
            request,
            rerank=None,
            series=f"reranked-{request.mode}",
        )
        try:
            response = await self._ask(reranking)
        except EngineError:
            return replace(answer, reranking=False)
        return build_answer(answer.question, response, started)

    def _accept(
        self,
        question: Question,
        mode: str,
        answer: Answer,
    ) -> None:
        """Keep an answer, unless there is another question by now."""
        if question == self.question:
            self.pending.discard(mode)
            self.answers[mode] = answer
            self.changed(mode)


def build_answer(
    question: Question,
    found: Found,
    started: float,
) -> Answer:
    """Return what the step shows of an engine's answer. `started`: by `time.perf_counter`."""
    note = add_app_keys(" ".join(found.notes), found.commands)
    if found.suggestion:
        note += " F4 takes the correction."
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
    """The judgments of the query's hits, read when the user pauses.

    `judged`: by chunk id, whether it is relevant. `judged_queries`: how many queries of the project
    have judgments.
    """

    def __init__(
        self,
        ask: Ask,
        start: Start,
        changed: Callable[[], None],
    ) -> None:
        self._ask = ask
        self._start = start
        self._changed = changed
        self.query = ""
        self.judged: dict[int, bool] = {}
        self.judged_queries = 0

    def select(self, query: str) -> None:
        """Forget the judgments of another query."""
        if query != self.query:
            self.query = query
            self.judged = {}

    def read(self, query: str) -> None:
        self.select(query)
        self._start(partial(self._read, query), "judgments")

    async def _read(self, query: str) -> None:
        """Read the judgments of the query, unless there is another query by now."""
        try:
            answer = await self._ask(ReadJudgments(query))
        except EngineError:
            return  # judging shows the same error
        if query == self.query:
            self.judged = dict(answer.chunks)
            self.judged_queries = answer.judged_queries
            self._changed()

    async def judge(
        self,
        query: str,
        chunk_id: int,
        relevant: bool | None,
    ) -> None:
        """Save a judgment; None takes it back.

        Raises EngineError, such as ProjectBusyError during a run.
        """
        answer = await self._ask(Judge(query, chunk_id, relevant))
        self.judged_queries = answer.judged_queries
        if query == self.query:
            self.judged.pop(chunk_id, None)
            if relevant is not None:
                self.judged[chunk_id] = relevant
        self._changed()
