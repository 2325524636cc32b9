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
from zipfile import ZipFile

from engine.core.characters import clean, clean_line
from engine.corpus.formats import Finding, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import (
    DAMAGED,
    decode_property,
    find_part,
    open_package,
    replace_parts,
)
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.general import extract_document, require_text
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.locked import unlock
from engine.corpus.formats.runs.office_xml import may_show_symbols, read_styles, write_symbols
from engine.corpus.formats.runs.old_word import ShownSymbols, write_shown_symbols
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import remove_private_letters
from engine.corpus.formats.sheets.cells import split_rows, unescape_characters, write_shown_cells
from engine.corpus.formats.sheets.old_workbooks import put_shown_numbers
from engine.corpus.formats.sheets.workbooks import represent_workbook
from engine.corpus.formats.word_numbers import write_numbers
from engine.corpus.text.blocks import (
    NOTES,
    Builder,
    Text,
    append_side_text,
    find_missing_lines,
    format_table,
    join_slides,
)
from engine.corpus.text.metadata import build_document

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
_WORD_BODY = "word/document"
# Parts that office_oxide need not get, since it reads no text from them.
_PARTS_WITHOUT_TEXT = (
    "word/media/",
    "word/embeddings/",
    "word/fonts/",
    "word/theme/",
    "docProps/thumbnail",
)
_MAX_COLUMNS = 2**14
_MIN_DESCRIPTION_WORDS = 3
_LOST_PARTS = "some of its parts"
_EXCEEDED_LIMIT = "exceeded_limit"
# `Page &[Page] of &[Pages]`, and other fields in headers of sheets, such as `&[Date]`.
_FIELDS = re.compile(r"[^\t\n]*&\[Pages?\][^\t\n]*|&\[\w+\]")
_PACKAGES = ("docx", "xlsx", "pptx")
# Charts that Excel draws since 2016, such as waterfalls, are in `chartEx1.xml`.
_DRAWING = re.compile(r"\w+/(?:charts/chart(?:Ex)?|diagrams/data|drawings/drawing)\d*\.xml")
# The check boxes and option buttons on sheets, with their labels.
_CONTROLS = re.compile(r"xl/drawings/vmlDrawing\d*\.vml")
_CHECK_BOX = re.compile(
    rb"<v:textbox\b[^>]*>((?:(?!</?v:).)*)</v:textbox>\s*"
    rb"<x:ClientData ObjectType=\"(?:Checkbox|Radio)\">(.*?)</x:ClientData>",
    re.DOTALL,
)
_TAG = re.compile(rb"<[^>]*>")
# A web page that Word merges into its document.
_MERGED_PAGE = re.compile(r"word/afchunk\d*\.x?html?")
# Parts that office_oxide leaves out without a word if they do not unpack. For a sheet or a slide it
# writes an `_UNREADABLE_LINE`, for text beyond a limit a `_LIMIT_LINE`.
_PASSED_OVER = re.compile(
    r"\w+/(?:comments|threadedC|notesSlides|footnotes|endnotes|header|footer|sharedS)[\w/]*\.xml"
)
_UNREADABLE_LINE = re.compile(r"\[unreadable (?:sheet|slide) \".*\": (.*)\]", re.DOTALL)
_LIMIT_LINE = re.compile(
    r"\[([^][\"]{4,50} (?:not shown \W document truncated|truncated: [^][\"]{9,150}))\]"
)
# A paragraph of a drawing, or a value of a chart, and the words in them.
_DRAWN_PARAGRAPH = re.compile(
    rb"<a:p>.*?</a:p>|<c:v>[^<]*</c:v>|<cx:(?:v|pt)\b[^>]*>[^<]*</cx:(?:v|pt)>", re.DOTALL
)
_DRAWN_WORDS = re.compile(rb"<(?:a:t|c:v|cx:(?:v|pt)\b[^>]*)>([^<]*)<")

Node = Mapping[str, Any]
"""A part of a document as office_oxide represents it in JSON."""


