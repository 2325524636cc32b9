"""Files that py7zr unpacks into memory.

A module of its own, as its classes derive from py7zr's, which is imported only for a .7z file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from py7zr.io import Py7zIO, WriterFactory

from engine.corpus.formats.archives.members import MAX_MEMBER


class UnpackedFile(Py7zIO):
    """The bytes of one file, to which py7zr writes.

    Writing raises OverflowError if there are more than `MAX_MEMBER` bytes.
    """

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, s: bytes | bytearray) -> int:
        """Append bytes, and return how many."""
        if len(self.data) + len(s) > MAX_MEMBER:
            raise OverflowError(f"more than {MAX_MEMBER // 2**20} MB")
        self.data += s
        return len(s)

    def read(self, size: int | None = None) -> bytes:
        """Return all bytes written, whatever `size` is."""
        return bytes(self.data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Do nothing, since py7zr writes in order."""
        return offset

    def flush(self) -> None:
        """Do nothing, since everything is in memory."""

    def size(self) -> int:
        """Return the number of bytes written."""
        return len(self.data)


class UnpackedFiles(WriterFactory):
    """The files of one batch; py7zr calls `create` for each that it unpacks."""

    def __init__(self) -> None:
        self._files: dict[str, UnpackedFile] = {}

    def create(self, filename: str) -> UnpackedFile:
        """Return the file of a name, a new one at the first call."""
        return self._files.setdefault(filename, UnpackedFile())

    def read_contents(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the bytes of files, None for a file that was not unpacked.

        py7zr calls files of the same name `a.txt`, `a.txt_0`, `a.txt_1` and so on.
        """
        repetitions: Counter[str] = Counter()
        for name in names:
            py7zr_name = name
            if name in repetitions:
                py7zr_name = f"{name}_{repetitions[name] - 1}"
            repetitions[name] += 1
            file = self._files.get(py7zr_name)
            yield None if file is None else file.read()
