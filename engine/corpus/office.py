"""Office documents, RTF and EPUB, through kreuzberg. Only ever called in a sandboxed child process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.corpus.compound import compound_of
from engine.corpus.damage import damaged, without_names
from engine.corpus.excel_binary import as_sheets_show
from engine.corpus.flattened_tables import Table, by_first_row, with_rows
from engine.corpus.letters import letters_of
from engine.corpus.passwords import why_closed
from engine.corpus.places import place_pages
from engine.corpus.prepared import prepared, restored
from engine.corpus.readers import Page, ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name
from engine.corpus.second_look import lacking, unsaid
from engine.corpus.slide_tables import with_tables
from engine.corpus.slides_ppt import slides_of
from engine.corpus.structure import MARK, Text, from_nodes, from_slides, parted
from engine.corpus.unmarked_headings import with_headings, with_labels
from engine.corpus.word_tables import Layout, layout_of

_OOXML = "application/vnd.openxmlformats-officedocument."
MIME = {
    "pdf": "application/pdf",
    "docx": f"{_OOXML}wordprocessingml.document",
    "doc": "application/msword",
    "pptx": f"{_OOXML}presentationml.presentation",
    "ppt": "application/vnd.ms-powerpoint",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "xls": "application/vnd.ms-excel",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "msg": "application/vnd.ms-outlook",
}
_NO_TITLE = re.compile(
    r"(?:untitled|\((?:anonymous|unspecified|untitled)\)|microsoft word - .*|powerpoint.presentation|slide 1|document ?\d*)$",
    re.IGNORECASE,
)
_MAX_TITLE_LENGTH = 300
_NO_TEXT = "no text was found in it that can be read"
_OLD = ("doc", "ppt", "xls")


class OfficeReader:
    """Reads what kreuzberg reads better than we would. The title is the document's own, else its first heading."""

    formats = frozenset(MIME) - {"msg", "pdf"}

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        from engine.corpus.formats import true_format

        format = path.suffix.lstrip(".").lower()
        if format not in self.formats:  # who opens files names them by what they are
            format = true_format(path, format, data)
        content = prepared(format, read_bytes(path, data))
        result = _extracted(path, content, format)
        text = _text(result, clean(result.content), format, content)
        text = with_more(text, lacking(path, format, content, text.text))
        if not text.text.strip():
            raise _without_text(path, format)
        metadata: Mapping[str, Any] = result.metadata
        yield ReadDocument(
            title_of(metadata, text, path), text.text, text.headings, format=format, pages=text.pages,
            author=author_of(metadata), created=seconds(metadata.get("created_at")),
            changed=seconds(metadata.get("modified_at")),
        )  # fmt: skip


READER = OfficeReader()


def _extracted(path: Path, content: bytes, format: str) -> Any:
    """`extract`; of an old file that is damaged in a way that does no harm, once more without that."""
    try:
        return extract(path, content, format)
    except UnreadableFileError as error:
        if format not in _OLD or error.kind != "damaged":
            raise
        with suppress(ValueError, OverflowError):
            if (tidied := compound_of(content).tidied()) != content:
                return extract(path, tidied, format)
        raise


def extract(path: Path, content: bytes, format: str) -> Any:
    """kreuzberg's result for some bytes. Raises UnreadableFileError with the reason that it gives."""
    from kreuzberg import (
        ConcurrencyConfig,
        ExtractionConfig,
        KreuzbergError,
        PageConfig,
        extract_bytes_sync,
    )

    slides = format == "pptx"
    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        pages=PageConfig(extract_pages=True, insert_page_markers=slides, marker_format=MARK)
        if format in ("pptx", "docx")
        else None,
        include_document_structure=not slides,
        output_format="plain",
        disable_ocr=True,  # type: ignore[call-arg]  # which its stubs do not know
        concurrency=ConcurrencyConfig(max_threads=1),
    )
    try:
        return extract_bytes_sync(content, MIME[format], config)
    except (KreuzbergError, OSError, ValueError, RuntimeError) as error:
        raise _failed(path, str(error)) from error


