"""What a search asks for and what it found, in the form that step Search shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice

from engine.core.messages.search import Hit, Mode, Reranked, Search

ALL = "all"
FACETS = ("type", "author", "tag", "language")
NAMES = {
    "hybrid": "hybrid",
    "semantic": "semantic",
    "bm25": "keywords",
    ALL: "all three",
}
Span = tuple[int, int]
"""Offsets in a text: the first character, and the one after the last."""
MAX_MATCHES = 50_000
# Scripts without spaces between words, in which a term may begin and end anywhere: Thai and Lao,
# Burmese, Khmer, Japanese syllables, Chinese characters, Korean syllables.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


@dataclass(frozen=True)
class Filters:
    """What a hit must satisfy. Texts are as typed; empty ones allow everything."""

    paths: str = ""  # patterns separated by commas, such as `contracts/**, *.md`
    after: str = ""  # a date, such as `2026-11-30`
    before: str = ""
    values: tuple[tuple[str, str], ...] = ()  # (facet, value), such as ("language", "de")

    @property
    def count(self) -> int:
        texts = (
            self.paths,
            self.after,
            self.before,
        )
        return sum(bool(text.strip()) for text in texts) + len(self.values)

    def get_values(self, facet: str) -> tuple[str, ...]:
        """Return the chosen values of a facet."""
        return tuple(value for name, value in self.values if name == facet)

    def toggle(self, facet: str, value: str) -> Filters:
        """Return the filters with another value of a facet, or without a value already chosen."""
        pair = (facet, value)
        if pair in self.values:
            return replace(self, values=tuple(other for other in self.values if other != pair))
        return replace(self, values=(*self.values, pair))

    def find_problem(self) -> str:
        """Return what is wrong with the dates; empty where they are valid."""
        dates: dict[str, date] = {}
        for name, text in (("after", self.after.strip()), ("before", self.before.strip())):
            if text:
                parsed_date = _parse_date(text)
                if parsed_date is None:
                    return f"'{text}' is not a date: write {name} as YYYY-MM-DD."
                dates[name] = parsed_date
        if len(dates) == 2 and dates["after"] >= dates["before"]:
            return "'after' must be earlier than 'before'."
        return ""

    def build_request(
        self,
        query: str,
        mode: Mode,
        *,
        facets: bool,
        by_document: bool = False,
        by_date: bool = False,
    ) -> Search:
        """Return a search with these filters, not reranked yet.

        A search replaces an earlier one of the same mode.
        """
        paths = tuple(part.strip() for part in self.paths.split(",") if part.strip())
        # Quotes make the search match the whole name.
        authors = tuple('"' + name.replace('"', "") + '"' for name in self.get_values("author"))
        return Search(
            query,
            mode,
            paths=paths or None,
            types=self.get_values("type") or None,
            after=self.after.strip() or None,
            before=self.before.strip() or None,
            authors=authors or None,
            languages=self.get_values("language") or None,
            tags=self.get_values("tag") or None,
            facets=facets,
            series=f"typed-{mode}",
            by_document=by_document,
            by_date=by_date,
            rerank=False,
        )


def _parse_date(text: str) -> date | None:
    """Return the date of a text in the form YYYY-MM-DD, else None."""
    if len(text) != 10:  # Python also accepts other forms of ISO 8601
        return None
    try:
        parsed_date = date.fromisoformat(text)
    except ValueError:
        return None
    if parsed_date == date.min:  # the engine refuses it: east of Greenwich it has no moment
        return None
    return parsed_date


@dataclass(frozen=True)
class Question:
    """A query, its filters, and how to list the hits."""

    query: str
    filters: Filters = Filters()
    facets: bool = False  # whether to count types, authors, tags and languages
    by_document: bool = True  # the best passage of each document, not every passage
    by_date: bool = False  # newest first

    @property
    def empty(self) -> bool:
        return not self.query.strip()


@dataclass(frozen=True)
class Answer:
    """What a mode found for a question."""

    question: Question
    by: str  # the mode that found the hits; `bm25` for any mode while the encoder loads
    hits: tuple[Hit, ...]
    note: str = ""  # what the engine says about the search
    seconds: float = 0.0
    error: str = ""
    # By facet and value, the number of documents.
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    suggestion: str = ""  # the query in the spelling of the documents
    reranked: Reranked | None = None
    reranking: bool = False  # whether the hits are still being reranked


def collect_terms(query: str, hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return the words to mark in whole documents, the longest first.

    They are the forms that the engine marked in snippets, or else the longer words of the query.
    """
    forms: list[str] = []
    for hit in hits:
        forms += [hit.snippet[start:end].casefold() for start, end in hit.marks]
    if not forms:
        forms = [word.casefold() for word in re.findall(r"\w+", query) if len(word) > 2]
    distinct_forms = [form for form in dict.fromkeys(forms) if form.strip()]
    return tuple(sorted(distinct_forms, key=len, reverse=True))


def find_terms(text: str, terms: Iterable[str]) -> list[Span]:
    """Return (start, end) of the first 50,000 places where one of the terms occurs as a word."""
    patterns = []
    for term in terms:
        pattern = re.escape(term)
        if not _UNSPACED.search(term):
            pattern = rf"(?<!\w){pattern}(?!\w)"
        patterns.append(pattern)
    if not patterns:
        return []
    matches = re.finditer(
        "|".join(patterns),
        text,
        re.IGNORECASE,
    )
    return [match.span() for match in islice(matches, MAX_MATCHES)]
