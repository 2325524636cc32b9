"""Plain text: bytes in any encoding → text.

If the bytes do not say which encoding it is, chardet guesses it.
"""

from __future__ import annotations

import codecs
import re
from codecs import lookup
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.plain.subtitles import are_subtitles, show_subtitles
from engine.corpus.formats.plain.unnamed_encodings import find_plausible_codec, is_plausible
from engine.corpus.text.metadata import title_from_name

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MAX_TITLE_LENGTH = 100
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROL = 0.02
_NULS = re.compile(b"\0+")
_WIDE = ("utf-16", "utf-32")
_USUAL = re.compile("[\t\n\r -~\u3000-\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f]")
_ESCAPE = re.compile(rb"\x1b\$[@B(D)C]")
_NAMES_WIDE = re.compile("u(?:tf)?[-_ ]?(?:16|32)")
_MAX_BAD = 0.01
# A single bad character among so many is ignored.
_MIN_AROUND = 4
_MAX_BINARY_SAMPLE = 2**20
_HIGH = bytes(range(0x80, 0x100))
_CODE_PAGES_OF_NAMES = (
    "cp437",
    "cp850",
    "cp852",
    "cp1252",
    "cp1250",
    "cp866",
    "cp1251",
    "cp857",
    "cp1254",
    "cp862",
    "cp737",
    "cp1253",
    "cp932",
    "gb18030",
    "big5",
    "cp949",
)
"""The Windows and DOS code pages of names in archives."""
_MAX_SHORT = 600  # bytes
_MAX_SAMPLE_LENGTH = 64 * 1024
_MAX_LINES = 2000
_AROUND = 200
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# The likeliest encoding of a word or two.
_WESTERN = "cp1252"
_WESTERN_BYTES = {
    ord(char): byte
    for byte in range(0x80, 0xA0)
    if (char := bytes([byte]).decode(_WESTERN, "ignore"))
}
_MIN_CONFIDENCE = 0.05
# Colours and other orders to a terminal, as programs write them into logs (ECMA-48, 5.4).
_TERMINAL_ORDER = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# How UTF-8 begins where it was taken for a Western text and encoded once more.
_ENCODED_TWICE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0178\u0192\u02c6-\u20ac\u2122]")
_LABELS = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
    "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8",
    "unicode": "utf-16",
    "x-user-defined": "cp1252",
    "x-gbk": "gb18030",
    "iso-8859-6-i": "iso8859-6",
    "utf8mb4": "utf-8",
    "utf-8-mac": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
    "ansi": "cp1252",
    "latin-9": "iso8859-15",
    "windows-31j": "cp932",
    "mac-ce": "mac_latin2",
    "macintosh": "mac_roman",
    "mac-centraleurroman": "mac_latin2",
}


_NUMBERED = re.compile(r"(?:windows|win|cp|ibm|dos|ms)[-_]?(\d{3,5})")
_MAC = re.compile(r"^(?:mac|macos)[-_]?(?=[a-z])")


