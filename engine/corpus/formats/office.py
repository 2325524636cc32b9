"""Word, Excel and PowerPoint files, old and new, through office_oxide, else by `general`.

This runs only in a sandboxed process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import unescape

from engine.core.characters import clean
from engine.corpus.formats import Found, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, in_code_page, package_of, with_parts
from engine.corpus.formats.damage import damaged
from engine.corpus.formats.general import extracted, with_text
from engine.corpus.formats.html import shown_text, source_of
from engine.corpus.formats.locked import unlocked
from engine.corpus.formats.runs.office_xml import may_show_symbols, read_styles, with_symbols
from engine.corpus.formats.runs.old_word import ShownSymbols, with_shown_symbols
from engine.corpus.formats.runs.superscripts import as_superscript
from engine.corpus.formats.runs.symbols import without_private
from engine.corpus.formats.sheets.cells import split_rows, unescape_characters, with_shown_cells
from engine.corpus.formats.sheets.old_workbooks import put_shown_numbers
from engine.corpus.formats.sheets.workbooks import represented
from engine.corpus.formats.word_numbers import with_numbers
from engine.corpus.text.blocks import (
    NOTES,
    Builder,
    Text,
    from_slides,
    lacking_in,
    rows_as_text,
    with_more,
)
from engine.corpus.text.metadata import document_of

_SLIDES = ("pptx", "ppt")
_SHEETS = ("xlsx", "xls")
_MARGINS = (
    "header",
    "first_page_header",
    "even_page_header",
    "footer",
    "first_page_footer",
    "even_page_footer",
)
_WORD_BODY = "word/document.xml"
_UNREAD = ("word/media/", "word/embeddings/", "word/fonts/", "word/theme/", "docProps/thumbnail")
_MAX_COLUMNS = 2**14
_MIN_WORDS = 3
# Not all parts of old formats are searched for text.
_NO_TEXT = (
    "no text was found in it that can be read",
    "it holds no text",
)
_FIELDS = re.compile(r"[^\t\n]*&\[Pages?\][^\t\n]*|&\[\w+\]")
_PACKAGES = ("docx", "xlsx", "pptx")
_DRAWING = re.compile(r"\w+/(?:charts/chart|diagrams/data|drawings/drawing)\d*\.xml")
_PAGE = re.compile(r"word/afchunk\d*\.x?html?")
# office_oxide says nothing of these parts if they do not unpack. For a sheet, a slide, or what is
# beyond a limit it writes a line.
_PASSED_OVER = re.compile(
    r"\w+/(?:comments|threadedC|notesSlides|footnotes|endnotes|header|footer|sharedS)[\w/]*\.xml"
)
_LOST = re.compile(r"\[unreadable (?:sheet|slide) \".*\": (.*)\]", re.DOTALL)
_CUT = re.compile(
    r"\[([^][\"]{4,50} (?:not shown \W document truncated|truncated: [^][\"]{9,150}))\]"
)
_PARAGRAPH = re.compile(rb"<a:p>.*?</a:p>|<c:v>[^<]*</c:v>", re.DOTALL)
_WORDS = re.compile(rb"<(?:a:t|c:v)>([^<]*)<")

Node = Mapping[str, Any]


class OfficeReader:
    """A reader of the formats of Microsoft's office programs.

    The title is the document's own, else its first heading.
    """

    formats = frozenset({"docx", "doc", *_SLIDES, *_SHEETS})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        content = read_bytes(path, data)
        failed: UnreadableFileError | None = None
        found: Node = {"metadata": {}}
        text = Text("")
        metadata = cast(Node, {})
        lost = list[LeftOut]()
        try:
            found = _parsed(path, content, format)
            text = _text(_sections(found, format, lost), format)
            metadata = _metadata(found, content)
        except UnreadableFileError as error:
            if error.kind == "encrypted":
                raise
            failed = error
        if format in _PACKAGES:
            # The charts of a sheet show its own numbers.
            lines = _drawn(path, content, lost, numbers=format != "xlsx")
            text = with_more(text, lacking_in(text.text, lines))
        if cut := found["metadata"].get("cut"):
            lost.append(LeftOut("some of its parts", "quarantined", "too large", cut))
        elif found["metadata"].get("text_truncated") and not lost:
            lost.append(LeftOut("some of its parts", "quarantined", "damaged", damaged("")))
        if not text.text.strip():
            with suppress(UnreadableFileError):
                text, metadata, more = extracted(path, content, format)
                lost = more or lost
        if failed and not text.text.strip():
            raise failed
        yield document_of(
            path, format, with_text(path, text, lost, _NO_TEXT[format in _PACKAGES]), metadata
        )
        yield from lost


READER = OfficeReader()


def _parsed(path: Path, content: bytes, format: str) -> Node:
    """Return the document as office_oxide represents it.

    Raises UnreadableFileError with its reason.
    """
    from office_oxide import Document

    if format in _PREPARED:
        prepared = _PREPARED[format](content)
    else:
        prepared = content
    try:
        if format == "doc":
            shown = with_shown_symbols(content)
        else:
            shown = ShownSymbols(prepared)
        document = Document.from_bytes(shown.content, cast(Any, format))
        if format == "xlsx":
            said = represented(document, prepared)
        else:
            said = shown.replace_in(document.to_ir_json())
        found = cast(Node, json.loads(_CUT.sub("", said)))
        cut = _CUT.search(said)
        if format == "xls":
            put_shown_numbers(found["sections"], content)
        if cut:
            return {**found, "metadata": {**found["metadata"], "cut": cut[1]}}
        return found
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A panic of the library is not an Exception.
    except BaseException as error:
        if "password" in str(error).lower():
            return _parsed(path, unlocked(path, content), format)
        raise UnreadableFileError(path, damaged(clean(str(error))), "damaged") from error


def _prepared(content: bytes) -> bytes:
    """Write numbers of headings and clauses, and symbols, into a Word or PowerPoint file.

    The text of the file holds neither these numbers nor what its symbol fonts show.
    """
    with suppress(*DAMAGED, KeyError):
        package = package_of(content)
        changed: dict[str, bytes] = {}
        if _WORD_BODY in package.namelist():
            body = package.read(_WORD_BODY)
        else:
            body = b""
        styles = read_styles(package, body)
        for name in package.namelist():
            if not may_show_symbols(name):
                continue
            try:
                if name == _WORD_BODY:
                    part = body
                else:
                    part = package.read(name)
            except DAMAGED:
                # `_drawn` reports this part.
                continue
            written = with_symbols(
                with_numbers(part, package) if name == _WORD_BODY else part, name, styles
            )
            if written is not part:
                changed[name] = written
        if changed:
            return with_parts(package, changed, without=_UNREAD)
    return content


_PREPARED = {"docx": _prepared, "pptx": _prepared, "xlsx": with_shown_cells}


def _sections(found: Node, format: str, lost: list[LeftOut]) -> list[Node]:
    """Return the sheets, slides or sections of a document.

    Those that cannot be read are empty, and noted in `lost`.
    """
    sections: list[Node] = [*found["sections"]]
    for at, section in enumerate(sections if found["metadata"].get("text_truncated") else ()):
        if why := _LOST.fullmatch(_blocks(section["elements"]).text):
            if format in _SLIDES:
                name = f"slide {at + 1}"
            else:
                name = f"sheet {section.get('title')}"
            lost.append(LeftOut(name, "quarantined", "damaged", damaged(why[1])))
            sections[at] = {**section, "elements": ()}
    return sections


def _metadata(found: Node, content: bytes) -> Node:
    """Return the metadata of the document, without a title that is the first sheet's name."""
    said = found["metadata"]
    sections = found["sections"]
    own, author = (
        unescape_characters(in_code_page(said.get(name) or "", content)).strip()
        for name in ("title", "author")
    )
    is_name = bool(sections) and own == sections[0].get("title")
    return {
        "title": "" if is_name else own,
        "authors": author,
        "keywords": [
            unescape_characters(in_code_page(tag, content)) for tag in said.get("keywords") or ()
        ],
        "created_at": said.get("created"),
        "modified_at": said.get("modified"),
    }


