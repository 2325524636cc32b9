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
from engine.corpus.formats.plain import latex
from engine.corpus.formats.plain.markup import find_headings, find_title
from engine.corpus.formats.plain.subtitles import are_subtitles, show_subtitles
from engine.corpus.formats.plain.unnamed_encodings import (
    find_plausible_codec,
    gives_words,
    is_plausible,
)
from engine.corpus.text.metadata import title_from_name

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL_CHARACTER = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
# With a larger share of control characters, a file is binary and not text.
_MAX_CONTROL_SHARE = 0.02
_NULS = re.compile(b"\0+")
_WIDE_ENCODINGS = ("utf-16", "utf-32")
# ASCII, and the punctuation of Chinese and Japanese: every text has some of it.
_USUAL_CHARACTER = re.compile("[\t\n\r -~\u3000-\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f]")
# Begins the characters of another set in ISO-2022-JP, -KR and -CN, whose bytes are all ASCII.
_ISO_2022_ESCAPE = re.compile(rb"\x1b\$[@B(D)C]")
_WIDE_NAME = re.compile("u(?:tf)?[-_ ]?(?:16|32)")
# With a larger share of unreadable characters, a byte order mark is taken for a coincidence.
_MAX_UNREAD_SHARE = 0.01
# In a text of at least this many characters, a single unreadable one is ignored.
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
_DOS_CODE_PAGES = (
    "cp437",
    "cp850",
    "cp852",
    "cp866",
    "cp857",
    "cp860",
    "cp862",
    "cp737",
)
# The border of a frame in a text of DOS, from corner to corner, or a line between blanks. Shorter
# runs are letters in other encodings, such as the strokes that stretch words in Arabic.
_FRAME = re.compile(
    rb"[\xc0\xc3\xc6-\xc9\xcc\xd3-\xd6\xda][\xc4\xcd]{4}"
    rb"[\xc1\xc2\xc4\xc5\xca\xcb\xcd-\xd2\xd7\xd8]*[\xb4-\xb9\xbb-\xbf\xd9]"
    rb"|(?<![\x80-\xff])([\xc4\xcd])\1{9,}(?![\x80-\xff])"
)
# Blanks in place of the parts of frames that all these code pages have.
_FRAME_BYTES = bytes.fromhex("b0b1b2b3b4b9babbbcbfc0c1c2c3c4c5c8c9cacbcccdced9dadbdcdf")
_WITHOUT_FRAMES = bytes.maketrans(_FRAME_BYTES, b" " * len(_FRAME_BYTES))
_MAX_SHORT = 600  # bytes; chardet is unreliable for texts that are not longer
_MAX_SAMPLE_LENGTH = 64 * 1024  # bytes
_MAX_SAMPLE_LINES = 2000
# Bytes of a line before and after its first byte beyond ASCII, in a sample.
_SAMPLED_BEFORE = 200
_SAMPLED_AFTER = 2000
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# The likeliest encoding of a word or two.
_WESTERN = "cp1252"
# The byte of each character that Windows' code page has in place of a control character of Latin-1.
_WESTERN_BYTES = {
    ord(char): byte
    for byte in range(0x80, 0xA0)
    if (char := bytes([byte]).decode(_WESTERN, "ignore"))
}
# Bytes that are not UTF-8, as `surrogateescape` decodes them.
_BAD_BYTES = re.compile("[\udc80-\udcff]+")
# Western letters that are rather the first half of a Latin, Greek or Cyrillic letter in UTF-8.
_FIRST_HALVES = (
    "Â",
    "Ã",
    "Î",
    "Ï",
    "Ð",
    "Ñ",
)
_WESTERN_CHARACTERS = {byte: char for char, byte in _WESTERN_BYTES.items()}
# Without U+0085, which ends lines.
_LATIN_1_CONTROL = re.compile(rb"\xc2[\x80-\x84\x86-\x9f]")
# With less confidence, a guess of chardet's is no better than any other.
_MIN_CONFIDENCE = 0.05
# Colours and other orders to a terminal, as programs write them into logs (ECMA-48, 5.4).
_TERMINAL_ORDER = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# The first two characters of what was one character in UTF-8 before it was taken for a Western text
# and encoded again: `Ã¼` in place of `ü`.
_ENCODED_TWICE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0178\u0192\u02c6-\u20ac\u2122]")
# A picture within a text: `data:image/png;base64,iVBOR…`; JSON may put a backslash before `/`.
# A group that is repeated for each character takes 160 bytes of memory for each of them.
_DATA_ADDRESS = re.compile(
    r"data:[\w.+-]+\\?/[\w.+-]+(?:;[\w.=-]+)*;base64,"
    r"(?=(?:[A-Za-z0-9+/=_-]|\\/){100})(?:[A-Za-z0-9+/=_-]++|\\/)++"
)
# A file in base64: many characters without a blank, or several lines of such.
_PACKED = re.compile(
    r"(?<![A-Za-z0-9+/=_-])"
    r"(?:[A-Za-z0-9+/=_-]{200,}"
    r"|(?:[A-Za-z0-9+/_-]{60,}\s+){3,}(?:[A-Za-z0-9+/_-]*=+|[A-Za-z0-9+/_-]+\Z)?)"
)
_MIN_PACKED = 200  # characters
# A longer value is nothing that a person reads, whatever it is.
_MAX_SEQUENCE = 10_000
_KINDS_OF_BASE64 = (
    re.compile("[A-Z]"),
    re.compile("[a-z]"),
    re.compile(r"\d"),
)
# Small letters that follow each other, and the largest share of them in base64: 8 % on average.
_WORD_IN_RUN = re.compile("[a-z]{4,}")
_MAX_IN_WORDS = 0.3
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
"""Codecs for labels that Python does not know, or that people use for a larger encoding."""
_NUMBERED_LABEL = re.compile(r"(?:windows|win|cp|ibm|dos|ms)[-_]?(\d{3,5})")
_MAC_LABEL = re.compile(r"^(?:mac|macos)[-_]?(?=[a-z])")


