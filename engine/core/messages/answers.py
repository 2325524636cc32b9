"""Answers to questions: what a language model has written, and what was checked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.core.errors import EngineError
from engine.core.messages.wire import Request, RowId


@dataclass(frozen=True, slots=True)
class Sentence:
    """`sources`: the numbers of the passages that it names, from 1.

    `supported`: it names some, and there are all of them. `quote_found`: whether its quote stands
    in one of these; None where it has none.
    """

    text: str
    sources: tuple[int, ...]
    supported: bool
    quote: str = ""
    quote_found: bool | None = None

    @property
    def marks(self) -> str:
        """The numbers, and what is wrong with it."""
        if not self.supported:
            if self.sources:
                problem = "unknown source"
            else:
                problem = "no source"
        else:
            problem = ""
        problem = (
            problem
            or {None: "no quote", False: "quote not in the source", True: ""}[self.quote_found]
        )
        return "".join(f" [{number}]" for number in self.sources) + (
            f"  ⚠ {problem}" if problem else ""
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a language model, `model`, to a question, from the first `passages` that
    were found.

    Unless it is `done`, the last sentence may not be whole: it is being written, the limit of
    tokens has `cut` it, the user has `stopped` it, or it has `failed` by `problem`. One that is
    done and has no sentences says that the passages hold no answer.
    """

    model: str = ""
    passages: int = 0
    sentences: tuple[Sentence, ...] = ()
    state: Literal["writing", "done", "cut", "stopped", "failed"] = "writing"
    problem: EngineError | None = None


@dataclass(frozen=True)
class Ask(Request[Answer], method="ask"):
    """Have a question answered from these chunks, which are numbered from 1.

    A former question is given up.
    """

    question: str
    chunk_ids: tuple[RowId, ...]


@dataclass(frozen=True)
class ReadAnswer(Request[Answer], method="answer"):
    """The answer so far. `stop`: no more of it is wanted."""

    stop: bool = False
