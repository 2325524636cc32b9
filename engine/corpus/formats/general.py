"""RTF, OpenDocument and EPUB through xberg, and Microsoft's formats if `office` finds nothing.

This runs only in a sandboxed child process. xberg would load models for OCR and layouts, so both
are off.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from engine.core.characters import clean, clean_line
from engine.corpus.formats import Finding, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_package, replace_parts
from engine.corpus.formats.damage import describe_damage, remove_names
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.runs.open_document import (
    frame_shapes,
    move_text_boxes,
    take_drawn_lines,
    write_shown_characters,
)
from engine.corpus.formats.runs.rtf_preparation import decode_letters, prepare_rtf
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.sheets.open_sheets import write_shown_values
from engine.corpus.scan.formats import HEAD_LENGTH
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

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
MIME = {
    "docx": f"{_OOXML}wordprocessingml.document",
    "doc": "application/msword",
    "pptx": f"{_OOXML}presentationml.presentation",
    "ppt": "application/vnd.ms-powerpoint",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "xls": "application/vnd.ms-excel",
    "odt": f"{_ODF}text",
    "ods": f"{_ODF}spreadsheet",
    "odp": f"{_ODF}presentation",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "msg": "application/vnd.ms-outlook",
    "numbers": "application/x-iwork-numbers-sffnumbers",
}
_SHEETS = ("ods", "xlsx", "xls", "numbers")
_SLIDES = ("odp", "pptx", "ppt")
_OPEN_DOCUMENT = ("odt", "ods", "odp")
_CHAPTER = re.compile(r".+\.x?html?", re.IGNORECASE)
# xberg reads neither figures nor captions of tables, and adds furigana to the words below them.
_FIGURE_TAG = re.compile(rb"(</?)fig(?:ure|caption)\b")
_TABLE_CAPTION = re.compile(rb"(<table\b[^>]*>\s*)<caption\b[^>]*>(.*?)</caption>", re.DOTALL)
# A reference to a note that only a style sheet raises, as Pandoc writes it.
_RAISED_REFERENCE = re.compile(
    rb"(?<=[^>\s])<a\b[^>]*\b(?:epub:type|role)=[\"'](?:doc-)?noteref\b[^>]*>([^<]{1,6})</a>"
)
_FURIGANA = re.compile(rb"<(r[tp])\b[^>]*>[^<]*</\1>")
# `2031-05-17T00:00:00.000` and `DURATION: PT36H5M0S`, as xberg writes days and times of sheets.
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z?")
_DURATION = re.compile(r"DURATION: PT(\d+)H(\d+)M(\d+)(?:\.\d+)?S")
_KEYWORD = re.compile("<meta:keyword>([^<]*)</meta:keyword>")
_QUOTED = re.compile(r"'([^']+)'")
# xberg's readers that warn of sheets, slides and chapters; others warn of pictures and objects.
_READERS_OF_PARTS = ("epub", "excel", "pptx")
# xberg's limits that are set so high that they never apply.
_UNBOUNDED = (
    "max_archive_size",
    "max_compression_ratio",
    "max_content_size",
    "max_iterations",
    "max_table_cells",
)
_FLAT_DOCUMENT = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<[^\x00]*?<office:document\b")
_CONTENT = "content.xml"
_STYLES = "styles.xml"
_MANIFEST = "META-INF/manifest.xml"
# A reference to a note, as Markdown writes it.
_NOTE_REFERENCE = re.compile(r"\[\^\w+\]:?")


class ExtractedDocument(NamedTuple):
    """A document's text, its metadata for `build_document`, and its parts that cannot be read."""

    text: Text
    metadata: Mapping[str, Any]
    lost: list[LeftOut]


class _Node(NamedTuple):
    """The content of a node of xberg's document, and the number of its page, if it has one."""

    content: Mapping[str, Any]
    page: int | None


