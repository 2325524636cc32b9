"""Questions by a language model: asked first for facts with their evidence and then for questions, or for both at once.

Wherever the model runs, its answers are read strictly, asked for once more when they cannot be used, and an item is only
kept when its evidence stands verbatim in the chunk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from engine.errors import SettingsError
from engine.queries.backend import Answer, Dropped, Item
from engine.queries.evidence import usable, verbatim
from engine.queries.prompts import Message, load_prompt, place_of
from engine.queries.shapes import EVENTS, PAIRS, QUESTIONS, BadAnswerError, Shape
from engine.queries.windows import windows
from engine.records import Chunk

VERSION = 1  # raised when the same answers would give other items
TRIES = 2
LEAST_ROOM = 64  # tokens for a passage, below which asking is pointless
NOT_FOUND, UNUSABLE = "evidence not in the chunk", "not a usable question"
Entry = dict[str, Any]
_FENCE = re.compile("={4,}")  # the prompts' own lines around a passage


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text; `cut` when it was ended by its limit."""

    text: str
    cut: bool = False


class UnansweredError(Exception):
    """No answer to this message; its text says why. `lasting` as in `Answer`."""

    def __init__(self, reason: str, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting


class ChatModel(Protocol):
    """A language model in a file or on a server."""

    @property
    def name(self) -> str:
        """gguf or endpoint."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def context(self) -> int:
        """Tokens that it reads and writes at once."""

    def count(self, text: str) -> int:
        """Tokens of a text, at most a few too many."""

    def complete(self, message: Message, shape: Shape, most: int, limit: int, seed: int) -> Reply:
        """Answer in `shape` with at most `most` entries and `limit` tokens. Raises UnansweredError, CancelledError, and
        another EngineError where no message at all could be answered."""

    def close(self) -> None:
        """Let go of it."""


class Prompted:
    """The backends `gguf` and `endpoint`: a model, asked in one or two steps."""

    def __init__(self, model: ChatModel, prompt: str, per_chunk: int, answer_tokens: int, seed: int = 0) -> None:
        self._chat, self._two, self._most = model, prompt == "two-step", per_chunk
        self._limit, self._seed = answer_tokens, seed
        self._room = self._space()
        self._tokens = 0

    @property
    def name(self) -> str:
        """gguf or endpoint."""
        return self._chat.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._chat.model

    def close(self) -> None:
        """Let go of the model."""
        self._chat.close()

    def ask(self, chunk: Chunk, title: str) -> Answer:
        """At most `per_chunk` questions; a chunk longer than the context is asked piece by piece."""
        pieces = windows(chunk.text, self._room, self._chat.count)
        share = -(-self._most // max(1, len(pieces)))
        items: list[Item] = []
        dropped: list[Dropped] = []
        problems: list[UnansweredError] = []
        self._tokens = 0
        for piece in pieces:
            if len(items) >= self._most:
                break
            try:
                found, lost = self._piece(chunk, piece, title, min(share, self._most - len(items)))
            except UnansweredError as error:
                problems.append(error)
                continue
            items, dropped = items + found, dropped + lost
        problem = str(problems[0]) if problems and not items else ""
        return Answer(items, dropped, problem, all(error.lasting for error in problems), self._tokens)

    def _piece(self, chunk: Chunk, piece: str, title: str, most: int) -> tuple[list[Item], list[Dropped]]:
        values = {**place_of(title, chunk.headings), "passage": _FENCE.sub(_spaced, piece)}
        seed = _seed(self._seed, chunk.content_hash)
        if not self._two:
            pairs = self._entries("one-step", PAIRS, values, most, seed)
            return _sorted_out(chunk, [(entry["question"], entry["evidence"]) for entry in pairs])
        events = self._entries("events", EVENTS, values, most, seed)
        good = [event for event in events if verbatim(event["context"], chunk.text)]
        lost = [
            Dropped(Item(" ".join(event["event"].split()), event["context"]), NOT_FOUND)
            for event in events
            if event not in good
        ]
        if not good:
            return [], lost
        values["events"] = "\n".join(_listed(good))
        questions = self._entries("questions", QUESTIONS, values, len(good), seed)
        asked = {entry["event"]: entry["question"] for entry in reversed(questions) if entry["event"] <= len(good)}
        found, rejected = _sorted_out(chunk, [(asked[n], good[n - 1]["context"]) for n in sorted(asked) if n > 0])
        return found, lost + rejected

    def _entries(self, prompt: str, shape: Shape, values: dict[str, Any], most: int, seed: int) -> list[Entry]:
        """The entries of an answer. A bad one is asked for once more, a cut one with fewer entries."""
        reason, lasting = "", True
        for attempt in range(TRIES):
            message = load_prompt(prompt).filled({**values, "count": most})
            try:
                reply = self._chat.complete(message, shape, most, self._limit, seed + attempt)
                self._tokens += self._chat.count(reply.text)
                if not reply.cut:
                    return shape.read(reply.text)[:most]
                reason, lasting = f"the answer was longer than {self._limit} tokens (queries.answer_tokens)", True
                most = max(1, most // 2)
            except BadAnswerError as error:
                reason, lasting = str(error), True
            except UnansweredError as error:
                reason, lasting = str(error), error.lasting
        raise UnansweredError(reason, lasting)

    def _space(self) -> int:
        """Tokens for the passage, beside the prompt and the answer. Raises SettingsError where there are too few."""
        empty = {**place_of("x" * 200, ("x" * 300,)), "passage": "", "events": "", "count": self._most}
        names = ("events", "questions") if self._two else ("one-step",)
        lengths = []
        for name in names:
            message = load_prompt(name).filled(empty)
            lengths.append(self._chat.count(message.system) + self._chat.count(message.user) + 64)
        if self._two and self._chat.context - lengths[1] - 2 * self._limit < 0:
            raise _too_small(self._chat.context, lengths[1] + 2 * self._limit)
        if (room := self._chat.context - lengths[0] - self._limit) < LEAST_ROOM:
            raise _too_small(self._chat.context, lengths[0] + self._limit + LEAST_ROOM)
        return room


def _spaced(found: re.Match[str]) -> str:
    return " ".join(found[0])


def _listed(events: list[Entry]) -> Iterator[str]:
    for number, event in enumerate(events, 1):
        topic, fact = (" ".join(event[field].split()) for field in ("topic", "event"))
        yield f"{number}. [{topic}; {event['type']}] {fact}\n   Words: {' '.join(event['context'].split())}"


def _sorted_out(chunk: Chunk, pairs: list[tuple[str, str]]) -> tuple[list[Item], list[Dropped]]:
    items, dropped = [], []
    for question, evidence in pairs:
        words = verbatim(evidence, chunk.text)
        text = usable(question, evidence)
        if words is None:
            dropped.append(Dropped(Item(" ".join(question.split()), evidence), NOT_FOUND))
        elif text is None:
            dropped.append(Dropped(Item(" ".join(question.split()), words), UNUSABLE))
        else:
            items.append(Item(text, words))
    return items, dropped


def _seed(seed: int, content_hash: str) -> int:
    digest = hashlib.blake2b(f"{seed}:{content_hash}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _too_small(context: int, wanted: int) -> SettingsError:
    return SettingsError(
        f"A context of {context} tokens is too small for the prompt and its answers.",
        f"They need {wanted} tokens with the present queries.answer_tokens.",
        "Raise queries.context_tokens, lower queries.answer_tokens, or set queries.prompt to one-step.",
    )
