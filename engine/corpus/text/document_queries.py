"""Queries in documents: texts in which people already say what a passage is about.

They are recognised mostly by their layout (a heading, a caption, a question above a paragraph), so
that this works in any language; lists of words are short.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from engine.core.characters import drop_invisible
from engine.core.records import Chunk, Document, DocumentQuery, Heading, Origin, ReadDocument
from engine.project.store.store import Store

MAX_ANSWERS = 3
"""A text above more passages, such as "Introduction", says nothing about any of them."""
_MAX_LENGTH = 200
_MAX_WORDS = 30
_MAX_LINE_LENGTH = 400
"""Maximum length of a line that may be a question, a caption or a term with its definition."""
_MAX_TERM_WORDS = 6
_MIN_REST = 40
"""Minimum number of characters that a passage has besides the query."""
_HEAD = 2000
"""Number of characters at the beginning of a text that may contain its title."""
_MAIL_FORMATS = ("eml", "msg")
_LINK_ENDINGS = ("", ".html", ".htm", ".md", "/index.html", "/index.md", "/README.md")
"""What a link may leave out at the end of a path."""

_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNSPACED = "\u2e80"
"""First character of scripts without blanks between words, where two characters count as a word."""
# fmt: off
_FUNCTION_WORDS = frozenset((
    "also", "and", "are", "das", "dem", "den", "der", "des", "die", "ein", "eine", "for", "from", "has", "how", "las", "les",  # noqa: E501
    "los", "och", "pour", "the", "und", "une", "von", "was", "with", "zum", "zur",
))
_LINK_WORDS = frozenset((
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
_LIST_MARKER = re.compile(r"^\s*(?:[-–—•·▪◦*+]\s+)+")
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
_QUESTION_MARKS = ("?", "？", "؟")
_FILLERS = re.compile(r"(?:[.…_]\s?){3}|\t\s*\d+\s*$")
"""Dots and lines in a list of figures or a form."""
_TERM = re.compile(
    r"\s*(?:[-•*]\s+)?[*_\"“„«]*(?P<text>[^\W\d_][\w ()'’&/.,-]{1,59}?)[*_”\"»“]*"
    r"\s*(?:[:：=]|\s(?:[–—-]|means|shall"
    r" mean|bedeutet|bezeichnet|significa|désigne)\s)[*_]*\s*(?!//)\S.{14,}"
)


class _Candidate(NamedTuple):
    """A query at text[start:end] of a document, and the offset at which its answer begins."""

    origin: Origin
    text: str
    start: int
    end: int
    answer: int


def document_queries(store: Store) -> list[DocumentQuery]:
    """Return the queries in the documents of a project, by path and position, links at the end.

    A link is a query for the document that it leads to, if that belongs to the project. Left out
    are queries that more than `MAX_ANSWERS` passages would answer, and repetitions for the same
    passage. Entries of one title are parts of an article, and count as one answer.
    """
    documents = store.documents()
    by_id = {document.id: document for document in documents}
    by_path = {(document.source, document.path): document.id for document in documents}
    distinct: dict[tuple[str, int, int | None], DocumentQuery] = {}
    answers: defaultdict[str, set[object]] = defaultdict(set)
    links_last = sorted(store.document_queries(), key=lambda query: query.origin == "link")
    for query in links_last:
        if query.origin == "link":
            target = _find_target(query, by_id[query.written_in], by_path)
            if target is None:
                continue
            query = replace(query, document_id=target)
        text = " ".join(folded_words(query.text))
        key = (text, query.document_id, query.chunk_id)
        if key in distinct:
            continue
        distinct[key] = query
        is_entry = by_id[query.document_id].is_entry
        if query.origin == "title" and is_entry:
            answers[text].add("an article")
        else:
            answers[text].add((query.document_id, query.chunk_id))
    queries = []
    for (text, _, _), query in distinct.items():
        if len(answers[text]) <= MAX_ANSWERS:
            queries.append(query)
    return queries


def _find_target(
    link: DocumentQuery, holder: Document, by_path: Mapping[tuple[str, str], int]
) -> int | None:
    """Return the other document of the project that a link leads to, if any."""
    path = _resolve_link(holder.path, link.target)
    for ending in _LINK_ENDINGS:
        target = by_path.get((holder.source, path + ending))
        if target is not None:
            return target if target != link.written_in else None
    return None


def queries_in(read: ReadDocument, path: str, chunks: Sequence[Chunk]) -> list[DocumentQuery]:
    """Return the queries in a document that is stored at `path` as `chunks`.

    The chunks have their ids already. Links carry the target that they name.
    """
    if not chunks:
        return []
    document_id = chunks[0].document_id
    starts = [chunk.start for chunk in chunks]
    queries: list[DocumentQuery] = []
    known: set[tuple[str, int | None]] = set()
    title = _find_title(read, path, document_id)
    if title is not None:
        queries.append(title)
        known.add((" ".join(folded_words(title.text)), None))
    candidates = chain(
        _find_headings(read),
        _find_questions(read),
        _find_captions(read),
        _find_terms(read, path),
        _find_marked(read),
    )
    for candidate in candidates:
        key = " ".join(folded_words(candidate.text))
        chunk = chunks[max(0, bisect_right(starts, candidate.answer) - 1)]
        if known.isdisjoint(((key, None), (key, chunk.id))):
            known.add((key, chunk.id))
            queries.append(
                DocumentQuery(
                    candidate.text,
                    candidate.origin,
                    chunk.id,
                    document_id,
                    candidate.start,
                    candidate.end,
                    document_id,
                )
            )
    for mark in read.marked:
        text = _join_lines(mark.text)
        if mark.origin == "link" and _is_meaningful(text, _LINK_WORDS) and "://" not in text:
            link = DocumentQuery(
                text, "link", None, document_id, written_in=document_id, target=mark.target
            )
            queries.append(link)
    return queries


def folded_words(text: str) -> list[str]:
    """Return the words of a text without case, accents and punctuation, for comparison."""
    folded = text.casefold()
    if not folded.isascii():
        decomposed = unicodedata.normalize("NFKD", folded)
        letters = [char for char in decomposed if not unicodedata.combining(char)]
        folded = "".join(letters)
    return _WORD.findall(folded)


def without_marks(subject: str) -> str:
    """Return a mail's subject without the marks of replies and tickets."""
    text = _TICKET.sub(" ", subject)
    while prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    return " ".join(text.split())


