"""Plain text: bytes in any encoding → text; which encoding it is, where bytes do not say so, is a guess of chardet's."""

from __future__ import annotations

import codecs
import re
from codecs import lookup
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from unicodedata import category

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.text.hyphens import with_whole_words
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
_ISO_2022 = ("iso2022_kr", "iso2022_jp_ext", "iso2022_jp_2")
_ESCAPE = re.compile(rb"\x1b\$[@B(D)C]")
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_MIN_CUT = 64  # bytes; of fewer, text is whole
_USUAL = re.compile("[\t\n\r -~\u3000-\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f]")
_NAMES_WIDE = re.compile("u(?:tf)?[-_ ]?(?:16|32)")
_WIDE_SAMPLE = 2**16
_ONE_BYTE = ("cp12", "windows-12", "iso8859", "iso-8859", "koi8")
_EAST = ("gb", "big5", "cp932", "cp949", "euc", "ms932", "ms949", "cp936", "cp950", "johab")
_MIN_HIGH = 12  # bytes beyond ASCII that are no UTF-8 by chance
_IN_LATIN = re.compile(rb"[A-Za-z][\xc3-\xc5][\x80-\xbf]|[\xc3-\xc5][\x80-\xbf][A-Za-z]")
_MAX_BAD = 0.01
_MIN_AROUND = 4  # characters with which a single bad one does not count
_PIECE = 2**20
_HIGH = bytes(range(0x80, 0x100))
_OF_NAMES = (
    "cp437", "cp850", "cp852", "cp1252", "cp1250", "cp866", "cp1251", "cp857", "cp1254", "cp862", "cp737", "cp1253", "cp932",
    "gb18030", "big5", "cp949",
)  # fmt: skip
"""The code pages of Windows and DOS that names in archives are in."""
_SAMPLE = 4000  # bytes beyond ASCII are enough
_MAX_SAMPLE_LENGTH = 64 * 1024
_AROUND = 200
_BEYOND = re.compile(rb"[\x80-\xff]")
_WESTERN = "cp1252"  # where a word or two are all there is, the likeliest
_MIN_CONFIDENCE = 0.05
_EBCDIC_BLANK = b"\x40"
_LABELS = {
    "iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "shift-jis": "cp932", "x-sjis": "cp932", "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8", "unicode": "utf-16", "x-user-defined": "cp1252", "x-gbk": "gb18030",
}  # fmt: skip