class PlainReader:
    """A reader of .txt files.

    The title is the first line if it is short and holds a letter, else the file's name, which is
    also that of subtitles.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, note = decode(read_bytes(path, data), path)
        # Pages of old programs end in a form feed.
        title = next(" ".join(line.split()) for line in text.splitlines() if line.strip())
        if are_subtitles(text):
            title = ""
            text = show_subtitles(text) or text
        if len(title) > _MAX_TITLE_LENGTH or not any(map(str.isalpha, title)):
            title = title_from_name(path)
        yield ReadDocument(title, text, format="txt", note=note)


READER = PlainReader()


def decode(data: bytes, path: Path) -> tuple[str, str]:
    """Return (text, note) of bytes in any encoding.

    The encoding is that of the byte order mark, else UTF-8, else UTF-16 without a mark, else the
    most likely one. The note says for the ledger what was guessed or replaced, and is empty
    otherwise. Raises UnreadableFileError for binary or empty content and for bytes that are not
    text in any encoding.
    """
    text, note = _decode(data, path)
    return _check_text(text, path), note


def decode_as(data: bytes, label: str, path: Path) -> tuple[str, str]:
    """Decode bytes whose encoding a mail or a page declares, as `decode`.

    If they are not in that encoding, the right one is found.
    """
    codec = find_codec(label)
    # The label itself was read in an encoding of one byte per character.
    if _NAMES_WIDE.match(codec) and b"\0" not in data:
        return decode(data, path)
    if data.isascii() and _ESCAPE.search(data):
        return decode(data, path)
    if not data.isascii() and not codec.startswith("utf"):
        with suppress(UnicodeDecodeError):
            return _check_text(data.decode("utf-8"), path), f"read as UTF-8, though it says {label}"
    with suppress(UnicodeError, LookupError, ValueError):
        return _check_text(data.decode(codec), path), ""
    return decode(data, path)


def _check_text(text: str, path: Path) -> str:
    text = clean(text)
    if "\x1b" in text:
        text = _TERMINAL_ORDER.sub("", text)
    if not text.strip():
        raise UnreadableFileError(path, "empty")
    if len(_CONTROL.findall(text)) > _MAX_CONTROL * len(text):
        raise UnreadableFileError(path, "binary content, not text", "binary")
    return text


def _decode(data: bytes, path: Path) -> tuple[str, str]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode_by_mark(data, encoding, path)
    if data.isascii() and _ESCAPE.search(data):
        return _note_unread(data.decode(guess_encoding(data) or "ascii", "replace"), "")
    nul_note = ""
    if b"\0" in data:
        if wide := _decode_wide(data):
            return wide
        # Where nothing was written: in sparse files, and after a crash.
        data = data.rstrip(b"\0")
        if not data:
            raise UnreadableFileError(path, "it holds only zero bytes")
        data, runs = _NULS.subn(b"\0", data)
        if runs > max(1, _MAX_CONTROL * len(data)):
            raise UnreadableFileError(path, "binary content, not text", "binary")
        if runs:
            nul_note = f"NULs replaced in {runs} place{'' if runs == 1 else 's'}"
    try:
        text = data.decode("utf-8")
        if once := _decode_once_more(text):
            return once, "; ".join(filter(None, ("its UTF-8 was encoded twice", nul_note)))
        return text, nul_note
    except UnicodeDecodeError:
        if is_mostly_utf8(data):
            text, note = _note_unread(data.decode("utf-8", "replace"), "")
        else:
            text, note = _decode_by_guess(data, path)
    return text, "; ".join(filter(None, (note, nul_note)))


def _decode_once_more(text: str) -> str:
    """Return a text whose UTF-8 was taken for a Western text and encoded again, else empty.

    No text that people write has letters beyond ASCII only where they are UTF-8.
    """
    if text.isascii() or not _ENCODED_TWICE.search(text):
        return ""
    with suppress(UnicodeError):
        return text.translate(_WESTERN_BYTES).encode("latin-1").decode("utf-8")
    return ""


def _decode_by_mark(data: bytes, encoding: str, path: Path) -> tuple[str, str]:
    if encoding == "utf-8-sig":
        return _decode(data.removeprefix(codecs.BOM_UTF8), path)
    text = data.decode(encoding, "replace")
    bad = text.count("\ufffd")
    if bad > _MAX_BAD * len(text) and not (bad == 1 and len(text) >= _MIN_AROUND):
        raise UnreadableFileError(
            path, f"not valid {encoding.upper()} in spite of its byte order mark"
        )
    return _note_unread(text, "")


def _note_unread(text: str, note: str) -> tuple[str, str]:
    """Return a text and its note, with the number of characters that could not be read."""
    bad = text.count("\ufffd")
    if not bad:
        return text, note
    unread = f"{bad} character{'' if bad == 1 else 's'} could not be read"
    return text, "; ".join(filter(None, (note, unread)))


def _decode_wide(data: bytes) -> tuple[str, str] | None:
    """Return the text of UTF-16 or UTF-32 without a mark, and its note, None for anything else."""
    encoding, _ = _detect(data[:_MAX_SAMPLE_LENGTH])
    if not encoding.startswith(_WIDE):
        return None
    text = data.decode(encoding, "replace")
    if _USUAL.search(text):
        return _note_unread(text, f"read as {encoding.upper()}, which it does not say")
    return None


def is_mostly_utf8(data: bytes) -> bool:
    """Tell whether bytes are UTF-8 except for a few."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    sound = len(text) - len(data.translate(None, _HIGH)) - bad
    cut = bad == 1 and text.endswith("\ufffd")
    return sound >= max(1 if cut else 2, bad)


