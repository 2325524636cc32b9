"""Queries in documents: texts in which people already say what a passage is about.

They are recognised mostly by their layout (a heading, a caption, a question above a paragraph), so
that this works in any language. Only a few words of some languages are needed.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from engine.core.assets import asset_path
from engine.core.characters import drop_invisible
from engine.core.records import Chunk, Document, DocumentQuery, Heading, Origin, ReadDocument
from engine.project.store.store import Store

MAX_ANSWERS = 3
"""A query with more answers, such as the heading "Introduction", says nothing about any of them."""
_MAX_LENGTH = 200  # characters of a query
_MAX_WORDS = 30
_MAX_LINE_LENGTH = 400
"""Maximum length of a line that may be a question, a caption or a term with its definition."""
_MAX_TERM_WORDS = 6
_MAX_GLOSSARY_WORDS = 5  # of the heading of a glossary
_MIN_REST = 40
"""Minimum number of characters that an answer has besides the query."""
_TITLE_AREA = 2000
"""Number of characters at the beginning of a text that may contain its title."""
_MAIL_FORMATS = ("eml", "msg")
_LINK_ENDINGS = (
    "",
    ".html",
    ".htm",
    ".md",
    "/index.html",
    "/index.md",
    "/README.md",
)
"""Ends of a path that a link may leave out, the most usual first."""
_WORDS = "words/document_queries.toml"

_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNSPACED = "\u2e80"
"""First character of scripts without blanks between words, where two characters count as a word."""
# Undecoded titles (=?utf-8?), `Untitled`, `Microsoft Word - draft`, `Slide 3`, and names of files.
_NO_TITLE = re.compile(
    r"=\?|(?:untitled|unbenannt|ohne titel|sans titre|sin título|no title|microsoft \w+ -"
    r" |powerpoint.presentation"
    r"|(?:slide|page|document|dokument|folie|sheet|presentation)\W?\d*$)|\S.*\.[a-z]{2,4}\d?$",
    re.IGNORECASE,
)
# `Re:`, `AW[2]:`, `[the-list]` or `ABC-123:` at the beginning of a subject.
_SUBJECT_PREFIX = re.compile(
    r"\s*(?:(?:re|fwd?|aw|wg|sv|vs|vb|tr|rv|antw|odp|回复|答复|转发)\s*(?:\[\d+\])?\s*[:：]"
    r"|\[[^\]]{1,40}\]|(?-i:[A-Z]{2,10}-\d+):)",
    re.IGNORECASE,
)
# `[#4711]` or `(Ticket #4711)` anywhere in a subject.
_TICKET = re.compile(
    r"\[[^\]]{0,20}\d[^\]]{0,20}\]|\(?(?:ticket|case|bug)?\s*#\s?\d{2,}\)?:?", re.IGNORECASE
)
# `§ 7`, `2.3.1`, `A.1`, `B)` or `IV.` before the words of a heading.
_HEADING_NUMBER = re.compile(
    r"^\s*(?:§\s*)?(?:\d{1,2}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,2})+|[A-Z](?=[.)])|[IVX]+(?=[.)]))"
    r"[.):]*\s+(?=\S)"
)
_LIST_MARKER = re.compile(r"^\s*(?:[-–—•·▪◦*+]\s+)+")
# `Where is the key?`, with a label as in `**Q3:** Where is the key?` or `3. Where is the key?`.
_QUESTION = re.compile(
    r"\s*(?:[-•*#]+\s+)?[*_]*"
    r"(?P<label>(?:[QFPD]|Question|Frage|Pregunta|Domanda|Вопрос|問|问)\s*\d{0,3}\s*[.:：)]|\d{1,3}[.)])?"
    r"[*_]*\s*(?:\d{1,2}\s+)?(?P<text>[^\s*_].*[?？؟])[*_\s]*"
)
_SENTENCE_END = re.compile(r"(?<=[^\W_][^\W_])[.!?]\s+(?=\S)|[。！？](?=.)")
# `Figure 3: ` or `**Tab. 2.1** – ` before a text of up to three lines.
_CAPTION = re.compile(
    r"^[ \t]*[*_]*"
    r"(?:fig(?:ure|\.)?|table|tab\.?|chart|diagram|exhibit|scheme|abb(?:ildung|\.)?|tabelle|figura"
    r"|figuur|tabla|tableau|tabel|tabela|rysunek|рис\.?|рисунок|таблица|图|圖|表|図)"
    r"[ \t]*\d+(?:[.-]\d+)*[a-z]?[*_]*"
    r"(?:[:.|][*_]*[ \t]+|：|[.:]?[ \t]*[–—]|[ \t]-[ \t])[*_ \t–—]*"
    r"(?P<text>\S.*(?:\n[ \t]*(?-i:[a-zß-öø-ÿа-я]).*){0,2})",
    re.IGNORECASE | re.MULTILINE,
)
_QUESTION_MARKS = ("?", "？", "؟")
_FILLERS = re.compile(r"(?:[.…_]\s?){3}|\t\s*\d+\s*$")
"""Dots, lines and page numbers, as in a list of figures or a form."""
# `Berth: a place where …` or `"Berth" means a place where …`.
_TERM = re.compile(
    r"\s*(?:[-•*]\s+)?[*_\"“„«]*(?P<text>[^\W\d_][\w ()'’&/.,-]{1,59}?)[*_”\"»“]*"
    r"\s*(?:[:：=]|\s(?:[–—-]|means|shall mean|bedeutet|bezeichnet|significa|désigne)\s)[*_]*"
    r"\s*(?!//)\S.{14,}"
)


_ARTICLE = (0, None)
"""The answer to a title that several entries share, in place of (document, chunk)."""


class _Candidate(NamedTuple):
    """A query in a document."""

    origin: Origin
    text: str
    # The span of the query in the document's text.
    start: int
    end: int
    # The offset at which its answer begins.
    answer: int


@cache
def _read_words(kind: str) -> frozenset[str]:
    """Return the list of words called `kind` in assets/words/document_queries.toml."""
    lists: dict[str, str] = tomllib.loads(asset_path(_WORDS).read_text("utf-8"))
    return frozenset(lists[kind].split())


def document_queries(store: Store) -> list[DocumentQuery]:
    """Return the queries in the documents of a project, by path and position, links at the end.

    A link is a query for the document that it leads to, and is left out if that is not part of the
    project. A query that has more than `MAX_ANSWERS` answers is left out, and so is one with the
    same words and answer as another. Documents that are entries with the same title are parts of
    one article, and count as one answer.
    """
    documents = store.documents()
    by_id = {document.id: document for document in documents}
    by_path = {(document.source, document.path): document.id for document in documents}
    # Keys: (words of the query, id of the document, id of the chunk) of the query and its answer.
    distinct: dict[tuple[str, int, int | None], DocumentQuery] = {}
    answers: defaultdict[str, set[tuple[int, int | None]]] = defaultdict(set)
    links_last = sorted(store.document_queries(), key=lambda query: query.origin == "link")
    for query in links_last:
        if query.origin == "link":
            target = _find_target(
                query,
                by_id[query.written_in],
                by_path,
            )
            if target is None:
                continue
            query = replace(query, document_id=target)
        words = " ".join(folded_words(query.text))
        answer = (query.document_id, query.chunk_id)
        if (words, *answer) in distinct:
            continue
        distinct[words, *answer] = query
        if query.origin == "title" and by_id[query.document_id].is_entry:
            answer = _ARTICLE
        answers[words].add(answer)
    queries = []
    for (words, _, _), query in distinct.items():
        if len(answers[words]) <= MAX_ANSWERS:
            queries.append(query)
    return queries


def _find_target(
    link: DocumentQuery, holder: Document, by_path: Mapping[tuple[str, str], int]
) -> int | None:
    """Return the id of the other document of the project that a link leads to, if any.

    `holder` is the document with the link, and `by_path` has ids by source and path.
    """
    path = _resolve_link(holder.path, link.target)
    for ending in _LINK_ENDINGS:
        target = by_path.get((holder.source, path + ending))
        if target == link.written_in:
            return None
        if target is not None:
            return target
    return None


def queries_in(
    document: ReadDocument,
    path: str,
    chunks: Sequence[Chunk],
) -> list[DocumentQuery]:
    """Return the queries in a document that is stored at `path` as `chunks`.

    The chunks have their ids already. The title comes first and answers for the whole document;
    other queries are answered by the chunk in which their answer begins. Links come last, with the
    target that they name.
    """
    if not chunks:
        return []
    document_id = chunks[0].document_id
    starts = [chunk.start for chunk in chunks]
    queries: list[DocumentQuery] = []
    # (words of the query, id of its chunk) of the queries found so far; the id is None for the
    # title.
    known: set[tuple[str, int | None]] = set()
    title = _find_title(document, path, document_id)
    if title is not None:
        queries.append(title)
        known.add((" ".join(folded_words(title.text)), None))
    candidates = chain(
        _find_headings(document),
        _find_questions(document),
        _find_captions(document),
        _find_terms(document, path),
        _find_marked(document),
    )
    for candidate in candidates:
        words = " ".join(folded_words(candidate.text))
        chunk = chunks[max(0, bisect_right(starts, candidate.answer) - 1)]
        if (words, None) in known or (words, chunk.id) in known:
            continue
        known.add((words, chunk.id))
        query = DocumentQuery(
            candidate.text,
            candidate.origin,
            chunk.id,
            document_id,
            candidate.start,
            candidate.end,
            written_in=document_id,
        )
        queries.append(query)
    link_words = _read_words("link_words")
    for mark in document.marked:
        text = _join_lines(mark.text)
        if mark.origin == "link" and _is_meaningful(text, link_words) and "://" not in text:
            link = DocumentQuery(
                text, "link", None, document_id, written_in=document_id, target=mark.target
            )
            queries.append(link)
    return queries


def folded_words(text: str) -> list[str]:
    """Return the words of a text without case, accents and punctuation, to compare texts.

    `Öffnungs-Zeiten!` → `["offnungs", "zeiten"]`.
    """
    folded = text.casefold()
    if not folded.isascii():
        decomposed = unicodedata.normalize("NFKD", folded)
        letters = [char for char in decomposed if not unicodedata.combining(char)]
        folded = "".join(letters)
    return _WORD.findall(folded)


def without_marks(subject: str) -> str:
    """Return a mail's subject without the marks of replies and tickets.

    `Re: AW: [#4711] Berth 7` → `Berth 7`.
    """
    text = _TICKET.sub(" ", subject)
    while prefix := _SUBJECT_PREFIX.match(text):
        text = text[prefix.end() :]
    return " ".join(text.split())


def _is_meaningful(
    text: str, ignored: frozenset[str] = frozenset(), min_content_words: int = 2
) -> bool:
    """Return whether a text has enough content words for a query, and is no passage.

    Function words, words of one or two letters and `ignored` words are not content words. In
    scripts without blanks, two characters count as a word.
    """
    if min_content_words > 1 and " " not in text and text.isascii():
        return False
    words = _LETTERS.findall(text.casefold())
    if len(words) > _MAX_WORDS or len(text) > _MAX_LENGTH or _FILLERS.search(text):
        return False
    function_words = _read_words("function_words")
    content_words = 0.0
    for word in words:
        if word >= _UNSPACED:
            content_words += len(word) / 2
        elif len(word) > 2 and word not in ignored and word not in function_words:
            content_words += 1
    return content_words >= min_content_words


def _join_lines(text: str) -> str:
    """Return a text on one line, without invisible characters."""
    return " ".join(drop_invisible(text).split())


def _resolve_link(path: str, target: str) -> str:
    """Return the path to which a link in the document at `path` leads.

    Empty for a link that does not lead to another file, such as a web address or `#part`.
    """
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


def _find_title(
    document: ReadDocument,
    path: str,
    document_id: int,
) -> DocumentQuery | None:
    """Return the title that people gave a document, or the subject of a mail.

    None if there is none, or if it says too little, such as `Untitled` or the file's name.
    """
    title = _LIST_MARKER.sub("", " ".join(document.title.split()))
    origin: Origin = "title"
    if document.format in _MAIL_FORMATS:
        origin = "subject"
        title = without_marks(title)
    elif document.format == "txt" and not _begins_with_title(document.text):
        return None
    if _NO_TITLE.match(title) or not _is_meaningful(title):
        return None
    if len(document.text.strip()) - len(title) < _MIN_REST:
        return None
    if _is_file_name(title, path, document):
        return None
    query = DocumentQuery(
        title,
        origin,
        None,
        document_id,
        written_in=document_id,
    )
    span = _find_words(
        title,
        document.text,
        0,
        _TITLE_AREA,
    )
    if span is None:
        return query
    start, end = span
    return replace(
        query,
        start=start,
        end=end,
    )


def _is_file_name(
    title: str,
    path: str,
    document: ReadDocument,
) -> bool:
    """Return whether a title is only the file's name, and no line of the text."""
    # A document of a data set has no file of its own.
    if document.external_id is not None:
        return False
    name = PurePosixPath(path)
    words = folded_words(title)
    if words not in (folded_words(name.stem), folded_words(name.name)):
        return False
    lines = [folded_words(line) for _, line in _split_lines(document.text, 0, _TITLE_AREA)]
    return words not in lines


