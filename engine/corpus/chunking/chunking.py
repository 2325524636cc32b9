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

# The end of a sentence: the white space after `.`, `!"` or `?)`, the place right after `。`, since
# Chinese and Japanese have no blanks, and the end of a line.
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])(?![。！？])\s*|\n\s*")
# A chunk has at most this many characters for each token of `chunk_tokens`.
_MAX_CHARS_PER_TOKEN = 32
# A chunk must have room for this many tokens of text, besides the encoder's special tokens.
_MIN_BUDGET = 16
_DOCUMENTS_PER_BATCH = 512
# The last piece of a section is tiny if it fills less than 1/8 of the capacity.
_TINY_DIVISOR = 8
# The overlap has room for a sentence that is somewhat longer than the average.
_OVERLAP_MARGIN = 1.3
# Capacities are rounded to multiples of this, so that few splitters are built.
_CAPACITY_STEP = 8

Span = tuple[int, int]
"""Start and end of a piece of a document's text, in characters."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring sections that share a chunk, or one section that is too long for a chunk."""

    # The span in the document's text.
    start: int
    end: int
    # The headings above the first section, outermost first.
    path: tuple[str, ...]
    # The tokens of all sections.
    tokens: int


class Chunker:
    """Cuts documents into chunks by the tokens of `tokenizer_file`, a Hugging Face tokenizer.json.

    `chunk_tokens`: the most that the encoder gets of a chunk, which includes the context line and
    the `special_tokens` that the encoder adds. A chunk also has at most 32 × `chunk_tokens`
    characters, since a tokenizer may make one token of unknown text of any length.
    `overlap_sentences`: how many sentences of the previous chunk a chunk may begin with.
    `context`: what the first line of `Chunk.embedded_text` holds: "headings" for the heading path
    (`Manual > Engine`), "title" for the document's title, "none" for no such line.
    `check`: is called again and again while documents are cut, and may raise to end the cutting.

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
        if self._budget < _MIN_BUDGET:
            raise UsageError(
                f"corpus.chunk_tokens = {chunk_tokens} is too small.",
                f"{special_tokens} of these are the encoder's special tokens.",
                f"Set it to {special_tokens + _MIN_BUDGET} or more.",
                code="chunk-tokens-too-small",
            )
        self._overlap_sentences = overlap_sentences
        self._context = context
        self._special_tokens = special_tokens
        self._max_chars = _MAX_CHARS_PER_TOKEN * chunk_tokens
        self._tokens = TokenCounter(tokenizer_file)
        self._check = check
        # The document that is being cut, with its heading paths.
        self._current: tuple[ReadDocument, HeadingPaths] | None = None

    def chunk(self, document: ReadDocument) -> list[Chunk]:
        """Return the chunks of a document in order; an empty list if it has no visible text."""
        return next(self.chunk_many([document]))

    def chunk_many(self, documents: Iterable[ReadDocument]) -> Iterator[list[Chunk]]:
        """Yield the chunks of each document, as `chunk` does, in order.

        Short documents are counted in batches, which is many times faster.
        """
        remaining = iter(documents)
        while batch := list(islice(remaining, _DOCUMENTS_PER_BATCH)):
            self._check()
            spans = [_trim(document.text, (0, len(document.text))) for document in batch]
            # The embedded text of each document as one chunk, "" if it is surely too long for that.
            texts = []
            for document, span in zip(batch, spans, strict=True):
                text = self._embedded_text(document, span) if span else ""
                texts.append(text if len(text) <= self._max_chars else "")
            counts = self._tokens.count_many(texts)
            for document, span, text, tokens in zip(batch, spans, texts, counts, strict=True):
                if span is None:
                    yield []
                elif text and tokens <= self._budget:
                    yield [self._build_chunk(document, 0, span, text, tokens)]
                else:
                    yield self._cut(document)

    def _cut(self, document: ReadDocument) -> list[Chunk]:
        """Return the chunks of a document that does not fit into one."""
        spans: list[Span] = []
        for group in self._group_sections(document):
            spans += self._cut_group(document, group)
        texts = [self._embedded_text(document, span) for span in spans]
        counts = self._tokens.count_many(texts)
        chunks: list[Chunk] = []
        for span, text, tokens in zip(spans, texts, counts, strict=True):
            chunks.append(self._build_chunk(document, len(chunks), span, text, tokens))
        return chunks

    def _group_sections(self, document: ReadDocument) -> Iterator[_Group]:
        """Yield groups of sections, each as long as it fits a chunk.

        A section whose heading ranks above that of the group's first section begins another group.
        """
        sections = cut_into_sections(document)
        sizes = self._count_sections(document, sections)
        first = 0
        for number in range(1, len(sections)):
            room = self._find_room(document, sections[first].path)
            ranks_above = sections[number].level < sections[first].level
            if ranks_above or sum(sizes[first : number + 1]) > room:
                end = number
                # A heading without a text of its own stays with the section after it.
                while end - 1 > first and sections[end - 1].bare:
                    end -= 1
                yield _build_group(sections[first:end], sizes[first:end])
                first = end
        yield _build_group(sections[first:], sizes[first:])

    def _count_sections(self, document: ReadDocument, sections: Sequence[Section]) -> list[int]:
        """Return the tokens of each section, approximately if it is too long for a chunk."""
        texts = [document.text[section.start : section.end] for section in sections]
        short_texts = [text if len(text) <= self._max_chars else "" for text in texts]
        sizes = self._tokens.count_many(short_texts)
        for number, text in enumerate(texts):
            if len(text) > self._max_chars:
                sizes[number] = self._tokens.count_long(text, self._check)
        return sizes

    def _cut_group(self, document: ReadDocument, group: _Group) -> list[Span]:
        """Return the spans of a group's chunks: one if it fits, else overlapping ones."""
        text = document.text[group.start : group.end]
        room = self._find_room(document, group.path)
        if group.tokens <= room and len(text) <= self._max_chars:
            pieces = [(0, len(text))]
        else:
            capacity = self._find_capacity(
                text,
                group.tokens,
                room,
            )
            is_markdown = document.format == "md"
            pieces = self._tokens.split(
                text,
                capacity,
                is_markdown,
                self._check,
            )
            pieces = self._enlarge_tail(text, pieces, capacity)
        spans: list[Span] = []
        for start, end in pieces:
            spans += self._cut_to_fit(document, (group.start + start, group.start + end))
        return self._overlap_spans(document, spans)

    def _find_capacity(
        self,
        text: str,
        tokens: int,
        room: int,
    ) -> int:
        """Return how many of the `room` tokens of a chunk the splitter may fill.

        The rest is left for the overlap with the previous chunk, but only if sentences are so short
        on average that the overlap takes at most a quarter of the chunk. `tokens`: the number of
        tokens of `text`.
        """
        capacity = room
        sentences = 1 + len(_SENTENCE_END.findall(text))
        overlap = self._overlap_sentences * tokens / sentences
        if overlap <= room // 4:
            capacity -= min(room // 4, ceil(overlap * _OVERLAP_MARGIN))
        # The whole budget is the most frequent capacity, so it need not be rounded.
        if capacity == self._budget:
            return capacity
        return capacity - capacity % _CAPACITY_STEP

    def _enlarge_tail(
        self,
        text: str,
        pieces: list[Span],
        capacity: int,
    ) -> list[Span]:
        """Return the pieces of a text, the last two cut into halves if the last one is tiny."""
        if len(pieces) < 2:
            return pieces
        start, middle = pieces[-2]
        tail_start, end = pieces[-1]
        tail_tokens = self._tokens.count(text[tail_start:end])
        if tail_tokens * _TINY_DIVISOR > capacity:
            return pieces
        tokens = self._tokens.count(text[start:middle]) + tail_tokens
        # Each half may have two thirds of the tokens: pieces end between sentences, so with an
        # exact half as their capacity there would often be three.
        steps = tokens * 2 // 3 // _CAPACITY_STEP + 1
        halves = self._tokens.split(
            text[start:end],
            steps * _CAPACITY_STEP,
            markdown=False,
        )
        if len(halves) != 2:
            return pieces
        half_spans = [(start + half_start, start + half_end) for half_start, half_end in halves]
        return [*pieces[:-2], *half_spans]

    def _cut_to_fit(self, document: ReadDocument, span: Span) -> list[Span]:
        """Return a span as parts that each fit into a chunk: halved until they do.

        Each part is counted, since the tokens of two parts need not add up to those of the whole.
        """
        trimmed = _trim(document.text, span)
        if trimmed is None:
            return []
        start, end = trimmed
        if end - start == 1 or self._fits(self._embedded_text(document, trimmed)):
            return [trimmed]
        middle = (start + end) // 2
        last_space = document.text.rfind(" ", start, middle)
        if last_space > start:
            middle = last_space + 1
        left = self._cut_to_fit(document, (start, middle))
        return left + self._cut_to_fit(document, (middle, end))

    def _overlap_spans(self, document: ReadDocument, spans: list[Span]) -> list[Span]:
        """Return the spans, each extended to begin with the last sentences of the previous span.

        A span stays as it is if these sentences are long, or if it would not fit into a chunk.
        """
        if not self._overlap_sentences:
            return spans
        overlapping = spans[:1]
        for previous, (start, end) in pairwise(spans):
            overlap_start = self._find_last_sentences(document.text, previous)
            if overlap_start and self._fits_overlap(document, overlap_start, start, end):
                start = overlap_start
            overlapping.append((start, end))
        return overlapping

    def _find_last_sentences(self, text: str, span: Span) -> int:
        """Return the offset in the text at which the last `overlap_sentences` of a span begin.

        0 if the span has no more sentences than these.
        """
        start, end = span
        sentence_starts = []
        for match in _SENTENCE_END.finditer(text, start, end):
            if start < match.end() < end:
                sentence_starts.append(match.end())
        if len(sentence_starts) < self._overlap_sentences:
            return 0
        return sentence_starts[-self._overlap_sentences]

    def _fits_overlap(
        self, document: ReadDocument, overlap_start: int, start: int, end: int
    ) -> bool:
        """Return whether text[overlap_start:end] fits into a chunk with a short overlap.

        The overlap is text[overlap_start:start].
        """
        if self._tokens.count(document.text[overlap_start:start]) > self._budget // 4:
            return False
        return self._fits(self._embedded_text(document, (overlap_start, end)))

    def _find_room(self, document: ReadDocument, path: tuple[str, ...]) -> int:
        """Return how many tokens a chunk has for its text, besides the context line."""
        return self._budget - self._tokens.count(self._context_line(document, path))

    def _fits(self, embedded: str) -> bool:
        """Return whether a chunk's text, with its context line, is short enough."""
        return len(embedded) <= self._max_chars and self._tokens.count(embedded) <= self._budget

    def _embedded_text(self, document: ReadDocument, span: Span) -> str:
        """Return the text that BM25 and the encoder get: the context line, then the span's text."""
        start, end = span
        path = self._find_path(document, start) if self._context == "headings" else ()
        return self._context_line(document, path) + document.text[start:end]

    def _find_path(self, document: ReadDocument, position: int) -> tuple[str, ...]:
        """Return the headings above a place in the text, outermost first."""
        if self._current is None or self._current[0] is not document:
            self._current = (document, HeadingPaths(document.headings))
        return self._current[1].at(position)

    def _context_line(self, document: ReadDocument, path: tuple[str, ...]) -> str:
        """Return the context line with its line end, empty if there is nothing to put on it.

        A line that would take more than half of the budget loses its outer headings, then its end.
        """
        if self._context == "headings":
            parts = path
        elif self._context == "title":
            parts = (document.title,)
        else:
            return ""
        squeezed = (" ".join(part.split()) for part in parts)
        line = " > ".join(filter(None, squeezed))
        if not line:
            return ""
        while self._tokens.count(line) > self._budget // 2 and " > " in line:
            line = line.partition(" > ")[2]
        return self._tokens.shorten(line, self._budget // 2, self._max_chars // 4) + "\n"

    def _build_chunk(
        self, document: ReadDocument, ordinal: int, span: Span, embedded: str, tokens: int
    ) -> Chunk:
        """Return the chunk of a span.

        `embedded` is its text with the context line, and `tokens` how many tokens that has.
        """
        start, end = span
        return Chunk(
            # Known once the document is stored.
            document_id=0,
            ordinal=ordinal,
            start=start,
            end=end,
            text=document.text[start:end],
            headings=self._find_path(document, start),
            tokens=tokens + self._special_tokens,
            embedded_text=embedded,
            content_hash=sha256(embedded.encode()).hexdigest(),
            pages=_find_pages(document, span),
        )


def _find_pages(document: ReadDocument, span: Span) -> tuple[tuple[int, int, str], ...]:
    """Return (offset within the span, number, name) of each page in it, as `Chunk.pages`.

    The offset of a page that begins before the span is 0.
    """
    if not document.pages:
        return ()
    start, end = span
    # The last page that begins at the span's start or before it, and those that begin within it.
    first = max(0, bisect_right(document.pages, start, key=lambda page: page.start) - 1)
    after_last = bisect_left(
        document.pages,
        end,
        key=lambda page: page.start,
    )
    pages = document.pages[first:after_last]
    return tuple((max(0, page.start - start), page.number, page.name) for page in pages)


def _build_group(sections: Sequence[Section], sizes: Sequence[int]) -> _Group:
    """Join neighbouring sections; `sizes`: the tokens of each."""
    return _Group(
        sections[0].start,
        sections[-1].end,
        sections[0].path,
        sum(sizes),
    )


def _trim(text: str, span: Span) -> Span | None:
    """Return a span without outer white space, None if nothing is left."""
    start, end = span
    piece = text[start:end].rstrip()
    if not piece:
        return None
    indent = len(piece) - len(piece.lstrip())
    return start + indent, start + len(piece)
