"""RTF, OpenDocument and EPUB through xberg, and Microsoft's formats if `office` finds nothing.

This runs only in a sandboxed child process. xberg would load models for OCR and layouts, so both
are off.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.corpus.formats import Finding, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_package, replace_parts
from engine.corpus.formats.damage import describe_damage, remove_names
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.runs.open_document import (
    frame_shapes,
    move_text_boxes,
    write_shown_characters,
)
from engine.corpus.formats.runs.rtf import rewrite
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.sheets.open_sheets import write_shown_values
from engine.corpus.text.blocks import NOTES, Builder, Text, format_table, join_slides
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
}
_SHEETS = ("ods", "xlsx", "xls")
_SLIDES = ("odp", "pptx", "ppt")
_OPEN_DOCUMENT = ("odt", "ods", "odp")
# xberg leaves these escapes as they are written.
_RTF_SIGN = re.compile(rb"\\([\\~_])")
_RTF_SIGNS = {b"\\": rb"\\", b"~": b" ", b"_": b"-"}
# The two halves of a surrogate pair, as Word writes emoji; xberg omits both.
_RTF_PAIR = re.compile(
    rb"\\u(-9[2-9]\d\d|-10[0-2]\d\d|5[56]\d{3}) ?(?:\\'\w\w|[^\\{}]){,2}\\u(-?\d{4,5})"
)
# What Word shows and xberg leaves out: numbers of list items, and comments with their marks.
_RTF_HIDDEN = re.compile(
    rb"\{\\(?:listtext|pntext)(?![a-z])|\{\\\*\\annotation(?![a-z])(?:\s*\{\\\*\\[a-z]+[^{}]*\})*"
)
_RTF_DELETED = re.compile(rb"(?<!\\)\\deleted(?=0?(?![a-z\d]))")
_RTF_PAGE = re.compile(rb"\\ansicpg(\d+)")
_RTF_MAC = re.compile(rb"(\{\\rtf1?\s*\\mac)(?![a-z])")
# Ends of cells and rows, of which xberg keeps no word if no row begins (`\trowd`).
_RTF_ENDS = re.compile(rb"\\(nestcell|cell|nestrow|row)(?![a-z])")
_RTF_ENDS_AS_TEXT = {
    b"cell": rb"\tab",
    b"nestcell": rb"\tab",
    b"row": rb"\par",
    b"nestrow": rb"\par",
}
# Letters of a title: by their number with a stand-in after it, or by their bytes in the file's code
# page.
_RTF_LETTERS = re.compile(r"\\u(-?\d+) ?(?:\\'[0-9a-fA-F]{2}|\?)?|((?:\\'[0-9a-fA-F]{2})+)")
_CHAPTER = re.compile(r".+\.x?html?", re.IGNORECASE)
# xberg reads neither figures nor captions of tables, and adds furigana to the words below them.
_FIGURE = re.compile(rb"(</?)fig(?:ure|caption)\b")
_TABLE_CAPTION = re.compile(rb"(<table\b[^>]*>\s*)<caption\b[^>]*>(.*?)</caption>", re.DOTALL)
_READING = re.compile(rb"<(r[tp])\b[^>]*>[^<]*</\1>")
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?")
_DURATION = re.compile(r"DURATION: PT(\d+)H(\d+)M(\d+)(?:\.\d+)?S")
_KEYWORD = re.compile("<meta:keyword>([^<]*)</meta:keyword>")
_QUOTED = re.compile(r"'([^']+)'")
# xberg's readers that warn of sheets, slides and chapters; others warn of pictures and objects.
_READERS_OF_PARTS = ("epub", "excel", "pptx")
_UNBOUNDED = (
    "max_archive_size",
    "max_compression_ratio",
    "max_content_size",
    "max_iterations",
    "max_table_cells",
)
_CONTENT = "content.xml"
_STYLES = "styles.xml"
_MANIFEST = "META-INF/manifest.xml"
# A node of xberg's document, and the number of its page.
_PlacedNode = tuple[Mapping[str, Any], int | None]
# A reference to a note, as Markdown writes it.
_REFERENCE = re.compile(r"\[\^\w+\]:?")


class GeneralReader:
    """A reader of RTF and the formats of the standards bodies."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        text, metadata, lost = extract_document(path, read_bytes(path, data), format)
        yield build_document(path, format, require_text(path, text, lost), metadata)
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
        raise UnreadableFileError(path, lost[0].reason, lost[0].kind)
    raise UnreadableFileError(path, why, "empty")


