"""Header fields as a reader sees them.

They hold encoded words (RFC 2047), parameters (RFC 2231), and bytes without a declared encoding.
"""

from __future__ import annotations

import re
from base64 import b64decode
from codecs import lookup
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from itertools import groupby
from urllib.parse import unquote_to_bytes

from engine.core.characters import clean
from engine.corpus.formats.plain import find_codec, guess_encoding, is_mostly_utf8
from engine.corpus.formats.plain.unnamed_encodings import decode_plausibly, is_plausible

_WORD = re.compile(r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bBqQ])\?(?:(.*?)\?=|([^?\s]+)\??\Z)", re.DOTALL)
"""An encoded word; the last word of a field may lack its own end."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,3}\s*")
_HEX = re.compile(rb"=([0-9A-Fa-f]{2})")
_RAW = re.compile("[\x80-\U0010ffff]")
_JAPANESE = re.compile(r"\x1b(?:\$[@B]|\([BJI])")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_NAMES = (("content-disposition", "filename"), ("content-type", "name"))
_BY_CHANCE_UTF8 = frozenset(
    {
        "gb18030",
        "gbk",
        "gb2312",
        "big5",
        "big5hkscs",
        "cp932",
        "cp949",
        "cp950",
        "euc_jp",
        "euc_kr",
        "johab",
        "shift_jis",
        "shift_jis_2004",
        "cp874",
        "tis-620",
    }
)
"""Encodings in which a short word may also be valid UTF-8, with two bytes per character."""
# Maximum number of bytes of a text.
_MAX_EVIDENCE = 4096
# The declared charset of a text that was converted afterwards, if it holds no NUL.
_WIDE = ("utf-16", "utf-32")
# The first character that takes three bytes in UTF-8.
_THREE_BYTES = "\u0800"


@dataclass(frozen=True, slots=True)
class EncodedWord:
    """An encoded word as written: `charset`, `coding` (b or q), and its text."""

    charset: str
    coding: str
    text: str

    @property
    def is_sound(self) -> bool:
        """Whether its text can be decoded."""
        return self.coding == "q" or _BASE64.fullmatch(self.text) is not None


class FieldDecoder:
    """A decoder of the header fields of one message.

    Bytes without a declared encoding, or with a wrong one, are in UTF-8, else in an encoding that
    the message names for one of its parts, else in the most likely encoding of all such bytes of
    its header.
    """

    def __init__(self, message: Message) -> None:
        codecs: dict[str, None] = {}
        undeclared: list[bytes] = []
        for part in message.walk():
            charset = str(part.get_content_charset(""))
            if charset:
                codecs[find_codec(charset)] = None
            for _, value in part.raw_items():
                data = _encode(str(value))
                if not data.isascii():
                    undeclared.append(data)
        self._charsets = tuple(codecs)
        self._evidence = b"\n".join(undeclared)
        self._message = message

    @cached_property
    def _body(self) -> bytes:
        """The beginning of a text that is not in UTF-8."""
        return next(filter(None, map(_find_undeclared_bytes, self._message.walk())), b"")

    def read_field(self, message: Message, name: str) -> str:
        """Return the first field of a name, on one line, empty if missing."""
        return self.decode(find_raw_field(message, name))

    def decode(self, value: str, *, is_first: bool = True) -> str:
        """Return a raw value as shown, on one line, with its encoded words decoded if possible."""
        pieces: list[str] = []
        words: list[EncodedWord] = []
        end = 0
        for match in _WORD.finditer(value):
            word = EncodedWord(match[1].lower(), match[2].lower(), match[3] or match[4] or "")
            if not word.is_sound:
                continue
            between = value[end : match.start()]
            if between.strip() or not words:
                pieces += [self._decode_words(words), self.decode_bytes(between)]
                words = []
            words.append(word)
            end = match.end()
        pieces += [self._decode_words(words), self.decode_bytes(value[end:])]
        text = " ".join(clean("".join(pieces)).split())
        if is_first and text != value and _WORD.fullmatch(text):
            # Some programs encode a value twice.
            return self.decode(text, is_first=False)
        return text

    def decode_bytes(self, value: str) -> str:
        """Decode the bytes in a raw value, and leave its encoded words as they are."""
        if _JAPANESE.search(value):
            with suppress(UnicodeError):
                return _encode(value).decode("iso2022_jp_ext")
        if _RAW.search(value):
            return self._decode_bytes(_encode(value), "")
        return value

    def read_file_name(self, part: Message) -> str:
        """Return the file name of a part, empty if it has none."""
        for field, parameter in _NAMES:
            value = find_raw_field(part, field)
            if not value:
                continue
            decoded = Message()
            decoded[field] = self.decode_bytes(value)
            with suppress(ValueError, LookupError, UnicodeError, TypeError):
                file_name = decoded.get_param(parameter, header=field)
                name = ""
                if file_name:
                    name = self._decode_parameter(file_name)
                if name:
                    return name
        return ""

    def _decode_parameter(self, value: str | tuple[str | None, str | None, str]) -> str:
        """Return the text of a parameter.

        A parameter that names its encoding (RFC 2231) has one character per byte.
        """
        if isinstance(value, tuple):
            charset, _, text = value
            with suppress(UnicodeError):
                text = self._decode_bytes(text.encode("latin-1"), charset or "")
            return " ".join(clean(text).split())
        name = self.decode(value)
        if _PERCENT.search(name):
            with suppress(UnicodeError):
                return " ".join(clean(unquote_to_bytes(name).decode("utf-8")).split())
        return name

    def _decode_words(self, words: list[EncodedWord]) -> str:
        """Decode encoded words that follow each other.

        Some programs split a character between two words, so their bytes are joined first.
        """
        texts: list[str] = []
        for charset, same in groupby(words, lambda word: word.charset):
            texts.append(self._decode_bytes(b"".join(_decode_word_bytes(same)), charset))
        return "".join(texts)

    def _decode_bytes(self, data: bytes, charset: str) -> str:
        declared = decode_declared(data, charset)
        if declared is not None:
            return declared
        text = decode_plausibly(data, self._charsets, self._guess_encodings(data))
        if text is not None:
            return text
        for codec in self._charsets:
            text = _decode_strictly(data, codec)
            if text is not None:
                return text
        return data.decode("cp1252", "replace")

    def _guess_encodings(self, data: bytes) -> Iterator[str]:
        """Yield the likely encodings of the message's bytes, its header's, and `data` alone."""
        if self._body:
            yield guess_encoding(self._evidence + b"\n" + self._body)
        if self._evidence:
            yield guess_encoding(self._evidence)
        yield guess_encoding(data)


def decode_declared(data: bytes, charset: str) -> str | None:
    """Decode bytes as UTF-8 if they are valid, whatever `charset` says, else in the charset.

    None if they are valid in neither.
    """
    codec = find_codec(charset)
    is_wide = codec.startswith(_WIDE) and b"\0" not in data
    declared = None
    if charset and not is_wide:
        declared = _decode_strictly(data, codec)
    if data.isascii():
        if declared is None:
            return data.decode("ascii")
        return declared
    as_utf8 = _decode_strictly(data, "utf-8")
    if as_utf8 is None:
        if declared is None and is_mostly_utf8(data):
            text = data.decode("utf-8", "replace")
            if is_plausible(text.replace("\ufffd", "")):
                return text
        return declared
    if declared is None or not _may_be_utf8_by_chance(codec) or max(as_utf8) >= _THREE_BYTES:
        return as_utf8
    return declared


def _find_undeclared_bytes(part: Message) -> bytes:
    """Return the beginning of a part's text if it is not in UTF-8, or an empty value."""
    if part.get_content_maintype() != "text":
        return b""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes) or content.isascii():
        return b""
    content = content[:_MAX_EVIDENCE]
    if _decode_strictly(content, "utf-8") is None:
        return content
    return b""


