"""Where the library that reads PDF files lies: kreuzberg carries it along and unpacks it into the temporary folder.

A confined process may not write, so it is unpacked before; and not into a folder that others can write to, where somebody
could put another library in its place.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

_FOLDER = "kreuzberg-pdfium"  # within the temporary folder: kreuzberg's own name
_EMPTY_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)


@lru_cache(maxsize=1)
def private_folder() -> Path:
    """The temporary folder of reading processes: the user's own, one per version of the library, and kept; a new one where
    that cannot be had."""
    from platformdirs import user_cache_path

    folder = user_cache_path("bmembed", appauthor=False) / "reading" / version("kreuzberg")
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid():
            folder.chmod(0o700)
            return folder
    return Path(tempfile.mkdtemp(prefix="bmembed-reading-"))


def unpack() -> bool:
    """Have the library unpacked into this process' temporary folder, where it is not there yet; returns whether that had to be
    tried. Reads no file of the user.
    """
    folder = Path(tempfile.gettempdir(), _FOLDER)
    if any(path.stat().st_size and ".tmp" not in path.name for path in folder.glob("*pdfium*")):
        return False
    from kreuzberg import ExtractionConfig, KreuzbergError, extract_bytes_sync

    with suppress(KreuzbergError, OSError, RuntimeError, ValueError):  # where it fails, each PDF says so
        extract_bytes_sync(_EMPTY_PDF, "application/pdf", ExtractionConfig(use_cache=False))
    return True