def _text(sections: Iterable[Node], format: str) -> Text:
    if format in _SLIDES:
        text = from_slides({number: _slide(section) for number, section in enumerate(sections, 1)})
    elif format in _SHEETS:
        text = _workbook(sections)
    else:
        built = Builder()
        built.page(1, "page 1")
        for section in sections:
            _add(built, section["elements"])
        text = built.done()
        if not text.text or len(text.pages) < 2:
            text = Text(text.text, text.headings)
    margins = (
        line
        for section in sections
        for name in _MARGINS
        for line in _margin(section.get(name) or {})
    )
    return with_more(text, lacking_in(text.text, margins))


def _slide(section: Node) -> str:
    text = unescape_characters(_blocks(section["elements"]).text)
    notes = "\n".join(filter(None, map(_line, section.get("speaker_notes") or ())))
    if notes:
        return f"{text}\n\n{NOTES}\n{notes}".strip()
    return text


def _blocks(nodes: Iterable[Node]) -> Text:
    built = Builder()
    _add(built, nodes)
    return built.done()


def _workbook(sections: Iterable[Node]) -> Text:
    built = Builder()
    for number, section in enumerate(sections, 1):
        name = " ".join(clean(unescape_characters(section.get("title") or "")).split())
        nodes = [
            node for node in section["elements"] if node["type"] != "heading" or _line(node) != name
        ]
        # Comments are stored in any order.
        said = _blocks(sorted(nodes, key=lambda node: node.get("marker") or ""))
        if said.text:
            built.page(number, f"sheet {name}")
            built.heading(1, name)
            built.block(said.text)
    return built.done()


