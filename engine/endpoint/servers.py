"""The servers that text of a project's documents was sent to, in `servers.json`: what `engine
purge` has to name.
"""

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
    """Keep that a server is about to be sent text of the project in `folder`.

    Raises EngineError where the user may not write there, OSError where it cannot be written
    otherwise.
    """
    with _writing:
        known = known_servers(folder)
        if url in known:
            return
        try:
            write_text(
                folder / RECORD, json.dumps([*known, url], ensure_ascii=False, indent=1) + "\n"
            )
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
    """Their addresses, in the order of first use; none where the record is gone or cannot be
    read.
    """
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    if isinstance(found, list):
        return [url for url in found if isinstance(url, str)]
    return []
