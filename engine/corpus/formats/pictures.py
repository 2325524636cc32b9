"""Pictures, such as scanned letters: what tesseract recognises in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.ocr import on, text_in
from engine.corpus.scan.formats import PICTURES
from engine.corpus.text.blocks import Builder
from engine.corpus.text.hyphens import put_together, unwrapped
from engine.corpus.text.metadata import title_from_name

_MIN_LETTERS = 8  # fewer are taken for a logo, or for specks


class PictureReader:
    """A picture is a document where words are recognised in it; each picture of a file with several is a page."""

    formats = frozenset(PICTURES.values())

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        content = read_bytes(path, data)
        if not on():
            raise UnreadableFileError(path, "a picture: without OCR it holds no text", "needs OCR")
        text, problem = text_in(content)
        if problem:
            raise UnreadableFileError(path, f"a picture that OCR could not read: {problem}", "needs OCR")
        if sum(map(str.isalpha, text)) < _MIN_LETTERS:
            raise UnreadableFileError(path, "a picture in which OCR found no text", "empty")
        built = Builder()
        pages = put_together([unwrapped(page) for page in text.rstrip("\f\n").split("\f")])
        for number, page in enumerate(pages, 1):
            if len(pages) > 1:
                built.page(number, f"page {number}")
            built.block(page)
        done = built.done()
        yield ReadDocument(
            title_from_name(path), done.text, format=path.suffix.lstrip(".").lower(), pages=done.pages, note="by OCR"
        )


READER = PictureReader()