def _failed(path: Path, message: str) -> UnreadableFileError:
    reason = message.partition(": ")[2] or message
    if re.search(r"password|encrypted", without_names(reason), re.IGNORECASE):
        return UnreadableFileError(path, why_closed(), "encrypted")
    if "no text content found" in reason.lower():
        return UnreadableFileError(path, _NO_TEXT, "empty")
    return UnreadableFileError(path, damaged(clean(reason)), "damaged")


def _text(result: Any, content: str, format: str, data: bytes) -> Text:
    if format == "pptx":
        before, by_slide = parted(content)
        return from_slides(with_tables(by_slide, data), before)
    content = restored(content)
    if format == "ppt" and (slides := slides_of(data)) is not None:
        shown = from_slides(slides.pages)
        return with_more(shown, unsaid((*slides.beside, *(() if slides.whole else content.split("\n"))), shown.text))
    nodes = result.document["nodes"] if result.document else []
    if format == "xls":
        nodes = as_sheets_show(nodes, data)
    layout = layout_of(data) if format == "doc" else Layout()
    if layout.tables:
        nodes = _with_rows(nodes, layout.tables)
    sheets = format in ("xlsx", "xls", "ods")
    built = _restored(from_nodes(nodes, sheets=sheets, footnotes=format != "ppt"))
    if not sheets and len(letters_of(built.text)) < 0.9 * len(letters_of(content)):
        return Text(content)  # nothing is lost where the structure does not hold all
    pages = [restored(clean(page["content"])) for page in result.pages or []]
    return (
        place_pages(built, pages)
        if format == "docx"
        else with_headings(with_labels(built, layout.numbered), layout.headings)
    )


def _with_rows(nodes: Sequence[Mapping[str, Any]], found: Iterable[Table]) -> Sequence[Mapping[str, Any]]:
    """The nodes of a document with its tables as rows."""
    tables = by_first_row(found)
    contents = [node["content"] for node in nodes]
    return [
        {"content": {**content, "text": with_rows(content["text"], tables, "\n")}} if content.get("text") else node
        for node, content in zip(nodes, contents, strict=True)
    ]


def with_more(text: Text, more: str) -> Text:
    """A text with what stands beside it, on a page of its own where it has pages."""
    if not more:
        return text
    start = len(text.text) + 2 if text.text else 0
    last = text.pages[-1:]
    pages = (*text.pages, *(Page(start, page.number + 1, "beside the text") for page in last))
    return Text("\n\n".join(filter(None, (text.text, more))), text.headings, pages)


def _restored(text: Text) -> Text:
    headings = tuple(replace(heading, title=restored(heading.title)) for heading in text.headings)
    return Text(restored(text.text), headings, text.pages)


def _without_text(path: Path, format: str) -> UnreadableFileError:
    if format in _OLD:  # not all that they can hold is looked into
        return UnreadableFileError(path, _NO_TEXT, "empty")
    return UnreadableFileError(path, "it holds no text", "empty")


def title_of(metadata: Mapping[str, Any], text: Text, path: Path) -> str:
    """The title that a document gives itself, else its first heading, else the file's name."""
    own = " ".join(clean(str(metadata.get("title") or "")).split())[:_MAX_TITLE_LENGTH]
    if own and not _NO_TITLE.match(own) and "\ufffd" not in own:
        return own
    sheets = bool(text.pages) and text.pages[0].name.startswith("sheet ")
    first = next((heading.title for heading in text.headings if heading.level == 1 and not sheets), "")
    return first or title_from_name(path)


def author_of(metadata: Mapping[str, Any]) -> str:
    """The authors that a document names, with commas between."""
    authors = metadata.get("authors") or ()
    names = [" ".join(clean(str(name)).split()) for name in ([authors] if isinstance(authors, str) else authors)]
    return ", ".join(filter(None, names))[:_MAX_TITLE_LENGTH]


def seconds(date: Any) -> float | None:
    """Seconds since the epoch of an ISO date, UTC where it names no zone; None for anything else."""
    if not isinstance(date, str):
        return None
    try:
        moment = datetime.fromisoformat(date.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
