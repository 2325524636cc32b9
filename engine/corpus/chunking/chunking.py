"""Documents → chunks that fit the encoder, cut where the text allows it.

A document that fits the budget is one chunk. A longer document is cut into sections at its
headings; neighbouring sections that fit together share a chunk, and a section that does not fit is
cut by semantic-text-splitter (blocks, then sentences, then words). Within such a section each chunk
begins with the last sentence of the previous chunk if it is short.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from typing import Literal

from engine.core.errors import UsageError
from engine.core.records import Chunk, ReadDocument
from engine.corpus.chunking.headings import HeadingPaths, Section, cut_into_sections
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
        span = _trim(document.text, (0, len(document.text)))
        if _is_empty(span):
            return []
        if self._fits(self._embedded_text(document, span)):
            return self._build_chunks(document, [span])
        return self._cut(document)

    def chunk_many(self, documents: Iterable[ReadDocument]) -> Iterator[list[Chunk]]:
        """Yield the chunks of each document, as `chunk` does, in order.

        Short documents are counted in batches, which is many times faster.
        """
        remaining = iter(documents)
        while batch := list(islice(remaining, _BATCH)):
            self._check()
            spans = [_trim(document.text, (0, len(document.text))) for document in batch]
            texts = []
            for document, span in zip(batch, spans, strict=True):
                text = "" if _is_empty(span) else self._embedded_text(document, span)
                texts.append(text if len(text) <= self._most_chars else "")
            counts = self._tokens.count_many(texts)
            for document, span, text, tokens in zip(batch, spans, texts, counts, strict=True):
                if _is_empty(span):
                    yield []
                elif text and tokens <= self._budget:
                    yield [self._build_chunk(document, 0, span, text, tokens)]
                else:
                    yield self._cut(document)

    def _cut(self, document: ReadDocument) -> list[Chunk]:
        spans: list[Span] = []
        for group in self._group_sections(document):
            spans += self._cut_group(document, group)
        return self._build_chunks(document, spans)

    def _group_sections(self, document: ReadDocument) -> Iterator[_Group]:
        """Join sections with those after them while they fit and do not rank above the first."""
        sections = cut_into_sections(document)
        sizes = self._count_sections(document, sections)
        first = 0
        for number, section in enumerate(sections):
            if number == first:
                continue
            room = self._find_room(document, sections[first].path)
            ranks_above = section.level < sections[first].level
            if ranks_above or sum(sizes[first : number + 1]) > room:
                last = number
                # A heading stays with its text.
                while last - 1 > first and sections[last - 1].bare:
                    last -= 1
                yield _build_group(sections[first:last], sizes[first:last])
                first = last
        yield _build_group(sections[first:], sizes[first:])

    def _count_sections(self, document: ReadDocument, sections: Sequence[Section]) -> list[int]:
        """Count the tokens of sections, approximately if they are too long for a chunk."""
        texts = [document.text[section.start : section.end] for section in sections]
        short = [text if len(text) <= self._most_chars else "" for text in texts]
        sizes = self._tokens.count_many(short)
        for number, text in enumerate(texts):
            if len(text) > self._most_chars:
                sizes[number] = self._tokens.count_long(text, self._check)
        return sizes

    def _cut_group(self, document: ReadDocument, group: _Group) -> list[Span]:
        text = document.text[group.start : group.end]
        room = self._find_room(document, group.path)
        if group.tokens <= room and len(text) <= self._most_chars:
            pieces = [(0, len(text))]
        else:
            capacity = self._find_capacity(text, group.tokens, room)
            pieces = self._tokens.split(text, capacity, document.format == "md", self._check)
            pieces = self._enlarge_tail(text, pieces, capacity)
        spans: list[Span] = []
        for start, end in pieces:
            spans += self._cut_to_fit(document, (group.start + start, group.start + end))
        return self._overlap_spans(document, spans)

    def _find_capacity(self, text: str, tokens: int, room: int) -> int:
        """Return the number of tokens that the splitter may fill.

        This is the room without that for the overlap, if sentences are short enough for an overlap.
        """
        capacity = room
        sentences = 1 + len(_SENTENCE_END.findall(text))
        overlap = self._overlap * tokens / sentences
        if overlap <= room // 4:
            capacity -= min(room // 4, ceil(overlap * _LONGER))
        if capacity == self._budget:
            return capacity
        return capacity - capacity % _STEP

    def _enlarge_tail(self, text: str, pieces: list[Span], room: int) -> list[Span]:
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
        pieces[-2:] = [(start + first, start + last) for first, last in halves]
        return pieces

    def _cut_to_fit(self, document: ReadDocument, span: Span) -> list[Span]:
        """Return a span as parts that surely fit.

        The tokens of parts need not add up to those of the whole.
        """
        start, end = _trim(document.text, span)
        if start >= end:
            return []
        if end - start == 1 or self._fits(self._embedded_text(document, (start, end))):
            return [(start, end)]
        middle = (start + end) // 2
        space = document.text.rfind(" ", start, middle)
        if space > start:
            middle = space + 1
        left = self._cut_to_fit(document, (start, middle))
        return left + self._cut_to_fit(document, (middle, end))

    def _overlap_spans(self, document: ReadDocument, spans: list[Span]) -> list[Span]:
        """Begin each span at the last sentences of the previous span, if short and fitting."""
        if not self._overlap:
            return spans
        overlapping = spans[:1]
        for previous, (start, end) in pairwise(spans):
            earlier = self._find_last_sentences(document.text, previous)
            if earlier and self._fits_overlap(document, earlier, start, end):
                start = earlier
            overlapping.append((start, end))
        return overlapping

    def _find_last_sentences(self, text: str, span: Span) -> int:
        """Return where the last sentences of a span begin, 0 if they are all of it."""
        start, end = span
        breaks = [match.end() for match in _SENTENCE_END.finditer(text, start, end)]
        inner_breaks = [position for position in breaks if start < position < end]
        if len(inner_breaks) >= self._overlap:
            return inner_breaks[-self._overlap]
        return 0

    def _fits_overlap(self, document: ReadDocument, earlier: int, start: int, end: int) -> bool:
        if self._tokens.count(document.text[earlier:start]) > self._budget // 4:
            return False
        return self._fits(self._embedded_text(document, (earlier, end)))

    def _find_room(self, document: ReadDocument, path: tuple[str, ...]) -> int:
        """Return the tokens that the context line leaves."""
        return self._budget - self._tokens.count(self._context_line(document, path))

    def _fits(self, embedded: str) -> bool:
        return len(embedded) <= self._most_chars and self._tokens.count(embedded) <= self._budget

    def _embedded_text(self, document: ReadDocument, span: Span) -> str:
        start, end = span
        path = self._find_path(document, start) if self._context == "headings" else ()
        return self._context_line(document, path) + document.text[start:end]

    def _find_path(self, document: ReadDocument, position: int) -> tuple[str, ...]:
        if self._paths is None or self._paths[0] is not document:
            self._paths = (document, HeadingPaths(document.headings))
        return self._paths[1].at(position)

    def _context_line(self, document: ReadDocument, path: tuple[str, ...]) -> str:
        """Return the context line, with its line end.

        A line that would take more than half of the budget loses its outer headings, then its end.
        """
        parts = {"none": (), "headings": path, "title": (document.title,)}[self._context]
        squeezed = (" ".join(part.split()) for part in parts)
        line = " > ".join(filter(None, squeezed))
        if not line:
            return ""
        while self._tokens.count(line) > self._budget // 2 and " > " in line:
            line = line.partition(" > ")[2]
        return self._tokens.shorten(line, self._budget // 2, self._most_chars // 4) + "\n"

    def _build_chunks(self, document: ReadDocument, spans: Sequence[Span]) -> list[Chunk]:
        texts = [self._embedded_text(document, span) for span in spans]
        counts = self._tokens.count_many(texts)
        chunks: list[Chunk] = []
        for span, text, tokens in zip(spans, texts, counts, strict=True):
            chunks.append(self._build_chunk(document, len(chunks), span, text, tokens))
        return chunks

    def _build_chunk(
        self, document: ReadDocument, ordinal: int, span: Span, embedded: str, tokens: int
    ) -> Chunk:
        start, end = span
        return Chunk(
            0,
            ordinal,
            start,
            end,
            text=document.text[start:end],
            headings=self._find_path(document, start),
            tokens=tokens + self._special,
            embedded_text=embedded,
            content_hash=sha256(embedded.encode()).hexdigest(),
            pages=_find_pages(document, span),
        )


def _find_pages(document: ReadDocument, span: Span) -> tuple[tuple[int, int, str], ...]:
    """Return the pages of a span, by where they begin within it."""
    if not document.pages:
        return ()
    start, end = span
    first = max(0, bisect_right(document.pages, start, key=lambda page: page.start) - 1)
    last = bisect_left(document.pages, end, key=lambda page: page.start)
    pages = document.pages[first:last]
    return tuple((max(0, page.start - start), page.number, page.name) for page in pages)


def _build_group(sections: Sequence[Section], sizes: Sequence[int]) -> _Group:
    return _Group(sections[0].start, sections[-1].end, sections[0].path, sum(sizes))


def _trim(text: str, span: Span) -> Span:
    """Return a span without outer white space, of negative length if it has nothing else."""
    start, end = span
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _is_empty(span: Span) -> bool:
    start, end = span
    return start >= end