class OfficeReader:
    """A reader of the formats of Microsoft's office programs.

    The title is the document's own, else its first heading.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        content = read_bytes(path, data)
        failed: UnreadableFileError | None = None
        parsed: Node = {"metadata": {}}
        text = Text("")
        metadata: Node = {}
        lost: list[LeftOut] = []
        try:
            parsed = _parse(path, content, format)
            text = _build_text(_find_sections(parsed, format, lost), format)
            metadata = _read_metadata(parsed, content)
        except UnreadableFileError as error:
            if error.kind == "encrypted":
                raise
            # Drawings and the second reader may still give a text.
            failed = error
        if format in _PACKAGES:
            # The charts of a sheet show its own numbers.
            lines = _read_drawings(
                path,
                content,
                lost,
                numbers=format != "xlsx",
            )
            text = append_side_text(text, find_missing_lines(text.text, lines))
        _report_truncation(parsed["metadata"], lost)
        if not text.text.strip():
            with suppress(UnreadableFileError):
                text, metadata, lost_to_xberg = extract_document(path, content, format)
                lost = lost_to_xberg or lost
        if failed and not text.text.strip():
            raise failed
        why = "it holds no text"
        if format not in _PACKAGES:
            # Not all parts of old formats are searched for text.
            why = "no text was found in it that can be read"
        text = require_text(
            path,
            text,
            lost,
            why,
        )
        yield build_document(
            path,
            format,
            text,
            metadata,
        )
        yield from lost


READER = OfficeReader()


def _report_truncation(metadata: Node, lost: list[LeftOut]) -> None:
    """Add a report to `lost` if office_oxide left out parts that it does not name."""
    exceeded_limit = metadata.get(_EXCEEDED_LIMIT)
    if exceeded_limit:
        lost.append(LeftOut(_LOST_PARTS, "quarantined", "too large", exceeded_limit))
    elif metadata.get("text_truncated") and not lost:
        lost.append(LeftOut(_LOST_PARTS, "quarantined", "damaged", describe_damage("")))


def _parse(
    path: Path,
    content: bytes,
    format: str,
) -> Node:
    """Return the document as office_oxide represents it; a locked file is unlocked first.

    If the document exceeds a limit of office_oxide, its metadata name the limit as
    `exceeded_limit`. Raises UnreadableFileError with office_oxide's reason.
    """
    from office_oxide import Document

    # Some text is stored in a way that office_oxide does not read: it is first written as plain
    # text into the file.
    prepared = ShownSymbols(content)
    if format in ("docx", "pptx"):
        prepared = ShownSymbols(_prepare_package(content))
    elif format == "xlsx":
        prepared = ShownSymbols(write_shown_cells(content))
    try:
        if format == "doc":
            prepared = write_shown_symbols(content)
        document = Document.from_bytes(prepared.content, cast(Any, format))
        if format == "xlsx":
            source = represent_workbook(document, prepared.content)
        else:
            source = prepared.replace_in(document.to_ir_json())
        parsed: dict[str, Any] = json.loads(_LIMIT_LINE.sub("", source))
        if format == "xls":
            put_shown_numbers(parsed["sections"], content)
        limit_line = _LIMIT_LINE.search(source)
        if limit_line:
            parsed["metadata"][_EXCEEDED_LIMIT] = limit_line[1]
        return parsed
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A panic of the library is not an Exception.
    except BaseException as error:
        # Unlock the file, and read its content in the same way.
        if "password" in str(error).lower():
            return _parse(
                path,
                unlock(path, content),
                format,
            )
        raise UnreadableFileError(
            path,
            describe_damage(clean(str(error))),
            "damaged",
        ) from error


def _prepare_package(content: bytes) -> bytes:
    """Write numbers of headings and clauses, and symbols, into a Word or PowerPoint file.

    The text of the file holds neither these numbers nor what its symbol fonts show. A damaged file
    is returned unchanged.
    """
    with suppress(*DAMAGED, KeyError):
        package = open_package(content)
        changed: dict[str, bytes] = {}
        body = b""
        body_name = find_part(package, _WORD_BODY)
        if body_name:
            body = package.read(body_name)
        styles = read_styles(package, body)
        for name in package.namelist():
            if not may_show_symbols(name):
                continue
            try:
                part = body if name == body_name else package.read(name)
            except DAMAGED:
                # `_read_drawings` reports this part.
                continue
            rewritten = part
            if name == body_name:
                rewritten = write_numbers(body, package)
            rewritten = write_symbols(rewritten, name, styles)
            if rewritten is not part:
                changed[name] = rewritten
        if changed:
            return replace_parts(package, changed, without=_PARTS_WITHOUT_TEXT)
    return content


def _find_sections(
    parsed: Node,
    format: str,
    lost: list[LeftOut],
) -> list[Node]:
    """Return the sheets, slides or sections of a document.

    Those that cannot be read are empty, and are added to `lost`.
    """
    sections: list[Node] = [*parsed["sections"]]
    if not parsed["metadata"].get("text_truncated"):
        return sections
    for index, section in enumerate(sections):
        unreadable = _UNREADABLE_LINE.fullmatch(_build_blocks(section["elements"]).text)
        if unreadable:
            name = f"sheet {section.get('title')}"
            if format in _SLIDES:
                name = f"slide {index + 1}"
            lost.append(LeftOut(name, "quarantined", "damaged", describe_damage(unreadable[1])))
            sections[index] = {**section, "elements": ()}
    return sections


def _read_metadata(parsed: Node, content: bytes) -> Node:
    """Return the metadata of a document with the keys of `build_document`.

    A title that is only the first sheet's name is left out.
    """
    metadata = parsed["metadata"]
    sections = parsed["sections"]

    def decode(text: str) -> str:
        return unescape_characters(decode_property(text, content))

    title = decode(metadata.get("title") or "").strip()
    if sections and title == sections[0].get("title"):
        title = ""
    return {
        "title": title,
        "authors": decode(metadata.get("author") or "").strip(),
        "keywords": [decode(tag) for tag in metadata.get("keywords") or ()],
        "created_at": metadata.get("created"),
        "modified_at": metadata.get("modified"),
    }


def _build_text(sections: Iterable[Node], format: str) -> Text:
    """Return the text of a document; lines that only headers and footers hold stand at its end."""
    if format in _SLIDES:
        text = join_slides(dict(enumerate(map(_build_slide, sections), 1)))
    elif format in _SHEETS:
        text = _build_workbook(sections)
    else:
        builder = Builder()
        builder.page(1, "page 1")
        for section in sections:
            _add_nodes(builder, section["elements"])
        text = builder.done()
        # Without a page break in the file, the text has no pages.
        if not text.text or len(text.pages) < 2:
            text = Text(text.text, text.headings)
    return append_side_text(text, find_missing_lines(text.text, _read_margins(sections)))


def _build_slide(section: Node) -> str:
    """Return the text of a slide and its notes."""
    text = unescape_characters(_build_blocks(section["elements"]).text)
    notes = "\n".join(filter(None, map(_read_line, section.get("speaker_notes") or ())))
    if notes:
        return f"{text}\n\n{NOTES}\n{notes}".strip()
    return text


def _build_blocks(nodes: Iterable[Node]) -> Text:
    """Return the text of nodes, each as a block of its kind."""
    builder = Builder()
    _add_nodes(builder, nodes)
    return builder.done()


def _build_workbook(sections: Iterable[Node]) -> Text:
    """Return the text of a workbook, with a page and a heading for each sheet that has any."""
    builder = Builder()
    for number, section in enumerate(sections, 1):
        name = clean_line(unescape_characters(section.get("title") or ""))
        nodes: list[Node] = []
        for node in section["elements"]:
            is_name = node["type"] == "heading" and _read_line(node) == name
            if not is_name:
                nodes.append(node)
        # Comments, whose `marker` names their cell, are stored in any order.
        nodes.sort(key=lambda node: node.get("marker") or "")
        content = _build_blocks(nodes)
        if content.text:
            builder.page(number, f"sheet {name}")
            builder.heading(1, name)
            builder.block(content.text)
    return builder.done()


def _add_nodes(builder: Builder, nodes: Iterable[Node]) -> None:
    """Add nodes to a text as blocks of their kinds."""
    for node in nodes:
        if node.get("page_break_before"):
            builder.next_page()
        match node["type"]:
            case "heading":
                builder.heading(node.get("level") or 1, _read_line(node))
            case "paragraph":
                builder.block(_read_line(node))
            case "list":
                _add_list(builder, node)
            case "table":
                # `represent_workbook` gives the cells of a sheet as plain texts.
                rows = split_rows(node.get("plain") or _read_rows(node))
                builder.block(clean(format_table([*rows])))
            case "page_break":
                builder.next_page()
            case "image":
                builder.block(_read_description(node))
            case "text_box" | "footnote" | "endnote":
                _add_nodes(builder, node["content"])


def _add_list(builder: Builder, node: Node) -> None:
    """Add the items of a list, each followed by the list inside it."""
    for item in node["items"]:
        builder.item("\n".join(_read_lines(item)))
        if item.get("nested"):
            _add_list(builder, item["nested"])


def _read_lines(node: Node) -> Iterator[str]:
    """Yield the lines of the blocks in a node that are not empty."""
    return filter(None, _build_blocks(node.get("content") or ()).text.split("\n"))


def _read_margins(sections: Iterable[Node]) -> Iterator[str]:
    """Yield the lines of headers and footers, without page numbers and other fields of sheets."""
    for section in sections:
        for name in _MARGINS:
            for line in _read_lines(section.get(name) or {}):
                # Tabs separate what stands left, in the middle and right.
                for piece in _FIELDS.sub("", line).split("\t"):
                    words = piece.split()
                    if words:
                        yield " ".join(words)


def _read_line(node: Node) -> str:
    """Return the text of a heading or a paragraph, with its line breaks."""
    runs: list[str] = []
    for run in node["content"]:
        text = run.get("text") or ""
        if run["type"] == "line_break" and not text:
            text = "\n"
        if run.get("vertical_align") == "superscript":
            text = write_superscript(text, "".join(runs[-3:]))
        runs.append(text)
    return clean(remove_private_letters("".join(runs))).replace("\u2011", "-").strip()


def _read_description(picture: Node) -> str:
    """Return the description of a picture, unless it is a file name or the name of an object."""
    description = clean(picture.get("alt_text") or "")
    words = len(description.split())
    if words < _MIN_DESCRIPTION_WORDS or description.startswith("Embedded "):
        return ""
    return description


def _read_drawings(
    path: Path, content: bytes, lost: list[LeftOut], *, numbers: bool
) -> Iterator[str]:
    """Yield the lines of charts, diagrams and web pages, which are separate parts of a package.

    Without `numbers`, lines without a letter are left out. Parts that do not unpack are added to
    `lost`, also those that office_oxide leaves out without a word.
    """
    try:
        package = open_package(content)
    except DAMAGED:
        return
    check_boxes = list(_read_check_boxes(package))
    yield from (shown for _, shown in check_boxes)
    labels = {label for label, _ in check_boxes}
    for name in package.namelist():
        is_page = _MERGED_PAGE.fullmatch(name)
        is_drawing = _DRAWING.fullmatch(name)
        if not is_page and not is_drawing and not _PASSED_OVER.fullmatch(name):
            continue
        try:
            part = package.read(name)
        except DAMAGED as error:
            lost.append(LeftOut(name, "quarantined", "damaged", describe_damage(error)))
            continue
        if is_page:
            with suppress(UnreadableFileError):
                yield from render_text(decode_page(part, path)[0]).split("\n")
        elif is_drawing:
            for line in map(_read_drawn_line, _DRAWN_PARAGRAPH.findall(part)):
                if line not in labels and (numbers or any(map(str.isalpha, line))):
                    yield line


def _read_check_boxes(package: ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the label of each check box on sheets, alone and with ☑ before it if it is ticked."""
    for name in filter(_CONTROLS.fullmatch, package.namelist()):
        with suppress(*DAMAGED):
            for caption, state in _CHECK_BOX.findall(package.read(name)):
                words = unescape(_TAG.sub(b"", caption).decode("utf-8", "replace"))
                if label := clean_line(words):
                    yield label, f"\u2611 {label}" if b"<x:Checked>1<" in state else label