class PlainReader:
    """Reads .txt files. The title is the first line when it is short and holds a letter, else the file's name."""

    formats = frozenset({"txt"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        text, note = decoded(read_bytes(path, data), path)
        text = with_whole_words(text)
        first = next(line.strip() for line in text.split("\n") if line.strip())
        short = len(first) <= _MAX_TITLE_LENGTH and any(map(str.isalpha, first))
        yield ReadDocument(first if short else title_from_name(path), text, format="txt", note=note)


READER = PlainReader()


def decoded(data: bytes, path: Path) -> tuple[str, str]:
    """(text, note): by byte order mark, else UTF-8, else UTF-16 without a mark, else the encoding that is most likely; and what
    the ledger is to say of what was guessed or replaced, empty where nothing was.

    Raises UnreadableFileError for binary or empty content and for bytes that no encoding makes text of.
    """
    text, note = _decoded(data, path)
    return _checked(text, path), note


def decode_as(data: bytes, label: str, path: Path) -> tuple[str, str]:
    """`decoded` for bytes that a mail or a page says the encoding of; where they are not in it, what they are in."""
    codec = codec_of(label)
    if _NAMES_WIDE.match(codec) and b"\0" not in data:  # the label itself was read a byte a character
        return decoded(data, path)
    if data.isascii() and _ESCAPE.search(data):
        return decoded(data, path)
    if not data.isascii() and (codec.startswith(_ONE_BYTE) or (codec.startswith(_EAST) and not _is_short(data))):
        with suppress(UnicodeDecodeError):
            return _checked(data.decode("utf-8"), path), f"read as UTF-8, though it says {label}"
    with suppress(UnicodeError, LookupError, ValueError):
        return _checked(data.decode(codec), path), ""
    return decoded(data, path)


def _is_short(data: bytes) -> bool:
    """Whether bytes that are sound UTF-8 may be so by chance, as one or two characters of the East are."""
    return len(data) - len(data.translate(None, _HIGH)) < _MIN_HIGH and not _IN_LATIN.search(data)


def _checked(text: str, path: Path) -> str:
    text = clean(text)
    if not text.strip():
        raise UnreadableFileError(path, "empty")
    if len(_CONTROL.findall(text)) > _MAX_CONTROL * len(text):
        raise UnreadableFileError(path, "binary content, not text", "binary")
    return text


def _decoded(data: bytes, path: Path) -> tuple[str, str]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _by_mark(data, encoding, path)
    if data.isascii() and _ESCAPE.search(data):
        return _by_escapes(data)
    nuls = ""
    if b"\0" in data:
        kept, runs = _NULS.subn(b"\0", data)
        few = runs <= max(1, _MAX_CONTROL * len(kept))
        if not (few and _is_narrow(kept)) and (wide := _wide(data)):
            return _with_note(data.decode(wide, "replace"), f"read as {wide.upper()}, which it does not say")
        if not few:
            raise UnreadableFileError(path, "binary content, not text", "binary")
        data, nuls = kept, f"NULs replaced in {runs} place{'' if runs == 1 else 's'}"
    try:
        return data.decode("utf-8"), nuls
    except UnicodeDecodeError:
        text, note = _mended(data) or _decoded_by_guess(data, path)
    return text, "; ".join(filter(None, (note, nuls)))


def _by_mark(data: bytes, encoding: str, path: Path) -> tuple[str, str]:
    if encoding == "utf-8-sig":
        return _decoded(data.removeprefix(codecs.BOM_UTF8), path)
    text = data.decode(encoding, "replace")
    bad = text.count("\ufffd")
    if bad > _MAX_BAD * len(text) and not (bad == 1 and len(text) >= _MIN_AROUND):
        raise UnreadableFileError(path, f"not valid {encoding.upper()} in spite of its byte order mark")
    return _with_note(text, "")


def _by_escapes(data: bytes) -> tuple[str, str]:
    for encoding in _ISO_2022:
        with suppress(UnicodeDecodeError):
            return data.decode(encoding), ""
    return _with_note(data.decode(_ISO_2022[1], "replace"), "")


def _with_note(text: str, note: str) -> tuple[str, str]:
    """A text and its note, which also says how many characters could not be read."""
    bad = text.count("\ufffd")
    unread = f"{bad} character{'' if bad == 1 else 's'} could not be read" if bad else ""
    return text, "; ".join(filter(None, (note, unread)))


def _wide(data: bytes) -> str:
    """The encoding of text in UTF-16 or UTF-32 without a mark; empty where bytes are none.

    Read in the wrong order, blanks, line ends and ASCII signs become others; read as text, other data becomes signs that no
    text holds.
    """
    found = []
    for encoding in _WIDE:
        unit = 4 if "32" in encoding else 2
        if len(data) % unit and len(data) < _MIN_CUT:
            continue
        text = data[: min(len(data) // unit * unit, _WIDE_SAMPLE)].decode(encoding, "replace")
        usual = len(_USUAL.findall(text))
        if not usual or 50 * usual < len(text):
            continue
        strange = sum(category(char) in ("Cc", "Cn", "Co", "Cs") and char not in "\t\n\r\f" for char in text)
        strange += text.count("\ufffd")
        if strange <= max(text.endswith("\ufffd"), _MAX_BAD * len(text)):
            found.append((usual / len(text), encoding))
    return max(found)[1] if found else ""


def _is_narrow(data: bytes) -> bool:
    """Whether bytes are ASCII or UTF-8 with hardly any control characters."""
    text = data.decode("utf-8", "replace")
    return text.count("\ufffd") + len(_CONTROL.findall(text)) <= _MAX_CONTROL * len(text)


def _mended(data: bytes) -> tuple[str, str] | None:
    """UTF-8 but for a few bytes, or for lines of another encoding; None for what is not UTF-8.

    A line without any sound character beyond ASCII is in another encoding; elsewhere what is not UTF-8 is replaced.
    """
    bad = sound = 0
    for piece in _by_lines(data, _PIECE):
        text = piece.decode("utf-8", "replace")
        wrong = text.count("\ufffd") - piece.count(b"\xef\xbf\xbd")
        bad, sound = bad + wrong, sound + len(text) - len(piece.translate(None, _HIGH)) - wrong
    cut = bad == 1 and data[-4:].decode("utf-8", "replace").endswith("\ufffd")
    if sound < max(1 if cut else 2, bad):
        return None
    return _with_others([read for piece in _by_lines(data, _PIECE) for read in _read_lines(piece, cut)])


def _by_lines(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of about `size` bytes that end where lines do."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + size - 1) + 1 or len(data)
        yield data[start:end]
        start = end


def _read_lines(piece: bytes, cut: bool) -> Iterator[str | bytes]:
    """The text of some lines; those of another encoding as bytes."""
    try:
        yield piece.decode("utf-8")
        return
    except UnicodeDecodeError:
        pass
    for line in _by_lines(piece, 1):
        text = line.decode("utf-8", "replace")
        yield line if "\ufffd" in text and not cut and text.replace("\ufffd", "").isascii() else text


def _with_others(pieces: list[str | bytes]) -> tuple[str, str]:
    others = [piece for piece in pieces if isinstance(piece, bytes)]
    encoding = guess_encoding(b"".join(others)) if others else ""
    read = [piece.decode(encoding or "utf-8", "replace") if isinstance(piece, bytes) else piece for piece in pieces]
    lines = f"{len(others)} line{' was' if len(others) == 1 else 's were'}"
    return _with_note("".join(read), f"{lines} not UTF-8 and read as {encoding}, a guess" if encoding else "")


def _decoded_by_guess(data: bytes, path: Path) -> tuple[str, str]:
    if b"\0" not in data and (wide := _wide(data)):
        return _with_note(data.decode(wide, "replace"), f"read as {wide.upper()}, which it does not say")
    encoding = guess_encoding(data)
    if not encoding:
        sample = data[:_PIECE].decode("latin-1")
        binary = len(_CONTROL.findall(sample)) > _MAX_CONTROL * len(sample)
        if binary:
            raise UnreadableFileError(path, "binary content, not text", "binary")
        raise UnreadableFileError(path, "unknown text encoding")
    return _with_note(data.decode(encoding, "replace"), f"its encoding is a guess: {encoding}")


def codec_of(label: str) -> str:
    """The codec for an encoding as mails and pages call it: where these mean more than the label says, that one."""
    label = label.strip().strip("\"'").lower()
    return _LABELS.get(label, label)


def guess_encoding(data: bytes) -> str:
    """The encoding that some bytes are most likely in, which are neither UTF-8 nor UTF-16; empty where none fits."""
    mainframe = data.count(_EBCDIC_BLANK) > max(len(data) // 20, 10 * data.count(b" "))
    sample = data[:_MAX_SAMPLE_LENGTH] if mainframe else informative_sample(data)
    encoding, confidence = _detected(sample)
    if confidence < _MIN_CONFIDENCE and not mainframe:
        with suppress(UnicodeDecodeError):
            sample.decode(_WESTERN)
            return _WESTERN
    return "" if encoding.startswith(("utf-16", "utf-32")) else encoding


def guess_encoding_of_names(names: bytes) -> str:
    """The code page that names in an archive are most likely in, a line each."""
    return _detected(names[:_MAX_SAMPLE_LENGTH], _OF_NAMES)[0] if names else ""


def _detected(data: bytes, among: Iterable[str] | None = None) -> tuple[str, float]:
    from chardet import detect

    found = detect(data, include_encodings=among, no_match_encoding="cp437" if among else "ascii")
    encoding = lookup(found["encoding"] or "ascii").name
    return "" if encoding == "ascii" else encoding, found["confidence"] or 0.0


def informative_sample(data: bytes) -> bytes:
    """The lines that hold bytes beyond ASCII, as many as are enough; of long ones what is near to such bytes."""
    pieces: list[bytes] = []
    high = end = length = 0
    while high < _SAMPLE and length < _MAX_SAMPLE_LENGTH and (found := _BEYOND.search(data, end)):
        at = found.start()
        start = max(end, at - _AROUND, data.rfind(b"\n", max(0, at - _AROUND), at) + 1)
        line = data.find(b"\n", at, at + 10 * _AROUND)
        end = line if line >= 0 else min(len(data), at + 10 * _AROUND)
        pieces.append(data[start:end])
        high += len(_BEYOND.findall(pieces[-1]))
        length += len(pieces[-1])
    return b"\n".join(pieces)
