"""The reading process, `python -m engine.corpus.sandbox.worker MEMORY SECONDS PARENT LOCKED_DOWN`.

A line of JSON on standard input names a file; frames on standard output say what is in it, and the
last frame how it ended.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.core.platforms.lockdown import take_file
from engine.core.platforms.processes import end_with_parent, limit_time
from engine.corpus.formats.source import read_from
from engine.corpus.sandbox.limits import confine
from engine.corpus.sandbox.outcome import as_message, encoded

_SMALL = 2**16  # bytes
_READERS = (
    "engine.corpus.formats.pdf",
    "engine.corpus.formats.office",
    "engine.corpus.formats.general",
    "engine.corpus.formats.mail",
    "engine.corpus.formats.html",
    "engine.corpus.formats.archives.zipped",
    "office_oxide",
    "xberg",
    "lxml.etree",
    "pypdfium2",
)


def main(arguments: list[str]) -> int:
    """Read requested files until standard input ends."""
    memory, seconds, parent, is_locked_down = map(int, arguments)
    end_with_parent(parent)
    # The parent handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if is_locked_down:
        preloading = import_module("engine.corpus.formats.preloading")
        preloading.load_everything()
    _load_readers()
    answers = os.dup(1)
    # What a library prints must not mix with the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    confinement = confine(memory, opening=not is_locked_down)
    if is_locked_down:
        # A process that can read too little ends here, and another kind takes its place.
        preloading.read_samples()
    _send(answers, encoded({"type": "ready", **asdict(confinement)}))
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        descriptor = None if asked["handle"] is None else take_file(asked["handle"])
        with read_from(descriptor):
            answer_request(answers, asked, seconds)
    return 0


def _load_readers() -> None:
    """Load what every file needs, and other readers whose compiled modules are not kept yet.

    A confined process loads the others when a file needs them, but can keep no compiled module.
    """
    import_module("engine.corpus.formats.opening")
    for module in _READERS:
        with suppress(ImportError):
            spec = find_spec(module)
            if spec and spec.cached and not Path(spec.cached).exists():
                import_module(module)
    sys.dont_write_bytecode = True
    gc.collect()
    # The garbage collector does not visit modules that are loaded already.
    gc.freeze()


def answer_request(answers: int, asked: dict[str, Any], seconds: int) -> None:
    """Read the file that a request names, and write what is in it to a descriptor."""
    from engine.core.records import ReadDocument
    from engine.corpus.formats import MAY_EMBED, UnreadableFileError, pictures
    from engine.corpus.formats.locked import use_passwords
    from engine.corpus.formats.opening import read_everything

    held_back = b""

    def send(message: dict[str, Any], *, later: bool = False) -> None:
        """Send a message; with `later`, a small one goes with the next.

        Another wake-up of the parent costs as much as reading a small file.
        """
        nonlocal held_back
        frames = held_back + encoded(message)
        held_back = b""
        if later and len(frames) <= _SMALL:
            held_back = frames
        else:
            _send(answers, frames)

    def begin(member: str) -> None:
        limit_time(seconds)
        send({"type": "begin", "member": member})

    def recognised(picture: bytes) -> tuple[str, str]:
        limit_time(seconds)
        send({"type": "picture", "data": base64.b64encode(picture).decode()})
        answer = json.loads(sys.stdin.buffer.readline())
        return str(answer["text"]), str(answer["problem"])

    limit_time(seconds)
    use_passwords(asked["passwords"], seconds / 2)
    pictures.use_recogniser(None if asked["ocr"] is None else recognised, float(asked["ocr"] or 0))
    path = Path(asked["path"])
    try:
        for found in read_everything(path, asked["format"], without=asked["without"], begin=begin):
            if isinstance(found, ReadDocument) and not found.member:
                format_of_file = found.format
            else:
                format_of_file = ""
            # Files within a document are begun before they are read; those of a PDF are not.
            later = format_of_file in MAY_EMBED and format_of_file != "pdf"
            send(as_message(found), later=later)
        end: dict[str, Any] = {"type": "end"}
    except UnreadableFileError as error:
        end = {"type": "failed", "kind": error.kind, "reason": error.why or error.what}
    except MemoryError:
        end = {"type": "failed", "kind": "out of memory", "reason": ""}
    except OSError as error:
        end = {
            "type": "inaccessible",
            "errno": error.errno or 0,
            "reason": error.strerror or str(error),
        }
    # An internal error concerns only this file, not those after it.
    except Exception as error:
        # The message may quote the document, and the reason is logged.
        reason = f"its reader failed ({type(error).__name__})"
        end = {"type": "failed", "kind": "crashed", "reason": reason}
    send(end)


def _send(answers: int, frames: bytes) -> None:
    left = memoryview(frames)
    while left:
        left = left[os.write(answers, left) :]


if __name__ == "__main__":
    # Threads of xberg can crash while Python shuts down.
    os._exit(main(sys.argv[1:]))
