"""Reading on the nodes of a cluster: a file's bytes go there, and are read in confined processes
as here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.cluster.nodes import Nodes
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.scan.formats import PICTURES

_MAX_SENT = 2**28  # bytes of a file: larger ones are read here
_BY_OCR = frozenset({"pdf", *PICTURES.values()})
_Sent = tuple[str, str, bytes]
"""A file's name, from which readers take its ending, its format and its content."""


class NodesPool(Pool):
    """Reads files on nodes, and here those that are large, or that OCR may have to do with: its
    version decides the text.
    """

    def __init__(
        self,
        processes: int,
        limits: Limits,
        passwords: Sequence[str],
        ocr: Tesseract | None,
        check: Callable[[], None],
    ) -> None:
        """Raises as `Nodes`."""
        self.nodes = Nodes[_Sent, Outcome | None](
            open_reading, (limits, passwords), check, one_a_core=True
        )
        super().__init__(self.nodes.capacity + processes, limits, passwords, ocr)
        self._here = threading.Semaphore(processes)

    def read(self, path: Path, format: str) -> Outcome:
        """See `Pool`."""
        if not (self._ocr and format in _BY_OCR):
            with suppress(OSError):
                if path.stat().st_size <= _MAX_SENT and (
                    found := self.nodes((path.name, format, path.read_bytes()))
                ):
                    return found
        with self._here:
            return super().read(path, format)

    def close(self) -> None:
        """End all work, on the nodes and here."""
        self.nodes.close()
        super().close()


def open_reading(given: tuple[Limits, Sequence[str]]) -> Callable[[_Sent], Outcome | None]:
    """On a node: what files are read by, each in a temporary folder of its own; None where that
    has no room.
    """
    pool = Pool(os.cpu_count() or 1, *given)

    def read(file: _Sent) -> Outcome | None:
        name, format, content = file
        try:
            with TemporaryDirectory(prefix="bmembed-") as folder:
                (Path(folder) / name).write_bytes(content)
                return pool.read(Path(folder) / name, format)
        except OSError:
            return None

    return read
