"""The reading process, `python -m engine.corpus.sandbox.worker MEMORY SECONDS PARENT LOCKED_DOWN`.

A line of JSON on standard input names a file. Frames on standard output say what is in it, and the
last frame says how the reading ended.
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
from engine.corpus.sandbox.confinement import confine
from engine.corpus.sandbox.outcome import encode_finding, encode_frame

# Bytes of frames that may be held back to be sent with the next frame.
_MAX_HELD_BACK = 2**16
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
        # A locked-down process cannot load anything later.
        preloading = import_module("engine.corpus.formats.preloading")
        preloading.load_everything()
    _load_readers()
    answers = os.dup(1)
    # What a library prints must not mix with the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    confinement = confine(memory, opening=not is_locked_down)
    if is_locked_down:
        # If the lockdown keeps readers from working, this raises and ends the process. The parent
        # then starts one that is not locked down.
        preloading.read_samples()
    _send(answers, encode_frame({"type": "ready", **asdict(confinement)}))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        handle = request["handle"]
        with read_from(None if handle is None else take_file(handle)):
            answer_request(answers, request, seconds)
    return 0


def _load_readers() -> None:
    """Load what every file needs, and the readers that Python has not compiled yet.

    A confined process loads the others when a file needs them, but cannot store compiled modules
    for the next process.
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


def answer_request(
    answers: int,
    request: dict[str, Any],
    seconds: int,
) -> None:
    """Read the file that a request names, and write what is in it to the descriptor `answers`.

    `seconds`: the time for the file, or for each part of it.
    """
    from engine.core.records import ReadDocument
    from engine.corpus.formats import MAY_EMBED, UnreadableFileError, pictures
    from engine.corpus.formats.locked import use_passwords
    from engine.corpus.formats.opening import read_everything

    held_back = b""

    def send(message: dict[str, Any], *, later: bool = False) -> None:
        """Send a message; with `later`, hold a small one back to send it with the next.

        Each time that the parent is woken up takes as long as reading a small file.
        """
        nonlocal held_back
        frames = held_back + encode_frame(message)
        held_back = b""
        if later and len(frames) <= _MAX_HELD_BACK:
            held_back = frames
        else:
            _send(answers, frames)

    def begin(member: str) -> None:
        """Say that another part of the file is read now."""
        limit_time(seconds)
        send({"type": "begin", "member": member})

    def recognise(picture: bytes) -> tuple[str, str]:
        """Return the text that the parent's OCR finds in a picture, and the problem, if any."""
        limit_time(seconds)
        send({"type": "picture", "data": base64.b64encode(picture).decode()})
        answer = json.loads(sys.stdin.buffer.readline())
        return str(answer["text"]), str(answer["problem"])

    limit_time(seconds)
    use_passwords(request["passwords"], seconds / 2)
    if request["ocr"] is None:
        pictures.use_recogniser(None, 0.0)
    else:
        pictures.use_recogniser(recognise, float(request["ocr"]))
    path = Path(request["path"])
    without = request["without"]
    try:
        for finding in read_everything(path, request["format"], without=without, begin=begin):
            if isinstance(finding, ReadDocument) and not finding.member:
                format_of_file = finding.format
            else:
                format_of_file = ""
            # Files within a document are begun before they are read; those of a PDF are not.
            later = format_of_file in MAY_EMBED and format_of_file != "pdf"
            send(encode_finding(finding), later=later)
        last_message: dict[str, Any] = {"type": "end"}
    except UnreadableFileError as error:
        last_message = {
            "type": "failed",
            "kind": error.kind,
            "reason": error.why or error.what,
        }
    except MemoryError:
        last_message = {
            "type": "failed",
            "kind": "out of memory",
            "reason": "",
        }
    except OSError as error:
        last_message = {
            "type": "inaccessible",
            "errno": error.errno or 0,
            "reason": error.strerror or str(error),
        }
    # An internal error concerns only this file, not those after it.
    except Exception as error:
        # The message may quote the document, and the reason is logged.
        reason = f"its reader failed ({type(error).__name__})"
        last_message = {
            "type": "failed",
            "kind": "crashed",
            "reason": reason,
        }
    send(last_message)


def _send(answers: int, frames: bytes) -> None:
    """Write frames to a pipe, which may take a part of them at a time."""
    remaining = memoryview(frames)
    while remaining:
        written = os.write(answers, remaining)
        remaining = remaining[written:]


if __name__ == "__main__":
    # Threads of xberg can crash while Python shuts down.
    os._exit(main(sys.argv[1:]))
