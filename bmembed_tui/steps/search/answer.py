"""The answer of the user's language model to the query, shown above the hits that it rests on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError
from engine.core.messages import answers
from engine.core.messages.search import Hit
from engine.core.text import format_count

POLL_SECONDS = 0.2


class AnswerPanel(VerticalScroll):
    """Sentences with the numbers of hits; a digit goes to that hit.

    `answer`: the answer that is shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(str(n % 10), f"jump({n})", show=False) for n in range(1, 11)
    ]

    @dataclass
    class Jumped(Message):
        """The user has pressed the number of a hit."""

        hit: Hit

    def __init__(self, ask: Ask) -> None:
        super().__init__(id="search-answer")
        self._ask = ask
        self._hits: tuple[Hit, ...] = ()
        self.display = False
        self.answer = answers.Answer(state="stopped")

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="search-answer-text")

    @work(exclusive=True, group="answer")
    async def begin(self, question: str, hits: Sequence[Hit]) -> None:
        """Have the question answered from the hits, and show the answer as it is written."""
        self._hits = tuple(hits)
        self.display = True
        self.focus()
        self._show(answers.Answer())
        try:
            answer = await self._ask(answers.Ask(question, tuple(hit.chunk_id for hit in hits)))
            self._show(answer)
            while self.is_attached and answer.state == "writing":
                await asyncio.sleep(POLL_SECONDS)
                answer = await self._ask(answers.ReadAnswer())
                self._show(answer)
        except EngineError as error:
            self._show(replace(self.answer, state="failed", problem=error))

    def end(self, *, close: bool = False) -> bool:
        """Stop an answer that is being written, or hide one that is over.

        Returns whether it is hidden. `close`: hide it in either case.
        """
        is_writing = self.answer.state == "writing"
        self.display = is_writing and not close
        if is_writing:
            self._stop()
        return not self.display

    @work(exclusive=True, group="answer")
    async def _stop(self) -> None:
        self._show(replace(self.answer, state="stopped"))
        with suppress(EngineError):
            self._show(await self._ask(answers.ReadAnswer(stop=True)))

    def action_jump(self, number: int) -> None:
        if number <= len(self._hits):
            self.post_message(self.Jumped(self._hits[number - 1]))

    def _show(self, answer: answers.Answer) -> None:
        if self.is_attached:  # else the project was left
            self.answer = answer
            self.query_one(SafeStatic).update(Content("\n").join(_format_rows(answer)))


def _format_rows(answer: answers.Answer) -> Iterator[Content]:
    """Return the sentences with the numbers of their hits, then a note on the state."""
    last = len(answer.sentences) - 1
    for number, sentence in enumerate(answer.sentences):
        marks = sentence.marks
        if number == last and answer.state == "writing":
            marks = ""  # the sentence may be incomplete
        yield Content.assemble(plain(sentence.text), plain(marks, "bold $accent"))
    if answer.problem:
        yield format_error(answer.problem)
    elif not answer.sentences:
        passages = format_count(answer.passages, "hit")
        texts = {
            "writing": f"▶ {answer.model} reads {passages} … Esc stops.",
            "done": "These hits do not answer it.",
        }
        yield plain(texts.get(answer.state, ""), "$text-muted")
    notes = {"cut": "… (queries.answer_tokens allows no more)", "stopped": "Stopped."}
    yield plain(notes.get(answer.state, ""), "$text-muted")
