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
from engine.corpus.formats import Found, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, package_of, with_parts
from engine.corpus.formats.damage import damaged, without_names
from engine.corpus.formats.locked import why_closed
from engine.corpus.formats.runs.open_document import with_shown_characters
from engine.corpus.formats.runs.rtf import rewrite
from engine.corpus.formats.runs.superscripts import as_superscript
from engine.corpus.formats.sheets.open_sheets import with_shown_values
from engine.corpus.text.blocks import NOTES, Builder, Text, from_slides, rows_as_text
from engine.corpus.text.metadata import document_of

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
_RTF_PAGE = re.compile(rb"\\ansicpg(\d+)")
# Letters of a title: by their number with a stand-in after it, or by their bytes in the file's code
# page.
_RTF_LETTERS = re.compile(r"\\u(-?\d+) ?(?:\\'[0-9a-fA-F]{2}|\?)?|((?:\\'[0-9a-fA-F]{2})+)")
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?")
_TIME = re.compile(r"DURATION: PT(\d+)H(\d+)M(\d+)(?:\.\d+)?S")
_KEYWORD = re.compile("<meta:keyword>([^<]*)</meta:keyword>")
_QUOTED = re.compile(r"'([^']+)'")
# xberg's readers that warn of sheets, slides and chapters; others warn of pictures and objects.
_OF_PARTS = (
    "epub",
    "excel",
    "pptx",
)
_UNBOUNDED = (
    "max_archive_size",
    "max_compression_ratio",
    "max_content_size",
    "max_iterations",
    "max_table_cells",
)
_CONTENT = "content.xml"
_MANIFEST = "META-INF/manifest.xml"
# A reference to a note, as Markdown writes it.
_REFERENCE = re.compile(r"\[\^\w+\]:?")


