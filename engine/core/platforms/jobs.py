"""Windows: a job that bounds a child process, and a process that gives up its own rights.

Sources: the pages "Job Objects" and "Mandatory Integrity Control" of the Windows API. On other
systems a job bounds nothing, and `give_up_rights` gives up nothing.
"""

from __future__ import annotations

import struct
import subprocess
import sys

_ACTIVE_PROCESSES = 0x8
_PROCESS_MEMORY = 0x100
_DIE_ON_EXCEPTION = 0x400
_KILL_ON_CLOSE = 0x2000
_LIMITS_CLASS = 9  # JobObjectExtendedLimitInformation
_UI_CLASS = 4  # JobObjectBasicUIRestrictions
_NO_UI = 0xFF
_LIMITS = struct.Struct("qqIxxxxQQIxxxxQII6Q4Q")
"""JOBOBJECT_EXTENDED_LIMIT_INFORMATION of a 64-bit system."""
_SET_QUOTA_AND_TERMINATE = 0x0101
_TOKEN_ACCESS = 0x80 | 0x20 | 0x8  # adjust defaults and privileges, query
_PRIVILEGES = 3  # TokenPrivileges
_INTEGRITY = 25  # TokenIntegrityLevel
_REMOVED = 4  # SE_PRIVILEGE_REMOVED
_LOW_INTEGRITY = struct.pack("<BB6sI", 1, 1, b"\0\0\0\0\0\x10", 0x1000)
"""The security identifier S-1-16-4096."""
_IS_INTEGRITY = 0x20  # SE_GROUP_INTEGRITY


def pack_limits(memory: int, processes: int) -> bytes:
    """Return the limits of a job: address space of a process in bytes, and number of processes."""
    flags = _ACTIVE_PROCESSES | _PROCESS_MEMORY | _DIE_ON_EXCEPTION | _KILL_ON_CLOSE
    basic = (0, 0, flags, 0, 0, processes, 0, 0, 0)
    traffic = (0, 0, 0, 0, 0, 0)
    sizes = (memory, 0, 0, 0)
    return _LIMITS.pack(*basic, *traffic, *sizes)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _security = ctypes.WinDLL("advapi32", use_last_error=True)
    for _function in (_kernel.CreateJobObjectW, _kernel.OpenProcess, _kernel.GetCurrentProcess):
        _function.restype = wintypes.HANDLE

    class Job:
        """A job for one child process, which ends with the job and with this process."""

        def __init__(self, memory: int, processes: int = 1) -> None:
            self._handle = wintypes.HANDLE(_kernel.CreateJobObjectW(None, None))
            limits = pack_limits(memory, processes)
            restrictions = struct.pack("I", _NO_UI)
            self.is_bounded = bool(
                _kernel.SetInformationJobObject(self._handle, _LIMITS_CLASS, limits, len(limits))
            )
            _kernel.SetInformationJobObject(
                self._handle, _UI_CLASS, restrictions, len(restrictions)
            )

        def add(self, child: subprocess.Popen[bytes]) -> bool:
            """Put a child into the job; return whether the system did."""
            handle = wintypes.HANDLE(_kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, 0, child.pid))
            is_added = bool(_kernel.AssignProcessToJobObject(self._handle, handle))
            _kernel.CloseHandle(handle)
            return is_added and self.is_bounded

        def close(self) -> None:
            """End the processes of the job."""
            _kernel.CloseHandle(self._handle)
            self._handle = wintypes.HANDLE()

    def give_up_rights() -> bool:
        """Lower this process to low integrity and drop its privileges, for good.

        It can then write no file of the user and reach no other program of the user. Returns
        whether the system did so.
        """
        token = wintypes.HANDLE()
        process = wintypes.HANDLE(_kernel.GetCurrentProcess())
        if not _security.OpenProcessToken(process, _TOKEN_ACCESS, ctypes.byref(token)):
            return False
        _remove_privileges(token)
        identifier = ctypes.create_string_buffer(_LOW_INTEGRITY, len(_LOW_INTEGRITY))
        label = struct.pack("PIxxxx", ctypes.addressof(identifier), _IS_INTEGRITY)
        is_low = _security.SetTokenInformation(
            token, _INTEGRITY, label, len(label) + len(_LOW_INTEGRITY)
        )
        _kernel.CloseHandle(token)
        return bool(is_low)

    def _remove_privileges(token: wintypes.HANDLE) -> None:
        size = wintypes.DWORD()
        _security.GetTokenInformation(token, _PRIVILEGES, None, 0, ctypes.byref(size))
        privileges = ctypes.create_string_buffer(size.value)
        if not _security.GetTokenInformation(
            token, _PRIVILEGES, privileges, size, ctypes.byref(size)
        ):
            return
        for place in range(struct.unpack_from("I", privileges)[0]):
            struct.pack_into("I", privileges, 4 + 12 * place + 8, _REMOVED)
        _security.AdjustTokenPrivileges(token, 0, privileges, size, None, None)

else:

    class Job:
        """A job of Windows; here it bounds nothing."""

        is_bounded = False

        def __init__(self, memory: int, processes: int = 1) -> None:
            pass

        def add(self, child: subprocess.Popen[bytes]) -> bool:
            """Return False: there are no jobs here."""
            return False

        def close(self) -> None:
            """Do nothing."""

    def give_up_rights() -> bool:
        """Return False: this is for Windows."""
        return False
