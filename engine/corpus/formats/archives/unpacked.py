"""The place in memory to which py7zr unpacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from py7zr.io import Py7zIO, WriterFactory

from engine.corpus.formats.archives.members import MAX_MEMBER


class UnpackedFile(Py7zIO):
    """The bytes of one file.

    Raises OverflowError if there are more than a file may have.
    """

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, s: bytes | bytearray) -> int:
        """Add bytes."""
        if len(self.data) + len(s) > MAX_MEMBER:
            raise OverflowError(f"more than {MAX_MEMBER // 2**20} MB")
        self.data += s
        return len(s)

    def read(self, size: int | None = None) -> bytes:
        """Return what was written."""
        return bytes(self.data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Stay at the end."""
        return offset

    def flush(self) -> None:
        """Do nothing, since everything is in memory."""

    def size(self) -> int:
        """Return the number of bytes written."""
        return len(self.data)


class UnpackedFiles(WriterFactory):
    """The files that are unpacked at once."""

    def __init__(self) -> None:
        self._files: dict[str, UnpackedFile] = {}

    def create(self, filename: str) -> UnpackedFile:
        """Create a place for a file's bytes."""
        return self._files.setdefault(filename, UnpackedFile())

    def read_contents(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the bytes of files, None for a file that was not unpacked.

        If several files have the same name, py7zr numbers all but the first.
        """
        times: dict[str, int] = {}
        for name in names:
            key = name
            if name in times:
                key = f"{name}_{times[name]}"
            times[name] = times.get(name, -1) + 1
            content = self._files.get(key)
            yield None if content is None else bytes(content.data)