class GeneralReader:
    """A reader of RTF and the formats of the standards bodies."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        text, metadata, lost = extract_document(
            path,
            read_bytes(path, data),
            format,
        )
        yield build_document(
            path,
            format,
            require_text(path, text, lost),
            metadata,
        )
        yield from lost


READER = GeneralReader()


def require_text(
    path: Path, text: Text, lost: Sequence[LeftOut], why: str = "it holds no text"
) -> Text:
    """Return the text of a document.

    Raises UnreadableFileError if it is empty: because of what was lost, else `why`.
    """
    if text.text.strip():
        return text
    if lost:
        raise UnreadableFileError(
            path,
            lost[0].reason,
            lost[0].kind,
        )
    raise UnreadableFileError(path, why, "empty")


def extract_document(
    path: Path,
    content: bytes,
    format: str,
) -> ExtractedDocument:
    """Read a document with xberg.

    Raises UnreadableFileError.
    """
    if format == "rtf":
        content = prepare_rtf(content)
    if format in _OPEN_DOCUMENT and _FLAT_DOCUMENT.search(content, 0, HEAD_LENGTH):
        content = _pack_flat_document(content, format)
    drawn_lines: list[str] = []
    # A damaged file is passed on as it is: xberg says what is wrong with it.
    with suppress(*DAMAGED, KeyError):
        if format in _OPEN_DOCUMENT:
            content, drawn_lines = _prepare_open_document(content, format)
        elif format == "epub":
            content = _prepare_book(content)
    result = extract_with_xberg(path, content, format)
    nodes = _read_nodes(result.document, format)
    metadata = _read_metadata(
        result.metadata,
        content,
        format,
    )
    lost = list(_find_lost_parts(path, result.processing_warnings))
    text = _build_text(nodes, format)
    if drawn_lines:
        text = append_side_text(text, find_missing_lines(text.text, drawn_lines))
    return ExtractedDocument(text, metadata, lost)


def _pack_flat_document(document: bytes, format: str) -> bytes:
    """Return an OpenDocument file in a single XML file as a package, whose parts all are that XML.

    xberg finds in each part what belongs there.
    """
    parts = dict.fromkeys((_CONTENT, _STYLES, "meta.xml"), document)
    parts[_MANIFEST] = b"<manifest/>"
    package = BytesIO()
    with ZipFile(package, "w") as archive:
        archive.writestr("mimetype", MIME[format])
        for name, part in parts.items():
            archive.writestr(name, part)
    return package.getvalue()


def _prepare_open_document(content: bytes, format: str) -> tuple[bytes, list[str]]:
    """Return an OpenDocument file in which xberg finds all that a reader sees.

    For a workbook, also return the lines that are drawn upon its sheets, which it would not find.
    Raises what opening a damaged package raises.
    """
    package = open_package(content)
    body = package.read(_CONTENT)
    styles = package.read(_STYLES) if _STYLES in package.namelist() else b""
    rewritten = write_shown_characters(body, styles)
    if format == "ods":
        rewritten, drawn_lines = take_drawn_lines(rewritten)
        # xberg needs a list of parts, and an empty one will do.
        changed = {_MANIFEST: b"<manifest/>", _CONTENT: write_shown_values(rewritten)}
        return replace_parts(package, changed), drawn_lines
    rewritten = frame_shapes(rewritten)
    if format == "odt":
        rewritten = move_text_boxes(rewritten)
    if rewritten is body:
        return content, []
    return replace_parts(package, {_CONTENT: rewritten}), []


def _prepare_book(book: bytes) -> bytes:
    """Return a book with captions as paragraphs, raised references to notes, and no furigana.

    Raises what opening a damaged package raises.
    """
    package = open_package(book)
    changed: dict[str, bytes] = {}
    for name in filter(_CHAPTER.fullmatch, package.namelist()):
        chapter = package.read(name)
        rewritten = _FIGURE_TAG.sub(rb"\1div", chapter)
        rewritten = _TABLE_CAPTION.sub(rb"<div>\2</div>\1", rewritten)
        rewritten = _FURIGANA.sub(b"", rewritten)
        rewritten = _RAISED_REFERENCE.sub(rb"<sup>\1</sup>", rewritten)
        if rewritten != chapter:
            changed[name] = rewritten
    return replace_parts(package, changed) if changed else book


def _read_nodes(document: Any, format: str) -> list[_Node]:
    """Return the nodes of xberg's document, an empty list if it has none."""
    if not document:
        return []
    nodes: list[_Node] = []
    for node in document.nodes:
        content: dict[str, Any] = json.loads(str(node.content))
        if format == "epub" and isinstance(content.get("text"), str):
            content["text"] = _write_superscripts(content["text"], node.annotations or ())
        nodes.append(_Node(content, node.page))
    return nodes