def extract_document(
    path: Path, content: bytes, format: str
) -> tuple[Text, Mapping[str, Any], list[LeftOut]]:
    """Return a document's text, its metadata and its lost parts.

    Raises UnreadableFileError.
    """
    if format == "rtf":
        content = _RTF_HIDDEN.sub(_show_hidden, content)
        # What is deleted while changes are tracked is hidden.
        content = _RTF_DELETED.sub(rb"\\v", content)
        content = _RTF_PAIR.sub(_join_surrogates, rewrite(content))
        content = _RTF_SIGN.sub(lambda match: _RTF_SIGNS[match[1]], content)
        # `\mac` alone names the code page, too.
        if not _RTF_PAGE.search(content):
            content = _RTF_MAC.sub(rb"\1\\ansicpg10000", content, count=1)
        if b"\\trowd" not in content:
            content = _RTF_ENDS.sub(lambda match: _RTF_ENDS_AS_TEXT[match[1]], content)
    with suppress(*DAMAGED, KeyError):
        # xberg needs a list of parts.
        if format in _OPEN_DOCUMENT:
            package = open_package(content)
            body = package.read(_CONTENT)
            styles = package.read(_STYLES) if _STYLES in package.namelist() else b""
            shown = write_shown_characters(body, styles)
            if format != "ods":
                shown = frame_shapes(shown)
            if format == "odt":
                shown = move_text_boxes(shown)
            if format == "ods":
                cells = write_shown_values(shown)
                content = replace_parts(package, {_MANIFEST: b"<manifest/>", _CONTENT: cells})
            elif shown is not body:
                content = replace_parts(package, {_CONTENT: shown})
        if format == "epub":
            content = _show_captions(content)
    result = extract_with_xberg(path, content, format)
    read = _read_content_with_superscripts if format == "epub" else _read_content
    nodes: list[_PlacedNode] = []
    if result.document:
        nodes = [(read(node), node.page) for node in result.document.nodes]
    lost = list(_find_lost_parts(path, result.processing_warnings))
    return _build_text(nodes, format), _read_metadata(result.metadata, content, format), lost


def _show_captions(book: bytes) -> bytes:
    """Write the captions of a book as paragraphs."""
    package = open_package(book)
    changed: dict[str, bytes] = {}
    for name in filter(_CHAPTER.fullmatch, package.namelist()):
        chapter = package.read(name)
        shown = _TABLE_CAPTION.sub(rb"<div>\2</div>\1", _FIGURE.sub(rb"\1div", chapter))
        shown = _READING.sub(b"", shown)
        if shown != chapter:
            changed[name] = shown
    return replace_parts(package, changed) if changed else book


def _read_metadata(metadata: Any, content: bytes, format: str) -> Mapping[str, Any]:
    title = metadata.title
    authors = metadata.authors or metadata.created_by
    keywords = metadata.keywords
    if format == "rtf":
        # xberg leaves the escapes in titles and names of authors.
        names = [authors] if isinstance(authors, str) else authors or ()
        title = _decode_rtf_letters(title or "", content)
        authors = [_decode_rtf_letters(name, content) for name in names]
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


