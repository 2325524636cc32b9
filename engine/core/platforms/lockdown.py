"""Windows: a process that may open nothing once it has begun, and files that are handed to it.

It has a token by which it may open next to nothing (`tokens`). Until `give_up_opening`, its first
thread has another one, with which Python and its libraries are loaded.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if sys.platform == "win32":
    import _winapi
    import ctypes
    import msvcrt
    import os
    import weakref
    from ctypes import wintypes

    from engine.core.platforms.names import reachable_path
    from engine.core.platforms.tokens import ReaderTokens, check_call, set_thread_token

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _security = ctypes.WinDLL("advapi32", use_last_error=True)
    _SUSPENDED = 0x4  # CREATE_SUSPENDED
    _DETACHED = 0x8  # DETACHED_PROCESS: a console would be another process
    _UNICODE_ENVIRONMENT = 0x400
    _EXTENDED_STARTUP = 0x80000
    _HANDLE_LIST = 0x20002  # PROC_THREAD_ATTRIBUTE_HANDLE_LIST
    _SHARED = 0x7  # FILE_SHARE_READ, WRITE and DELETE

    class _StartupInfo(ctypes.Structure):
        """STARTUPINFOEXW."""

        _fields_ = (
            ("size", wintypes.DWORD),
            ("_names", wintypes.LPWSTR * 3),
            ("_window", wintypes.DWORD * 7),
            ("flags", wintypes.DWORD),
            ("_show", wintypes.WORD),
            ("_reserved_size", wintypes.WORD),
            ("_reserved", ctypes.c_void_p),
            ("standard_handles", wintypes.HANDLE * 3),
            ("attributes", ctypes.c_void_p),
        )

    class _ProcessInformation(ctypes.Structure):
        """PROCESS_INFORMATION."""

        _fields_ = (
            ("process", wintypes.HANDLE),
            ("thread", wintypes.HANDLE),
            ("process_number", wintypes.DWORD),
            ("thread_number", wintypes.DWORD),
        )

    def can_lock_down() -> bool:
        """Return whether this system has such processes."""
        return True

    class LockedDownProcess:
        """A process with pipes that may open nothing once it has called `give_up_opening`.

        It waits for `resume`. Raises OSError if it does not start.
        """

        def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
            self.returncode: int | None = None
            child_stdin, parent_stdin = os.pipe()
            parent_stdout, child_stdout = os.pipe()
            parent_stderr, child_stderr = os.pipe()
            self.stdin = os.fdopen(parent_stdin, "wb")
            self.stdout = os.fdopen(parent_stdout, "rb")
            self.stderr = os.fdopen(parent_stderr, "rb")
            given = (child_stdin, child_stdout, child_stderr)
            try:
                self._start(
                    command,
                    environment,
                    [msvcrt.get_osfhandle(pipe) for pipe in given],
                )
            except BaseException:
                for stream in (self.stdin, self.stdout, self.stderr):
                    stream.close()
                raise
            finally:
                for pipe in given:
                    os.close(pipe)

        def _start(
            self, command: Sequence[str], environment: Mapping[str, str], handles: list[int]
        ) -> None:
            """Create the process; `handles`: its standard ones."""
            for handle in handles:
                os.set_handle_inheritable(handle, True)
            tokens = ReaderTokens()
            try:
                started = _create_process(
                    tokens.lockdown,
                    command,
                    environment,
                    handles,
                )
                self.pid = int(started.process_number)
                self._process = int(started.process)
                self._thread = int(started.thread)
                weakref.finalize(
                    self,
                    _winapi.CloseHandle,
                    self._process,
                )
                try:
                    set_thread_token(self._thread, tokens.initial)
                except OSError:
                    self.kill()
                    _winapi.CloseHandle(self._thread)
                    raise
            finally:
                tokens.close()

        def resume(self) -> None:
            """Let the process begin."""
            _kernel.ResumeThread(wintypes.HANDLE(self._thread))
            _winapi.CloseHandle(self._thread)

        def hand_over(self, path: Path) -> int:
            """Open a file for reading, and return the handle that the process has of it.

            Others may change, rename or delete the file meanwhile. Raises OSError.
            """
            name = reachable_path(str(path))
            access = _winapi.GENERIC_READ
            source = _winapi.CreateFile(
                name,
                access,
                _SHARED,
                0,
                _winapi.OPEN_EXISTING,
                0,
                0,
            )
            options = _winapi.DUPLICATE_SAME_ACCESS | _winapi.DUPLICATE_CLOSE_SOURCE
            here = _winapi.GetCurrentProcess()
            return _winapi.DuplicateHandle(
                here,
                source,
                self._process,
                0,
                False,
                options,
            )

        def poll(self) -> int | None:
            """Return the exit code, None while the process runs."""
            if self.returncode is not None:
                return self.returncode
            if _winapi.WaitForSingleObject(self._process, 0) == _winapi.WAIT_OBJECT_0:
                self.returncode = _winapi.GetExitCodeProcess(self._process)
            return self.returncode

        def wait(self, timeout: float) -> int:
            """Return the exit code.

            Raises subprocess.TimeoutExpired if the process runs longer than `timeout` seconds.
            """
            _winapi.WaitForSingleObject(self._process, int(timeout * 1000))
            code = self.poll()
            if code is None:
                raise subprocess.TimeoutExpired("a reading process", timeout)
            return code

        def kill(self) -> None:
            """End the process, unless it has ended."""
            if self.poll() is None:
                _kernel.TerminateProcess(wintypes.HANDLE(self._process), 1)

    def take_file(handle: int) -> int:
        """Return a descriptor of a file that was handed over to this process."""
        return msvcrt.open_osfhandle(handle, os.O_RDONLY)

    def _create_process(
        token: wintypes.HANDLE,
        command: Sequence[str],
        environment: Mapping[str, str],
        handles: list[int],
    ) -> _ProcessInformation:
        """Start a process that waits, and inherits these handles alone as its standard ones."""
        size = ctypes.c_size_t()
        _kernel.InitializeProcThreadAttributeList(
            None,
            1,
            0,
            ctypes.byref(size),
        )
        attributes = ctypes.create_string_buffer(size.value)
        check_call(_kernel.InitializeProcThreadAttributeList(attributes, 1, 0, ctypes.byref(size)))
        inherited = (wintypes.HANDLE * len(handles))(*handles)
        list_size = ctypes.c_size_t(ctypes.sizeof(inherited))
        kind = ctypes.c_size_t(_HANDLE_LIST)
        started = _ProcessInformation()
        startup = _StartupInfo(size=ctypes.sizeof(_StartupInfo), flags=_winapi.STARTF_USESTDHANDLES)
        startup.standard_handles = inherited
        startup.attributes = ctypes.addressof(attributes)
        variables = sorted(
            (f"{name}={value}\0" for name, value in environment.items()), key=str.upper
        )
        # The NUL that follows is that of an empty variable, which ends the list.
        block = ctypes.create_unicode_buffer("".join(variables))
        try:
            check_call(
                _kernel.UpdateProcThreadAttribute(
                    attributes, 0, kind, inherited, list_size, None, None
                )
            )
            check_call(
                _security.CreateProcessAsUserW(
                    token,
                    None,
                    ctypes.create_unicode_buffer(subprocess.list2cmdline(command)),
                    None,
                    None,
                    True,
                    _SUSPENDED | _DETACHED | _UNICODE_ENVIRONMENT | _EXTENDED_STARTUP,
                    block,
                    None,
                    ctypes.byref(startup),
                    ctypes.byref(started),
                )
            )
        finally:
            _kernel.DeleteProcThreadAttributeList(attributes)
        return started

else:

    def can_lock_down() -> bool:
        """Return False: this is for Windows."""
        return False

    class LockedDownProcess(subprocess.Popen[bytes]):
        """A process of Windows; no other system starts it."""

        def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
            raise OSError("only Windows has such processes")

        def resume(self) -> None:
            """Do nothing."""

        def hand_over(self, path: Path) -> int:
            """Return the handle of a file; no process of this system has one."""
            raise OSError("only Windows has handles")

    def take_file(handle: int) -> int:
        """Return a descriptor: here the number itself."""
        return handle
