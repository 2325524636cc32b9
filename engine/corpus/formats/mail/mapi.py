"""Values of MAPI properties, which .msg and winmail.dat share: texts in code pages, packed RTF."""

from __future__ import annotations

from codecs import lookup
from contextlib import suppress
from pathlib import Path

from engine.core.characters import clean
from engine.corpus.formats.general import extract_document
from engine.corpus.formats.mail.headers import decode_declared

UNICODE = "utf-16-le"
WESTERN = "cp1252"
_CODECS = {
    65001: "utf-8",
    936: "gbk",
    10000: "mac_roman",
    20127: "ascii",
    20866: "koi8_r",
    21866: "koi8_u",
    28591: "cp1252",
    28599: "cp1254",
    **{
        number: f"iso8859_{number - 28590}"
        for number in (28592, 28593, 28594, 28595, 28596, 28597, 28598, 28603, 28605)
    },
    38598: "iso8859_8",
    50220: "iso2022_jp_ext",
    50221: "iso2022_jp_ext",
    50222: "iso2022_jp_ext",
    50225: "iso2022_kr",
    51932: "euc_jp",
    51936: "gbk",
    51949: "cp949",
    52936: "hz",
    54936: "gb18030",
}
"""Codecs of the Windows code pages that Python does not know as `cp` and their number."""
# The header of packed RTF: two sizes, the kind of packing, and a checksum.
_RTF_HEADER = 16  # bytes
_RTF_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript"
    rb" \fdecor MS Sans SerifSymbolArial"
    rb"Times New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
"""The text that references in packed RTF may point into before anything was unpacked."""
_RTF_WINDOW = 4096  # bytes


def find_codec_of_page(number: int) -> str:
    """Return the codec of a Windows code page, that of Western Europe for an unknown one."""
    with suppress(LookupError):
        return lookup(_CODECS.get(number, f"cp{number}")).name
    return WESTERN


def decode_text(value: bytes, codec: str) -> str:
    """Return a text property, decoded by `codec`.

    A property that should be in a code page is decoded as UTF-8 if it is valid UTF-8.
    """
    text = None
    if codec != UNICODE:
        text = decode_declared(value, codec)
    if text is None:
        text = value.decode(codec, "replace")
    return clean(text.replace("\0", ""))


def read_packed_rtf(packed: bytes, path: Path) -> str:
    """Return the text of a packed body in RTF.

    Raises LookupError, ValueError or UnreadableFileError if it is damaged.
    """
    return extract_document(path, unpack_rtf(packed).rstrip(b"\0"), "rtf")[0].text


def unpack_rtf(packed: bytes) -> bytes:
    """Unpack RTF that was packed according to [MS-OXRTFCP].

    A byte of eight flags precedes eight items. Flag 0: the item is one literal byte. Flag 1: it is
    a reference of two bytes, of which 12 bits are a position in the last 4,096 unpacked bytes and 4
    bits a length. A reference to the position of the next byte ends the text. Raises ValueError or
    LookupError if the data are damaged.
    """
    kind = packed[8:12]
    if kind == b"MELA":
        return packed[_RTF_HEADER:]
    if kind != b"LZFu":
        raise ValueError("a body in RTF that is packed in an unknown way")
    text = bytearray(_RTF_DICTIONARY)
    position = _RTF_HEADER
    while position < len(packed):
        flags = packed[position]
        position += 1
        for bit in range(8):
            if not flags >> bit & 1:
                text += packed[position : position + 1]
                position += 1
                continue
            reference = int.from_bytes(packed[position : position + 2], "big")
            position += 2
            distance = (len(text) - (reference >> 4)) % _RTF_WINDOW
            if not distance:
                return bytes(text[len(_RTF_DICTIONARY) :])
            length = (reference & 15) + 2
            # Byte by byte, since a reference may include bytes that it writes itself.
            for _ in range(length):
                text.append(text[-distance])
    return bytes(text[len(_RTF_DICTIONARY) :])
