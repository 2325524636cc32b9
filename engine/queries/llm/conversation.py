"""The conversation with a language model about one chunk.

The model sees a chunk with its title and headings, and writes JSON of a given shape, which is read
strictly: nothing is guessed or repaired. An unusable answer is requested once more, complete
entries of a truncated answer are kept, and an item is kept only if its evidence occurs verbatim in
the chunk.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.core.records import Chunk, QueryKind
from engine.queries.filters.evidence import is_distinctive, usable, verbatim
from engine.queries.llm.answer import Answer, Dropped, Item
from engine.queries.llm.chat_model import Outcome, Reply, Request, TooLongError, UnansweredError
from engine.queries.llm.prompts import load_prompt, place_of
from engine.queries.llm.shapes import EVENTS, PAIRS, QUESTIONS, BadAnswerError, Shape
from engine.queries.llm.windows import halves, windows
from engine.queries.rejection import Reason

VERSION = 5  # Increase when the same answers would yield different items.
TRIES = 2
MIN_ROOM = 64  # Tokens for a passage; asking with fewer is pointless.
NOT_SHOWN = "(too long to be shown)"
Entry = dict[str, Any]
WANTED: dict[QueryKind, str] = {
    "question": "a question",
    "keyword": "two to five keywords, as one types them into a search box",
    "title": "the title of a text about it",
    "claim": "a short statement of it in other words",
    "everyday": (
        "everyday words, as typed by somebody who half remembers the matter and does not know its"
        " terms"
    ),
}


class _Entries(NamedTuple):
    """The complete entries of an answer, a truncated last entry, and surplus entries."""

    finished: list[Entry]
    cut: Entry | None = None
    more: Sequence[Entry] = ()

    def left_out(self) -> list[tuple[Entry, Reason]]:
        """Return the entries that yield no items, each with the reason."""
        return [(entry, Reason.MORE) for entry in self.more] + (
            [(self.cut, Reason.CUT)] if self.cut else []
        )


@dataclass
class Asker:
    """How chunks are asked about.

    `two_steps`: list facts first, then ask about them. `kinds`: the kinds of queries, at most
    `per_chunk` queries from a chunk. `limit`: tokens of an answer. `room`: tokens of a passage;
    `second_room`: the same in the second step, whose prompt also lists the facts. `lost`: tokens by
    which the context has since turned out to be smaller.
    """

    two_steps: bool
    kinds: Sequence[QueryKind]
    per_chunk: int
    limit: int
    room: int
    second_room: int
    seed: int
    count: Callable[[str], int]
    lost: Callable[[], int] = lambda: 0

    def talk(self, chunk: Chunk, title: str) -> Generator[Request, Outcome, Answer]:
        """Yield requests, receive the outcome of each, and return the answer about the chunk.

        A chunk that exceeds the room is asked about piece by piece.
        """
        # Counting a long text first may reveal how large the server's context is.
        self.count(chunk.text)
        pieces = windows(chunk.text, max(MIN_ROOM, self.room - self.lost()), self.count)
        share = -(-self.per_chunk // max(1, len(pieces)))
        talk = _Talk(self, chunk, title)
        for number, piece in enumerate(pieces):
            if (most := min(share, self.per_chunk - len(talk.items))) > 0:
                yield from talk.about(piece, number, most)
        return talk.answer()

    def shown_again(self, piece: str) -> str:
        """Return the beginning of a passage that fits into the prompt of the second step."""
        room = self.second_room - self.lost()
        if self.count(piece) <= room:
            return piece
        if room >= MIN_ROOM:
            return windows(piece, room, self.count)[0]
        return NOT_SHOWN

    def halved(self, piece: str) -> list[str]:
        """Return the halves of a passage that was too long for the model although it was counted.

        Later passages are cut to that size at once. The list is empty if the halves would be too
        short.
        """
        found = halves(piece)
        largest = max(self.count(half) for half in found)
        if largest < MIN_ROOM:
            return []
        self.room = min(self.room, largest + self.lost())
        return found


class _Talk:
    def __init__(self, asker: Asker, chunk: Chunk, title: str) -> None:
        self._asker = asker
        self._chunk = chunk
        self._title = title
        digest = hashlib.blake2b(
            f"{asker.seed}:{chunk.content_hash}".encode(), digest_size=4
        ).digest()
        self._seed = int.from_bytes(digest, "big") >> 1
        self.items: list[Item] = []
        self._dropped: list[Dropped] = []
        self._problems: list[UnansweredError] = []
        self._seconds = 0.0

    def answer(self) -> Answer:
        if self._problems and not self.items:
            problem = str(self._problems[0])
        else:
            problem = ""
        lasting = all(error.lasting for error in self._problems)
        refused = bool(problem) and self._problems[0].refused
        return Answer(self.items, self._dropped, problem, lasting, refused, self._seconds)

    def about(
        self, piece: str, number: int, most: int, whole: bool = True
    ) -> Generator[Request, Outcome]:
        """Ask about a passage.

        If the `whole` passage does not fit into the context, ask about its halves, once.
        """
        values = {**place_of(self._title, self._chunk.headings), "passage": piece}
        kinds = _kinds(self._asker.kinds, most, self._seed + number)
        try:
            if self._asker.two_steps:
                yield from self._in_two_steps(values, kinds)
            else:
                yield from self._in_one_step(values, kinds)
        except TooLongError as error:
            if whole:
                found = self._asker.halved(piece)
            else:
                found = []
            if not found:
                self._problems.append(error)
            share = -(-most // max(1, len(found)))
            until = len(self.items) + most
            for half in found:
                if (left := min(share, until - len(self.items))) > 0:
                    yield from self.about(half, number, left, whole=False)
        except UnansweredError as error:
            self._problems.append(error)

    def _in_one_step(
        self, values: dict[str, Any], kinds: Sequence[QueryKind]
    ) -> Generator[Request, Outcome]:
        """Ask for queries of one kind, since a small model handles only one at a time."""
        kind = kinds[0]
        prompt = "everyday" if kind == "everyday" else "one-step"
        pairs = yield from self._entries(
            prompt, PAIRS, {**values, "wanted": WANTED[kind]}, len(kinds)
        )
        self._take([(entry["question"], entry["evidence"], kind) for entry in pairs.finished])
        for pair, reason in pairs.left_out():
            self._lose(pair["question"], pair["evidence"], reason, kind)

    def _in_two_steps(
        self, values: dict[str, Any], kinds: Sequence[QueryKind]
    ) -> Generator[Request, Outcome]:
        events = yield from self._entries("events", EVENTS, values, len(kinds))
        events = _fine_grained_first(events, len(kinds))
        good = [event for event in events.finished if verbatim(event["context"], self._chunk.text)]
        for event in events.finished:
            if event not in good:
                self._lose(event["event"], event["context"], _unfound(event["context"]))
        for event, reason in events.left_out():
            self._lose(event["event"], event["context"], reason)
        if not good:
            return
        values["events"] = "\n".join(_listed(good, kinds))
        values["passage"] = self._asker.shown_again(values["passage"])
        questions = yield from self._entries("questions", QUESTIONS, values, len(good))
        asked: dict[int, str] = {}
        if questions.cut:
            unasked = [(questions.cut, Reason.CUT)]
        else:
            unasked = []
        for entry in (*questions.finished, *questions.more):
            number = entry["event"]
            if not 0 < number <= len(good):
                unasked.append((entry, Reason.NO_FACT))
            elif number in asked:
                unasked.append((entry, Reason.MORE))
            else:
                asked[number] = entry["question"]
        self._take([(asked[n], good[n - 1]["context"], kinds[n - 1]) for n in sorted(asked)])
        for entry, reason in unasked:
            if 0 < entry["event"] <= len(good):
                number = entry["event"]
            else:
                number = 0
            self._lose(entry["question"], good[number - 1]["context"] if number else "", reason)

    def _entries(
        self, prompt: str, shape: Shape, values: dict[str, Any], most: int
    ) -> Generator[Request, Outcome, _Entries]:
        """Return the entries of an answer.

        A bad answer is requested once more; one without a complete entry is requested with fewer
        entries.
        """
        limit = self._asker.limit
        found = _Entries([])
        problem = UnansweredError("")
        for attempt in range(TRIES):
            message = load_prompt(prompt).filled({**values, "count": most})
            found = _Entries([])
            try:
                outcome = yield Request(message, shape, most, limit, self._seed + attempt)
                self._seconds += outcome.seconds
                if isinstance(outcome, UnansweredError):
                    raise outcome
                found = _read(shape, outcome)
                if found.finished or not outcome.cut:
                    return _Entries(found.finished[:most], found.cut, found.finished[most:])
                problem = UnansweredError(
                    f"the answer was longer than {limit} tokens (queries.answer_tokens)",
                    lasting=True,
                )
                most = max(1, most // 2)
            except BadAnswerError as error:
                problem = UnansweredError(str(error), lasting=True)
            except TooLongError:
                raise  # Another attempt would be too long as well.
            except UnansweredError as error:
                problem = error
        if found.cut:
            return found
        raise problem

    def _take(self, made: Sequence[tuple[str, str, QueryKind]]) -> None:
        for question, evidence, kind in made:
            words = verbatim(evidence, self._chunk.text)
            text = usable(question, evidence)
            if words is None:
                self._lose(question, evidence, _unfound(evidence), kind)
            elif text is None:
                self._lose(question, words, Reason.UNUSABLE, kind)
            else:
                self.items.append(Item(text, words, kind))

    def _lose(
        self, question: str, evidence: str, reason: Reason, kind: QueryKind = "question"
    ) -> None:
        self._dropped.append(Dropped(Item(" ".join(question.split()), evidence, kind), reason))


def _fine_grained_first(events: _Entries, most: int) -> _Entries:
    """Return an answer with more than `most` facts so that fine-grained facts are kept first."""
    if not events.more:
        return events
    ordered = sorted(
        [*events.finished, *events.more], key=lambda event: event["type"] != "fine-grained"
    )
    return _Entries(ordered[:most], events.cut, ordered[most:])


def _unfound(evidence: str) -> Reason:
    if is_distinctive(evidence):
        return Reason.NOT_FOUND
    return Reason.SHORT


def _read(shape: Shape, reply: Reply) -> _Entries:
    """Return the entries of a reply, none if it was truncated and cannot be completed.

    Raises BadAnswerError for any other reply that is not of the shape.
    """
    try:
        entries = shape.read(reply.text)
    except BadAnswerError:
        if reply.cut:
            return _Entries([])
        raise
    if reply.cut and entries:
        cut = entries.pop()
    else:
        cut = None
    if cut:
        texts = [cut[field] for field, kind in shape.fields if kind == "text"]
    else:
        texts = []
    return _Entries(entries, cut if any(text.strip() for text in texts) else None)


def _kinds(wanted: Sequence[QueryKind], count: int, seed: int) -> list[QueryKind]:
    """Return the kinds of `count` queries: the `wanted` kinds in turn, in a seeded order.

    Questions are twice as likely to come first. If everyday queries are wanted, they are every
    second query: no keyword search knows what they teach, and the other kinds together teach the
    rest.
    """
    rng = random.Random(seed)
    others = [kind for kind in wanted if kind != "everyday"]
    if not others:
        return ["everyday"] * count
    found: list[QueryKind] = []
    while len(found) < count:
        found += sorted(
            others, key=lambda kind: rng.random() ** (2.0 if kind == "question" else 1.0)
        )
    if len(others) == len(wanted):
        return found[:count]
    everyday_first = rng.random() < 0.5
    mixed: list[QueryKind] = []
    for kind in found:
        mixed += ["everyday", kind] if everyday_first else [kind, "everyday"]
    return mixed[:count]


def _listed(events: list[Entry], kinds: Sequence[QueryKind]) -> Iterator[str]:
    for number, (event, kind) in enumerate(zip(events, kinds, strict=False), 1):
        topic, fact = (" ".join(event[field].split()) for field in ("topic", "event"))
        yield (
            f"{number}. [{topic}; {event['type']}] {fact}\n   Words:"
            f" {' '.join(event['context'].split())}"
        )
        yield f"   Write: {WANTED[kind]}"