def _read_drawn_line(paragraph: bytes) -> str:
    """Return the words in the XML of a drawing's paragraph.

    A number is rounded to 12 digits: `0.30000000000000004` → `0.3`.
    """
    words = unescape(b"".join(_DRAWN_WORDS.findall(paragraph)).decode("utf-8", "replace"))
    text = clean_line(unescape_characters(words))
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text


def _read_cell(cell: Node) -> str:
    """Return the text of a cell on one line."""
    content = cell["content"]
    if len(content) == 1 and content[0]["type"] == "paragraph" and len(content[0]["content"]) == 1:
        # Nearly all cells have one paragraph.
        text = _read_line(content[0])
    elif all(node["type"] == "paragraph" for node in content):
        text = " ".join(map(_read_line, content))
    else:
        text = " ".join(_read_lines(cell))
    return " ".join(text.split())


def _read_rows(table: Node) -> list[list[str]]:
    """Return the cells of a table in their columns.

    A cell that spans rows is not repeated among the cells of the rows below.
    """
    rows = []
    # By column, the number of rows that a cell above still spans, this row included.
    spanned: dict[int, int] = {}
    for row in table["rows"]:
        cells: list[str] = []
        spanned_below = {column: count - 1 for column, count in spanned.items() if count > 1}
        for cell in row["cells"]:
            while len(cells) in spanned:
                cells.append("")
            width = min(max(1, cell.get("col_span") or 1), _MAX_COLUMNS)
            height = cell.get("row_span") or 1
            if height > 1:
                columns = range(len(cells), len(cells) + width)
                spanned_below |= dict.fromkeys(columns, height - 1)
            cells += [_read_cell(cell), *[""] * (width - 1)]
        spanned = spanned_below
        rows.append(cells)
    width = max(map(len, rows), default=0)
    return [[*row, *[""] * (width - len(row))] for row in rows]
