"""Queries that documents hold: texts in which people already say what a passage is about.

They differ from other lines mostly in how they are set (a heading, a caption, a line that asks with
a paragraph below it), so that this holds in any language; lists of words are short.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from engine.core.characters import visible
from engine.core.records import Chunk, DocumentQuery, Heading, Origin, ReadDocument
from engine.project.store.store import Store

MAX_ANSWERS = (
    3  # a text that stands over more passages, such as "Introduction", says nothing of any
)
_MAX_LENGTH = 200
_MAX_WORDS = 30
_MAX_LINE_LENGTH = (
    400  # characters of a line that may be a question, a caption or a term with what it means
)
_MAX_TERM = 6  # words
_MIN_REST = 40  # characters that a passage has beside the query
_HEAD = 2000  # characters at the beginning of a text in which its title may stand
_MAILS = ("eml", "msg")
_PAGES = (
    "",
    ".html",
    ".htm",
    ".md",
    "/index.html",
    "/index.md",
    "/README.md",
)  # what a link may leave out

_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNSPACED = (  # from here on, scripts put no blanks between words: two characters count as one
    "\u2e80"
)
# fmt: off
_LESS = frozenset((
    "also", "and", "are", "das", "dem", "den", "der", "des", "die", "ein", "eine", "for", "from", "has", "how", "las", "les",  # noqa: E501
    "los", "och", "pour", "the", "und", "une", "von", "was", "with", "zum", "zur",
))
_LINK = frozenset((
    "back", "click", "continue", "details", "download", "here", "hier", "home", "index", "learn", "link", "mehr",  # noqa: E501
    "more", "next", "page", "previous", "read", "see", "skip", "this", "top", "weiter", "weiterlesen", "zurück",  # noqa: E501
))
_GLOSSARY = frozenset((
    "begriffsbestimmungen", "definiciones", "definitionen", "definitions", "definizioni", "glosario",  # noqa: E501
    "glossaire", "glossar", "glossario", "glossary", "terminologie", "terminology", "术语", "用語集", "術語",  # noqa: E501
))
# fmt: on
_NO_TITLE = re.compile(
    r"=\?|(?:untitled|unbenannt|ohne titel|sans titre|sin título|no title|microsoft \w+ -"
    r" |powerpoint.presentation"
    r"|(?:slide|page|document|dokument|folie|sheet|presentation)\W?\d*$)|\S.*\.[a-z]{2,4}\d?$",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"\s*(?:(?:re|fwd?|aw|wg|sv|vs|vb|tr|rv|antw|odp|回复|答复|转发)\s*(?:\[\d+\])?\s*[:：]|\[[^\]]{1,40}\]|(?-i:[A-Z]{2,10}-\d+):)",
    re.IGNORECASE,
)
_TICKET = re.compile(
    r"\[[^\]]{0,20}\d[^\]]{0,20}\]|\(?(?:ticket|case|bug)?\s*#\s?\d{2,}\)?:?", re.IGNORECASE
)
_NUMBER = re.compile(
    r"^\s*(?:§\s*)?(?:\d{1,2}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,2})+|[A-Z](?=[.)])|[IVX]+(?=[.)]))[.):]*\s+(?=\S)"
)
_MARKER = re.compile(r"^\s*(?:[-–—•·▪◦*+]\s+)+")  # of a list
_QUESTION = re.compile(
    r"\s*(?:[-•*#]+\s+)?[*_]*(?P<label>(?:[QFPD]|Question|Frage|Pregunta|Domanda|Вопрос|問|问)\s*\d{0,3}\s*[.:：)]|\d{1,3}[.)])?"
    r"[*_]*\s*(?:\d{1,2}\s+)?(?P<text>[^\s*_].*[?？؟])[*_\s]*"
)
_SENTENCE_END = re.compile(r"(?<=[^\W_][^\W_])[.!?]\s+(?=\S)|[。！？](?=.)")
_CAPTION = re.compile(
    r"^[ \t]*[*_]*(?:fig(?:ure|\.)?|table|tab\.?|chart|diagram|exhibit|scheme|abb(?:ildung|\.)?|tabelle|figura|figuur|tabla|tableau"  # noqa: E501
    r"|tabel|tabela|rysunek|рис\.?|рисунок|таблица|图|圖|表|図)[ \t]*\d+(?:[.-]\d+)*[a-z]?[*_]*"
    r"(?:[:.|][*_]*[ \t]+|：|[.:]?[ \t]*[–—]|[ \t]-[ \t])[*_ \t–—]*(?P<text>\S.*(?:\n["
    r" \t]*(?-i:[a-zß-öø-ÿа-я]).*){0,2})",
    re.IGNORECASE | re.MULTILINE,
)
_ASKING = ("?", "？", "؟")
_BLANKS = re.compile(r"(?:[.…_]\s?){3}|\t\s*\d+\s*$")  # of a list of figures, or of a form
_TERM = re.compile(
    r"\s*(?:[-•*]\s+)?[*_\"“„«]*(?P<text>[^\W\d_][\w ()'’&/.,-]{1,59}?)[*_”\"»“]*"
    r"\s*(?:[:：=]|\s(?:[–—-]|means|shall"
    r" mean|bedeutet|bezeichnet|significa|désigne)\s)[*_]*\s*(?!//)\S.{14,}"
)


class _Found(NamedTuple):
    """A text that stands at text[start:end] of a document, and where what answers it begins."""

    origin: Origin
    text: str
    start: int
    end: int
    answer: int


def document_queries(store: Store) -> list[DocumentQuery]:
    """All that the documents of a project hold, in an order that stays: by path and place, links
    at the end.

    A link answers to the document that it leads to, if that is one of the project. Left out is what
    more than `MAX_ANSWERS` passages would answer, and what says the same of the same passage as one
    before it. Entries of one title count as one: they are parts of an article.
    """
    documents = store.documents()
    paths = {one.id: one for one in documents}
    places = {(one.source, one.path): one.id for one in documents}
    distinct: dict[tuple[str, int, int | None], DocumentQuery] = {}
    answers: dict[str, set[object]] = defaultdict(set)
    for query in sorted(store.document_queries(), key=lambda one: one.origin == "link"):
        if query.origin == "link":
            holder = paths[query.written_in]
            names = (_joined(holder.path, query.target) + ending for ending in _PAGES)
            target = next(
                (places[holder.source, name] for name in names if (holder.source, name) in places),
                0,
            )
            if target in (0, query.written_in):
                continue
            query = replace(query, document_id=target)
        key = " ".join(folded_words(query.text))
        if (key, query.document_id, query.chunk_id) not in distinct:
            entry = query.origin == "title" and paths[query.document_id].external_id is not None
            answers[key].add("an article" if entry else (query.document_id, query.chunk_id))
            distinct[key, query.document_id, query.chunk_id] = query
    return [query for (key, *_), query in distinct.items() if len(answers[key]) <= MAX_ANSWERS]


def queries_in(read: ReadDocument, path: str, chunks: Sequence[Chunk]) -> list[DocumentQuery]:
    """What a document holds that is stored at `path` as `chunks`, which have their ids; links by
    what they name.
    """
    if not chunks:
        return []
    row = chunks[0].document_id
    starts = [chunk.start for chunk in chunks]
    queries = list(_of_whole(read, path, row))
    known: set[tuple[str, int | None]] = {
        (" ".join(folded_words(query.text)), None) for query in queries
    }
    for found in (
        *_headings(read),
        *_questions(read),
        *_captions(read),
        *_terms(read, path),
        *_marked(read),
    ):
        key = " ".join(folded_words(found.text))
        chunk = chunks[max(0, bisect_right(starts, found.answer) - 1)]
        if known.isdisjoint(((key, None), (key, chunk.id))):
            known.add((key, chunk.id))
            queries.append(
                DocumentQuery(found.text, found.origin, chunk.id, row, found.start, found.end, row)
            )
    for mark in read.marked:
        text = _on_one_line(mark.text)
        if mark.origin == "link" and _says(text, _LINK) and "://" not in text:
            queries.append(
                DocumentQuery(text, "link", None, row, written_in=row, target=mark.target)
            )
    return queries


def folded_words(text: str) -> list[str]:
    """The words of a text without case, accents and punctuation: by these, texts are compared."""
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(
            char for char in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(char)
        )
    return _WORD.findall(plain)


def without_marks(subject: str) -> str:
    """A subject without the marks of answers and tickets."""
    text = _TICKET.sub(" ", subject)
    while found := _PREFIX.match(text):
        text = text[found.end() :]
    return " ".join(text.split())


def _says(text: str, less: frozenset[str] = _LESS, least: int = 2) -> bool:
    """Whether a text has `least` words that mean something, and is no passage itself."""
    words = _LETTERS.findall(text.casefold())
    known = less | _LESS
    if (least > 1 and " " not in text and text.isascii()) or _BLANKS.search(text):
        return False
    content = sum(
        len(word) / 2 if word >= _UNSPACED else len(word) > 2 and word not in known
        for word in words
    )
    return content >= least and len(words) <= _MAX_WORDS and len(text) <= _MAX_LENGTH


def _on_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _joined(path: str, target: str) -> str:
    """The path that a link in the document at `path` leads to; empty for one that leads
    elsewhere.
    """
    try:
        parts = urlsplit(target.strip())
    except ValueError:
        return ""
    if parts.scheme or parts.netloc or not parts.path:
        return ""
    named = unquote(parts.path).replace("\\", "/")
    return normpath(named.lstrip("/") if named.startswith("/") else join(dirname(path), named))


def _of_whole(read: ReadDocument, path: str, row: int) -> Iterator[DocumentQuery]:
    """The title of a document that people gave it, or the subject of a mail without the marks of
    answers and tickets.
    """
    text = _MARKER.sub("", " ".join(read.title.split()))
    origin: Origin = "subject" if read.format in _MAILS else "title"
    if origin == "subject":
        text = without_marks(text)
    elif read.format == "txt" and not _stands_alone(read.text):
        return
    name = PurePosixPath(path)
    words = folded_words(text)
    named = read.external_id is None and words in (folded_words(name.stem), folded_words(name.name))
    written = any(folded_words(line) == words for _, line in _lines(read.text, 0, _HEAD))
    if (
        (named and not written)
        or _NO_TITLE.match(text)
        or not _says(text)
        or len(read.text.strip()) - len(text) < _MIN_REST
    ):
        return
    start, end = _place(text, read.text, 0, _HEAD) or (-1, -1)
    yield DocumentQuery(text, origin, None, row, start, end, row)


def _place(words: str, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where `words` stand first in a piece of a text, however they are broken into lines and
    whatever their case.
    """
    found = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE).search(
        text, start, end
    )
    if found:
        return found.span()
    return None