def find_raw_field(message: Message, name: str) -> str:
    """Return the first field of a name as it stands in the message.

    A lone surrogate stands for each byte beyond ASCII.
    """
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return str(value)
    return ""


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def _decode_word_bytes(words: Iterator[EncodedWord]) -> Iterator[bytes]:
    """Yield the bytes of encoded words of one charset.

    Base64 that ends within a group continues in the next word.
    """
    packed = ""
    for word in words:
        if word.coding == "q":
            yield _decode_base64(packed)
            packed = ""
            text = _encode(word.text).replace(b"_", b" ")
            yield _HEX.sub(lambda match: bytes([int(match[1], 16)]), text)
            continue
        packed += "".join(word.text.split())
        if len(packed) % 4 == 0 or packed.endswith("="):
            yield _decode_base64(packed)
            packed = ""
    yield _decode_base64(packed)


def _decode_base64(packed: str) -> bytes:
    """Decode base64 whatever its padding, without incomplete bytes."""
    packed = packed.rstrip("=")
    if len(packed) % 4 == 1:
        packed = packed[:-1]
    return b64decode(packed + "=" * (-len(packed) % 4))


def _decode_strictly(data: bytes, codec: str) -> str | None:
    with suppress(UnicodeError, LookupError, ValueError):
        return data.decode(codec)
    return None


def _may_be_utf8_by_chance(codec: str) -> bool:
    with suppress(LookupError):
        return lookup(codec).name in _BY_CHANCE_UTF8
    return False
