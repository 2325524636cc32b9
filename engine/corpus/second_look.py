"""A second look at what kreuzberg leaves out of an office file: comments, notes, headers and footers, charts, drawings,
embedded HTML; and plain RTF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

from engine.corpus.beside_binary import beside
from engine.corpus.letters import has_letters
from engine.corpus.margins import of_open_document, of_sheet
from engine.corpus.package import DAMAGED, Package, package_of
from engine.corpus.prepared import restored
from engine.corpus.readers import UnreadableFileError, clean
from engine.corpus.rtf import shown_lines

_MAX_PART = 64 * 2**20
_MAX_COMPARED = 4 * 10**9  # characters; of comments beyond, those are repeated that the text may hold as they are
_DRAWN = r"(?:charts|drawings|diagrams)/(?:chart|drawing|data)\d*\.xml"
_PARTS = {
    "docx": (r"word/document\.xml", r"word/(?:footnotes|endnotes)\.xml", rf"word/{_DRAWN}", r"word/afchunk\d*\.x?html?",
             r"word/comments\.xml", r"word/(?:header|footer)\d*\.xml"),
    "xlsx": (rf"xl/{_DRAWN}", r"xl/(?:comments|comments/comment|threadedComments/threadedComment)\d*\.xml",
             r"xl/(?:worksheets|chartsheets)/[^/]+\.xml"),
    "pptx": (r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml", rf"ppt/{_DRAWN}", r"ppt/comments/[^/]+\.xml"),
    "odt": (r"content\.xml", r"[^/]+/content\.xml", r"styles\.xml"),
    "ods": (r"content\.xml", r"[^/]+/content\.xml", r"styles\.xml"),
    "odp": (r"[^/]+/content\.xml",),
}  # fmt: skip
_IN_LINES = ("doc", "xls", "rtf")
_PATTERNS = {format: re.compile("|".join(f"({kind})" for kind in kinds)) for format, kinds in _PARTS.items()}
_READ_OTHERWISE = (
    ("word/document.xml", "{*}oMath"),
    ("xl/charts/", "{*}numCache"),
)  # what kreuzberg has in another writing
_SHEETS = re.compile(r"xl/(?:work|chart)sheets/")
_SAID = re.compile(r"comments?", re.IGNORECASE)  # parts whose lines count even where all of their words come elsewhere
_PARAGRAPH = ("p", "h")
_DELETED = "{*}tracked-changes"  # what was taken away from OpenDocument texts
_SPEAKING = tuple(f"{{*}}{name}" for name in (*_PARAGRAPH, "v", "text", "textpath"))  # elements that hold words
_SIGNS_OF = {**dict.fromkeys(("tab", "br", "cr", "s", "line-break", "ptab"), " "), "noBreakHyphen": "-"}
_CELLS = ("table-cell", "covered-table-cell")
_NEVER = ("fld", "instrText", "delText", "annotation", "note")
_SPOKEN = tuple(f"{{*}}{name}" for name in ("t", *_SIGNS_OF, *_PARAGRAPH, *_NEVER))
_WORD = re.compile(r"\w+")
_APART = bytes(code if chr(code).isalnum() or code == ord("_") else ord(" ") for code in range(128)) + bytes(128)


def lacking(path: Path, format: str, content: bytes, text: str) -> str:
    """What a reader of the file would see beside its text, a line for each paragraph; empty where that is nothing.

    `content` is as `prepared` gives it. A line is given where the text lacks one of its words, a comment where the text does
    not hold it as it is.
    """
    if format not in _PARTS and format not in _IN_LINES:
        return ""
    known, squeezed = _Known(text), ""
    lines: dict[str, None] = {}
    left = _MAX_COMPARED
    for part, line in _lines_of(path, format, content, known):
        lacks = not known.has(line)
        if not lacks and _SAID.search(part):
            squeezed = squeezed or "".join(text.split())
            left -= len(squeezed)
            lacks = left < 0 or "".join(line.split()) not in squeezed
        if lacks:
            lines[line] = None
    return "\n".join(lines)


def unsaid(lines: Iterable[str], text: str) -> str:
    """Of some lines those that have a word which a text lacks, each once."""
    known = _Known(text)
    return "\n".join(dict.fromkeys(line for line in lines if not known.has(line)))


class _Known:
    """What a text says. Its words are only looked for where a line is none of its own, which few are."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _lines(self) -> set[str]:
        return {"", *self._text.split("\n")}

    @cached_property
    def _words(self) -> set[str]:
        return set(_words_of(self._text))

    def has(self, line: str) -> bool:
        """Whether the text has all words of a line."""
        return self.has_all((line,))

    def has_all(self, lines: Iterable[str]) -> bool:
        """Whether the text has all words of some lines."""
        others = [line for line in lines if line.strip() not in self._lines]
        return not others or self._words.issuperset(_words_of("\n".join(others)))


def _words_of(text: str) -> list[str]:
    folded = text.casefold()
    if folded.isascii():  # in half the time
        return folded.encode().translate(_APART).decode().split()
    return _WORD.findall(folded)


def _lines_of(path: Path, format: str, content: bytes, known: _Known) -> Iterator[tuple[str, str]]:
    """(name of the part, line) in the order of the kinds of parts; of a damaged part, nothing, and of one that says nothing
    but what is `known`, nothing either, unless it is of comments.
    """
    if format in _IN_LINES:
        lines = shown_lines(content) if format == "rtf" else beside(format, content)
        yield from ((part, " ".join(clean(line).split())) for part, line in lines if has_letters(line))
        return
    try:
        package = package_of(content)
        for member in _looked_into(package, format):
            for line in _lines_in(path, format, member.filename, package.read(member.filename), known):
                yield member.filename, line
    except DAMAGED:
        return