class DecodedText(NamedTuple):
    """A text, and a note for the ledger on what was guessed or replaced, empty if nothing was."""

    text: str
    note: str


class PlainReader:
    """A reader of .txt files.

    The title is the one that the text names or begins with, else the file's name. Subtitles always
    have the file's name as their title.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, note = decode(read_bytes(path, data), path)
        if are_subtitles(text):
            text = show_subtitles(text) or text
            yield ReadDocument(
                title_from_name(path),
                text,
                format="txt",
                note=note,
            )
            return
        if path.suffix.lower() in latex.ENDINGS:
            text = latex.show_letters(text)
        headings = tuple(find_headings(text, path))
        yield ReadDocument(
            find_title(text, path),
            text,
            headings,
            format="txt",
            note=note,
        )


READER = PlainReader()


def decode(data: bytes, path: Path) -> DecodedText:
    """Decode bytes in any encoding.

    The encoding is that of the byte order mark, else UTF-8, else UTF-16 without a mark, else the
    most likely one. Raises UnreadableFileError for binary or empty content and for bytes that are
    not text in any encoding.
    """
    decoded = _decode(data, path)
    return decoded._replace(text=_clean_text(decoded.text, path))


def decode_as(
    data: bytes,
    label: str,
    path: Path,
) -> DecodedText:
    """Decode bytes whose encoding a mail or a page declares by its `label`.

    If they are not valid in that encoding, they are decoded as by `decode`.
    """
    codec = find_codec(label)
    # UTF-16 and UTF-32 have zero bytes; without them such a label is wrong.
    is_wrong_label = _WIDE_NAME.match(codec) and b"\0" not in data
    if is_wrong_label or (data.isascii() and _ISO_2022_ESCAPE.search(data)):
        return decode(data, path)
    if not data.isascii() and not codec.startswith("utf"):
        with suppress(UnicodeDecodeError):
            text = _clean_text(_decode_utf8(data), path)
            return DecodedText(text, f"read as UTF-8, though it says {label}")
    with suppress(UnicodeError, LookupError, ValueError):
        is_utf8 = lookup(codec).name == "utf-8"
        text = _decode_utf8(data) if is_utf8 else data.decode(codec)
        return DecodedText(_clean_text(text, path), "")
    return decode(data, path)


def _clean_text(text: str, path: Path) -> str:
    """Return a decoded text without orders to a terminal, pictures and what `clean` removes.

    Raises UnreadableFileError if nothing is left, or if the content is binary.
    """
    text = clean(text)
    if "\x1b" in text:
        text = _TERMINAL_ORDER.sub("", text)
    if ";base64," in text:
        text = _DATA_ADDRESS.sub("", text)
    if not text.strip():
        raise UnreadableFileError(path, "empty", "empty")
    _check_control_characters(text, path)
    return text


def drop_packed_files(text: str) -> str:
    """Return a value without files in base64 and other long data that no person reads."""
    if len(text) < _MIN_PACKED:
        return text
    return _PACKED.sub(lambda match: "" if _is_packed(match[0]) else match[0], text)


def _is_packed(run: str) -> bool:
    """Return whether characters may be base64: hashes, sequences of genes and paths are not.

    In base64, capitals, small letters and digits alternate.
    """
    if len(run) > _MAX_SEQUENCE:
        return True
    has_all_kinds = all(kind.search(run) for kind in _KINDS_OF_BASE64)
    in_words = sum(map(len, _WORD_IN_RUN.findall(run)))
    return has_all_kinds and in_words <= _MAX_IN_WORDS * len(run)


def _check_control_characters(text: str, path: Path) -> None:
    """Raise UnreadableFileError if a text has so many control characters that it is binary."""
    if len(_CONTROL_CHARACTER.findall(text)) > _MAX_CONTROL_SHARE * len(text):
        raise UnreadableFileError(path, "binary content, not text", "binary")


def _decode(data: bytes, path: Path) -> DecodedText:
    """Decode bytes in any encoding, as `decode` does, but without cleaning the text."""
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
        text = _decode_utf8(data)
        note = ""
        original = decode_twice_encoded(text)
        if original:
            text = original
            note = "its UTF-8 was encoded twice"
    except UnicodeDecodeError:
        if is_mostly_utf8(data):
            text, note = _decode_mixed(data)
        else:
            text, note = _decode_by_guess(data, path)
    return DecodedText(text, _join_notes(note, nul_note))


def _decode_utf8(data: bytes) -> str:
    """Decode UTF-8, with Western characters in place of control characters of Latin-1.

    Programs that take Windows' code page for Latin-1 leave such characters. Raises
    UnicodeDecodeError.
    """
    text = data.decode("utf-8")
    if _LATIN_1_CONTROL.search(data) and not decode_twice_encoded(text):
        return text.translate(_WESTERN_CHARACTERS)
    return text


def _shorten_nuls(data: bytes, path: Path) -> tuple[bytes, str]:
    """Return (data with a single NUL in place of each run of NULs, a note on the number of runs).

    NULs stand where nothing was written: in sparse files, and after a crash. Those at the end are
    removed. Raises UnreadableFileError if there are so many runs that the content is binary.
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


