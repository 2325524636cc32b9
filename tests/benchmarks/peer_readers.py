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
OFFICE = ("docx", "xlsx", "pptx", "doc", "xls", "ppt")
Peer = Callable[[bytes, str], str]


def by_xberg(data: bytes, format: str) -> str:
    """xberg's plain text."""
    from xberg import ExtractInput, ExtractionConfig, extract

    config = ExtractionConfig(use_cache=False, enable_quality_processing=False, disable_ocr=True)

    async def text() -> str:
        found = await extract(
            ExtractInput(kind="bytes", bytes=data, mime_type=MIME[format]), config
        )
        return "\n".join(document.content for document in found.results)

    return asyncio.run(text())


def by_office_oxide(data: bytes, format: str) -> str:
    """office_oxide's plain text."""
    from office_oxide import Document

    return str(Document.from_bytes(data, format).plain_text())  # type: ignore[arg-type]


def by_pdfium(data: bytes, format: str) -> str:
    """The text of each page as PDFium gives it."""
    from pypdfium2 import PdfDocument

    return "\n".join(page.get_textpage().get_text_bounded() for page in PdfDocument(data))


def by_resiliparse(data: bytes, format: str) -> str:
    """resiliparse's plain text of a web page."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    return str(
        extract_plain_text(
            bytes_to_str(data, detect_encoding(data)), alt_texts=False, form_fields=False
        )
    )


def by_email(data: bytes, format: str) -> str:
    """The text or page that the standard library calls a mail's body."""
    body = message_from_bytes(data, policy=policy.default).get_body(("plain", "html"))
    if body is None:
        text = ""
    else:
        text = str(body.get_content())
    if body is not None and body.get_content_subtype() == "html":
        return by_resiliparse(text.encode(), "html")
    return text


PEERS: dict[str, tuple[Peer, ...]] = {
    **dict.fromkeys(OFFICE, (by_office_oxide, by_xberg)),
    **dict.fromkeys(("odt", "ods", "odp", "rtf", "epub", "msg"), (by_xberg,)),
    "html": (by_resiliparse, by_xberg),
    "eml": (by_email, by_xberg),
    "pdf": (by_pdfium, by_xberg),
}
"""By format; the first is the one whose throughput is compared."""


def texts(asked: tuple[str, str]) -> list[str]:
    """What each peer of a format makes of a file; empty where it fails."""
    path, format = asked
    return [_text(peer, Path(path).read_bytes(), format) for peer in PEERS.get(format, ())]


def first(asked: tuple[str, str]) -> int:
    """The length of what the first peer of a format makes of a file."""
    path, format = asked
    return len(_text(PEERS[format][0], Path(path).read_bytes(), format))


def _text(peer: Peer, data: bytes, format: str) -> str:
    try:
        return peer(data, format)
    except Exception:  # whatever a library raises
        return ""