def _looked_into(package: Package, format: str) -> list[ZipInfo]:
    """The parts of a format that are looked into, by their kinds."""
    pattern = _PATTERNS[format]
    members = [member for member in package.archive.infolist() if member.file_size <= _MAX_PART]
    found = [(match.lastindex or 0, member) for member in members if (match := pattern.fullmatch(member.filename))]
    return [member for _, member in sorted(found, key=itemgetter(0))]


def _lines_in(path: Path, format: str, part: str, data: bytes, known: _Known) -> Iterator[str]:
    if _SHEETS.match(part):
        lines: Iterable[str] = of_sheet(data)
    elif format == "ods" and part == "styles.xml":
        lines = _margins(data)
    elif part.endswith("/content.xml") and b"<office:chart" not in data:
        return iter(())  # a document of its own
    elif part.endswith(".xml"):
        without = next((name for place, name in _READ_OTHERWISE if part.startswith(place)), "")
        lines = _xml_lines(
            data,
            cells=format != "ods" or "/" in part,
            without=without,
            known=None if _SAID.search(part) else known,
        )
    else:
        lines = _html_lines(path, data)
    shown = (" ".join(restored(clean(line)).split()) for line in lines)
    return (line for line in shown if has_letters(line))


def _margins(data: bytes) -> list[str]:
    from lxml import etree

    try:
        return list(of_open_document(etree.fromstring(data, _parser())))
    except (etree.XMLSyntaxError, ValueError):
        return []


def _html_lines(path: Path, data: bytes) -> list[str]:
    from engine.corpus.html import READER

    try:
        return [line for found in READER.read(path, data) for line in found.text.split("\n")]
    except UnreadableFileError:
        return []


def _xml_lines(data: bytes, *, cells: bool, without: str, known: _Known | None) -> Iterator[str]:
    """The paragraphs of a part (`cells`: those in cells of tables, too), the words and numbers of a chart, the comments of a
    sheet, the letters of a drawn word; nothing of the elements that `without` names, and nothing at all where no paragraph has
    a word that is not `known`.
    """
    root = _shown_in(data, (without, _DELETED))
    if root is None:
        return
    open_document = ":opendocument:" in str(root.tag)
    speaking = _SPEAKING[: len(_PARAGRAPH)] if open_document else _SPEAKING
    if known is not None and _says_only(root, known, speaking):
        return
    for node in root.iter(*speaking):
        name = _local(node)
        if name in _PARAGRAPH:
            within = _local(node.getparent())
            if cells or within not in _CELLS:
                yield paragraph_text(node, every=open_document)
        elif name == "v":
            yield _number(node.text or "")
        elif name == "text":
            yield "".join(paragraph_pieces(node, every=not len(node)))
        elif name == "textpath":
            yield node.get("string") or ""


def _shown_in(data: bytes, without: Iterable[str]) -> Any | None:
    """The root of a part, without some elements; None where it is damaged."""
    from lxml import etree

    try:
        root = etree.fromstring(data, _parser())
    except (etree.XMLSyntaxError, ValueError):
        return None
    for name in filter(None, without):
        if name.partition("}")[2].encode() in data or b"\0" in data:  # in UTF-16 its letters stand apart
            etree.strip_elements(root, name, with_tail=False)
    return root


@lru_cache(maxsize=1)
def _parser() -> Any:
    from lxml import etree

    return etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)


def _says_only(root: Any, known: _Known, speaking: Sequence[str]) -> bool:
    """Whether all words of a part's paragraphs are known, and words stand in paragraphs alone. Found at once for the whole part,
    which is many times faster than line by line, and true of most.
    """
    apart = speaking[len(_PARAGRAPH) :]
    if apart and next(root.iter(*apart), None) is not None:
        return False
    for sign in root.iter(*(f"{{*}}{name}" for name in _SIGNS_OF)):
        sign.text = _SIGNS_OF[_local(sign)]
    paragraphs = root.iter(*speaking[: len(_PARAGRAPH)])
    return known.has_all(restored("".join(node.itertext()) if len(node) else node.text or "") for node in paragraphs)


def paragraph_text(node: Any, *, every: bool = False) -> str:
    """The text of a paragraph, without that of paragraphs inside it; `every`: of all its elements, not of `t` alone."""
    plain = None if every else _in_runs(node)
    return "".join(paragraph_pieces(node, every=every)) if plain is None else plain


def _in_runs(paragraph: Any) -> str | None:
    """The text of a paragraph that has it in `t` and signs alone, which most have: found without a walk through all else in it.
    None where it holds what a walk passes over.
    """
    pieces: list[str] = []
    for node in paragraph.iter(*_SPOKEN):
        name = _local(node)
        if name == "t":
            pieces.append(node.text or "")
        elif name in _SIGNS_OF:
            pieces.append(_SIGNS_OF[name])
        if (
            name != "t"
            and node is not paragraph
            and len(node)
            and next(node.iterdescendants(*_SPOKEN), None) is not None
        ):
            return None
    return "".join(pieces)


def paragraph_pieces(node: Any, *, every: bool) -> Iterator[str]:
    """The texts of a paragraph's runs, tabs and breaks."""
    if every or _local(node) == "t":
        yield node.text or ""
    for child in node:
        name = _local(child)
        if name in _SIGNS_OF:
            yield _SIGNS_OF[name]
        elif name and name not in (*_PARAGRAPH, *_NEVER):
            yield from paragraph_pieces(child, every=every)
        yield (child.tail or "") if every else ""


def _number(text: str) -> str:
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _local(node: Any) -> str:
    tag = getattr(node, "tag", None)
    return _name_in(tag) if isinstance(tag, str) else ""


@lru_cache(maxsize=1024)
def _name_in(tag: str) -> str:
    return tag.rpartition("}")[2]
