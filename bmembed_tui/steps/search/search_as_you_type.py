"""Asks the engine while the user types: the newest question wins, BM25 answers while the encoder is loading."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from bmembed_tui.client.engine_client import GoneError, SupersededError
from bmembed_tui.client.in_app import with_ways
from bmembed_tui.steps.search.model import ALL, MODES, Answer, Explained, Question
from engine.core.errors import EngineError

Ask = Callable[..., Awaitable[Any]]
Start = Callable[[Callable[[], Coroutine[Any, Any, None]], str], None]
"""Starts some work; that of the same group that still goes on is given up."""
LOADING = "the encoder is loading"


class Searching:
    """What was asked, and the newest answer of each mode. `changed(mode)` is called when one has come.

    `encoder`: `""` while nobody has asked for it, `loading`, or `ready`. Every search is of a series of its mode, so that the
    engine leaves out those that a newer one has overtaken.
    """

    def __init__(self, ask: Ask, start: Start, changed: Callable[[str], None]) -> None:
        self._ask, self._start, self._changed = ask, start, changed
        self.question = Question("")
        self.answers: dict[str, Answer] = {}
        self.pending: set[str] = set()
        self.encoder = ""
        self._bridged = False

    def warm_up(self) -> None:
        """Let the engine load what searches need."""
        if not self.encoder:
            self.encoder = "loading"
            self._start(self._warm_up, "warm")

    async def _warm_up(self) -> None:
        try:
            await self._ask("warm_up")
        except GoneError:
            self.lose()
        except EngineError:
            self.encoder = "ready"  # a search tells the same, where it can be read
        else:
            self.encoder = "ready"
        self._changed("")

    def lose(self) -> None:
        """The engine's process has ended, and what it had loaded is gone. The next question has it loaded again."""
        self.encoder = ""

    def look(self, question: Question, mode: str, *, again: bool = False) -> None:
        """Look for something in a mode, or in all. What was answered already is not asked again unless `again`."""
        if question != self.question:
            self.question = question
            self.answers.clear()
            self.pending.clear()
            self._bridged = self.encoder != "ready"
        if question.empty:
            return
        self.warm_up()
        wanted = set(MODES if mode == ALL else (mode,))
        if self._bridged:
            wanted.add("bm25")
        for one in MODES:
            if one in wanted and (again or not self._known(one)):
                self.pending.add(one)
                self._start(partial(self._search, question, one), f"search-{one}")

    def _known(self, mode: str) -> bool:
        answer = self.answers.get(mode)
        return mode in self.pending or (answer is not None and not answer.error)

    def forget(self) -> None:
        """The index may be another one now: ask again next time."""
        self.question = Question("")
        self.answers.clear()
        self.pending.clear()

    def answer(self, mode: str) -> Answer | None:
        """The newest answer of a mode; that of BM25 to a question that was asked while the encoder was loading."""
        return self.answers.get(mode) or (self.answers.get("bm25") if self._bridged else None)

    async def _search(self, question: Question, mode: str) -> None:
        started = time.perf_counter()
        try:
            found = await self._ask(
                "search", query=question.query, mode=mode, series=f"typed-{mode}", **question.filters.params(),
                facets=question.facets,
            )  # fmt: skip
            answer = Answer.from_answer(question, found, 1000 * (time.perf_counter() - started))
        except SupersededError:
            return
        except EngineError as error:
            told = " ".join(part for part in (error.what, error.why, with_ways(error.to_do)) if part)
            answer = Answer(question, mode, (), error=told)
        if question == self.question:
            self.pending.discard(mode)
            self.answers[mode] = answer
            self._changed(mode)


class Facts:
    """What is asked about hits once the user pauses: whether the adapter moved them, and how they were judged."""

    def __init__(self, ask: Ask, start: Start, changed: Callable[[], None]) -> None:
        self._ask, self._start, self._changed = ask, start, changed
        self.query = ""
        self.explained: Explained | None = None
        self.explain_error = ""
        self.judged: dict[int, bool] = {}
        self.judged_queries: int | None = None
        self._judged_known = False

    def of(self, query: str) -> None:
        """Another query: nothing is known about its hits."""
        if query != self.query:
            self.query, self.explained, self.explain_error = query, None, ""
            self.judged, self._judged_known = {}, False

    def forget(self) -> None:
        """The indexes may be others now."""
        self.query = ""

    def settle(self, query: str, chunk_ids: list[int], *, encoder: bool) -> None:
        """Ask about these hits what is not known yet. `encoder`: whether it can be asked."""
        self.of(query)
        self._start(partial(self._read_judgments, query), "judgments")
        known = self.explained.chunks if self.explained else {}
        wanted = [row for row in chunk_ids if row not in known]
        if encoder and wanted:
            self._start(partial(self._explain, query, wanted), "explain")

    async def _read_judgments(self, query: str) -> None:
        try:
            answer = await self._ask("judgments", query=query)
        except EngineError:
            return  # judging tells what is wrong
        if query == self.query:
            self._take(answer)

    def _take(self, answer: Any) -> None:
        if "chunks" in answer:
            self.judged, self._judged_known = {int(key): bool(value) for key, value in answer["chunks"].items()}, True
        self.judged_queries = answer["judged_queries"]
        self._changed()

    async def _explain(self, query: str, chunk_ids: list[int]) -> None:
        try:
            found = Explained.from_answer(await self._ask("explain", query=query, chunk_ids=chunk_ids))
            error = ""
        except EngineError as told:
            found, error = None, told.what
        if query != self.query:
            return
        self.explain_error = error
        if found is not None:
            before = self.explained.chunks if self.explained else {}
            self.explained = Explained(found.served, {**before, **found.chunks}, found.note)
        self._changed()

    async def mark_of(self, query: str, chunk_id: int) -> bool | None:
        """How a hit of a query was judged; None where it was not. Raises EngineError."""
        if query == self.query and self._judged_known:
            return self.judged.get(chunk_id)
        chunks = (await self._ask("judgments", query=query))["chunks"]
        return bool(chunks[str(chunk_id)]) if str(chunk_id) in chunks else None

    async def judge(self, query: str, chunk_id: int, relevant: bool | None) -> None:
        """Keep a judgment; None takes it back. Raises EngineError, ProjectBusyError during a run among them."""
        answer = await self._ask("judge", query=query, chunk_id=chunk_id, relevant=relevant)
        if query == self.query:
            self.judged.pop(chunk_id, None)
            if relevant is not None:
                self.judged[chunk_id] = relevant
        self._take(answer)
