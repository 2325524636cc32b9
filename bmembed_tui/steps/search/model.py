"""What a search asks for and what it found, as the Search step shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice

from engine.core.messages.search import Hit, Mode, Reranked, Search

ALL = "all"
FACETS = ("type", "author", "language")
NAMES = {"hybrid": "hybrid", "semantic": "semantic", "bm25": "keywords", ALL: "all three"}
Span = tuple[int, int]
MAX_MATCHES = 50_000
# Scripts that put no blanks between words: a term may stand anywhere in them.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


@dataclass(frozen=True)
class Filters:
    """What a hit must satisfy.

    Paths and dates are as typed, and empty ones let everything pass; `values` are (facet, value).
    """

    paths: str = ""
    after: str = ""
    before: str = ""
    values: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        return sum(bool(text.strip()) for text in (self.paths, self.after, self.before)) + len(
            self.values
        )

    def of(self, facet: str) -> tuple[str, ...]:
        """The values of a facet that are chosen."""
        return tuple(value for name, value in self.values if name == facet)

    def toggled(self, facet: str, value: str) -> Filters:
        """With a value of a facet, or without it where it is chosen."""
        kept = tuple(one for one in self.values if one != (facet, value))
        return replace(
            self, values=kept if len(kept) < len(self.values) else (*kept, (facet, value))
        )

    def problem(self) -> str:
        """What is wrong with the dates; empty where they can be understood."""
        dates: dict[str, date] = {}
        for name, text in (("after", self.after.strip()), ("before", self.before.strip())):
            if text:
                try:
                    dates[name] = date.fromisoformat(text)
                except ValueError:
                    dates[name] = date.min
                if dates[name] == date.min or len(text) != 10:
                    return f"'{text}' is not a date: write {name} as YYYY-MM-DD."
        if len(dates) == 2 and dates["after"] >= dates["before"]:
            return "'after' must be earlier than 'before'."
        return ""

    def request(
        self,
        query: str,
        mode: Mode,
        *,
        facets: bool,
        by_document: bool = False,
        by_date: bool = False,
    ) -> Search:
        """A search with these filters, not reranked yet. Searches of a mode replace each other."""
        paths = tuple(part.strip() for part in self.paths.split(",") if part.strip())
        authors = tuple(
            '"' + name.replace('"', "") + '"' for name in self.of("author")
        )  # in quotes: the whole name
        return Search(
            query,
            mode,
            paths=paths or None,
            types=self.of("type") or None,
            after=self.after.strip() or None,
            before=self.before.strip() or None,
            authors=authors or None,
            languages=self.of("language") or None,
            facets=facets,
            series=f"typed-{mode}",
            by_document=by_document,
            by_date=by_date,
            rerank=False,
        )


@dataclass(frozen=True)
class Question:
    """What is looked for."""

    query: str
    filters: Filters = Filters()
    facets: bool = False  # whether to count what the found documents are
    by_document: bool = True  # the best passage of each document, not every passage
    by_date: bool = False  # newest first

    @property
    def empty(self) -> bool:
        return not self.query.strip()


@dataclass(frozen=True)
class Answer:
    """What a mode found for a question.

    `by`: the mode that the hits come from; another one while the encoder loads. `reranking`: they
    are being put in order.
    """

    question: Question
    by: str
    hits: tuple[Hit, ...]
    note: str = ""
    seconds: float = 0.0
    error: str = ""
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    suggestion: str = ""
    reranked: Reranked | None = None
    reranking: bool = False


def terms_of(query: str, hits: Iterable[Hit]) -> tuple[str, ...]:
    """The words to mark in whole documents: those of the query, and the forms that the engine
    marked in snippets.
    """
    forms = {hit.snippet[start:end].casefold(): None for hit in hits for start, end in hit.marks}
    if not forms:
        forms = {word.casefold(): None for word in re.findall(r"\w+", query) if len(word) > 2}
    return tuple(sorted((form for form in forms if form.strip()), key=len, reverse=True))


def find_terms(text: str, terms: Iterable[str]) -> list[Span]:
    """(start, end) of every place where one of the terms stands as a word, the first 50,000."""
    parts = [
        re.escape(term) if _UNSPACED.search(term) else rf"(?<!\w){re.escape(term)}(?!\w)"
        for term in terms
    ]
    if not parts:
        return []
    return [
        match.span()
        for match in islice(re.finditer("|".join(parts), text, re.IGNORECASE), MAX_MATCHES)
    ]
