"""The servers that text of a project's documents was sent to, in `servers.json`: what `engine purge` has to name."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from engine.core.disk import write_text

RECORD = "servers.json"
_writing = threading.Lock()


def note_server(folder: Path, url: str) -> None:
    """Keep that a server is about to be sent text of the project in `folder`. Raises OSError where that cannot be written."""
    with _writing:
        known = known_servers(folder)
        if url not in known:
            write_text(folder / RECORD, json.dumps([*known, url], ensure_ascii=False, indent=1) + "\n")


def known_servers(folder: Path) -> list[str]:
    """Their addresses, in the order of first use; none where the record is gone or cannot be read."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    return [url for url in found if isinstance(url, str)] if isinstance(found, list) else []
