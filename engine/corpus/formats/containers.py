"""ZIP packages, which office files are, and compound files, which those before 2007 and .msg are
(through olefile): opened once for all that look into one.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from io import BytesIO

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OSError,
    struct.error,
)
"""What looking into a damaged package, or one that is locked, may raise."""
_SUMMARY = "\x05SummaryInformation"
_PAGES = (437, 850, 852, 932, 936, 949, 950, 65001)


@lru_cache(maxsize=1)
def package_of(content: bytes) -> zipfile.ZipFile:
    """The package that some bytes are; the same for the same bytes until `forget`.

    Raises zipfile.BadZipFile for what is none.
    """
    return zipfile.ZipFile(BytesIO(content))


def with_parts(
    package: zipfile.ZipFile, changed: Mapping[str, bytes], *, without: tuple[str, ...] = ()
) -> bytes:
    """A package with some parts changed or added, and `without` those whose names begin so.

    Raises as reading them does.
    """
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in dict.fromkeys((*package.namelist(), *changed)):
            if not name.startswith(without):
                made.writestr(name, changed[name] if name in changed else package.read(name))
    return file.getvalue()


class CompoundFile:
    """The streams of a compound file, and why one of them was `lost`.

    Raises ValueError for what is none or is damaged beyond reading.
    """

    def __init__(self, data: bytes) -> None:
        from olefile import OleFileIO

        self.lost = ""
        try:
            self._file = OleFileIO(BytesIO(data))
            self._names = {name.lower(): name for name in map("/".join, self._file.listdir())}
        except MemoryError:
            raise
        except Exception as error:  # whatever a damaged file leads it to
            raise ValueError(f"not a compound file: {error}") from error

    def names(self) -> list[str]:
        """Paths of all streams."""
        return list(self._names.values())

    @property
    def code_page(self) -> int:
        """The number of that in which the summary is written; 0 where none is named."""
        try:
            return int(self._file.getproperties(_SUMMARY).get(1, 0)) & 0xFFFF
        except MemoryError:
            raise
        except Exception:  # as above
            return 0

    def __contains__(self, path: str) -> bool:
        return path.lower() in self._names

    def read(self, path: str, most: int = -1) -> bytes:
        """The bytes of a stream, or its first `most`; empty where there is no such stream or it
        is damaged.
        """
        name = self._names.get(path.lower())
        if name is None:
            return b""
        try:
            return bytes(self._file.openstream(name.split("/")).read(most))
        except MemoryError:
            raise
        except Exception as error:  # as above
            self.lost = str(error)
            return b""


@lru_cache(maxsize=1)
def compound_of(content: bytes) -> CompoundFile:
    """The compound file that some bytes are; the same for the same bytes until `forget`.

    Raises as `CompoundFile`.
    """
    return CompoundFile(content)


def in_code_page(text: str, content: bytes) -> str:
    """A property of a compound file that office_oxide gave, which takes the code pages it does
    not know for Latin-1. Property 1 of the summary names the right one (MS-OLEPS).
    """
    with suppress(ValueError):
        if not text.isascii() and (page := compound_of(content).code_page) in _PAGES:
            return text.encode("latin-1").decode(f"cp{page}")
    return text


def forget() -> None:
    """Let go of the package and the compound file that were opened last."""
    package_of.cache_clear()
    compound_of.cache_clear()
