"""Answers to questions: what a language model has written, and what was checked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.errors import EngineError
from engine.core.messages.wire import Request, RowId


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer.

    `sources`: the numbers, from 1, of the passages that it cites. `supported`: it cites some, and
    all of them exist. `quote_found`: whether its quote stands in one of these; None without a
    quote.
    """

    text: str
    sources: tuple[int, ...]
    supported: bool
    quote: str = ""
    quote_found: bool | None = None

    @property
    def marks(self) -> str:
        """The numbers of its sources, and what is wrong with it."""
        numbers = "".join(f" [{number}]" for number in self.sources)
        problem = self._find_problem()
        return f"{numbers}  ⚠ {problem}" if problem else numbers

    def _find_problem(self) -> str:
        if not self.supported:
            return "unknown source" if self.sources else "no source"
        if self.quote_found is None:
            return "no quote"
        return "" if self.quote_found else "quote not in the source"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a language model to a question, from the first `passages` found.

    Unless `state` is `done`, the last sentence may be incomplete: it is being written, the token
    limit has `cut` it, the user has `stopped` it, or it has `failed` by `problem`. A finished
    answer without sentences says that the passages hold no answer.
    """

    model: str = ""
    passages: int = 0
    sentences: tuple[Sentence, ...] = ()
    state: Literal["writing", "done", "cut", "stopped", "failed"] = "writing"
    problem: EngineError | None = None


@dataclass(frozen=True)
class Ask(Request[Answer], method="ask"):
    """Have a question answered from these chunks, numbered from 1; end a former question."""

    question: str
    chunk_ids: tuple[RowId, ...]


@dataclass(frozen=True)
class ReadAnswer(Request[Answer], method="answer"):
    """Read the answer so far; `stop`: end it."""

    stop: bool = False
