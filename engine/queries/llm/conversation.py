"""The conversation with a language model about one chunk.

The model sees a chunk with its title and headings, and writes JSON of a given shape, which is read
strictly: nothing is guessed or repaired. An unusable answer is requested once more, complete
entries of a truncated answer are kept, and an item is kept only if its evidence occurs verbatim in
the chunk.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.core.records import Chunk, QueryKind
from engine.llm.prompts import load_prompt, place_of
from engine.llm.requests import Reply, Request, TooLongError, UnansweredError
from engine.llm.shapes import EVENTS, PAIRS, QUESTIONS, BadAnswerError, Event, Shape
from engine.queries.filters.evidence import clean_question, find_verbatim, is_distinctive
from engine.queries.llm.answer import Answer, Dropped, Item
from engine.queries.llm.windows import halves, split_to_fit
from engine.queries.rejection import Reason
from engine.queries.rules.extractive import shuffle_kinds

VERSION = 5  # Increase when the same answers would yield different items.
TRIES = 2
MIN_ROOM = 64  # Tokens for a passage; asking with fewer is pointless.
NOT_SHOWN = "(too long to be shown)"
Complete = Callable[[Request], Reply]
"""Answers a request, or raises UnansweredError."""
# What a prompt asks the model to write, by kind of query.
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
    """The complete entries of an answer, a truncated last entry, and entries beyond the limit."""

    finished: list[Any]
    cut: Any = None
    surplus: Sequence[Any] = ()

    def left_out(self) -> list[tuple[Any, Reason]]:
        """Return the entries that yield no items, each with the reason."""
        entries = [(entry, Reason.MORE) for entry in self.surplus]
        if self.cut is not None:
            entries.append((self.cut, Reason.CUT))
        return entries


@dataclass
class Asker:
    """Asks a language model about chunks."""

    two_steps: bool
    """Whether the model lists facts first, and then writes a question about each."""
    kinds: Sequence[QueryKind]
    per_chunk: int
    """Maximum number of queries about a chunk."""
    answer_tokens: int
    """Maximum length of an answer."""
    room: int
    """Number of tokens that the prompt leaves for a passage."""
    second_room: int
    """The same in the second of two steps, whose prompt also lists the facts."""
    seed: int
    count_tokens: Callable[[str], int]
    """Returns the number of tokens of a text."""
    lost_tokens: Callable[[], int] = lambda: 0
    """Returns by how many tokens the context turned out to be smaller than `room` assumes."""

    def answer(
        self,
        chunk: Chunk,
        title: str,
        complete: Complete,
    ) -> Answer:
        """Return the answer about a chunk.

        `complete` answers a request, and raises UnansweredError. A chunk that exceeds the room is
        asked about piece by piece.
        """
        # Counting a long text first may reveal how large the server's context is.
        self.count_tokens(chunk.text)
        room = max(MIN_ROOM, self.room - self.lost_tokens())
        pieces = split_to_fit(
            chunk.text,
            room,
            self.count_tokens,
        )
        per_piece = math.ceil(self.per_chunk / max(1, len(pieces)))
        conversation = _ChunkConversation(
            self,
            chunk,
            title,
            complete,
        )
        for number, piece in enumerate(pieces):
            wanted = min(per_piece, self.per_chunk - len(conversation.items))
            if wanted > 0:
                conversation.ask_about(piece, number, wanted)
        return conversation.answer()

    def shorten_for_second_step(self, piece: str) -> str:
        """Return the beginning of a passage that fits into the prompt of the second step."""
        room = self.second_room - self.lost_tokens()
        if self.count_tokens(piece) <= room:
            return piece
        if room >= MIN_ROOM:
            return split_to_fit(piece, room, self.count_tokens)[0]
        return NOT_SHOWN

    def halve(self, piece: str) -> list[str]:
        """Return the halves of a passage that was too long for the model although it was counted.

        Later passages are cut to that size at once. Returns no halves if they would be too short.
        """
        pieces = halves(piece)
        largest = max(self.count_tokens(half) for half in pieces)
        if largest < MIN_ROOM:
            return []
        self.room = min(self.room, largest + self.lost_tokens())
        return pieces


class _ChunkConversation:
    """The conversation about one chunk. `items`: the queries that it has yielded so far."""

    def __init__(
        self,
        asker: Asker,
        chunk: Chunk,
        title: str,
        complete: Complete,
    ) -> None:
        self._asker = asker
        self._chunk = chunk
        self._title = title
        self._complete = complete
        seed_and_chunk = f"{asker.seed}:{chunk.content_hash}"
        digest = hashlib.blake2b(seed_and_chunk.encode(), digest_size=4).digest()
        self._seed = int.from_bytes(digest, "big") >> 1  # 31 bits, never negative
        self.items: list[Item] = []
        self._dropped: list[Dropped] = []
        self._problems: list[UnansweredError] = []

    def answer(self) -> Answer:
        """Return what the model has written so far."""
        problem = ""
        refused = False
        if self._problems and not self.items:
            first, *_ = self._problems
            problem = str(first)
            refused = bool(problem) and first.refused
        lasting = all(error.lasting for error in self._problems)
        return Answer(
            self.items,
            self._dropped,
            problem,
            lasting,
            refused,
        )

    def ask_about(
        self,
        piece: str,
        number: int,
        max_queries: int,
        can_halve: bool = True,
    ) -> None:
        """Ask for queries about a piece of the chunk, and keep the queries or the problem.

        `number`: the piece's number in the chunk. A piece that does not fit into the context is
        halved if `can_halve` is set; the halves are not halved again.
        """
        values = {**place_of(self._title, self._chunk.headings), "passage": piece}
        kinds = _choose_kinds(
            self._asker.kinds,
            max_queries,
            self._seed + number,
        )
        try:
            if self._asker.two_steps:
                self._ask_in_two_steps(values, kinds)
            else:
                self._ask_in_one_step(values, kinds)
        except TooLongError as error:
            pieces = self._asker.halve(piece) if can_halve else []
            if not pieces:
                self._problems.append(error)
            per_half = math.ceil(max_queries / max(1, len(pieces)))
            total = len(self.items) + max_queries
            for half in pieces:
                wanted = min(per_half, total - len(self.items))
                if wanted > 0:
                    self.ask_about(
                        half,
                        number,
                        wanted,
                        can_halve=False,
                    )
        except UnansweredError as error:
            self._problems.append(error)

    def _ask_in_one_step(self, values: dict[str, Any], kinds: Sequence[QueryKind]) -> None:
        """Ask for queries of one kind, since a small model handles only one at a time."""
        kind = kinds[0]
        prompt = "everyday" if kind == "everyday" else "one-step"
        values["wanted"] = WANTED[kind]
        pairs = self._ask(
            prompt,
            PAIRS,
            values,
            len(kinds),
        )
        for pair in pairs.finished:
            self._take(
                pair.question,
                pair.evidence,
                kind,
            )
        for pair, reason in pairs.left_out():
            self._drop(
                pair.question,
                pair.evidence,
                reason,
                kind,
            )

    def _ask_in_two_steps(self, values: dict[str, Any], kinds: Sequence[QueryKind]) -> None:
        """Ask for events, then for a question about each event whose words the chunk has.

        Of several questions about an event, the first counts.
        """
        events = self._find_events(values, len(kinds))
        if not events:
            return
        values["events"] = "\n".join(_list_events(events, kinds))
        values["passage"] = self._asker.shorten_for_second_step(values["passage"])
        questions = self._ask(
            "questions",
            QUESTIONS,
            values,
            len(events),
        )
        # The model numbers events from 1.
        evidence = {number: event.context for number, event in enumerate(events, 1)}
        first_questions: dict[int, str] = {}
        dropped = [(questions.cut, Reason.CUT)] if questions.cut else []
        for entry in (*questions.finished, *questions.surplus):
            if entry.event not in evidence:
                dropped.append((entry, Reason.NO_FACT))
            elif entry.event in first_questions:
                dropped.append((entry, Reason.MORE))
            else:
                first_questions[entry.event] = entry.question
        for number, question in sorted(first_questions.items()):
            self._take(
                question,
                evidence[number],
                kinds[number - 1],
            )
        for entry, reason in dropped:
            self._drop(
                entry.question,
                evidence.get(entry.event, ""),
                reason,
            )

    def _find_events(self, values: dict[str, Any], most: int) -> list[Any]:
        """Ask for at most `most` events; return those whose words the chunk has."""
        answer = self._ask(
            "events",
            EVENTS,
            values,
            most,
        )
        entries = _put_fine_grained_first(answer, most)
        usable_events = []
        for event in entries.finished:
            if find_verbatim(event.context, self._chunk.text):
                usable_events.append(event)
            else:
                self._drop(
                    event.event,
                    event.context,
                    _choose_reason(event.context),
                )
        for event, reason in entries.left_out():
            self._drop(
                event.event,
                event.context,
                reason,
            )
        return usable_events

    def _ask(
        self,
        prompt: str,
        shape: Shape[Any],
        values: dict[str, Any],
        most: int,
    ) -> _Entries:
        """Ask for at most `most` entries of a shape, and return them.

        A bad answer is requested once more; one without a complete entry is requested with half as
        many. Raises UnansweredError.
        """
        limit = self._asker.answer_tokens
        entries = _Entries([])
        problem = UnansweredError("")
        for attempt in range(TRIES):
            message = load_prompt(prompt).fill({**values, "count": most})
            request = Request(
                message,
                shape,
                most,
                limit,
                self._seed + attempt,
            )
            entries = _Entries([])
            try:
                reply = self._complete(request)
                entries = _read(shape, reply)
                if entries.finished or not reply.cut:
                    finished = entries.finished
                    return _Entries(
                        finished[:most],
                        entries.cut,
                        finished[most:],
                    )
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
        if entries.cut:
            return entries
        raise problem

    def _take(
        self,
        question: str,
        evidence: str,
        kind: QueryKind,
    ) -> None:
        """Keep a query if its evidence occurs verbatim in the chunk."""
        quote = find_verbatim(evidence, self._chunk.text)
        text = clean_question(question, evidence)
        if quote is None:
            self._drop(
                question,
                evidence,
                _choose_reason(evidence),
                kind,
            )
        elif text is None:
            self._drop(
                question,
                quote,
                Reason.UNUSABLE,
                kind,
            )
        else:
            self.items.append(Item(text, quote, kind))

    def _drop(
        self, question: str, evidence: str, reason: Reason, kind: QueryKind = "question"
    ) -> None:
        """Keep a query that cannot be used, with the reason."""
        item = Item(
            " ".join(question.split()),
            evidence,
            kind,
        )
        self._dropped.append(Dropped(item, reason))


def _put_fine_grained_first(events: _Entries, most: int) -> _Entries:
    """Return the events with fine-grained ones first; those beyond `most` become the surplus."""
    if not events.surplus:
        return events
    ordered = [*events.finished, *events.surplus]
    ordered.sort(key=lambda event: event.type != "fine-grained")
    return _Entries(
        ordered[:most],
        events.cut,
        ordered[most:],
    )


def _choose_reason(evidence: str) -> Reason:
    """Return why evidence was rejected: it is too short, or not in the chunk."""
    return Reason.NOT_FOUND if is_distinctive(evidence) else Reason.SHORT


def _read(shape: Shape[Any], reply: Reply) -> _Entries:
    """Return the entries of a reply; none if a truncated reply cannot be read.

    Raises BadAnswerError if a complete reply is not of the shape.
    """
    try:
        entries = shape.read(reply.text)
    except BadAnswerError:
        if reply.cut:
            return _Entries([])
        raise
    if not reply.cut or not entries:
        return _Entries(entries)
    *finished, cut = entries
    return _Entries(finished, cut if shape.has_text(cut) else None)


def _choose_kinds(
    wanted: Sequence[QueryKind],
    count: int,
    seed: int,
) -> list[QueryKind]:
    """Return the kinds of `count` queries: the `wanted` kinds in turn, in a seeded order.

    If everyday queries are wanted, every second query is one: what they teach, no other kind does.
    """
    rng = random.Random(seed)
    other_kinds = [kind for kind in wanted if kind != "everyday"]
    if not other_kinds:
        return ["everyday"] * count
    kinds: list[QueryKind] = []
    while len(kinds) < count:
        kinds += shuffle_kinds(other_kinds, rng)
    if "everyday" not in wanted:
        return kinds[:count]
    everyday_first = rng.random() < 0.5
    mixed: list[QueryKind] = []
    for kind in kinds:
        mixed += ["everyday", kind] if everyday_first else [kind, "everyday"]
    return mixed[:count]


def _list_events(events: Sequence[Event], kinds: Sequence[QueryKind]) -> Iterator[str]:
    """Yield the lines of the second prompt: each event, and the kind of query to write about it."""
    for number, (event, kind) in enumerate(zip(events, kinds, strict=False), 1):
        topic = " ".join(event.topic.split())
        fact = " ".join(event.event.split())
        words = " ".join(event.context.split())
        yield f"{number}. [{topic}; {event.type}] {fact}\n   Words: {words}"
        yield f"   Write: {WANTED[kind]}"