def _add(built: Builder, nodes: Iterable[Node]) -> None:
    for node in nodes:
        if node.get("page_break_before"):
            built.next_page()
        match node["type"]:
            case "heading":
                built.heading(node.get("level") or 1, _line(node))
            case "paragraph":
                built.block(_line(node))
            case "list":
                _add_list(built, node)
            case "table":
                rows = split_rows(node.get("plain") or _rows(node))
                built.block(clean(rows_as_text([*rows])))
            case "page_break":
                built.next_page()
            case "image":
                built.block(_description(node))
            case "text_box" | "footnote" | "endnote":
                _add(built, node["content"])


def _add_list(built: Builder, node: Node) -> None:
    for item in node["items"]:
        built.item("\n".join(_lines(item)))
        if item.get("nested"):
            _add_list(built, item["nested"])


def _lines(node: Node) -> Iterator[str]:
    """Yield the text of a node, a line for each paragraph or row."""
    return filter(None, _blocks(node.get("content") or ()).text.split("\n"))


def _margin(node: Node) -> Iterator[str]:
    """Yield the lines of a header or footer, without page numbers and other fields of a sheet's."""
    for line in _lines(node):
        yield from filter(
            None, (" ".join(piece.split()) for piece in _FIELDS.sub("", line).split("\t"))
        )


def _line(node: Node) -> str:
    """Return the text of a heading or a paragraph, with its line breaks."""
    runs: list[str] = []
    for run in node["content"]:
        text = run.get("text") or ("\n" if run["type"] == "line_break" else "")
        raised = run.get("vertical_align") == "superscript"
        runs.append(as_superscript(text, "".join(runs[-3:])) if raised else text)
    return clean(without_private("".join(runs))).replace("\u2011", "-").strip()


def _description(picture: Node) -> str:
    """Return the description of a picture, unless it is a file name or the name of an object."""
    said = clean(picture.get("alt_text") or "")
    if len(said.split()) >= _MIN_WORDS and not said.startswith("Embedded "):
        return said
    return ""


def _drawn(path: Path, content: bytes, lost: list[LeftOut], *, numbers: bool) -> Iterator[str]:
    """Yield the words of charts, diagrams and web pages, which are separate parts.

    Parts that do not unpack are added to `lost`.
    """
    try:
        package = package_of(content)
    except DAMAGED:
        return
    for name in package.namelist():
        is_page = _PAGE.fullmatch(name)
        is_drawing = _DRAWING.fullmatch(name)
        try:
            if is_page or is_drawing or _PASSED_OVER.fullmatch(name):
                part = package.read(name)
            else:
                part = b""
        except DAMAGED as error:
            lost.append(LeftOut(name, "quarantined", "damaged", damaged(error)))
            continue
        if is_page:
            with suppress(UnreadableFileError):
                yield from shown_text(source_of(part, path)[0]).split("\n")
        elif is_drawing:
            for line in map(_drawn_line, _PARAGRAPH.findall(part)):
                if numbers or any(map(str.isalpha, line)):
                    yield line


def _drawn_line(paragraph: bytes) -> str:
    written = unescape(b"".join(_WORDS.findall(paragraph)).decode("utf-8", "replace"))
    text = " ".join(clean(unescape_characters(written)).split())
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _cell(cell: Node) -> str:
    content = cell["content"]
    if len(content) == 1 and content[0]["type"] == "paragraph" and len(content[0]["content"]) == 1:
        # Nearly all cells have one paragraph.
        text = _line(content[0])
    elif all(node["type"] == "paragraph" for node in content):
        text = " ".join(map(_line, content))
    else:
        text = " ".join(_lines(cell))
    return " ".join(text.split())


def _rows(table: Node) -> list[list[str]]:
    """Return the cells of a table in their columns.

    A cell that spans rows is not repeated among the cells of the rows below.
    """
    rows: list[list[str]] = []
    # Column → number of further rows that a cell spans.
    reached: dict[int, int] = {}
    for row in table["rows"]:
        cells: list[str] = []
        left = {column: many - 1 for column, many in reached.items() if many > 1}
        for cell in row["cells"]:
            while reached.get(len(cells)):
                cells.append("")
            wide = min(max(1, cell.get("col_span") or 1), _MAX_COLUMNS)
            if (tall := cell.get("row_span") or 1) > 1:
                left |= dict.fromkeys(range(len(cells), len(cells) + wide), tall - 1)
            cells += [_cell(cell), *[""] * (wide - 1)]
        reached = left
        rows.append(cells)
    width = max(map(len, rows), default=0)
    return [[*row, *[""] * (width - len(row))] for row in rows]
