"""The servers that got text of a project's documents, in `servers.json`, for `engine purge`."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path

from engine.core.disk import write_text
from engine.core.errors import EngineError

RECORD = "servers.json"
_writing = threading.Lock()


def note_server(folder: Path, url: str) -> None:
    """Record that a server is about to get text of the project in `folder`.

    Raises EngineError if the user may not write there, OSError if writing fails otherwise.
    """
    with _writing:
        known = known_servers(folder)
        if url in known:
            return
        text = json.dumps([*known, url], ensure_ascii=False, indent=1) + "\n"
        try:
            write_text(folder / RECORD, text)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise EngineError(
                f"No text is sent to the server {url}.",
                "It must be noted in the project first, so that its owner can see who got text, and"
                " you may only read the project.",
                "Ask the owner to use the server once, by 'engine search --rerank' or 'engine ask':"
                " that notes it for all.",
                code="server-not-noted",
            ) from error


def known_servers(folder: Path) -> list[str]:
    """Return the addresses of servers that got text of the project, in order of first use.

    Empty if the record cannot be read.
    """
    try:
        urls = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    if isinstance(urls, list):
        return [url for url in urls if isinstance(url, str)]
    return []
