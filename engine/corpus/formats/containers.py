"""ZIP packages and compound files, each opened once for all that look into it.

Office files are packages; office files before 2007 and .msg files are compound files (read through
olefile).
"""

from __future__ import annotations

import lzma
import re
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
"""Errors that looking into a damaged or locked package may raise."""
_SUMMARY = "\x05SummaryInformation"
_CODE_PAGE_PROPERTY = 1
# Numbers of code pages that office_oxide does not know.
_UNKNOWN_CODE_PAGES = (
    437,
    850,
    852,
    932,
    936,
    949,
    950,
    65001,
)


@lru_cache(maxsize=1)
def open_package(content: bytes) -> zipfile.ZipFile:
    """Open bytes as a ZIP package; the last one is kept for further calls with the same bytes.

    Raises zipfile.BadZipFile if they are not a package.
    """
    return zipfile.ZipFile(BytesIO(content))


def find_part(package: zipfile.ZipFile, stem: str) -> str:
    """Return the name of an XML part of a package, empty if it is missing.

    Word for the web numbers the parts that it saves again: `word/styles` is found as
    `word/styles.xml` and as `word/styles2.xml`.
    """
    part = re.compile(rf"{re.escape(stem)}\d*\.xml")
    return next(filter(part.fullmatch, package.namelist()), "")


def replace_parts(
    package: zipfile.ZipFile, changed: Mapping[str, bytes], *, without: tuple[str, ...] = ()
) -> bytes:
    """Return the bytes of a package with some parts `changed` or added, by their names.

    Parts whose names begin with one of `without` are left out. Raises what reading the parts
    raises.
    """
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as new_package:
        # Parts keep their order; added ones follow.
        for name in dict.fromkeys((*package.namelist(), *changed)):
            if not name.startswith(without):
                part = changed[name] if name in changed else package.read(name)
                new_package.writestr(name, part)
    return file.getvalue()


class CompoundFile:
    """The streams of a compound file.

    `lost` is the error of a stream that could not be read, empty if there was none. Raises
    ValueError if the file is not a compound file or is damaged beyond reading.
    """

    def __init__(self, data: bytes) -> None:
        from olefile import OleFileIO

        self.lost = ""
        try:
            self._file = OleFileIO(BytesIO(data))
            paths = ["/".join(parts) for parts in self._file.listdir()]
            self._names = {path.lower(): path for path in paths}
        except MemoryError:
            raise
        # A damaged file may lead olefile to any error.
        except Exception as error:
            raise ValueError(f"not a compound file: {error}") from error

    def names(self) -> list[str]:
        """Return the paths of all streams."""
        return list(self._names.values())

    @property
    def code_page(self) -> int:
        """The number of the summary's code page, 0 if none is named."""
        try:
            properties = self._file.getproperties(_SUMMARY)
            # olefile reads it as a signed number.
            return int(properties.get(_CODE_PAGE_PROPERTY, 0)) & 0xFFFF
        except MemoryError:
            raise
        # A damaged file may lead olefile to any error.
        except Exception:
            return 0

    def __contains__(self, path: str) -> bool:
        return path.lower() in self._names

    def read(self, path: str, most: int = -1) -> bytes:
        """Return the first `most` bytes of a stream, all of them for -1.

        Empty if the stream is missing or damaged.
        """
        name = self._names.get(path.lower())
        if name is None:
            return b""
        try:
            return bytes(self._file.openstream(name.split("/")).read(most))
        except MemoryError:
            raise
        # A damaged file may lead olefile to any error.
        except Exception as error:
            self.lost = str(error)
            return b""


@lru_cache(maxsize=1)
def open_compound(content: bytes) -> CompoundFile:
    """Open bytes as a compound file; the last one is kept for further calls with the same bytes.

    Raises what `CompoundFile` raises.
    """
    return CompoundFile(content)


def decode_property(text: str, content: bytes) -> str:
    """Decode a property of a compound file that office_oxide gave in the wrong encoding.

    office_oxide reads code pages that it does not know as Latin-1. The file's summary names the
    right code page ([MS-OLEPS]). Text in a known code page is returned unchanged.
    """
    if text.isascii():
        return text
    with suppress(ValueError):
        code_page = open_compound(content).code_page
        if code_page in _UNKNOWN_CODE_PAGES:
            return text.encode("latin-1").decode(f"cp{code_page}")
    return text


def forget_containers() -> None:
    """Forget the package and the compound file that were opened last."""
    open_package.cache_clear()
    open_compound.cache_clear()