def _find_words(
    words: str,
    text: str,
    start: int,
    end: int,
) -> tuple[int, int] | None:
    """Return the start and end of some words in text[start:end], in any case and across lines."""
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
    match = pattern.search(text, start, end)
    return match.span() if match else None


def _begins_with_title(text: str) -> bool:
    """Return whether the first line of a text is a title: set off from it, and no sentence."""
    first, _, rest = text.strip().partition("\n")
    second = rest.partition("\n")[0].strip()
    # The second line is empty or underlines the first one.
    is_set_off = not second.strip("=-*#~_")
    return is_set_off and not first.rstrip().endswith((".", ",", ";", ":"))


def _split_lines(
    text: str,
    start: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield (offset, line) for each line of text[start:end] that is not blank."""
    for line in text[start:end].split("\n"):
        if line.strip():
            yield start, line
        start += len(line) + 1


def _split_sections(document: ReadDocument) -> Iterator[tuple[Heading, int]]:
    """Yield each heading, and the offset at which its section ends."""
    ends = [heading.start for heading in document.headings[1:]]
    ends.append(len(document.text))
    return zip(
        document.headings,
        ends,
        strict=False,
    )


def _find_headings(document: ReadDocument) -> Iterator[_Candidate]:
    """Yield headings without their numbers.

    Only headings with text below them, and whose titles occur once in the document, are yielded.
    """
    text = document.text
    counts = Counter(heading.title for heading in document.headings)
    for heading, section_end in _split_sections(document):
        if counts[heading.title] > 1:
            continue
        line_end = text.find(
            "\n",
            heading.start,
            section_end,
        )
        title = _HEADING_NUMBER.sub("", _LIST_MARKER.sub("", heading.title)).strip(" *_:")
        span = _find_words(
            title,
            text,
            heading.start,
            section_end,
        )
        # Words that are not in the line itself belong to the text below.
        if span is None or span[0] >= line_end:
            span = (heading.start, line_end)
        body_start = text.find(
            "\n",
            span[1],
            section_end,
        )
        if body_start < 0:
            continue
        # The line of `=` or `-` below a heading is no text.
        body = text[body_start:section_end].lstrip("\n\t =-")
        if len(body.strip()) < _MIN_REST:
            continue
        # `_find_questions` yields headings that are questions.
        if _is_meaningful(title) and title[-1] not in _QUESTION_MARKS:
            yield _Candidate(
                "heading",
                title,
                *span,
                answer=section_end - len(body),
            )


def _find_questions(document: ReadDocument) -> Iterator[_Candidate]:
    """Yield questions that stand above a paragraph which is not a question itself.

    A question must be set off by a blank line or be a heading, or it must have a label such as
    `Q:`.
    """
    headings = {heading.start for heading in document.headings}
    previous_end = 0
    for (start, line), (answer_start, answer) in pairwise(_split_lines(document.text)):
        is_first = previous_end == 0
        is_below_blank_line = document.text.count("\n", previous_end, start) > 1
        is_set_off = is_first or is_below_blank_line or start in headings
        previous_end = start + len(line)
        if len(line) > _MAX_LINE_LENGTH or len(answer.strip()) < _MIN_REST:
            continue
        match = _QUESTION.fullmatch(line)
        if match is None or answer.rstrip(" *_")[-1:] in _QUESTION_MARKS:
            continue
        text = match["text"]
        if not match["label"] and not (is_set_off and _may_be_question(document, text)):
            continue
        if _is_meaningful(text) and not _SENTENCE_END.search(text):
            text_start, text_end = match.span("text")
            yield _Candidate(
                "faq",
                text,
                start + text_start,
                start + text_end,
                answer_start,
            )


def _may_be_question(document: ReadDocument, text: str) -> bool:
    """Return whether a line may be a question although it has no label.

    Lines of mails, quotations and lines that begin with a small letter may not.
    """
    if document.format in _MAIL_FORMATS or text[0].islower():
        return False
    return text[0] not in "\"'“”„«»‘’>|"


def _find_captions(document: ReadDocument) -> Iterator[_Candidate]:
    """Yield the first sentences of lines that begin with the number of a figure or table."""
    for match in _CAPTION.finditer(document.text):
        sentence = _SENTENCE_END.split(match["text"], maxsplit=1)[0].rstrip(" .*_")
        text = " ".join(sentence.split())
        start = match.start("text")
        if _is_meaningful(text):
            yield _Candidate(
                "caption",
                text,
                start,
                start + len(sentence),
                match.start(),
            )


def _find_terms(document: ReadDocument, path: str) -> Iterator[_Candidate]:
    """Yield the terms that glossaries define."""
    for glossary_start, glossary_end in _find_glossaries(document, path):
        for start, line in _split_lines(document.text, glossary_start, glossary_end):
            match = _TERM.fullmatch(line[:_MAX_LINE_LENGTH])
            if match is None:
                continue
            term = match["text"]
            if len(term.split()) <= _MAX_TERM_WORDS and _is_meaningful(term, min_content_words=1):
                text_start, text_end = match.span("text")
                yield _Candidate(
                    "glossary",
                    term,
                    start + text_start,
                    start + text_end,
                    start,
                )


def _find_glossaries(document: ReadDocument, path: str) -> list[tuple[int, int]]:
    """Return the spans of sections whose headings say that they are glossaries.

    If the title or the file's name says so, it is the span of the whole document.
    """
    titles = _read_words("glossary_titles")
    names = folded_words(f"{document.title} {PurePosixPath(path).stem}")
    if not titles.isdisjoint(names):
        return [(0, len(document.text))]
    spans = []
    glossary_level = 0  # of the heading of the current glossary; 0 outside of one
    for heading, section_end in _split_sections(document):
        if glossary_level == 0 or heading.level <= glossary_level:
            words = folded_words(heading.title)
            is_glossary = len(words) <= _MAX_GLOSSARY_WORDS and not titles.isdisjoint(words)
            glossary_level = heading.level if is_glossary else 0
        if glossary_level:
            spans.append((heading.start, section_end))
    return spans


def _find_marked(document: ReadDocument) -> Iterator[_Candidate]:
    """Yield what the file itself marks as a caption or a term, at its place in the text.

    Marks of one origin are in the order of the text.
    """
    # A text that is a whole line is found here as `\n{line}\n`, whose offset is that of the line in
    # the document's text.
    lines = f"\n{document.text}\n"
    next_start: defaultdict[Origin, int] = defaultdict(int)
    for mark in document.marked:
        if mark.origin == "link":
            continue
        text = _join_lines(mark.text)
        min_content_words = 1 if mark.origin == "glossary" else 2
        if not _is_meaningful(text, min_content_words=min_content_words):
            continue
        start = lines.find(f"\n{text}\n", next_start[mark.origin])
        if start < 0:
            start = document.text.find(text, next_start[mark.origin])
        if start < 0:
            continue
        end = start + len(text)
        next_start[mark.origin] = end
        # The number of a figure is not part of the query.
        caption = _CAPTION.match(text)
        number_length = caption.start("text") if caption else 0
        words = text[number_length:]
        yield _Candidate(
            mark.origin,
            words,
            start + number_length,
            end,
            start,
        )