def _is_meaningful(
    text: str, ignored: frozenset[str] = _FUNCTION_WORDS, min_words: int = 2
) -> bool:
    """Return whether a text has at least `min_words` content words, and is no passage itself.

    `ignored`: words that do not count, besides function words.
    """
    if min_words > 1 and " " not in text and text.isascii():
        return False
    words = _LETTERS.findall(text.casefold())
    if len(words) > _MAX_WORDS or len(text) > _MAX_LENGTH or _FILLERS.search(text):
        return False
    content = 0.0
    for word in words:
        if word >= _UNSPACED:
            content += len(word) / 2
        elif len(word) > 2 and word not in ignored and word not in _FUNCTION_WORDS:
            content += 1
    return content >= min_words


def _join_lines(text: str) -> str:
    return " ".join(drop_invisible(text).split())


def _resolve_link(path: str, target: str) -> str:
    """Return the path to which a link in the document at `path` leads; empty for other places."""
    try:
        parts = urlsplit(target.strip())
    except ValueError:
        return ""
    if parts.scheme or parts.netloc or not parts.path:
        return ""
    linked = unquote(parts.path).replace("\\", "/")
    if linked.startswith("/"):
        return normpath(linked.lstrip("/"))
    return normpath(join(dirname(path), linked))


def _find_title(read: ReadDocument, path: str, document_id: int) -> DocumentQuery | None:
    """Return the title that people gave a document, or the subject of a mail.

    None if there is none, or if it says nothing.
    """
    text = _LIST_MARKER.sub("", " ".join(read.title.split()))
    origin: Origin = "subject" if read.format in _MAIL_FORMATS else "title"
    if origin == "subject":
        text = without_marks(text)
    elif read.format == "txt" and not _begins_with_title(read.text):
        return None
    if _NO_TITLE.match(text) or not _is_meaningful(text):
        return None
    if len(read.text.strip()) - len(text) < _MIN_REST:
        return None
    if _is_file_name(text, path, read):
        return None
    start, end = _find_words(text, read.text, 0, _HEAD) or (-1, -1)
    return DocumentQuery(text, origin, None, document_id, start, end, document_id)


def _is_file_name(title: str, path: str, read: ReadDocument) -> bool:
    """Return whether a title is only the file's name, and no line of the text."""
    if read.external_id is not None:
        return False
    name = PurePosixPath(path)
    words = folded_words(title)
    if words not in (folded_words(name.stem), folded_words(name.name)):
        return False
    lines = [folded_words(line) for _, line in _split_lines(read.text, 0, _HEAD)]
    return words not in lines


