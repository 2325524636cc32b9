"""Windows: tokens, which say what a process may open; on other systems nothing happens.

Sources: the pages "Restricted Tokens" and "Mandatory Integrity Control" of the Windows API, and
Chromium's sandbox (docs/design/sandbox.md and sandbox/win there), whose two tokens these are. None
of it needs the rights of an administrator.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import _winapi
    import ctypes
    import struct
    from collections.abc import Iterator, Sequence
    from contextlib import contextmanager, suppress
    from ctypes import wintypes

    _security = ctypes.WinDLL("advapi32", use_last_error=True)

    _ALL_ACCESS = 0xF01FF  # TOKEN_ALL_ACCESS
    _USER = 1  # TokenUser
    _GROUPS = 2  # TokenGroups
    _PRIVILEGES = 3  # TokenPrivileges
    _INTEGRITY = 25  # TokenIntegrityLevel
    _IS_INTEGRITY = 0x20  # SE_GROUP_INTEGRITY
    _IS_LOGON = 0xC0000000  # SE_GROUP_LOGON_ID
    _DENIES_ONLY = 0x10  # SE_GROUP_USE_FOR_DENY_ONLY
    _REMOVED = 4  # SE_PRIVILEGE_REMOVED
    _CHANGE_NOTIFY = 23  # SeChangeNotifyPrivilege: to reach a file below a folder that is closed
    _IMPERSONATION = 2  # SecurityImpersonation, and TokenImpersonation
    _NOBODY = struct.pack(
        "<BB6sI",
        1,
        1,
        b"\0\0\0\0\0\0",
        0,
    )
    """The security identifier S-1-0-0, to which nothing is granted."""
    _LOW_INTEGRITY = struct.pack(
        "<BB6sI",
        1,
        1,
        b"\0\0\0\0\0\x10",
        0x1000,
    )
    """The security identifier S-1-16-4096."""

    class _Group(ctypes.Structure):
        """SID_AND_ATTRIBUTES."""

        _fields_ = (("identifier", ctypes.c_void_p), ("attributes", wintypes.DWORD))

    def check_call(result: int) -> None:
        """Raise the OSError of a call of Windows that has failed."""
        if not result:
            raise ctypes.WinError(ctypes.get_last_error())

    class ReaderTokens:
        """The tokens of a process that is to open nothing; close them once it has started.

        `lockdown` is the token of the process. It has low integrity and no privileges, its groups
        but for the logon only deny, and Windows grants only what it also grants to S-1-0-0, which
        is next to nothing. `initial` is that of the first thread until `give_up_opening`: it reads
        what the user may read.
        """

        def __init__(self) -> None:
            own = wintypes.HANDLE()
            process = wintypes.HANDLE(_winapi.GetCurrentProcess())
            check_call(_security.OpenProcessToken(process, _ALL_ACCESS, ctypes.byref(own)))
            try:
                self.lockdown = _make_lockdown_token(own)
                with _closed_on_failure(self.lockdown):
                    self.initial = _make_initial_token(own)
            finally:
                _close(own)

        def close(self) -> None:
            """Close both; a process and a thread keep theirs."""
            _close(self.lockdown)
            _close(self.initial)

    def set_thread_token(thread: int, token: wintypes.HANDLE) -> None:
        """Let a thread that has not begun act by another token than its process. Raises OSError."""
        handle = wintypes.HANDLE(thread)
        check_call(_security.SetThreadToken(ctypes.byref(handle), token))

    def give_up_opening() -> None:
        """Give up the first thread's token: what this process has not open, it cannot open.

        Raises OSError if Windows does not take it.
        """
        check_call(_security.RevertToSelf())
        # A handle to the user's registry may be kept since libraries were loaded.
        _security.RegDisablePredefinedCache()

    def give_up_rights() -> bool:
        """Lower this process to low integrity and drop its privileges, for good.

        It can then write no file of the user and control no other program of the user, but still
        read what the user may. Returns whether the integrity is low.
        """
        token = wintypes.HANDLE()
        process = wintypes.HANDLE(_winapi.GetCurrentProcess())
        if not _security.OpenProcessToken(process, _ALL_ACCESS, ctypes.byref(token)):
            return False
        with suppress(OSError):
            _remove_privileges(token, kept=_CHANGE_NOTIFY)
        try:
            _lower_integrity(token)
        except OSError:
            return False
        finally:
            _close(token)
        return True

    def _make_lockdown_token(own: wintypes.HANDLE) -> wintypes.HANDLE:
        """Return the token of a process; see `ReaderTokens`. `own`: that of this process."""
        user = _read_information(own, _USER)
        groups = _read_information(own, _GROUPS)
        denied = [_Group(_Group.from_buffer(user).identifier, _DENIES_ONLY)]
        for group in _list_groups(groups):
            if group.attributes & _IS_LOGON != _IS_LOGON:
                denied.append(_Group(group.identifier, _DENIES_ONLY))
        nobody = ctypes.create_string_buffer(_NOBODY, len(_NOBODY))
        token = _restrict(
            own,
            denied,
            [_Group(ctypes.addressof(nobody), 0)],
        )
        with _closed_on_failure(token):
            # Without that to pass through folders, too: some files in closed ones are everyone's.
            _remove_privileges(token)
        return token

    def _make_initial_token(own: wintypes.HANDLE) -> wintypes.HANDLE:
        """Return a token that is restricted to all its groups, which restricts nothing.

        A process whose token is restricted may use no other.
        """
        user = _read_information(own, _USER)
        groups = _read_information(own, _GROUPS)
        restricting = [_Group(_Group.from_buffer(user).identifier, 0)]
        for group in _list_groups(groups):
            restricting.append(_Group(group.identifier, 0))
        token = _restrict(own, [], restricting)
        result = wintypes.HANDLE()
        kinds = (_IMPERSONATION, _IMPERSONATION)
        try:
            _remove_privileges(token, kept=_CHANGE_NOTIFY)
            check_call(
                _security.DuplicateTokenEx(token, _ALL_ACCESS, None, *kinds, ctypes.byref(result))
            )
        finally:
            _close(token)
        return result

    def _restrict(
        own: wintypes.HANDLE, denied: Sequence[_Group], restricting: Sequence[_Group]
    ) -> wintypes.HANDLE:
        """Return a restricted token of low integrity."""
        token = wintypes.HANDLE()
        check_call(
            _security.CreateRestrictedToken(
                own,
                0,
                len(denied),
                (_Group * len(denied))(*denied),
                0,
                None,
                len(restricting),
                (_Group * len(restricting))(*restricting),
                ctypes.byref(token),
            )
        )
        with _closed_on_failure(token):
            _lower_integrity(token)
        return token

    def _lower_integrity(token: wintypes.HANDLE) -> None:
        """Give a token low integrity. Raises OSError."""
        identifier = ctypes.create_string_buffer(_LOW_INTEGRITY, len(_LOW_INTEGRITY))
        label = _Group(ctypes.addressof(identifier), _IS_INTEGRITY)
        size = ctypes.sizeof(label) + len(_LOW_INTEGRITY)
        check_call(_security.SetTokenInformation(token, _INTEGRITY, ctypes.byref(label), size))

    def _remove_privileges(token: wintypes.HANDLE, kept: int | None = None) -> None:
        """Remove all privileges of a token but one; Wine's DISABLE_MAX_PRIVILEGE removes none."""
        privileges = _read_information(token, _PRIVILEGES)
        for place in range(struct.unpack_from("I", privileges)[0]):
            entry = 4 + 12 * place
            if struct.unpack_from("II", privileges, entry) != (kept, 0):
                struct.pack_into(
                    "I",
                    privileges,
                    entry + 8,
                    _REMOVED,
                )
        check_call(
            _security.AdjustTokenPrivileges(token, 0, privileges, len(privileges), None, None)
        )

    def _read_information(token: wintypes.HANDLE, kind: int) -> ctypes.Array[ctypes.c_char]:
        """Return one kind of information about a token, as Windows lays it out."""
        size = wintypes.DWORD()
        # The first call only tells the size.
        _security.GetTokenInformation(
            token,
            kind,
            None,
            0,
            ctypes.byref(size),
        )
        content = ctypes.create_string_buffer(size.value)
        check_call(_security.GetTokenInformation(token, kind, content, size, ctypes.byref(size)))
        return content

    def _list_groups(information: ctypes.Array[ctypes.c_char]) -> list[_Group]:
        """Return the groups of a token, but for its level of integrity."""
        count = struct.unpack_from("I", information)[0]
        groups = (_Group * count).from_buffer(information, ctypes.alignment(_Group))
        return [group for group in groups if not group.attributes & _IS_INTEGRITY]

    @contextmanager
    def _closed_on_failure(token: wintypes.HANDLE) -> Iterator[None]:
        """Close a token if the block raises."""
        try:
            yield
        except BaseException:
            _close(token)
            raise

    def _close(token: wintypes.HANDLE) -> None:
        _winapi.CloseHandle(token.value or 0)

else:

    def give_up_opening() -> None:
        """Do nothing: this is for Windows."""

    def give_up_rights() -> bool:
        """Return False: this is for Windows."""
        return False