class GeneralReader:
    """A reader of RTF and the formats of the standards bodies."""

    formats = frozenset({"odt", "ods", "odp", "rtf", "epub"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        text, metadata, lost = extracted(path, read_bytes(path, data), format)
        yield document_of(path, format, with_text(path, text, lost), metadata)
        yield from lost


READER = GeneralReader()


def with_text(
    path: Path, text: Text, lost: Sequence[LeftOut], why: str = "it holds no text"
) -> Text:
    """Return the text of a document.

    Raises UnreadableFileError if it is empty: because of what was lost, else `why`.
    """
    if not text.text.strip():
        raise UnreadableFileError(
            path, *((lost[0].reason, lost[0].kind) if lost else (why, "empty"))
        )
    return text


def extracted(
    path: Path, content: bytes, format: str
) -> tuple[Text, Mapping[str, Any], list[LeftOut]]:
    """Return a document's text, its metadata and its lost parts.

    Raises UnreadableFileError.
    """
    if format == "rtf":
        content = _RTF_PAIR.sub(_whole_sign, rewrite(content))
        content = _RTF_SIGN.sub(lambda found: _RTF_SIGNS[found[1]], content)
    with suppress(*DAMAGED, KeyError):
        # xberg needs a list of parts.
        if format == "ods":
            package = package_of(content)
            cells = with_shown_values(package.read(_CONTENT))
            content = with_parts(package, {_MANIFEST: b"<manifest/>", _CONTENT: cells})
        elif format in ("odt", "odp"):
            package = package_of(content)
            body = package.read(_CONTENT)
            shown = with_shown_characters(body)
            if shown is body:
                content = content
            else:
                content = with_parts(package, {_CONTENT: shown})
    found = extract(path, content, format)
    if format == "epub":
        read = _content_of
    else:
        read = _plain_content_of
    nodes = [(read(node), node.page) for node in (found.document.nodes if found.document else ())]
    said = found.metadata
    authors = said.authors or said.created_by
    metadata = {
        "title": said.title,
        "authors": authors,
        "created_at": said.created_at,
        "modified_at": said.modified_at,
        "keywords": _keywords(content) if format in _OPEN_DOCUMENT else said.keywords,
    }
    # xberg leaves the escapes in titles and names of authors.
    if format == "rtf":
        metadata["title"] = _rtf_letters(said.title or "", content)
        metadata["authors"] = [
            _rtf_letters(name, content)
            for name in ([authors] if isinstance(authors, str) else authors or ())
        ]
    return _text(nodes, format), metadata, [*_lost(path, found.processing_warnings)]


def _keywords(content: bytes) -> list[str]:
    """Return the keywords of an OpenDocument file; xberg gives only the first one."""
    with suppress(*DAMAGED, KeyError):
        meta = package_of(content).read("meta.xml").decode("utf-8", "replace")
        return [unescape(keyword) for keyword in _KEYWORD.findall(meta)]
    return []


def _plain_content_of(node: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(str(node.content))
    return content


def _content_of(node: Any) -> dict[str, Any]:
    """Return the text of a node, with its raised digits as superscripts."""
    content = _plain_content_of(node)
    raised = [
        (one.start, one.end) for one in node.annotations or () if "superscript" in str(one.kind)
    ]
    if raised and isinstance(content.get("text"), str):
        content["text"] = _with_superscripts(content["text"], raised)
    return content


def _with_superscripts(text: str, places: Sequence[tuple[int, int]]) -> str:
    """Write superscripts at some places of a text, which are offsets in its UTF-8."""
    letters = text.encode("utf-8", "surrogatepass")
    pieces: list[str] = []
    at = 0
    for start, end in places:
        pieces.append(letters[at:start].decode("utf-8", "replace"))
        pieces.append(as_superscript(letters[start:end].decode("utf-8", "replace"), pieces[-1]))
        at = end
    return "".join((*pieces, letters[at:].decode("utf-8", "replace")))


def _rtf_letters(written: str, content: bytes) -> str:
    """Decode RTF's escapes for letters in the metadata of a file."""
    page = _RTF_PAGE.search(content)

    def letters(found: re.Match[str]) -> str:
        if found[1]:
            return chr(
                int(found[1]) & 0xFFFF if found[1].startswith("-") else min(int(found[1]), 0x10FFFF)
            )
        raw = bytes.fromhex(found[2].replace("\\'", ""))
        # Python does not know every code page.
        with suppress(LookupError):
            return raw.decode(f"cp{page[1].decode() if page else 1252}", "replace")
        return raw.decode("cp1252", "replace")

    return (
        _RTF_LETTERS.sub(letters, written)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )


def _whole_sign(found: re.Match[bytes]) -> bytes:
    high = int(found[1]) & 0xFFFF
    low = int(found[2]) & 0xFFFF
    is_pair = 0xD800 <= high < 0xDC00 <= low < 0xE000
    if is_pair:
        return b"\\u%d" % (((high & 0x3FF) << 10) + (low & 0x3FF) + 0x10000)
    return found[0]


def _lost(path: Path, warnings: Iterable[Any]) -> Iterator[LeftOut]:
    for warning in warnings:
        if warning.source in _OF_PARTS:
            error = _failed(path, warning.message)
            part = _QUOTED.search(warning.message)
            yield LeftOut(
                part[1] if part else "some of its parts", "quarantined", error.kind, error.why
            )


def extract(path: Path, content: bytes, format: str) -> Any:
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

    async def answer() -> Any:
        return await xberg.extract(
            xberg.ExtractInput(kind="bytes", bytes=content, mime_type=MIME[format]), config
        )

    try:
        result = asyncio.run(answer())
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # A panic of the library is not an Exception.
    except BaseException as error:
        raise _failed(path, str(error)) from error
    if not result.results:
        raise _failed(path, "; ".join(str(error) for error in result.errors))
    return result.results[0]


def _failed(path: Path, message: str) -> UnreadableFileError:
    said = without_names(message).lower()
    rest = clean(message.partition(": ")[2] or message)
    if "(drm)" in said:
        return UnreadableFileError(path, f"encrypted: {rest}", "encrypted")
    if "password" in said or "encrypted" in said:
        return UnreadableFileError(path, why_closed(), "encrypted")
    return UnreadableFileError(path, damaged(rest), "damaged")


def _text(nodes: Iterable[tuple[Mapping[str, Any], int | None]], format: str) -> Text:
    if format in _SLIDES:
        return from_slides(_by_slide(nodes, is_titled=format != "odp"))
    built = Builder()
    sheets = 0
    for node, _ in nodes:
        if format in _SHEETS and node["node_type"] == "heading":
            sheets += 1
            built.page(sheets, f"sheet {_line(node)}")
            built.heading(1, _line(node))
        else:
            _add(built, node)
    return built.done()


def _by_slide(
    nodes: Iterable[tuple[Mapping[str, Any], int | None]], *, is_titled: bool
) -> dict[int, str]:
    slides: dict[int, Builder] = {}
    number = 1
    for node, page in nodes:
        number = page or (node.get("number") if node["node_type"] == "slide" else None) or number
        # A slide node holds the title, or else a name that nobody sees.
        if node["node_type"] == "slide" and not is_titled:
            continue
        _add(slides.setdefault(number, Builder()), node)
    return {at: slides[at].done().text for at in sorted(slides)}


def _add(built: Builder, node: Mapping[str, Any]) -> None:
    match node["node_type"]:
        case "heading" | "title":
            built.heading(node.get("level") or 1, _line(node))
        case "list_item":
            built.item(_line(node))
        case "table":
            built.block(rows_as_text(_rows(node["grid"])))
        case "definition_item":
            built.block(f"{clean(node.get('term') or '')}: {clean(node.get('definition') or '')}")
        case "image":
            said = clean(node.get("description") or "")
            built.block(said if " " in said else "")
        case "slide":
            built.block(clean(node.get("title") or ""))
        case "raw_block":
            notes = str(node.get("format")).endswith("notes")
            built.block(f"{NOTES}\n{_line(node)}" if notes else _line(node))
        case _:
            built.block(_line(node))


def _line(node: Mapping[str, Any]) -> str:
    return _REFERENCE.sub("", clean(node.get("text") or node.get("content") or "")).strip()


def _rows(grid: Mapping[str, Any]) -> list[list[str]]:
    rows: dict[int, dict[int, str]] = {}
    for cell in grid["cells"]:
        rows.setdefault(cell["row"], {})[cell["col"]] = _shown(
            " ".join(clean(cell["content"] or "").split())
        )
    width = max((max(row) for row in rows.values() if row), default=-1) + 1
    return [[rows[number].get(column, "") for column in range(width)] for number in sorted(rows)]


def _shown(cell: str) -> str:
    """Return a day or a time of a sheet as a reader sees it, to the second."""
    if found := _TIME.fullmatch(cell):
        return ":".join(part.zfill(2) for part in found.groups())
    if day := _DAY.fullmatch(cell):
        return f"{day[1]} {day[2]}"
    return cell
