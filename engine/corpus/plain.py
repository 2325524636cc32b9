"""Plain text: bytes in any common encoding → text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from engine.corpus.readers import ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DETECTION_SAMPLE = 128 * 1024
_LONGEST_TITLE = 100
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROL = 0.02


class PlainReader:
    """Reads .txt files. The title is the first line when it is short and holds a letter, else the file's name."""

    formats = frozenset({"txt"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        text = decode(read_bytes(path, data), path)
        first = next(line.strip() for line in text.split("\n") if line.strip())
        short = len(first) <= _LONGEST_TITLE and any(map(str.isalpha, first))
        yield ReadDocument(first if short else title_from_name(path), text, format="txt")


READER = PlainReader()


def decode(data: bytes, path: Path) -> str:
    """Text by byte order mark, else strict UTF-8, else UTF-16 without a mark, else the encoding that is most likely.

    Raises UnreadableFileError for binary or empty content and for bytes that no encoding makes text of.
    """
    text = clean(_decoded(data, path))
    if not text.strip():
        raise UnreadableFileError(path, "empty")
    if len(_CONTROL.findall(text)) > _MOST_CONTROL * len(text):
        raise UnreadableFileError(path, "binary content, not text")
    return text


def _decoded(data: bytes, path: Path) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise UnreadableFileError(
                    path, f"not valid {encoding.upper()} in spite of its byte order mark"
                ) from error
    if b"\0" in data:
        return _wide_text(data, path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(data, path)


def _wide_text(data: bytes, path: Path) -> str:
    """UTF-16 without a mark shows as NULs in every second byte of mostly Latin text; any other NUL means binary."""
    for offset, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        zeros, others = data[offset::2].count(0), data[1 - offset :: 2].count(0)
        if not others and zeros > len(data) // 4:
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                break
    raise UnreadableFileError(path, "binary content, not text")


def _guessed(data: bytes, path: Path) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_DETECTION_SAMPLE]).best()
    if best is None:
        raise UnreadableFileError(path, "unknown text encoding")
    try:
        return data.decode(best.encoding)
    except (UnicodeDecodeError, LookupError):
        best = from_bytes(data).best()
    if best is None:
        raise UnreadableFileError(path, "unknown text encoding")
    return str(best)