def _find_words(words: str, text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the first span of words in a part of a text, in any case and across lines."""
    escaped = map(re.escape, words.split())
    pattern = re.compile(r"\s+".join(escaped), re.IGNORECASE)
    match = pattern.search(text, start, end)
    if match:
        return match.span()
    return None


def _begins_with_title(text: str) -> bool:
    """Return whether the first line of a text is set off, and no beginning of a sentence."""
    first, _, rest = text.strip().partition("\n")
    second = rest.partition("\n")[0].strip()
    is_set_off = not second.strip("=-*#~_")
    return is_set_off and not first.rstrip().endswith((".", ",", ";", ":"))


def _split_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a part of a text that are not blank, each after its offset."""
    for line in text[start:end].split("\n"):
        if line.strip():
            yield start, line
        start += len(line) + 1


def _split_sections(read: ReadDocument) -> Iterator[tuple[Heading, int]]:
    """Yield each heading, and the end of its section."""
    ends = [heading.start for heading in read.headings[1:]]
    ends.append(len(read.text))
    return zip(read.headings, ends, strict=False)


def _find_headings(read: ReadDocument) -> Iterator[_Candidate]:
    """Yield headings with text below that occur once in the document, without their numbers."""
    text = read.text
    counts = Counter(heading.title for heading in read.headings)
    for heading, end in _split_sections(read):
        if counts[heading.title] > 1:
            continue
        line_end = text.find("\n", heading.start, end)
        title = _NUMBER.sub("", _LIST_MARKER.sub("", heading.title)).strip(" *_:")
        span = _find_words(title, text, heading.start, end)
        if span is None or span[0] >= line_end:
            span = (heading.start, line_end)
        body_start = text.find("\n", span[1], end)
        if body_start < 0:
            continue
        # The line of `=` or `-` below a heading is no text.
        body = text[body_start:end].lstrip("\n\t =-")
        if len(body.strip()) < _MIN_REST:
            continue
        if _is_meaningful(title) and title[-1] not in _QUESTION_MARKS:
            yield _Candidate("heading", title, *span, end - len(body))


def _find_questions(read: ReadDocument) -> Iterator[_Candidate]:
    """Yield questions above a paragraph that is not a question, if set off or labelled."""
    headings = {heading.start for heading in read.headings}
    last_end = -2
    for (start, line), (answer_start, answer) in pairwise(_split_lines(read.text)):
        blank_above = last_end < 0 or read.text.count("\n", last_end, start) > 1
        last_end = start + len(line)
        if len(line) > _MAX_LINE_LENGTH or len(answer.strip()) < _MIN_REST:
            continue
        match = _QUESTION.fullmatch(line)
        if match is None or answer.rstrip(" *_")[-1:] in _QUESTION_MARKS:
            continue
        text = match["text"]
        is_set_off = blank_above or start in headings
        if not match["label"] and not (is_set_off and _may_be_question(read, text)):
            continue
        if _is_meaningful(text) and not _SENTENCE_END.search(text):
            text_start = start + match.start("text")
            text_end = start + match.end("text")
            yield _Candidate("faq", text, text_start, text_end, answer_start)


def _may_be_question(read: ReadDocument, text: str) -> bool:
    """Return whether a line may be a question without a label: no part of a mail, no quotation."""
    if read.format in _MAIL_FORMATS or text[0].islower():
        return False
    return text[0] not in "\"'“”„«»‘’>|"


def _find_captions(read: ReadDocument) -> Iterator[_Candidate]:
    """Yield the first sentences of lines that begin with the number of a figure or table."""
    for match in _CAPTION.finditer(read.text):
        sentence = _SENTENCE_END.split(match["text"], maxsplit=1)[0].rstrip(" .*_")
        text = " ".join(sentence.split())
        start = match.start("text")
        if _is_meaningful(text):
            yield _Candidate("caption", text, start, start + len(sentence), match.start())


def _find_terms(read: ReadDocument, path: str) -> Iterator[_Candidate]:
    """Yield the terms that glossaries define."""
    for span in _find_glossaries(read, path):
        for start, line in _split_lines(read.text, *span):
            match = _TERM.fullmatch(line[:_MAX_LINE_LENGTH])
            if match is None or len(match["text"].split()) > _MAX_TERM_WORDS:
                continue
            if _is_meaningful(match["text"], min_words=1):
                text_start = start + match.start("text")
                text_end = start + match.end("text")
                yield _Candidate("glossary", match["text"], text_start, text_end, start)


def _find_glossaries(read: ReadDocument, path: str) -> list[tuple[int, int]]:
    """Return the spans of sections that are called glossaries, or of the whole document."""
    names = folded_words(f"{read.title} {PurePosixPath(path).stem}")
    if not _GLOSSARY.isdisjoint(names):
        return [(0, len(read.text))]
    spans = []
    level = 0  # of the heading of the current glossary; 0 outside of one
    for heading, end in _split_sections(read):
        words = folded_words(heading.title)
        if level == 0 or heading.level <= level:
            is_glossary = len(words) <= 5 and not _GLOSSARY.isdisjoint(words)
            level = heading.level if is_glossary else 0
        if level:
            spans.append((heading.start, end))
    return spans


def _find_marked(read: ReadDocument) -> Iterator[_Candidate]:
    """Yield what the file itself marks as a caption or a term, at its place in the text."""
    lines = f"\n{read.text}\n"
    next_start: defaultdict[Origin, int] = defaultdict(int)
    for mark in read.marked:
        if mark.origin == "link":
            continue
        text = _join_lines(mark.text)
        min_words = 1 if mark.origin == "glossary" else 2
        if not _is_meaningful(text, min_words=min_words):
            continue
        start = lines.find(f"\n{text}\n", next_start[mark.origin])
        if start < 0:
            start = read.text.find(text, next_start[mark.origin])
        if start < 0:
            continue
        end = start + len(text)
        next_start[mark.origin] = end
        caption = _CAPTION.match(text)
        number_length = caption.start("text") if caption else 0
        words = text[number_length:]
        yield _Candidate(mark.origin, words, start + number_length, end, start)