def _write_superscripts(text: str, annotations: Iterable[Any]) -> str:
    """Return the text of a node with raised text written as superscripts.

    xberg's annotations say where it is raised, as offsets in the UTF-8 of the text.
    """
    superscripts = [item for item in annotations if "superscript" in str(item.kind)]
    if not superscripts:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    pieces: list[str] = []
    position = 0
    for item in superscripts:
        before = encoded[position : item.start].decode("utf-8", "replace")
        raised = encoded[item.start : item.end].decode("utf-8", "replace")
        pieces += (before, write_superscript(raised, before))
        position = item.end
    return "".join((*pieces, encoded[position:].decode("utf-8", "replace")))


def _read_metadata(
    metadata: Any,
    content: bytes,
    format: str,
) -> Mapping[str, Any]:
    """Return xberg's metadata of a file's `content` with the keys of `build_document`."""
    title = metadata.title
    authors = metadata.authors or metadata.created_by
    keywords = metadata.keywords
    if format == "rtf":
        # xberg leaves the escapes in titles and names of authors.
        names = [authors] if isinstance(authors, str) else authors or ()
        title = decode_letters(title or "", content)
        authors = [decode_letters(name, content) for name in names]
    elif format in _OPEN_DOCUMENT:
        keywords = _read_keywords(content)
    return {
        "title": title,
        "authors": authors,
        "created_at": metadata.created_at,
        "modified_at": metadata.modified_at,
        "keywords": keywords,
    }


def _read_keywords(content: bytes) -> list[str]:
    """Return the keywords of an OpenDocument file; xberg gives only the first one."""
    with suppress(*DAMAGED, KeyError):
        meta = open_package(content).read("meta.xml").decode("utf-8", "replace")
        return [unescape(keyword) for keyword in _KEYWORD.findall(meta)]
    return []


def _find_lost_parts(path: Path, warnings: Iterable[Any]) -> Iterator[LeftOut]:
    """Yield the sheets, slides and chapters that xberg could not read, from its warnings."""
    for warning in warnings:
        if warning.source in _READERS_OF_PARTS:
            error = _make_error(path, warning.message)
            part = _QUOTED.search(warning.message)
            name = part[1] if part else "some of its parts"
            yield LeftOut(
                name,
                "quarantined",
                error.kind,
                error.why,
            )


def extract_with_xberg(
    path: Path,
    content: bytes,
    format: str,
) -> Any:
    """Return xberg's result for the bytes of a file.

    Raises UnreadableFileError with xberg's reason.
    """
    import xberg

    config = xberg.ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        disable_ocr=True,
        include_document_structure=True,
        max_archive_depth=0,
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
        # Memory, time and sizes are already bounded by the sandbox.
        security_limits=xberg.SecurityLimits(**dict.fromkeys(_UNBOUNDED, 2**40)),
    )

    source = xberg.ExtractInput(
        kind="bytes",
        bytes=content,
        mime_type=MIME[format],
    )

    async def extract() -> Any:
        return await xberg.extract(source, config)

    try:
        result = asyncio.run(extract())
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A panic of the library is not an Exception.
    except BaseException as error:
        raise _make_error(path, str(error)) from error
    if not result.results:
        raise _make_error(path, "; ".join(str(error) for error in result.errors))
    return result.results[0]