def _decode_by_guess(data: bytes, path: Path) -> tuple[str, str]:
    encoding = guess_encoding(data)
    if not encoding:
        sample = data[:_MAX_BINARY_SAMPLE].decode("latin-1")
        if len(_CONTROL.findall(sample)) > _MAX_CONTROL * len(sample):
            raise UnreadableFileError(path, "binary content, not text", "binary")
        raise UnreadableFileError(path, "unknown text encoding")
    return _note_unread(data.decode(encoding, "replace"), f"its encoding is a guess: {encoding}")


def find_codec(label: str) -> str:
    """Return the codec for an encoding as mails and pages call it.

    If they mean more than the label says, it is the larger encoding.
    """
    label = label.strip().strip("\"';").lower()
    if label not in _LABELS:
        label = label.removeprefix("x-")
    if label in _LABELS:
        return _LABELS[label]
    if page := _NUMBERED.fullmatch(label):
        return f"cp{page[1]}"
    return _MAC.sub("mac_", label)


def guess_encoding(data: bytes) -> str:
    """Return the most likely encoding of bytes that are neither UTF-8 nor UTF-16.

    Empty if no encoding fits.
    """
    sample = find_informative_sample(data)
    encoding, confidence = _detect(sample)
    # Of a few words chardet knows too little.
    if encoding and len(data) <= _MAX_SHORT:
        is_unlikely = confidence < _MIN_CONFIDENCE
        likely = (_WESTERN, encoding) if is_unlikely else ()
        if is_unlikely or not is_plausible(data.decode(encoding, "replace")):
            codec = find_plausible_codec(data, likely)
            if codec:
                return codec
    if confidence < _MIN_CONFIDENCE:
        with suppress(UnicodeDecodeError):
            sample.decode(_WESTERN)
            return _WESTERN
    return "" if encoding.startswith(_WIDE) else encoding


def guess_encoding_of_names(names: bytes) -> str:
    """Return the most likely code page of names in an archive, one per line."""
    if names:
        return _detect(names[:_MAX_SAMPLE_LENGTH], _CODE_PAGES_OF_NAMES)[0]
    return ""


def _detect(data: bytes, among: Iterable[str] | None = None) -> tuple[str, float]:
    from chardet import detect

    fallback = "cp437" if among else "ascii"
    guess = detect(data, include_encodings=among, no_match_encoding=fallback)
    encoding = lookup(find_codec(guess["encoding"] or "ascii")).name
    return "" if encoding == "ascii" else encoding, guess["confidence"] or 0.0


def find_informative_sample(data: bytes) -> bytes:
    """Return the beginnings of lines with bytes beyond ASCII, from near the first of them.

    Without such bytes it is the beginning of the text.
    """
    pieces: list[bytes] = []
    for line in data.splitlines():
        match = _NOT_ASCII.search(line)
        if match is None:
            continue
        start = match.start()
        pieces.append(line[max(0, start - _AROUND) : start + 10 * _AROUND])
        if len(pieces) == _MAX_LINES:
            break
    return b"\n".join(pieces)[:_MAX_SAMPLE_LENGTH] or data[:_MAX_SAMPLE_LENGTH]
