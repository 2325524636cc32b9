"""Documents → chunks that fit the encoder, cut where the text allows it.

A document that fits the budget is one chunk. A longer document is cut into sections at its
headings; neighbouring sections that fit together share a chunk, and a section that does not fit is
cut by semantic-text-splitter (blocks, then sentences, then words). Within such a section each chunk
begins with the last sentence of the previous chunk if it is short.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, pairwise, takewhile
from math import ceil
from pathlib import Path
from typing import Literal

from engine.core.errors import UsageError
from engine.core.records import Chunk, ReadDocument
from engine.corpus.chunking.headings import HeadingPaths, Section, sections_of
from engine.corpus.chunking.tokens import TokenCounter

Context = Literal["none", "headings", "title"]

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])(?![。！？])\s*|\n\s*")
_CHARS_PER_TOKEN = 32
_TINY = 8
_BATCH = 512
_MIN_TOKENS = 16
# Sentences that are somewhat longer than the average must fit too.
_LONGER = 1.3
# Rounding leaves few capacities, and so few splitters.
_STEP = 8

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring sections that share a chunk, or one section that is cut.

    The text is text[start:end], under the headings `path`.
    """

    start: int
    end: int
    path: tuple[str, ...]
    tokens: int


class Chunker:
    """A cutter of documents by the tokens of `tokenizer_file` (a Hugging Face tokenizer.json).

    `chunk_tokens` bounds what the encoder gets: the chunk, its context line and the
    `special_tokens` that the encoder adds. `context` puts the heading path ("headings": `Manual >
    Engine`) or the document's title ("title") on a line before the text in `embedded_text`. A chunk
    also has at most 32 × `chunk_tokens` characters, since a tokenizer may make one token of unknown
    text of any length. `check` is called again and again while documents are cut, and may raise to
    end it.

    Raises UsageError if the budget leaves fewer than 16 tokens for text.
    """

    def __init__(
        self,
        tokenizer_file: Path,
        chunk_tokens: int = 256,
        overlap_sentences: int = 1,
        context: Context = "none",
        special_tokens: int = 2,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._budget = chunk_tokens - special_tokens
        if self._budget < _MIN_TOKENS:
            raise UsageError(
                f"corpus.chunk_tokens = {chunk_tokens} is too small.",
                f"{special_tokens} of these are the encoder's special tokens.",
                f"Set it to {special_tokens + _MIN_TOKENS} or more.",
                code="chunk-tokens-too-small",
            )
        self._overlap = overlap_sentences
        self._context = context
        self._special = special_tokens
        self._most_chars = _CHARS_PER_TOKEN * chunk_tokens
        self._tokens = TokenCounter(tokenizer_file)
        self._check = check
        # Heading paths of the document that is being cut.
        self._paths: tuple[ReadDocument, HeadingPaths] | None = None

    def chunk(self, document: ReadDocument) -> list[Chunk]:
        """Return the chunks of a document in order, empty for white space."""
        whole = self._whole(document)
        if whole and self._fits(whole[1]):
            return self._chunks(document, [whole[0]])
        if whole:
            return self._cut(document)
        return []

    def chunk_many(self, documents: Iterable[ReadDocument]) -> Iterator[list[Chunk]]:
        """Yield the chunks of each document, as `chunk` does, in order.

        Short documents are counted in batches, which is many times faster.
        """
        waiting = iter(documents)
        while batch := list(islice(waiting, _BATCH)):
            self._check()
            wholes = [self._whole(document) for document in batch]
            short = [
                whole[1] if whole and len(whole[1]) <= self._most_chars else "" for whole in wholes
            ]
            for document, whole, text, tokens in zip(
                batch, wholes, short, self._tokens.count_many(short), strict=True
            ):
                if whole and text and tokens <= self._budget:
                    yield [self._make(document, 0, whole[0], text, tokens)]
                else:
                    yield self._cut(document) if whole else []

    def _whole(self, document: ReadDocument) -> tuple[Span, str] | None:
        """Return the span of the text without outer white space, and the text to embed of it."""
        text = document.text
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        if start < end:
            return ((start, end), self._embedded(document, (start, end)))
        return None

    def _cut(self, document: ReadDocument) -> list[Chunk]:
        spans = [span for group in self._groups(document) for span in self._spans(document, group)]
        return self._chunks(document, spans)

    def _groups(self, document: ReadDocument) -> Iterator[_Group]:
        """Join sections with those after them while they fit and do not rank above the first."""
        sections = sections_of(document)
        sizes = self._sizes([document.text[section.start : section.end] for section in sections])
        first = 0
        size = 0
        for number, section in enumerate(sections):
            joins = number > first and section.level >= sections[first].level
            room = self._room(document, sections[first].path)
            if number > first and not (joins and size + sizes[number] <= room):
                last = number
                while last - 1 > first and sections[last - 1].bare:
                    # A heading stays with its text.
                    last -= 1
                yield _group(sections[first:last], sum(sizes[first:last]))
                first = last
                size = sum(sizes[last:number])
            size += sizes[number]
        yield _group(sections[first:], size)

    def _sizes(self, texts: list[str]) -> list[int]:
        """Count the tokens of each text, approximately for those that are too long for a chunk."""
        long = {number for number, text in enumerate(texts) if len(text) > self._most_chars}
        sizes = self._tokens.count_many(
            ["" if number in long else text for number, text in enumerate(texts)]
        )
        return [
            self._tokens.count_long(texts[n], self._check) if n in long else size
            for n, size in enumerate(sizes)
        ]

    def _spans(self, document: ReadDocument, group: _Group) -> list[Span]:
        text = document.text[group.start : group.end]
        room = self._room(document, group.path)
        if group.tokens <= room and len(text) <= self._most_chars:
            pieces = [(0, len(text))]
        else:
            capacity = self._capacity(text, group.tokens, room)
            pieces = self._tokens.split(text, capacity, document.format == "md", self._check)
            pieces = self._without_tiny_tail(text, pieces, capacity)
        fitting = [span for piece in pieces for span in self._fitting(document, group, piece)]
        return self._overlapping(document, fitting)

    def _capacity(self, text: str, tokens: int, room: int) -> int:
        """Return the number of tokens that the splitter may fill.

        This is the room without that for the overlap, if sentences are short enough for an overlap.
        """
        overlap = self._overlap * tokens / (1 + len(_SENTENCE_END.findall(text)))
        if overlap <= room // 4:
            reserve = min(room // 4, ceil(overlap * _LONGER))
        else:
            reserve = 0
        capacity = room - reserve
        if capacity == self._budget:
            return capacity
        return capacity - capacity % _STEP

    def _without_tiny_tail(self, text: str, pieces: list[Span], room: int) -> list[Span]:
        """Cut the last two pieces again, in halves, if the last is tiny."""
        if len(pieces) < 2:
            return pieces
        (start, middle), (tail, end) = pieces[-2:]
        size = self._tokens.count(text[tail:end])
        if size * _TINY > room:
            return pieces
        total = self._tokens.count(text[start:middle]) + size
        half = total * 2 // 3 // _STEP * _STEP + _STEP
        halves = self._tokens.split(text[start:end], half, markdown=False)
        if len(halves) != 2:
            return pieces
        return pieces[:-2] + [(start + a, start + b) for a, b in halves]

    def _fitting(self, document: ReadDocument, group: _Group, piece: Span) -> list[Span]:
        """Return a piece of a group as spans that surely fit.

        The tokens of parts need not add up to those of the whole.
        """
        start, end = _trimmed(document.text, (group.start + piece[0], group.start + piece[1]))
        if start >= end:
            return []
        if end - start == 1 or self._fits(self._embedded(document, (start, end))):
            return [(start, end)]
        middle = (start + end) // 2
        space = document.text.rfind(" ", start, middle)
        cut = (space + 1 if space > start else middle) - group.start
        return [
            span
            for part in ((start - group.start, cut), (cut, end - group.start))
            for span in self._fitting(document, group, part)
        ]

    def _overlapping(self, document: ReadDocument, spans: list[Span]) -> list[Span]:
        """Begin each span at the last sentences of the previous span, if short and fitting."""
        if not self._overlap:
            return spans
        result = spans[:1]
        for before, (start, end) in pairwise(spans):
            earlier = self._last_sentences(document.text, before)
            if earlier and self._fits_overlap(document, earlier, start, end):
                start = earlier
            result.append((start, end))
        return result

    def _last_sentences(self, text: str, span: Span) -> int:
        """Return where the last sentences of a span begin, 0 if they are all of it."""
        ends = [
            found.end()
            for found in _SENTENCE_END.finditer(text, *span)
            if span[0] < found.end() < span[1]
        ]
        if len(ends) >= self._overlap:
            return ends[-self._overlap]
        return 0

    def _fits_overlap(self, document: ReadDocument, earlier: int, start: int, end: int) -> bool:
        short = self._tokens.count(document.text[earlier:start]) <= self._budget // 4
        return short and self._fits(self._embedded(document, (earlier, end)))

    def _room(self, document: ReadDocument, path: tuple[str, ...]) -> int:
        return self._budget - self._tokens.count(self._prefix(document, path))

    def _fits(self, embedded: str) -> bool:
        return len(embedded) <= self._most_chars and self._tokens.count(embedded) <= self._budget

    def _embedded(self, document: ReadDocument, span: Span) -> str:
        if self._context == "headings":
            path = self._path(document, span[0])
        else:
            path = ()
        return self._prefix(document, path) + document.text[span[0] : span[1]]

    def _path(self, document: ReadDocument, position: int) -> tuple[str, ...]:
        if self._paths is None or self._paths[0] is not document:
            self._paths = document, HeadingPaths(document.headings)
        return self._paths[1].at(position)

    def _prefix(self, document: ReadDocument, path: tuple[str, ...]) -> str:
        """Return the context line.

        A line that would take more than half of the budget loses its outer headings, then its end.
        """
        parts = {"none": (), "headings": path, "title": (document.title,)}[self._context]
        line = " > ".join(filter(None, (" ".join(part.split()) for part in parts)))
        if not line:
            return ""
        while self._tokens.count(line) > self._budget // 2 and " > " in line:
            line = line.partition(" > ")[2]
        return self._tokens.shortened(line, self._budget // 2, self._most_chars // 4) + "\n"

    def _chunks(self, document: ReadDocument, spans: Sequence[Span]) -> list[Chunk]:
        embedded = [self._embedded(document, span) for span in spans]
        counts = self._tokens.count_many(embedded)
        return [
            self._make(document, ordinal, span, text, tokens)
            for ordinal, (span, text, tokens) in enumerate(
                zip(spans, embedded, counts, strict=True)
            )
        ]

    def _make(
        self, document: ReadDocument, ordinal: int, span: Span, embedded: str, tokens: int
    ) -> Chunk:
        return Chunk(
            0,
            ordinal,
            *span,
            text=document.text[slice(*span)],
            headings=self._path(document, span[0]),
            tokens=tokens + self._special,
            embedded_text=embedded,
            content_hash=sha256(embedded.encode()).hexdigest(),
            pages=_pages(document, span),
        )


def _pages(document: ReadDocument, span: Span) -> tuple[tuple[int, int, str], ...]:
    """Return the pages of a span, by where they begin within it."""
    if not document.pages:
        return ()
    first = max(0, bisect_right(document.pages, span[0], key=lambda page: page.start) - 1)
    inside = takewhile(lambda page: page.start < span[1], islice(document.pages, first, None))
    return tuple((max(0, page.start - span[0]), page.number, page.name) for page in inside)


def _group(sections: Sequence[Section], tokens: int) -> _Group:
    return _Group(sections[0].start, sections[-1].end, sections[0].path, tokens)


def _trimmed(text: str, span: Span) -> Span:
    piece = text[span[0] : span[1]]
    return span[0] + len(piece) - len(piece.lstrip()), span[0] + len(piece.rstrip())