def _stands_alone(text: str) -> bool:
    """Whether the first line of a text is set off as its title, and no beginning of a sentence."""
    first, _, rest = text.strip().partition("\n")
    below = rest.partition("\n")[0].strip()
    return not below.strip("=-*#~_") and not first.rstrip().endswith((".", ",", ";", ":"))


def _lines(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a piece of a text that are not blank, each with where it begins."""
    for line in text[start:end].split("\n"):
        if line.strip():
            yield start, line
        start += len(line) + 1


def _sections(read: ReadDocument) -> Iterator[tuple[Heading, int]]:
    """Each heading, and where the next one begins."""
    ends = (*(heading.start for heading in read.headings[1:]), len(read.text))
    return zip(read.headings, ends, strict=False)


def _headings(read: ReadDocument) -> Iterator[_Found]:
    """Headings with text below them that come once in the document, without their numbers."""
    text = read.text
    times = Counter(heading.title for heading in read.headings)
    for heading, end in _sections(read):
        line_end = text.find("\n", heading.start, end)
        title = _NUMBER.sub("", _MARKER.sub("", heading.title)).strip(" *_:")
        place = _place(title, text, heading.start, end)
        if place is None or place[0] >= line_end:
            place = heading.start, line_end
        below = text.find("\n", place[1], end)
        if below >= 0:
            body = text[below:end].lstrip("\n\t =-")
        else:
            body = ""
        if (
            times[heading.title] > 1
            or len(body.strip()) < _MIN_REST
            or not _says(title)
            or title[-1] in _ASKING
        ):
            continue
        yield _Found("heading", title, *place, end - len(body))


def _questions(read: ReadDocument) -> Iterator[_Found]:
    """Lines that ask, with a paragraph below them that does not: apart from others, or labelled
    as questions.
    """
    headings = {heading.start for heading in read.headings}
    before = -2
    for (start, line), (below, answer) in pairwise(_lines(read.text)):
        apart = read.text.count("\n", max(0, before), start) > 1 or before < 0 or start in headings
        before = start + len(line)
        if len(line) <= _MAX_LINE_LENGTH:
            found = _QUESTION.fullmatch(line)
        else:
            found = None
        if found is None or len(answer.strip()) < _MIN_REST or answer.rstrip(" *_")[-1:] in _ASKING:
            continue
        text = found["text"]
        set_off = (
            apart
            and read.format not in _MAILS
            and not text[0].islower()
            and text[0] not in "\"'“”„«»‘’>|"
        )
        if (found["label"] or set_off) and _says(text) and not _SENTENCE_END.search(text):
            yield _Found("faq", text, start + found.start("text"), start + found.end("text"), below)


def _captions(read: ReadDocument) -> Iterator[_Found]:
    """Lines that begin with the number of a figure or a table and a sign behind it: their first
    sentences.
    """
    for found in _CAPTION.finditer(read.text):
        written = _SENTENCE_END.split(found["text"], maxsplit=1)[0].rstrip(" .*_")
        text = " ".join(written.split())
        at = found.start("text")
        if _says(text):
            yield _Found("caption", text, at, at + len(written), found.start())


def _terms(read: ReadDocument, path: str) -> Iterator[_Found]:
    """The terms of sections, or of documents, that are called glossaries."""
    whole = not _GLOSSARY.isdisjoint(folded_words(f"{read.title} {PurePosixPath(path).stem}"))
    if whole:
        spans = [(0, len(read.text))]
    else:
        spans = []
    level = 0
    for heading, end in _sections(read):
        words = folded_words(heading.title)
        if level == 0 or heading.level <= level:
            if len(words) <= 5 and not _GLOSSARY.isdisjoint(words):
                level = heading.level
            else:
                level = 0
        if level and not whole:
            spans.append((heading.start, end))
    for start, line in (line for span in spans for line in _lines(read.text, *span)):
        found = _TERM.fullmatch(line[:_MAX_LINE_LENGTH])
        if found and len(found["text"].split()) <= _MAX_TERM and _says(found["text"], least=1):
            yield _Found(
                "glossary",
                found["text"],
                start + found.start("text"),
                start + found.end("text"),
                start,
            )


def _marked(read: ReadDocument) -> Iterator[_Found]:
    """What the file itself marks as a caption or a term, at its place in the text."""
    lines = f"\n{read.text}\n"
    after = defaultdict[Origin, int](int)
    for mark in read.marked:
        text = _on_one_line(mark.text)
        if mark.origin == "link" or not _says(text, least=1 if mark.origin == "glossary" else 2):
            continue
        start = lines.find(f"\n{text}\n", after[mark.origin])
        if start < 0:
            start = read.text.find(text, after[mark.origin])
        else:
            start = start
        if start >= 0:
            after[mark.origin] = start + len(text)
            found = _CAPTION.match(text)
            if found:
                shift = found.start("text")
            else:
                shift = 0
            yield _Found(mark.origin, text[shift:], start + shift, start + len(text), start)
