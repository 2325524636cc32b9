"""The base64 of mails as far as it can be read: cut, with damaged lines, or with a mailing list's words below it."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections import Counter
from contextlib import suppress

NOT_BASE64 = "it says that it is base64, which it is not: it is read as it stands"
_CODED = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_STRAY = re.compile(rb"[^A-Za-z0-9+/=]")
_MAX_STRAY = 0.1  # of a line's signs
_LONG = 32  # signs without a blank: no word
_QUARTET = 4


def from_base64(payload: bytes, *, text: bool) -> tuple[bytes, str]:
    """(the bytes, what is to be said of them): empty where the base64 is sound. Lines between or below it that are none are
    kept where it holds `text`.
    """
    with suppress(Error):
        return a2b_base64(b"".join(payload.split()), strict_mode=True), ""
    coded, others = _parted([line.strip() for line in payload.splitlines()])
    if text and sum(map(len, coded)) < sum(map(len, others)):
        return payload, NOT_BASE64
    pieces, lost = _pieces(coded)
    content = b"".join(pieces)
    if text and any(others):
        content = content.rstrip(b"\r\n") + b"\n\n" + b"\n".join(others)
    if not content:
        return b"", "its base64 cannot be read"
    return content, f"{lost} of {len(coded)} lines of its base64 could not be read" if lost else ""


def _parted(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The lines of base64, without stray signs, and the others."""
    coded: list[bytes] = []
    others: list[bytes] = []
    follows = True  # words look like short base64: a line counts as that where such stands above it
    for line in lines:
        sound = _CODED.fullmatch(line) is not None
        cleaned = line if sound or len(line) < _LONG or b" " in line else _STRAY.sub(b"", line)
        long = len(cleaned) >= _LONG and len(cleaned) >= (1 - _MAX_STRAY) * len(line)
        follows = (sound and (follows or line.endswith(b"="))) or (long and b" " not in line)
        if follows:
            coded.append(cleaned)
        elif line or others:
            others.append(line)
    return coded, others


def _pieces(lines: list[bytes]) -> tuple[list[bytes], int]:
    """What the lines hold, and how many are lost: each is read for itself where it ends with whole bytes, as most programs write
    them, so that damage goes no further than its line.
    """
    usual = Counter(map(len, lines[:-1])).most_common(1)
    alone = not usual or usual[0][0] % _QUARTET == 0
    pieces: list[bytes] = []
    lost = 0
    for part in lines if alone else b"".join(lines).replace(b"=", b"= ").split():
        signs = part.rstrip(b"=")
        over = len(signs) % _QUARTET
        ends = part is lines[-1] or part != signs or not alone
        if b"=" in signs or over == 1 or (over and not ends):
            lost += 1
        if b"=" not in signs and (ends or not over):
            pieces.append(a2b_base64(signs[: len(signs) - (over == 1)] + b"=="))
    return pieces, lost
