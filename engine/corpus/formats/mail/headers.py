"""Header fields as a reader sees them.

They hold encoded words (RFC 2047), parameters (RFC 2231), and bytes without a declared encoding.
"""

from __future__ import annotations

import re
from base64 import b64decode
from codecs import lookup
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from itertools import groupby
from urllib.parse import unquote_to_bytes

from engine.core.characters import clean_line
from engine.corpus.formats.plain import find_codec, guess_encoding, is_mostly_utf8
from engine.corpus.formats.plain.unnamed_encodings import decode_plausibly, is_plausible
from engine.corpus.scan.formats import FORMATS, IMAGES, ending_of, names_no_format

_ENCODED_WORD = re.compile(
    r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bBqQ])\?(?:(.*?)\?=|([^?\s]+)\??\Z)", re.DOTALL
)
"""An encoded word, such as `=?utf-8?Q?caf=C3=A9?=`; the last one of a field may lack its end."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,3}\s*")
_QUOTED_BYTE = re.compile(rb"=([0-9A-Fa-f]{2})")
# The escapes with which ISO-2022-JP changes to another set of characters.
_JAPANESE_ESCAPE = re.compile(r"\x1b(?:\$[@B]|\([BJI])")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
# Fields of a part and their parameters that name its file.
_FILE_NAME_PARAMETERS = (("content-disposition", "filename"), ("content-type", "name"))
_MAY_LOOK_LIKE_UTF8 = frozenset(
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
_SIGNATURES = (".p7s", ".asc", ".sig")
# `image001.png` and `attachment-2.png`
_PICTURE_IN_TEXT = re.compile(r"(?:image|attachment-)\d+\.", re.IGNORECASE)
# Number of bytes of a body that are examined.
_MAX_BODY_SAMPLE = 4096
_UTF_16_OR_32 = ("utf-16", "utf-32")
# The first character that takes three bytes in UTF-8.
_FIRST_OF_THREE_BYTES = "\u0800"


@dataclass(frozen=True, slots=True)
class _EncodedWord:
    """An encoded word as written; `coding` is b for base64 or q for quoted-printable."""

    charset: str
    coding: str
    text: str

    @property
    def is_sound(self) -> bool:
        """Whether its text can be decoded."""
        return self.coding == "q" or _BASE64.fullmatch(self.text) is not None


def write_mail(header: Mapping[str, str], body: str) -> str:
    """Return the text of a mail: a line `name: value` for each field that is set, and the body."""
    lines = [f"{name}: {value}" for name, value in header.items() if value]
    return "\n\n".join(filter(None, ("\n".join(lines), body)))


def write_unread_names(attachments: Iterable[tuple[str, bool]]) -> str:
    """Return the names of attached files that are not read, for these are all that can be found.

    `attachments` are their names, and whether they have an id, by which a page shows pictures.
    Pictures within the text and signatures are left out.
    """
    names: list[str] = []
    for name, has_id in attachments:
        ending = ending_of(name)
        is_unread = not names_no_format(ending) and ending not in FORMATS
        is_shown = ending in IMAGES and (has_id or _PICTURE_IN_TEXT.match(name) is not None)
        if is_unread and not is_shown and ending not in _SIGNATURES:
            names.append(name)
    return ", ".join(names)


class FieldDecoder:
    """A decoder of the header fields of one message.

    Bytes without a declared encoding, or with a wrong one, are decoded as UTF-8 if they are valid,
    else from an encoding that the message names for one of its parts, else from the encoding that
    is most likely for all such bytes in the header.

    A raw value is a field as Python's parser gives it, with a lone surrogate for each byte beyond
    ASCII.
    """

    def __init__(self, message: Message) -> None:
        codecs: dict[str, None] = {}
        undeclared: list[bytes] = []
        for part in message.walk():
            charset = str(part.get_content_charset(""))
            if charset:
                codecs[find_codec(charset)] = None
            for _, value in part.raw_items():
                data = _restore_bytes(str(value))
                if not data.isascii():
                    undeclared.append(data)
        # What is declared in one place of a message often holds for the rest of it.
        self._codecs = tuple(codecs)
        self._undeclared_header_bytes = b"\n".join(undeclared)
        self._message = message

    @cached_property
    def _legacy_body_bytes(self) -> bytes:
        """The beginning of the first text of the message that is not in UTF-8, if there is one."""
        return next(filter(None, map(_find_legacy_bytes, self._message.walk())), b"")

    def read_field(self, message: Message, name: str) -> str:
        """Return the first field of a name, on one line, empty if missing."""
        return self.decode(_find_raw_field(message, name))

    def decode(self, value: str, *, is_first: bool = True) -> str:
        """Return a raw value on one line, with its encoded words decoded if possible.

        `is_first` is False if the value was decoded once already: some programs encode it twice.
        """
        pieces: list[str] = []
        words: list[_EncodedWord] = []
        end = 0
        for match in _ENCODED_WORD.finditer(value):
            word = _EncodedWord(
                match[1].lower(),
                match[2].lower(),
                match[3] or match[4] or "",
            )
            if not word.is_sound:
                continue
            between = value[end : match.start()]
            # Blanks between two encoded words are not shown.
            if between.strip() or not words:
                pieces += [self._decode_words(words), self._decode_raw(between)]
                words = []
            words.append(word)
            end = match.end()
        pieces += [self._decode_words(words), self._decode_raw(value[end:])]
        text = clean_line("".join(pieces))
        if is_first and text != value and _ENCODED_WORD.fullmatch(text):
            return self.decode(text, is_first=False)
        return text

    def _decode_raw(self, value: str) -> str:
        """Decode the bytes in a raw value, and leave its encoded words as they are."""
        if _JAPANESE_ESCAPE.search(value):
            with suppress(UnicodeError):
                return _restore_bytes(value).decode("iso2022_jp_ext")
        if value.isascii():
            return value
        return self._decode_bytes(_restore_bytes(value), "")

    def read_file_name(self, part: Message) -> str:
        """Return the file name of a part, empty if it has none."""
        for field, parameter in _FILE_NAME_PARAMETERS:
            value = _find_raw_field(part, field)
            if not value:
                continue
            # `Message` finds the parameter in the field, which must not have lone surrogates.
            decoded = Message()
            decoded[field] = self._decode_raw(value)
            with suppress(ValueError, LookupError, UnicodeError, TypeError):
                stated = decoded.get_param(parameter, header=field)
                name = self._decode_parameter(stated) if stated else ""
                if name:
                    return name
        return ""

    def _decode_parameter(self, value: str | tuple[str | None, str | None, str]) -> str:
        """Return the text of a parameter on one line.

        `value` is as Python's `get_param` returns it. If the parameter names its encoding (RFC
        2231), that is (encoding, language, text with one character for each byte).
        """
        if isinstance(value, tuple):
            charset, _, text = value
            with suppress(UnicodeError):
                text = self._decode_bytes(text.encode("latin-1"), charset or "")
            return clean_line(text)
        name = self.decode(value)
        if _PERCENT.search(name):
            # Some programs write a name as in a URL: `caf%C3%A9.pdf`.
            with suppress(UnicodeError):
                return clean_line(unquote_to_bytes(name).decode("utf-8"))
        return name

    def _decode_words(self, words: list[_EncodedWord]) -> str:
        """Decode encoded words that follow each other.

        Some programs split a character between two words, so their bytes are joined first.
        """
        texts: list[str] = []
        for charset, words_of_charset in groupby(words, lambda word: word.charset):
            texts.append(
                self._decode_bytes(b"".join(_decode_word_bytes(words_of_charset)), charset)
            )
        return "".join(texts)

    def _decode_bytes(self, data: bytes, charset: str) -> str:
        """Decode bytes of a field, from `charset` if it is not empty and they are valid in it."""
        text = decode_declared(data, charset)
        if text is None:
            text = decode_plausibly(
                data,
                self._codecs,
                self._guess_encodings(data),
            )
        if text is not None:
            return text
        for codec in self._codecs:
            text = _decode_strictly(data, codec)
            if text is not None:
                return text
        return data.decode("cp1252", "replace")

    def _guess_encodings(self, data: bytes) -> Iterator[str]:
        """Yield guesses: from the header and body together, from the header, from `data` alone."""
        header = self._undeclared_header_bytes
        if self._legacy_body_bytes:
            yield guess_encoding(header + b"\n" + self._legacy_body_bytes)
        if header:
            yield guess_encoding(header)
        yield guess_encoding(data)


def decode_declared(data: bytes, charset: str) -> str | None:
    """Decode bytes as UTF-8 if they are valid UTF-8, whatever `charset` says, else from `charset`.

    None if they are valid in neither. The charset goes first if it is one of `_MAY_LOOK_LIKE_UTF8`,
    in which a word may be valid UTF-8 by chance. If a letter would take three bytes in UTF-8, that
    is no chance.
    """
    codec = find_codec(charset)
    # UTF-16 has a NUL in nearly every text; without one, the text was converted afterwards.
    was_converted = codec.startswith(_UTF_16_OR_32) and b"\0" not in data
    declared = None
    if charset and not was_converted:
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
    if declared is None or not _may_look_like_utf8(codec) or max(as_utf8) >= _FIRST_OF_THREE_BYTES:
        return as_utf8
    return declared


def _find_legacy_bytes(part: Message) -> bytes:
    """Return the beginning of a part's text if it is not in UTF-8, else an empty value."""
    if part.get_content_maintype() != "text":
        return b""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes) or content.isascii():
        return b""
    content = content[:_MAX_BODY_SAMPLE]
    if _decode_strictly(content, "utf-8") is None:
        return content
    return b""


