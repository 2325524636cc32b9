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
from typing import NamedTuple

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.core.text import format_count
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.plain.subtitles import are_subtitles, show_subtitles
from engine.corpus.formats.plain.unnamed_encodings import find_plausible_codec, is_plausible
from engine.corpus.text.metadata import title_from_name

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MAX_TITLE_LENGTH = 100
_CONTROL_CHARACTER = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# Share of control characters above which a content is binary.
_MAX_CONTROL_SHARE = 0.02
_NULS = re.compile(b"\0+")
_WIDE_ENCODINGS = ("utf-16", "utf-32")
# ASCII, and the punctuation of Chinese and Japanese: every text has some of it.
_USUAL_CHARACTER = re.compile("[\t\n\r -~\u3000-\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f]")
# Begins the characters of another set in ISO-2022-JP, -KR and -CN, whose bytes are all ASCII.
_ISO_2022_ESCAPE = re.compile(rb"\x1b\$[@B(D)C]")
_WIDE_NAME = re.compile("u(?:tf)?[-_ ]?(?:16|32)")
# Share of unreadable characters above which a byte order mark is taken for a coincidence.
_MAX_UNREAD_SHARE = 0.01
# A single unreadable character among so many is ignored.
_MIN_CHARACTERS_AROUND = 4
_MAX_BINARY_SAMPLE = 2**20  # bytes
_HIGH_BYTES = bytes(range(0x80, 0x100))
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
_MAX_SHORT = 600  # bytes, of which chardet knows too little
_MAX_SAMPLE_LENGTH = 64 * 1024  # bytes
_MAX_SAMPLE_LINES = 2000
# Bytes of a line before and after its first byte beyond ASCII, in a sample.
_SAMPLED_BEFORE = 200
_SAMPLED_AFTER = 2000
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# The likeliest encoding of a word or two.
_WESTERN = "cp1252"
# The bytes of the characters that Windows has where Latin-1 has control characters.
_WESTERN_BYTES = {
    ord(char): byte
    for byte in range(0x80, 0xA0)
    if (char := bytes([byte]).decode(_WESTERN, "ignore"))
}
# Confidence of chardet below which its guess is no better than another.
_MIN_CONFIDENCE = 0.05
# Colours and other orders to a terminal, as programs write them into logs (ECMA-48, 5.4).
_TERMINAL_ORDER = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# How UTF-8 begins where it was taken for a Western text and encoded once more.
_ENCODED_TWICE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0178\u0192\u02c6-\u20ac\u2122]")
_CODECS_BY_LABEL = {
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
"""The codec for labels that Python does not know, or that are used for a larger encoding."""
_NUMBERED_LABEL = re.compile(r"(?:windows|win|cp|ibm|dos|ms)[-_]?(\d{3,5})")
_MAC_LABEL = re.compile(r"^(?:mac|macos)[-_]?(?=[a-z])")


class DecodedText(NamedTuple):
    """A text, and a note for the ledger on what was guessed or replaced, empty if nothing was."""

    text: str
    note: str


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


def decode(data: bytes, path: Path) -> DecodedText:
    """Decode bytes in any encoding.

    The encoding is that of the byte order mark, else UTF-8, else UTF-16 without a mark, else the
    most likely one. Raises UnreadableFileError for binary or empty content and for bytes that are
    not text in any encoding.
    """
    decoded = _decode(data, path)
    return decoded._replace(text=_clean_text(decoded.text, path))


def decode_as(data: bytes, label: str, path: Path) -> DecodedText:
    """Decode bytes whose encoding a mail or a page declares by its `label`, as `decode`.

    If they are not in that encoding, the right one is found.
    """
    codec = find_codec(label)
    # UTF-16 and UTF-32 have zero bytes; without them such a label is wrong.
    is_wrong_label = _WIDE_NAME.match(codec) and b"\0" not in data
    if is_wrong_label or (data.isascii() and _ISO_2022_ESCAPE.search(data)):
        return decode(data, path)
    if not data.isascii() and not codec.startswith("utf"):
        with suppress(UnicodeDecodeError):
            text = _clean_text(data.decode("utf-8"), path)
            return DecodedText(text, f"read as UTF-8, though it says {label}")
    with suppress(UnicodeError, LookupError, ValueError):
        return DecodedText(_clean_text(data.decode(codec), path), "")
    return decode(data, path)


def _clean_text(text: str, path: Path) -> str:
    """Return a text that was decoded without what is no text.

    Raises UnreadableFileError if nothing is left, or if it is binary.
    """
    text = clean(text)
    if "\x1b" in text:
        text = _TERMINAL_ORDER.sub("", text)
    if not text.strip():
        raise UnreadableFileError(path, "empty", "empty")
    _check_control_characters(text, path)
    return text


def _check_control_characters(text: str, path: Path) -> None:
    """Raise UnreadableFileError if so many characters are control characters that it is no text."""
    if len(_CONTROL_CHARACTER.findall(text)) > _MAX_CONTROL_SHARE * len(text):
        raise UnreadableFileError(path, "binary content, not text", "binary")


def _decode(data: bytes, path: Path) -> DecodedText:
    """Decode bytes, as `decode`; the text is not cleaned yet."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decode_by_mark(data, encoding, path)
    if data.isascii() and _ISO_2022_ESCAPE.search(data):
        text = data.decode(guess_encoding(data) or "ascii", "replace")
        return DecodedText(text, _describe_unread(text))
    nul_note = ""
    if b"\0" in data:
        wide = _decode_wide(data)
        if wide:
            return wide
        data, nul_note = _shorten_nuls(data, path)
    try:
        text = data.decode("utf-8")
        note = ""
        original = _decode_twice_encoded(text)
        if original:
            text = original
            note = "its UTF-8 was encoded twice"
    except UnicodeDecodeError:
        if is_mostly_utf8(data):
            text = data.decode("utf-8", "replace")
            note = _describe_unread(text)
        else:
            text, note = _decode_by_guess(data, path)
    return DecodedText(text, _join_notes(note, nul_note))


def _shorten_nuls(data: bytes, path: Path) -> tuple[bytes, str]:
    """Return (data with one NUL in place of each run of them, a note on their number).

    They stand where nothing was written: in sparse files, and after a crash. Those at the end are
    removed. Raises UnreadableFileError if there are too many.
    """
    data = data.rstrip(b"\0")
    if not data:
        raise UnreadableFileError(path, "it holds only zero bytes")
    data, runs = _NULS.subn(b"\0", data)
    if runs > max(1, _MAX_CONTROL_SHARE * len(data)):
        raise UnreadableFileError(path, "binary content, not text", "binary")
    if not runs:
        return data, ""
    return data, f"NULs replaced in {format_count(runs, 'place')}"


def _decode_twice_encoded(text: str) -> str:
    """Return the original of a text whose UTF-8 was taken for a Western text and encoded again.

    Empty for other texts: their letters beyond ASCII are not all valid UTF-8 by chance.
    """
    if text.isascii() or not _ENCODED_TWICE.search(text):
        return ""
    with suppress(UnicodeError):
        return text.translate(_WESTERN_BYTES).encode("latin-1").decode("utf-8")
    return ""


def _decode_by_mark(data: bytes, encoding: str, path: Path) -> DecodedText:
    """Decode bytes whose byte order mark names the encoding.

    Raises UnreadableFileError if they are not in that encoding.
    """
    if encoding == "utf-8-sig":
        return _decode(data.removeprefix(codecs.BOM_UTF8), path)
    text = data.decode(encoding, "replace")
    unread = text.count("\ufffd")
    is_single = unread == 1 and len(text) >= _MIN_CHARACTERS_AROUND
    if unread > _MAX_UNREAD_SHARE * len(text) and not is_single:
        raise UnreadableFileError(
            path, f"not valid {encoding.upper()} in spite of its byte order mark"
        )
    return DecodedText(text, _describe_unread(text))


def _describe_unread(text: str) -> str:
    """Return a note on the number of characters that could not be read, empty if there are none."""
    count = text.count("\ufffd")
    if not count:
        return ""
    return f"{format_count(count, 'character')} could not be read"


def _join_notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _decode_wide(data: bytes) -> DecodedText | None:
    """Decode UTF-16 or UTF-32 without a mark. None for anything else."""
    encoding, _ = _detect(data[:_MAX_SAMPLE_LENGTH])
    if not encoding.startswith(_WIDE_ENCODINGS):
        return None
    text = data.decode(encoding, "replace")
    if not _USUAL_CHARACTER.search(text):
        return None
    note = f"read as {encoding.upper()}, which it does not say"
    return DecodedText(text, _join_notes(note, _describe_unread(text)))


def is_mostly_utf8(data: bytes) -> bool:
    """Tell whether the bytes beyond ASCII are UTF-8 except for a few."""
    text = data.decode("utf-8", "replace")
    # The replacement characters that the data itself holds are sound.
    unread = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    ascii_length = len(data.translate(None, _HIGH_BYTES))
    sound = len(text) - ascii_length - unread
    is_cut_off = unread == 1 and text.endswith("\ufffd")
    min_sound = 1 if is_cut_off else 2
    return sound >= max(min_sound, unread)


def _decode_by_guess(data: bytes, path: Path) -> DecodedText:
    """Decode bytes in the most likely encoding.

    Raises UnreadableFileError if none fits.
    """
    encoding = guess_encoding(data)
    if not encoding:
        _check_control_characters(data[:_MAX_BINARY_SAMPLE].decode("latin-1"), path)
        raise UnreadableFileError(path, "unknown text encoding")
    text = data.decode(encoding, "replace")
    note = f"its encoding is a guess: {encoding}"
    return DecodedText(text, _join_notes(note, _describe_unread(text)))


def find_codec(label: str) -> str:
    """Return the codec for an encoding as mails and pages call it: `x-sjis` → `cp932`.

    If they mean more than the label says, it is the larger encoding.
    """
    label = label.strip().strip("\"';").lower()
    if label not in _CODECS_BY_LABEL:
        label = label.removeprefix("x-")
    if label in _CODECS_BY_LABEL:
        return _CODECS_BY_LABEL[label]
    code_page = _NUMBERED_LABEL.fullmatch(label)
    if code_page:
        return f"cp{code_page[1]}"
    return _MAC_LABEL.sub("mac_", label)


def guess_encoding(data: bytes) -> str:
    """Return the most likely encoding of bytes that are neither UTF-8 nor UTF-16.

    It is chardet's guess, unless the text is short and another encoding gives words, or the guess
    is unlikely and the text may be Western. Empty if no encoding fits.
    """
    sample = find_informative_sample(data)
    encoding, confidence = _detect(sample)
    is_unlikely = confidence < _MIN_CONFIDENCE
    if encoding and len(data) <= _MAX_SHORT:
        likely = (_WESTERN, encoding) if is_unlikely else ()
        if is_unlikely or not is_plausible(data.decode(encoding, "replace")):
            codec = find_plausible_codec(data, likely)
            if codec:
                return codec
    if is_unlikely:
        # Not every byte is a Western character.
        with suppress(UnicodeDecodeError):
            sample.decode(_WESTERN)
            return _WESTERN
    return "" if encoding.startswith(_WIDE_ENCODINGS) else encoding


def guess_encoding_of_names(names: bytes) -> str:
    """Return the most likely code page of names in an archive, one per line."""
    if not names:
        return ""
    encoding, _ = _detect(names[:_MAX_SAMPLE_LENGTH], _CODE_PAGES_OF_NAMES)
    return encoding


def _detect(data: bytes, among: Iterable[str] | None = None) -> tuple[str, float]:
    """Return (codec, confidence from 0 to 1) of chardet's guess, `among` some encodings or all.

    The codec is empty for ASCII, and without a guess; `among` some encodings it then is `cp437`,
    that of ZIP archives.
    """
    from chardet import detect

    fallback = "cp437" if among else "ascii"
    guess = detect(data, include_encodings=among, no_match_encoding=fallback)
    codec = lookup(find_codec(guess["encoding"] or "ascii")).name
    confidence = guess["confidence"] or 0.0
    if codec == "ascii":
        return "", confidence
    return codec, confidence


def find_informative_sample(data: bytes) -> bytes:
    """Return the beginnings of lines with bytes beyond ASCII, from near the first of them.

    Without such bytes it is the beginning of the text.
    """
    pieces: list[bytes] = []
    for line in data.splitlines():
        match = _NOT_ASCII.search(line)
        if match is None:
            continue
        at = match.start()
        pieces.append(line[max(0, at - _SAMPLED_BEFORE) : at + _SAMPLED_AFTER])
        if len(pieces) == _MAX_SAMPLE_LINES:
            break
    return b"\n".join(pieces)[:_MAX_SAMPLE_LENGTH] or data[:_MAX_SAMPLE_LENGTH]
