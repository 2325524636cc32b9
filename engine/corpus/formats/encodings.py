"""Which encoding bytes are in that do not say so, through chardet."""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Iterable
from contextlib import suppress

_OF_NAMES = (
    "cp437", "cp850", "cp852", "cp1252", "cp1250", "cp866", "cp1251", "cp857", "cp1254", "cp862", "cp737", "cp1253", "cp932",
    "gb18030", "big5", "cp949",
)  # fmt: skip
"""The code pages of Windows and DOS that names in archives are in."""
_SAMPLE = 4000  # bytes beyond ASCII are enough
_MAX_SAMPLE_LENGTH = 64 * 1024
_AROUND = 200
_HIGH = re.compile(rb"[\x80-\xff]")
_WESTERN = "cp1252"  # where a word or two are all there is, the likeliest
_MIN_CONFIDENCE = 0.05
_EBCDIC_BLANK = b"\x40"
_LABELS = {
    "iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "shift-jis": "cp932", "x-sjis": "cp932", "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "iso-2022-jp": "iso2022_jp_ext",
    "iso-8859-8-i": "iso8859-8", "unicode": "utf-16", "x-user-defined": "cp1252", "x-gbk": "gb18030",
}  # fmt: skip


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
    while high < _SAMPLE and length < _MAX_SAMPLE_LENGTH and (found := _HIGH.search(data, end)):
        at = found.start()
        start = max(end, at - _AROUND, data.rfind(b"\n", max(0, at - _AROUND), at) + 1)
        line = data.find(b"\n", at, at + 10 * _AROUND)
        end = line if line >= 0 else min(len(data), at + 10 * _AROUND)
        pieces.append(data[start:end])
        high += len(_HIGH.findall(pieces[-1]))
        length += len(pieces[-1])
    return b"\n".join(pieces)
