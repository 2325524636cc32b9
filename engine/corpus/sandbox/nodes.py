"""Reading on the nodes of a cluster, in the same confined processes as on this machine.

The bytes of a file are sent to a node.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.cluster.nodes import Nodes
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.sandbox.tesseract import Tesseract
from engine.corpus.scan.formats import OCR_FORMATS

# Larger files, in bytes, are read on this machine.
_MAX_SENT = 2**28
_SentFile = tuple[str, str, bytes]
"""A file's name (readers use its ending), its format and its content."""


class NodesPool(Pool):
    """A pool that reads files on nodes, and large ones on this machine.

    Files that may need OCR are also read here, since the version of tesseract decides the text.
    """

    def __init__(
        self,
        processes: int,
        limits: Limits,
        passwords: Sequence[str],
        ocr: Tesseract | None,
        check: Callable[[], None],
    ) -> None:
        """Connect to the nodes.

        Raises what `Nodes` raises.
        """
        self.nodes = Nodes[_SentFile, Outcome | None](
            open_reading, (limits, passwords), check, one_a_core=True
        )
        super().__init__(
            self.nodes.capacity + processes,
            limits,
            passwords,
            ocr,
        )
        # Of the pool's threads, this many may read on this machine at the same time.
        self._local_readers = threading.Semaphore(processes)

    def read(self, path: Path, format: str) -> Outcome:
        """Read a file; see `Pool.read`."""
        may_need_ocr = self._ocr is not None and format in OCR_FORMATS
        outcome = None if may_need_ocr else self._read_on_node(path, format)
        if outcome is not None:
            return outcome
        with self._local_readers:
            return super().read(path, format)

    def _read_on_node(self, path: Path, format: str) -> Outcome | None:
        """Read a file on a node.

        None if the file is large or cannot be opened, or if the node has no room for it.
        """
        try:
            if path.stat().st_size > _MAX_SENT:
                return None
            return self.nodes((path.name, format, path.read_bytes()))
        except OSError:
            return None

    def close(self) -> None:
        """End all work, on the nodes and on this machine."""
        self.nodes.close()
        super().close()


def open_reading(
    limits_and_passwords: tuple[Limits, Sequence[str]],
) -> Callable[[_SentFile], Outcome | None]:
    """Return a node's reader of files, which puts each in a temporary folder of its own.

    The reader returns None if there is no room for the folder.
    """
    pool = Pool(os.cpu_count() or 1, *limits_and_passwords)

    def read(file: _SentFile) -> Outcome | None:
        name, format, content = file
        try:
            with TemporaryDirectory(prefix="bmembed-") as folder:
                path = Path(folder, name)
                path.write_bytes(content)
                return pool.read(path, format)
        except OSError:
            return None

    return read
