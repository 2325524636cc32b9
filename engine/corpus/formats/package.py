"""ZIP packages, which office files are: opened once for all that look into one."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OSError,
    struct.error,
)
"""What looking into a damaged package, or one that is locked, may raise."""
_UNREAD = ("word/media/", "word/embeddings/", "docProps/thumbnail")  # by who reads the changed package


class Package:
    """A package in memory. Raises zipfile.BadZipFile for what is none."""

    def __init__(self, content: bytes) -> None:
        self.archive = zipfile.ZipFile(BytesIO(content))

    def read(self, name: str) -> bytes:
        """A part's bytes. Raises KeyError for one that is not there, one of `DAMAGED`."""
        return self.archive.read(name)

    def changed(self, parts: Mapping[str, bytes]) -> bytes:
        """The package with other bytes in some parts; a damaged part is left out. Raises one of `DAMAGED`."""
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as made:
            for name in self.archive.namelist():
                if name in parts or not name.startswith(_UNREAD):
                    made.writestr(name, parts[name] if name in parts else self._whole(name))
        return file.getvalue()

    def _whole(self, name: str) -> bytes:
        try:
            return self.read(name)
        except DAMAGED:
            return b""


@lru_cache(maxsize=1)
def package_of(content: bytes) -> Package:
    """The package that some bytes are; the same for the same bytes until `forget`. Raises as `Package`."""
    return Package(content)


def forget() -> None:
    """Let go of the package that was opened last."""
    package_of.cache_clear()
