"""The program tesseract, if installed: one process per picture, with little memory and time.

The picture goes in and the text comes out through pipes. On Linux the kernel refuses tesseract the
same as reading processes (see `confinement`), the network included, except to become another
program.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from engine.core.errors import SettingsError, reason_of
from engine.core.platforms.jobs import Job, start_in_job
from engine.core.platforms.processes import (
    can_become_program,
    describe_exit_code,
    find_program,
    has_used_its_time,
    own_session,
)
from engine.core.subprocesses import import_path, python_command

_MAX_TEXT_BYTES = 2**24
# Data that `tesseract --list-langs` names and that are not languages: directions of scripts,
# formulas.
_NO_LANGUAGES = ("osd", "equ")
# If the user names no languages, at most so many are used: each makes tesseract slower.
_MAX_LANGUAGES = 4
# On Windows: the process of tesseract and, if Chocolatey or Scoop has installed it, the process of
# the small program on the PATH that starts it.
_MAX_PROCESSES = 2
_PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "HOME",
    "TESSDATA_PREFIX",
    "SYSTEMROOT",
    "VIRTUAL_ENV",
)


@dataclass(frozen=True, slots=True)
class Tesseract:
    """An installed tesseract."""

    # Its path.
    program: str
    version: str
    # As they are passed to it, such as `deu+eng`.
    languages: str
    # The processes that are reading a picture, with their jobs.
    running: dict[subprocess.Popen[bytes], Job] = field(default_factory=dict, compare=False)

    @property
    def mark(self) -> str:
        """A mark that changes if pictures would be read differently."""
        return f"{self.version} {self.languages}"

    def read(
        self,
        picture: bytes,
        memory: int,
        seconds: int,
    ) -> tuple[str, str]:
        """Return (text, problem) of a picture; the problem is empty if it could be read.

        `memory`: the maximum in bytes. A process that takes longer than `seconds` is ended.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {
            "OMP_THREAD_LIMIT": "1",
            "PYTHONPATH": import_path(),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [
            self.program,
            "stdin",
            "stdout",
            "-l",
            self.languages,
        ]
        # On Windows, the job alone confines the process.
        if can_become_program():
            limits = (str(memory), str(seconds))
            command = python_command(
                "engine.corpus.sandbox.confinement",
                *limits,
                *command,
            )
        job = Job(memory, _MAX_PROCESSES)
        try:
            process = start_in_job(
                command,
                job,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                **own_session(),
            )
        except OSError as error:
            job.close()
            return "", f"tesseract did not start ({reason_of(error)})"
        self.running[process] = job
        time_limit = threading.Timer(
            seconds,
            job.end,
            (process,),
        )
        started = time.monotonic()
        time_limit.start()
        try:
            text = _exchange(process, picture)
            code = process.wait()
        finally:
            time_limit.cancel()
            job.end(process)
            process.wait()
            del self.running[process]
            job.close()
        if code == 0:
            return text.decode("utf-8", "replace"), ""
        if has_used_its_time(code) or time.monotonic() - started >= seconds:
            return "", f"tesseract was ended after {seconds} s"
        return "", f"tesseract failed ({describe_exit_code(code)})"

    def stop(self) -> None:
        """End all running processes."""
        for process, job in list(self.running.items()):
            job.end(process)


def _exchange(process: subprocess.Popen[bytes], picture: bytes) -> bytes:
    """Write a picture to a process, and return the text that it writes, as UTF-8."""
    assert process.stdin is not None
    assert process.stdout is not None
    stdin = process.stdin

    def feed() -> None:
        with suppress(OSError):
            stdin.write(picture)
        with suppress(OSError):
            stdin.close()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    with process.stdout:
        text = process.stdout.read(_MAX_TEXT_BYTES)
    if len(text) < _MAX_TEXT_BYTES:
        process.wait()
    else:
        process.kill()
    feeder.join(5)
    return text


def find_tesseract(languages: str = "") -> Tesseract | None:
    """Return the tesseract on the PATH, or None if none works.

    `languages`: as in `deu+eng`. If empty, all installed languages are used if they are few, else
    English. Raises SettingsError for a language whose data are not installed.
    """
    program = find_program("tesseract")
    if program is None:
        return None
    version = _run_option(program, "--version")
    # The first line is a title.
    lines = map(str.strip, _run_option(program, "--list-langs").splitlines()[1:])
    installed = [line for line in lines if line and " " not in line]
    readable = [
        name for name in installed if name not in _NO_LANGUAGES and not name.startswith("script/")
    ]
    if not version or not readable:
        return None
    # People also separate languages by commas or spaces.
    chosen = [name for name in re.split(r"[+, ]", languages) if name]
    missing = [name for name in chosen if name not in installed]
    if missing:
        raise SettingsError(
            f"corpus.ocr_languages names '{missing[0]}', for which the installed tesseract has no"
            " data.",
            "It knows " + ", ".join(readable) + ".",
            "Name one of these, or install the data for that language.",
            code="ocr-language-missing",
        )
    if not chosen and len(readable) <= _MAX_LANGUAGES:
        chosen = readable
    elif not chosen:
        chosen = ["eng"] if "eng" in readable else readable[:1]
    return Tesseract(
        program,
        version.splitlines()[0].strip(),
        "+".join(chosen),
    )


def _run_option(program: str, option: str) -> str:
    """Return what the program prints for an option; empty if it fails."""
    try:
        result = subprocess.run(
            [program, option], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    if result.returncode == 0:
        return result.stdout or result.stderr
    return ""