def _read_content(node: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(str(node.content))
    return content


def _read_content_with_superscripts(node: Any) -> dict[str, Any]:
    """Return the text of a node, with its raised digits as superscripts."""
    content = _read_content(node)
    raised: list[tuple[int, int]] = []
    for annotation in node.annotations or ():
        if "superscript" in str(annotation.kind):
            raised.append((annotation.start, annotation.end))
    if raised and isinstance(content.get("text"), str):
        content["text"] = _write_superscripts(content["text"], raised)
    return content


def _write_superscripts(text: str, places: Sequence[tuple[int, int]]) -> str:
    """Write superscripts at some places of a text, which are offsets in its UTF-8."""
    letters = text.encode("utf-8", "surrogatepass")
    pieces: list[str] = []
    at = 0
    for start, end in places:
        pieces.append(letters[at:start].decode("utf-8", "replace"))
        pieces.append(write_superscript(letters[start:end].decode("utf-8", "replace"), pieces[-1]))
        at = end
    return "".join((*pieces, letters[at:].decode("utf-8", "replace")))


def _decode_rtf_letters(written: str, content: bytes) -> str:
    """Decode RTF's escapes for letters in the metadata of a file."""
    declared = _RTF_PAGE.search(content)
    page = "1252"
    if declared:
        page = declared[1].decode()

    def decode(match: re.Match[str]) -> str:
        if match[1]:
            code = int(match[1])
            return chr(code & 0xFFFF if match[1].startswith("-") else min(code, 0x10FFFF))
        letters = bytes.fromhex(match[2].replace("\\'", ""))
        # Python does not know every code page.
        with suppress(LookupError):
            return letters.decode(f"cp{page}", "replace")
        return letters.decode("cp1252", "replace")

    text = _RTF_LETTERS.sub(decode, written)
    # Two halves of a surrogate pair become one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _show_hidden(match: re.Match[bytes]) -> bytes:
    return b"{\\footnote" if b"annotation" in match[0] else b"{"


def _join_surrogates(match: re.Match[bytes]) -> bytes:
    high = int(match[1]) & 0xFFFF
    low = int(match[2]) & 0xFFFF
    if not 0xD800 <= high < 0xDC00 <= low < 0xE000:
        return match[0]
    code = ((high & 0x3FF) << 10) + (low & 0x3FF) + 0x10000
    return b"\\u%d" % code


def _find_lost_parts(path: Path, warnings: Iterable[Any]) -> Iterator[LeftOut]:
    for warning in warnings:
        if warning.source in _READERS_OF_PARTS:
            error = _make_error(path, warning.message)
            part = _QUOTED.search(warning.message)
            name = "some of its parts"
            if part:
                name = part[1]
            yield LeftOut(name, "quarantined", error.kind, error.why)


def extract_with_xberg(path: Path, content: bytes, format: str) -> Any:
    """Return xberg's document for the bytes of a file.

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

    source = xberg.ExtractInput(kind="bytes", bytes=content, mime_type=MIME[format])

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
    plain = remove_names(message).lower()
    rest = clean(message.partition(": ")[2] or message)
    if "(drm)" in plain:
        return UnreadableFileError(path, f"encrypted: {rest}", "encrypted")
    if "password" in plain or "encrypted" in plain:
        return UnreadableFileError(path, explain_lock(), "encrypted")
    return UnreadableFileError(path, describe_damage(rest), "damaged")


def _build_text(nodes: Iterable[_PlacedNode], format: str) -> Text:
    if format in _SLIDES:
        return join_slides(_build_slides(nodes, is_titled=format != "odp"))
    built = Builder()
    sheets = 0
    for node, _ in nodes:
        if format in _SHEETS and node["node_type"] == "heading":
            sheets += 1
            built.page(sheets, f"sheet {_read_line(node)}")
            built.heading(1, _read_line(node))
        else:
            _add(built, node)
    return built.done()


def _build_slides(nodes: Iterable[_PlacedNode], *, is_titled: bool) -> dict[int, str]:
    slides: dict[int, Builder] = {}
    number = 1
    for node, page in nodes:
        is_slide = node["node_type"] == "slide"
        if page:
            number = page
        elif is_slide:
            number = node.get("number") or number
        # A slide node holds the title, or else a name that nobody sees.
        if is_slide and not is_titled:
            continue
        _add(slides.setdefault(number, Builder()), node)
    return {at: slides[at].done().text for at in sorted(slides)}


def _add(built: Builder, node: Mapping[str, Any]) -> None:
    match node["node_type"]:
        case "heading" | "title":
            built.heading(node.get("level") or 1, _read_line(node))
        case "list_item":
            built.item(_read_line(node))
        case "table":
            built.block(format_table(_read_rows(node["grid"])))
        case "definition_item":
            built.block(f"{clean(node.get('term') or '')}: {clean(node.get('definition') or '')}")
        case "image":
            description = clean(node.get("description") or "")
            built.block(description if " " in description else "")
        case "slide":
            built.block(clean(node.get("title") or ""))
        case "raw_block":
            line = _read_line(node)
            is_note = str(node.get("format")).endswith("notes")
            built.block(f"{NOTES}\n{line}" if is_note else line)
        case _:
            built.block(_read_line(node))


def _read_line(node: Mapping[str, Any]) -> str:
    return _REFERENCE.sub("", clean(node.get("text") or node.get("content") or "")).strip()


def _read_rows(grid: Mapping[str, Any]) -> list[list[str]]:
    rows: dict[int, dict[int, str]] = {}
    for cell in grid["cells"]:
        text = " ".join(clean(cell["content"] or "").split())
        rows.setdefault(cell["row"], {})[cell["col"]] = _format_time(text)
    width = max((max(row) for row in rows.values()), default=-1) + 1
    return [[rows[number].get(column, "") for column in range(width)] for number in sorted(rows)]


def _format_time(cell: str) -> str:
    """Return a day or a time of a sheet as a reader sees it, to the second."""
    if duration := _DURATION.fullmatch(cell):
        return ":".join(part.zfill(2) for part in duration.groups())
    if day := _DAY.fullmatch(cell):
        return f"{day[1]} {day[2]}"
    return cell
