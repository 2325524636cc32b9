"""Other readers of the same files, called directly: text alone, nothing around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path

_OOXML = "application/vnd.openxmlformats-officedocument."
MIME = {
    "docx": f"{_OOXML}wordprocessingml.document",
    "pptx": f"{_OOXML}presentationml.presentation",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "xls": "application/vnd.ms-excel",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "msg": "application/vnd.ms-outlook",
    "html": "text/html",
    "eml": "message/rfc822",
    "pdf": "application/pdf",
}
OFFICE = (
    "docx",
    "xlsx",
    "pptx",
    "doc",
    "xls",
    "ppt",
)
Peer = Callable[[bytes, str], str]


def by_xberg(data: bytes, format: str) -> str:
    """Return xberg's plain text."""
    from xberg import ExtractInput, ExtractionConfig, extract

    config = ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        disable_ocr=True,
    )

    async def extract_text() -> str:
        file = ExtractInput(
            kind="bytes",
            bytes=data,
            mime_type=MIME[format],
        )
        extraction = await extract(file, config)
        return "\n".join(document.content for document in extraction.results)

    return asyncio.run(extract_text())


def by_office_oxide(data: bytes, format: str) -> str:
    """Return office_oxide's plain text."""
    from office_oxide import Document

    return str(Document.from_bytes(data, format).plain_text())  # type: ignore[arg-type]


def by_pdfium(data: bytes, format: str) -> str:
    """Return the text of all pages as PDFium gives it."""
    from pypdfium2 import PdfDocument

    return "\n".join(page.get_textpage().get_text_bounded() for page in PdfDocument(data))


def by_resiliparse(data: bytes, format: str) -> str:
    """Return resiliparse's plain text of a web page."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    page = bytes_to_str(data, detect_encoding(data))
    return str(extract_plain_text(page, alt_texts=False, form_fields=False))


def by_email(data: bytes, format: str) -> str:
    """Return the text of what the standard library calls a mail's body."""
    body = message_from_bytes(data, policy=policy.default).get_body(("plain", "html"))
    if body is None:
        return ""
    text = str(body.get_content())
    if body.get_content_subtype() == "html":
        return by_resiliparse(text.encode(), "html")
    return text


# By format. The first is the one whose throughput is compared.
PEERS: dict[str, tuple[Peer, ...]] = {
    **dict.fromkeys(OFFICE, (by_office_oxide, by_xberg)),
    **dict.fromkeys(("odt", "ods", "odp", "rtf", "epub", "msg"), (by_xberg,)),
    "html": (by_resiliparse, by_xberg),
    "eml": (by_email, by_xberg),
    "pdf": (by_pdfium, by_xberg),
}


def read_with_all(file: tuple[str, str]) -> list[str]:
    """Return what each peer of a format makes of a file, "" where it fails.

    `file`: path and format.
    """
    path, format = file
    return [_read(peer, Path(path).read_bytes(), format) for peer in PEERS.get(format, ())]


def read_with_first(file: tuple[str, str]) -> int:
    """Return the length of what the first peer of a format makes of a file."""
    path, format = file
    return len(_read(PEERS[format][0], Path(path).read_bytes(), format))


def _read(
    peer: Peer,
    data: bytes,
    format: str,
) -> str:
    try:
        return peer(data, format)
    except Exception:  # whatever a library raises
        return ""