def _make_error(path: Path, message: str) -> UnreadableFileError:
    """Return the error for a message of xberg, such as `Parsing error: …`, without that prefix."""
    bare_message = remove_names(message).lower()
    reason = clean(message.partition(": ")[2] or message)
    if "(drm)" in bare_message:
        return UnreadableFileError(
            path,
            f"encrypted: {reason}",
            "encrypted",
        )
    if "password" in bare_message or "encrypted" in bare_message:
        return UnreadableFileError(path, explain_lock(), "encrypted")
    return UnreadableFileError(
        path,
        describe_damage(reason),
        "damaged",
    )


def _build_text(nodes: Iterable[_Node], format: str) -> Text:
    """Return the text of a document; slides and sheets are pages of it."""
    if format in _SLIDES:
        return join_slides(_build_slides(nodes, has_titles=format != "odp"))
    builder = Builder()
    sheets = 0
    for node in nodes:
        is_heading = node.content["node_type"] == "heading"
        # Below the name of a sheet of Numbers stand the names of its tables.
        is_table_name = format == "numbers" and (node.content.get("level") or 1) > 1
        if format in _SHEETS and is_heading and not is_table_name:
            sheets += 1
            name = _read_line(node.content)
            builder.page(sheets, f"sheet {name}")
            builder.heading(1, name)
        else:
            _add_node(builder, node.content)
    return builder.done()


def _build_slides(nodes: Iterable[_Node], *, has_titles: bool) -> dict[int, str]:
    """Return the texts of slides by number.

    `has_titles` says that the node of a slide holds the slide's title. In other formats it holds
    a name that nobody sees, and is left out.
    """
    slides: dict[int, Builder] = {}
    number = 1
    for node in nodes:
        is_slide = node.content["node_type"] == "slide"
        if node.page:
            number = node.page
        elif is_slide:
            number = node.content.get("number") or number
        if has_titles or not is_slide:
            _add_node(slides.setdefault(number, Builder()), node.content)
    return {number: slides[number].done().text for number in sorted(slides)}


def _add_node(builder: Builder, node: Mapping[str, Any]) -> None:
    """Add the content of a node to a text as a block of its kind."""
    match node["node_type"]:
        case "heading" | "title":
            builder.heading(node.get("level") or 1, _read_line(node))
        case "list_item":
            builder.item(_read_line(node))
        case "table":
            builder.block(format_table(_read_rows(node["grid"])))
        case "definition_item":
            builder.block(f"{clean(node.get('term') or '')}: {clean(node.get('definition') or '')}")
        case "image":
            description = clean(node.get("description") or "")
            # One word is a file's name.
            if " " in description:
                builder.block(description)
        case "slide":
            builder.block(clean(node.get("title") or ""))
        case "raw_block":
            line = _read_line(node)
            if str(node.get("format")).endswith("notes"):
                line = f"{NOTES}\n{line}"
            builder.block(line)
        case _:
            builder.block(_read_line(node))


def _read_line(node: Mapping[str, Any]) -> str:
    """Return the text of a node without references to notes."""
    text = clean(node.get("text") or node.get("content") or "")
    return _NOTE_REFERENCE.sub("", text).strip()


def _read_rows(grid: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells of a table in their rows and columns."""
    rows: defaultdict[int, dict[int, str]] = defaultdict(dict)
    width = 0
    for cell in grid["cells"]:
        text = clean_line(cell["content"] or "")
        rows[cell["row"]][cell["col"]] = _format_time(text)
        width = max(width, cell["col"] + 1)
    table = []
    for _, cells in sorted(rows.items()):
        # Cells that others span are left out of `grid`.
        table.append([cells.get(column, "") for column in range(width)])
    return table


def _format_time(cell: str) -> str:
    """Return a day or a time of a sheet as a reader sees it, and other cells as they are.

    `2031-05-17T08:00:00.000` → `2031-05-17 08:00:00`.
    """
    duration = _DURATION.fullmatch(cell)
    if duration:
        return ":".join(part.zfill(2) for part in duration.groups())
    day = _DAY.fullmatch(cell)
    if day:
        return f"{day[1]} {day[2]}"
    return cell
