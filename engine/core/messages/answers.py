"""Answers to questions: what a language model has written, and what was checked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.errors import EngineError
from engine.core.messages.wire import Request, RowId


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer, and what was checked of it."""

    text: str
    sources: tuple[int, ...]  # Numbers of the passages that it cites, from 1.
    supported: bool  # It cites passages, and all of them exist.
    quote: str = ""  # The words that it quotes from a source; may be empty.
    # Whether a cited passage contains the quote; None without a quote.
    quote_found: bool | None = None

    @property
    def marks(self) -> str:
        """Its sources and, if there is one, its problem: ` [1] [3] ⚠ no quote`."""
        numbers = "".join(f" [{number}]" for number in self.sources)
        problem = self._find_problem()
        return f"{numbers}  ⚠ {problem}" if problem else numbers

    def _find_problem(self) -> str:
        """Return what is wrong with the sentence, such as `no source`; empty if nothing is."""
        if not self.supported:
            return "unknown source" if self.sources else "no source"
        if self.quote_found is None:
            return "no quote"
        return "" if self.quote_found else "quote not in the source"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a language model to a question, finished or not.

    Unless `state` is `done`, the last sentence may be incomplete. A finished answer without
    sentences says that the passages hold no answer.
    """

    model: str = ""
    passages: int = 0  # How many of the passages found the model read, from the first on.
    sentences: tuple[Sentence, ...] = ()
    # `cut`: the token limit ended it. `stopped`: the user ended it.
    state: Literal["writing", "done", "cut", "stopped", "failed"] = "writing"
    problem: EngineError | None = None  # Why it `failed`.


@dataclass(frozen=True)
class Ask(Request[Answer], method="ask"):
    """Answer a question from these chunks, which the answer cites by number, from 1.

    If an earlier question is still being answered, that ends.
    """

    question: str
    chunk_ids: tuple[RowId, ...]


@dataclass(frozen=True)
class ReadAnswer(Request[Answer], method="answer"):
    """Read the answer so far; `stop`: end it."""

    stop: bool = False