def decode_twice_encoded(text: str) -> str:
    """Return the original of a text whose UTF-8 was taken for a Western text and encoded again.

    Empty for other texts: decoding them once more fails, since it hardly happens that all their
    letters beyond ASCII make valid UTF-8 by chance.
    """
    if text.isascii() or not _ENCODED_TWICE.search(text):
        return ""
    with suppress(UnicodeError):
        return text.translate(_WESTERN_BYTES).encode("latin-1").decode("utf-8")
    return ""


def _decode_by_mark(
    data: bytes,
    encoding: str,
    path: Path,
) -> DecodedText:
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
    """Join the notes that are not empty."""
    return "; ".join(filter(None, notes))


def _decode_wide(data: bytes) -> DecodedText | None:
    """Decode UTF-16 or UTF-32 without a byte order mark; None if the bytes are neither."""
    encoding, _ = _detect(data[:_MAX_SAMPLE_LENGTH])
    if not encoding.startswith(_WIDE_ENCODINGS):
        return None
    text = data.decode(encoding, "replace")
    if not _USUAL_CHARACTER.search(text):
        return None
    note = f"read as {encoding.upper()}, which it does not say"
    return DecodedText(text, _join_notes(note, _describe_unread(text)))


def is_mostly_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8 with few invalid places, such as a cut-off last character."""
    text = data.decode("utf-8", "replace")
    # A replacement character that the data itself holds is valid.
    invalid_count = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    ascii_length = len(data.translate(None, _HIGH_BYTES))
    valid_count = len(text) - ascii_length - invalid_count
    is_cut_off = invalid_count == 1 and text.endswith("\ufffd")
    min_valid = 1 if is_cut_off else 2
    return valid_count >= max(min_valid, invalid_count)


def _decode_mixed(data: bytes) -> DecodedText:
    """Decode UTF-8 with bytes in it that are not."""
    text = _BAD_BYTES.sub(_read_bad_bytes, data.decode("utf-8", "surrogateescape"))
    note = ""
    if text != data.decode("utf-8", "replace"):
        note = f"UTF-8, with letters that are read as {_WESTERN}"
    return DecodedText(text, _join_notes(note, _describe_unread(text)))


def _read_bad_bytes(match: re.Match[str]) -> str:
    """Return what bytes within UTF-8 stand for: Western letters in a word, else U+FFFD.

    Programs in different encodings may add lines to one file.
    """
    data = match[0].encode("utf-8", "surrogateescape")
    letters = data.decode(_WESTERN, "replace")
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    is_in_word = any(char.isascii() and char.isalpha() for char in (before, after))
    has_capital_within = before.islower() and letters[0].isupper()
    is_before_capital = letters[-1].islower() and after.isupper()
    is_word = letters.isalpha() and not has_capital_within and not is_before_capital
    if is_in_word and is_word and letters not in _FIRST_HALVES:
        return letters
    return data.decode("utf-8", "replace")


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

    A label that people use for a larger encoding gives that one: `gb2312` → `gb18030`.
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

    This is chardet's guess, with three exceptions: for a text with frames, a code page of DOS; for
    a short text that does not look like words in it, an encoding in which it does; and for an
    unlikely guess, Western if that is possible. Empty if no encoding fits.
    """
    sample = find_informative_sample(data)
    if _FRAME.search(sample):
        return _guess_dos_code_page(sample)
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


