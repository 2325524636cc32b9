"""Child processes: how they are started, how they ended, and what they held."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import resource

_PLAIN_ARGUMENT = re.compile(r"[\w+=:./\\-]+")
"""What neither cmd nor PowerShell takes for anything else."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_STATUS_CODES = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC00000FD: "stack overflow",
    0xC0000017: "out of memory",
    0xC000013A: "Ctrl-C",
    0xC0000409: "abort",
}


def own_session() -> dict[str, Any]:
    """Return the options of Popen for a child that the terminal's signals and end do not reach."""
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        return {"creationflags": flags}
    return {"start_new_session": True}


def can_become_program() -> bool:
    """Return whether a process can become another program (exec) and keep its limits."""
    return sys.platform != "win32"


def program_file(name: str) -> str:
    """Return the name of the file of a program."""
    return f"{name}.exe" if sys.platform == "win32" else name


def find_program(name: str) -> str | None:
    """Return the path of a program on the PATH, or None.

    On Windows `shutil.which` looks into the working directory first, which may be a folder of
    documents from somebody else. There, only `.exe` files in folders with an absolute path are
    found.
    """
    if sys.platform != "win32":
        return shutil.which(name)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = Path(folder.strip('"')) / program_file(name)
        if program.is_absolute() and program.is_file():
            return str(program)
    return None


def python_program() -> list[str]:
    """Return the program that runs Python itself, with its options.

    In a virtual environment on Windows, `sys.executable` is a launcher whose child is Python. An
    embedded Python ignores variables, so that UTF-8 is an option.
    """
    if sys.platform == "win32":
        return [
            getattr(sys, "_base_executable", "") or sys.executable,
            "-X",
            "utf8",
        ]
    return [sys.executable]


def python_environment() -> dict[str, str]:
    """Return the variables that `python_program` needs to be this Python."""
    if sys.platform == "win32":
        return {"__PYVENV_LAUNCHER__": sys.executable}
    return {}


def quote_argument(text: str) -> str:
    """Return text as one argument of a command that a user may copy into a shell.

    On Windows, cmd still replaces `%NAME%` within the quotes, and PowerShell `$name`: no form suits
    both.
    """
    if sys.platform != "win32":
        return shlex.quote(text)
    if _PLAIN_ARGUMENT.fullmatch(text):
        return text
    # Before a quote, backslashes escape each other: `a\"` becomes `"a\\\""`, `a\` becomes `"a\\"`.
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', text)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with the thread that started it (Linux).

    `parent`: the number of the process that should be alive. A job does this on Windows.
    """
    if sys.platform == "linux":
        import ctypes

        zero = ctypes.c_ulong(0)
        number = ctypes.c_ulong(signal.SIGKILL)
        ctypes.CDLL(None).prctl(
            _DEATH_SIGNAL,
            number,
            zero,
            zero,
            zero,
        )
        # The parent may have ended before the kernel was asked.
        if os.getppid() != parent:
            os._exit(1)


def restore_child_signal() -> None:
    """Stop ignoring SIGCHLD, which the parent program may have done.

    A process that ignores it cannot learn how its children ended: to Python, all of them exited
    with 0.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        # Python can change signal handlers in the main thread only.
        return
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def describe_exit_code(code: int) -> str:
    """Return `SIGSEGV` or `exit code 3` for a return code of subprocess."""
    if code < 0:
        return signal.Signals(-code).name
    if code in _STATUS_CODES:
        return f"{_STATUS_CODES[code]}, 0x{code:X}"
    return f"exit code {code}"


def is_killed(code: int) -> bool:
    """Return whether a process was killed from outside, as the system does without memory."""
    return sys.platform != "win32" and code == -signal.SIGKILL


def has_used_its_time(code: int) -> bool:
    """Return whether the kernel ended a process at its limit of processor time."""
    return sys.platform != "win32" and code == -signal.SIGXCPU


def is_alive(number: int) -> bool:
    """Return whether there is a process with that number."""
    import psutil

    return psutil.pid_exists(number)


def peak_memory() -> int:
    """Return the highest resident memory of this process so far, in bytes."""
    if sys.platform == "win32":
        import psutil

        peak = int(psutil.Process().memory_info().peak_wset)
    elif sys.platform == "darwin":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    else:
        # ru_maxrss starts at the parent's value, so it is the second choice.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        with (
            suppress(OSError, StopIteration),
            Path("/proc/self/status").open(encoding="ascii", errors="replace") as file,
        ):
            line = next(line for line in file if line.startswith("VmHWM:"))
            peak = int(line.split()[1]) * 1024
    return peak


def limit_memory(size: int) -> None:
    """Limit the address space of this process to `size` bytes, for good.

    On Windows nothing happens: a job of the parent limits it.
    """
    if sys.platform != "win32":
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (size, size))


def forbid_files() -> bool:
    """Forbid this process core dumps and files that grow; return whether the system does."""
    if sys.platform != "win32":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            return True
    return False


def limit_time(seconds: int) -> None:
    """Let the kernel end this process after `seconds` more of processor time.

    On Windows nothing happens: the parent ends it by the clock, and a job ends it with the parent.
    """
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + seconds + 1
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
