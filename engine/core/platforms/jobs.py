"""Windows: a job that bounds a child process; on other systems it bounds nothing.

Source: the page "Job Objects" of the Windows API.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

_ACTIVE_PROCESSES = 0x8
_PROCESS_MEMORY = 0x100
_DIE_ON_EXCEPTION = 0x400
_KILL_ON_CLOSE = 0x2000
_LIMITS_CLASS = 9  # JobObjectExtendedLimitInformation
_LIMITS = struct.Struct("qqIxxxxQQIxxxxQII6Q4Q")
"""JOBOBJECT_EXTENDED_LIMIT_INFORMATION of a 64-bit system."""
_SUSPENDED = 0x4  # CREATE_SUSPENDED
_SET_QUOTA_AND_TERMINATE = 0x0101


# Limits on the user interface are left out: a job that has them cannot be nested in another job,
# such as that of Task Scheduler, an SSH server or a CI runner.
def pack_limits(memory: int, processes: int) -> bytes:
    """Return the limits of a job, as Windows takes them.

    `memory`: the address space of each process, in bytes. `processes`: their number.
    """
    flags = _ACTIVE_PROCESSES | _PROCESS_MEMORY | _DIE_ON_EXCEPTION | _KILL_ON_CLOSE
    basic = (
        0,
        0,
        flags,
        0,
        0,
        processes,
        0,
        0,
        0,
    )
    traffic = (
        0,
        0,
        0,
        0,
        0,
        0,
    )
    sizes = (memory, 0, 0, 0)
    return _LIMITS.pack(
        *basic,
        *traffic,
        *sizes,
    )


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    for _function in (_kernel.CreateJobObjectW, _kernel.OpenProcess):
        _function.restype = wintypes.HANDLE

    class Job:
        """A job for one child process, which ends with the job and with this process."""

        def __init__(self, memory: int, processes: int = 1) -> None:
            self._handle = wintypes.HANDLE(_kernel.CreateJobObjectW(None, None))
            limits = pack_limits(memory, processes)
            self._is_limited = bool(
                _kernel.SetInformationJobObject(self._handle, _LIMITS_CLASS, limits, len(limits))
            )
            self._lock = threading.Lock()

        def add(self, number: int) -> bool:
            """Put the process of that number into the job; return whether it is limited."""
            handle = wintypes.HANDLE(_kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, 0, number))
            is_added = bool(_kernel.AssignProcessToJobObject(self._handle, handle))
            _kernel.CloseHandle(handle)
            return is_added and self._is_limited

        def end(self, child: subprocess.Popen[bytes]) -> None:
            """End the child, and what it has started, from any thread."""
            with self._lock:
                if self._handle:
                    _kernel.TerminateJobObject(self._handle, 1)
            child.kill()

        def close(self) -> None:
            """End the processes of the job."""
            with self._lock:
                _kernel.CloseHandle(self._handle)
                self._handle = wintypes.HANDLE()

    def start_in_job(
        command: Sequence[str],
        job: Job,
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a program that is in the job from its first instruction on.

        `options` are those of Popen. Raises OSError if the job does not hold it.
        """
        import psutil

        flags = options.pop("creationflags", 0) | _SUSPENDED
        child = subprocess.Popen(
            command,
            creationflags=flags,
            **options,
        )
        try:
            if not job.add(child.pid):
                raise OSError("Windows did not limit it")
            psutil.Process(child.pid).resume()
        except BaseException as error:
            child.kill()
            child.communicate()
            if isinstance(error, psutil.Error):
                raise OSError("it did not start") from error
            raise
        return child

else:

    class Job:
        """A job of Windows; here it bounds nothing."""

        def __init__(self, memory: int, processes: int = 1) -> None:
            pass

        def add(self, number: int) -> bool:
            """Return False: there are no jobs here."""
            return False

        def end(self, child: subprocess.Popen[bytes]) -> None:
            """End the child."""
            child.kill()

        def close(self) -> None:
            """Do nothing."""

    def start_in_job(
        command: Sequence[str],
        job: Job,
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a program; `options` are those of Popen."""
        return subprocess.Popen(command, **options)