def _guess_dos_code_page(data: bytes) -> str:
    """Return the most likely code page of a text of DOS with frames.

    This is chardet's guess if the text looks like words in it, else the first in which it does.
    """
    unframed = data.translate(_WITHOUT_FRAMES)
    encoding, _ = _detect(unframed, _DOS_CODE_PAGES)
    codecs_with_words = (code for code in _DOS_CODE_PAGES if gives_words(unframed, code))
    if gives_words(unframed, encoding):
        return encoding
    return next(codecs_with_words, encoding)


def guess_encoding_of_names(names: bytes) -> str:
    """Return the most likely code page of names in an archive, one per line."""
    if not names:
        return ""
    encoding, _ = _detect(names[:_MAX_SAMPLE_LENGTH], _CODE_PAGES_OF_NAMES)
    return encoding


def _detect(data: bytes, among: Iterable[str] | None = None) -> tuple[str, float]:
    """Return chardet's guess and its confidence: (codec, 0 to 1).

    `among`: the encodings to choose from, all if None. The codec is empty for ASCII, and if chardet
    has no guess. With `among` it is then `cp437`, the encoding of ZIP archives.
    """
    from chardet import detect

    fallback = "cp437" if among else "ascii"
    guess = detect(
        data,
        include_encodings=among,
        no_match_encoding=fallback,
    )
    codec = lookup(find_codec(guess["encoding"] or "ascii")).name
    confidence = guess["confidence"] or 0.0
    if codec == "ascii":
        return "", confidence
    return codec, confidence


def find_informative_sample(data: bytes) -> bytes:
    """Return of each line what is around its first byte beyond ASCII, which shows the encoding.

    If there are no such bytes, it is the beginning of the text.
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
