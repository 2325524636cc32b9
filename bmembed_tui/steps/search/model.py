"""What a search asks for and what it found, as the Search step shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

MODES = ("hybrid", "semantic", "bm25")
ALL = "all"
FACETS = ("type", "author", "language", "year", "folder")
NAMES = {"hybrid": "hybrid", "semantic": "semantic", "bm25": "BM25", ALL: "all three"}
Span = tuple[int, int]
MAX_MATCHES = 50_000
_LINED = frozenset({"txt", "md", "csv"})  # formats whose lines are those of the file
_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")
_GLOB_SIGNS = re.compile(r"[*\[\]\\,]")
_FOLDER = re.compile(r"/([^*\[\]\\,]+)/")
# Scripts that put no blanks between words: a term may stand anywhere in them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Hit:
    """A chunk that was found; the fields are those of the engine's answer to `search`."""

    rank: int
    score: float
    path: str
    source: str
    title: str
    headings: tuple[str, ...]
    snippet: str
    marks: tuple[Span, ...]
    format: str
    chunk_id: int
    document_id: int
    start: int
    end: int
    line: int
    page: int | None
    rankers: Mapping[str, tuple[int, float]]
    shares: Mapping[str, float]
    place_name: str = ""
    hub_offset: float | None = None
    """What semantic search took from the cosine; None where it ranks by cosines."""
    author: str = ""
    dated: float | None = None
    """Seconds since the epoch: when the document was last changed, or made, as it says itself."""

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Hit:
        """From the engine's JSON."""
        rankers = {name: (int(place["rank"]), float(place["score"])) for name, place in answer["rankers"].items()}
        return cls(
            answer["rank"], answer["score"], answer["path"], answer["source"], answer["title"],
            tuple(answer["headings"]), answer["snippet"], tuple((start, end) for start, end in answer["marks"]),
            answer["format"], answer["chunk_id"], answer["document_id"], answer["start"], answer["end"],
            answer.get("line", 1), answer.get("page"), rankers, answer.get("shares", {}),
            answer.get("place", ""), answer["rankers"].get("semantic", {}).get("hub_offset"),
            answer.get("author", ""), answer.get("changed") or answer.get("created"),
        )  # fmt: skip

    @property
    def file(self) -> Path:
        """Where the document lies, if it lies on this disk; for what lies inside a file, that file."""
        named = Path(self.source) / self.path
        around = [folder for folder in named.parents if folder.is_relative_to(self.source)]
        places = (place for one in (named, *around) for place in (one, _in_bytes(one)))
        return next((file for file in places if file.is_file()), named)

    @property
    def file_told(self) -> str:
        """`file` as text; of a name that is not UTF-8, the bytes that are none as a shell takes them in $'…'."""
        return os.fsencode(self.file).decode("utf-8", "backslashreplace")

    @property
    def place(self) -> str:
        """Page, slide or sheet; or line, where it is that of the file; else empty."""
        if self.place_name or self.page is not None:
            return self.place_name or f"page {self.page}"
        return f"line {self.line}" if self.format in _LINED else ""

    @property
    def heading(self) -> str:
        """The heading path, without the title and the name of the sheet again."""
        told = (self.title, self.place_name.removeprefix("sheet "))
        return " › ".join(part for part in self.headings if part and part not in told)

    @property
    def said(self) -> str:
        """Author and day, as far as the document says them."""
        day = ""
        with suppress(ValueError, OverflowError, OSError):
            day = date.fromtimestamp(self.dated).isoformat() if self.dated is not None else ""
        return " · ".join(part for part in (self.author, day) if part)

    def score_text(self, mode: str) -> str:
        """The score with as many digits as its scale needs."""
        only = next(iter(self.rankers)) if len(self.rankers) == 1 and not self.shares else mode
        return ranker_score(only, self.score)


def _in_bytes(told: Path) -> Path:
    """The path of a name that is not UTF-8, which the engine tells as `caf\\xe9.txt`."""
    return Path(os.fsdecode(_BYTE.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(told))))


def ranker_score(ranker: str, score: float) -> str:
    """A score on a ranker's own scale: BM25, similarity, or a fusion of the two."""
    return f"{score:.{2 if ranker == 'bm25' else 3 if ranker == 'semantic' else 4}f}"


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
        """How many are set."""
        return sum(bool(text.strip()) for text in astuple(self))

    def chosen(self, facet: str) -> list[str]:
        """The values of a facet that are filters now."""
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

    def params(self) -> dict[str, Any]:
        """For the request `search`; None for what is not set."""
        return {
            "paths": _parts(self.paths) or None, "types": _words(self.formats) or None,
            "after": self.after.strip() or None, "before": self.before.strip() or None,
            "authors": _parts(self.authors) or None, "languages": _words(self.languages) or None,
        }  # fmt: skip


def _parts(text: str) -> list[str]:
    """What stands between commas; in double quotes they part nothing."""
    return [part.strip() for part in re.findall(r'\s*"[^"]*"\s*(?=,|$)|[^,]+', text) if part.strip()]


def _quoted(author: str) -> str:
    """An author's whole name, as the engine takes it: it may hold commas, and be a part of another's."""
    return '"' + author.replace('"', "") + '"'


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2 else text


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


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
    facets: bool = False  # whether what the found documents are is asked for

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look for."""
        return not self.query.strip()


@dataclass(frozen=True)
class Answer:
    """What a mode found for a question. `by`: the mode that the hits come from; another one while the encoder loads."""

    question: Question
    by: str
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    milliseconds: float = 0.0
    error: str = ""
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def from_answer(cls, question: Question, answer: Mapping[str, Any], milliseconds: float) -> Answer:
        """From the engine's JSON."""
        hits = tuple(map(Hit.from_answer, answer["hits"]))
        notes, facets = tuple(answer.get("notes", ())), answer.get("facets", {})
        return cls(question, answer["mode"], hits, notes, milliseconds, facets=facets)


@dataclass(frozen=True)
class Standing:
    """Ranks of a chunk among all by cosine, by the untouched encoder and by the served one; None where that is not known.

    `rank` and `similarity`: of semantic search, which may take `hub_offset` from the served cosine.
    """

    base_rank: int | None
    served_rank: int | None
    base_cosine: float | None = None
    served_cosine: float | None = None
    rank: int | None = None
    similarity: float | None = None
    hub_offset: float | None = None


@dataclass(frozen=True)
class Explained:
    """The answer to `explain`."""

    served: str
    chunks: Mapping[int, Standing] = field(default_factory=dict)
    note: str = ""

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Explained:
        """From the engine's JSON."""
        chunks = {
            int(key): Standing(**{part.name: one.get(part.name) for part in fields(Standing)})
            for key, one in answer["chunks"].items()
        }
        return cls(answer["served"], chunks, answer.get("note", ""))

    def adapter_text(self, chunk_id: int) -> str:
        """Whether the adapter moved a hit, in a few words."""
        standing = self.chunks.get(chunk_id)
        if standing is None or standing.served_rank is None:
            return f"not ranked by the encoder: {self.note}" if self.note else "not ranked by the encoder"
        after = f"{standing.served_rank:,}"
        if self.served == "base":
            return f"none is served; base ranks it {after}"
        if standing.base_rank is None:
            return f"{self.served}: rank {after}; base rank unknown (w)"
        gap = standing.base_rank - standing.served_rank
        if not gap:
            return f"{self.served}: did not move it, rank {after}"
        return f"{self.served}: base rank {standing.base_rank:,} → {after}, {'up' if gap > 0 else 'down'} {abs(gap):,}"


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