def _find_raw_field(message: Message, name: str) -> str:
    """Return the raw value of the first field of a name, empty if missing."""
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return str(value)
    return ""


def _restore_bytes(value: str) -> bytes:
    """Return the bytes of a raw value."""
    return value.encode("utf-8", "surrogateescape")


def _decode_word_bytes(words: Iterator[_EncodedWord]) -> Iterator[bytes]:
    """Yield the bytes of encoded words of one charset.

    Base64 that ends within a group continues in the next word.
    """
    packed = ""
    for word in words:
        if word.coding == "q":
            yield _decode_base64(packed)
            packed = ""
            text = _restore_bytes(word.text).replace(b"_", b" ")
            yield _QUOTED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), text)
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
        # A single letter at the end stands for six bits only, which do not make a byte.
        packed = packed[:-1]
    padding = "=" * (-len(packed) % 4)
    return b64decode(packed + padding)


def _decode_strictly(data: bytes, codec: str) -> str | None:
    """Return the text of bytes; None if they are not valid in the codec, or if Python lacks it."""
    with suppress(UnicodeError, LookupError, ValueError):
        return data.decode(codec)
    return None


def _may_look_like_utf8(codec: str) -> bool:
    """Return whether a short word in an encoding may be valid UTF-8 by chance."""
    with suppress(LookupError):
        return lookup(codec).name in _MAY_LOOK_LIKE_UTF8
    return False
