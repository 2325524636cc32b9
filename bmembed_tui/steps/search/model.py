"""What a search asks for and what it found, as the Search step shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from datetime import date

from engine.core.messages.search import Hit, Mode, Search

ALL = "all"
FACETS = ("type", "author", "language", "year", "folder")
NAMES = {"hybrid": "hybrid", "semantic": "semantic", "bm25": "BM25", ALL: "all three"}
Span = tuple[int, int]
MAX_MATCHES = 50_000
_GLOB_SIGNS = re.compile(r"[*\[\]\\,]")
_FOLDER = re.compile(r"/([^*\[\]\\,]+)/")
# Scripts that put no blanks between words: a term may stand anywhere in them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Filters:
    """What a hit must satisfy; empty texts let everything pass. As typed by the user."""

    paths: str = ""
    formats: str = ""
    after: str = ""
    before: str = ""
    authors: str = ""
    languages: str = ""

    @property
    def count(self) -> int:
        return sum(bool(text.strip()) for text in astuple(self))

    def chosen(self, facet: str) -> list[str]:
        match facet:
            case "type" | "language":
                return list(dict.fromkeys(_words(self.formats if facet == "type" else self.languages)))
            case "author":
                return [_unquoted(self.authors)] if self.authors.strip() else []
            case "folder":
                folder = _FOLDER.fullmatch(self.paths)
                return [folder[1]] if folder else []
        year = self.after[:4]
        return [year] if year and (self.after, self.before) == _year(year) else []

    def toggled(self, facet: str, value: str) -> Filters:
        """With a value of a facet as a filter, or without it where it is one. Of authors, folders and years one counts."""
        there = value in self.chosen(facet)
        match facet:
            case "type" | "language":
                kept = [one for one in self.chosen(facet) if one != value]
                text = " ".join(kept if there else [*kept, value])
                return replace(self, formats=text) if facet == "type" else replace(self, languages=text)
            case "author":
                return replace(self, authors="" if there else _quoted(value))
            case "folder":
                return replace(self, paths="" if there else f"/{re.sub(_GLOB_SIGNS, '?', value)}/")
        after, before = ("", "") if there else _year(value)
        return replace(self, after=after, before=before)

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
            return "No date is both: 'after' must be earlier than 'before'."
        return ""

    def request(self, query: str, mode: Mode, *, facets: bool) -> Search:
        """A search with these filters. Searches of a mode replace each other."""
        return Search(
            query, mode, paths=_parts(self.paths) or None, types=_words(self.formats) or None,
            after=self.after.strip() or None, before=self.before.strip() or None,
            authors=_parts(self.authors) or None, languages=_words(self.languages) or None,
            facets=facets, series=f"typed-{mode}",
        )  # fmt: skip


def _parts(text: str) -> tuple[str, ...]:
    """What stands between commas; in double quotes they part nothing."""
    return tuple(part.strip() for part in re.findall(r'\s*"[^"]*"\s*(?=,|$)|[^,]+', text) if part.strip())


def _quoted(author: str) -> str:
    """An author's whole name, as the engine takes it: it may hold commas, and be a part of another's."""
    return '"' + author.replace('"', "") + '"'


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2 else text


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _year(year: str) -> tuple[str, str]:
    """The first day of a year and of the next one; empty texts for what is no year that dates are written in."""
    if not (year.isdecimal() and len(year) == 4 and "0000" < year < "9999"):
        return "", ""
    return f"{year}-01-01", f"{int(year) + 1:04}-01-01"


@dataclass(frozen=True)
class Question:
    """What is looked for."""

    query: str
    filters: Filters = Filters()
    facets: bool = False  # whether to count what the found documents are

    @property
    def empty(self) -> bool:
        return not self.query.strip()


@dataclass(frozen=True)
class Answer:
    """What a mode found for a question. `by`: the mode that the hits come from; another one while the encoder loads."""

    question: Question
    by: str
    hits: tuple[Hit, ...]
    note: str = ""
    milliseconds: float = 0.0
    error: str = ""
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def terms_of(query: str, hits: Iterable[Hit]) -> tuple[str, ...]:
    """The words to mark in whole documents: those of the query, and the forms that the engine marked in snippets."""
    forms = {hit.snippet[start:end].casefold(): None for hit in hits for start, end in hit.marks}
    if not forms:
        forms = {word.casefold(): None for word in re.findall(r"\w+", query) if len(word) > 2}
    return tuple(sorted((form for form in forms if form.strip()), key=len, reverse=True))


def find_terms(text: str, terms: Iterable[str]) -> list[Span]:
    """(start, end) of every place where one of the terms stands as a word, the first 50,000."""
    parts = [re.escape(term) if _UNSPACED.search(term) else rf"(?<!\w){re.escape(term)}(?!\w)" for term in terms]
    if not parts:
        return []
    found: list[Span] = []
    for match in re.finditer("|".join(parts), text, re.IGNORECASE):
        found.append(match.span())
        if len(found) == MAX_MATCHES:
            break
    return found
