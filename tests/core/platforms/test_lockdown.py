"""Processes of Windows that may open nothing: their tokens, what they inherit, and their files.

Wine keeps the tokens and enforces none of them.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.platforms import SYSTEM, tokens
from engine.core.platforms.lockdown import LockedDownProcess, can_lock_down, take_file
from engine.core.platforms.processes import python_environment, python_program
from engine.core.platforms.tokens import give_up_opening, give_up_rights
from engine.core.subprocesses import import_path

on_windows = pytest.mark.skipif(SYSTEM != "windows", reason="only Windows has such processes")
SECONDS = 120.0
# A process that answers each line, an expression, with its value as JSON.
ANSWER = """
import ctypes, json, os, struct, sys
from ctypes import wintypes
from engine.core.platforms import lockdown, tokens

security = ctypes.WinDLL("advapi32", use_last_error=True)
kernel = ctypes.WinDLL("kernel32")
kernel.GetCurrentProcess.restype = kernel.GetCurrentThread.restype = wintypes.HANDLE

def query(kind):
    token = wintypes.HANDLE()
    process = wintypes.HANDLE(kernel.GetCurrentProcess())
    assert security.OpenProcessToken(process, 8, ctypes.byref(token))
    size = wintypes.DWORD()
    security.GetTokenInformation(token, kind, None, 0, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    assert security.GetTokenInformation(token, kind, content, size, ctypes.byref(size))
    return content

def read_groups(kind):
    content = query(kind)
    groups = []
    for number in range(struct.unpack_from("I", content)[0]):
        address, attributes = struct.unpack_from("PI", content, 8 + 16 * number)
        groups.append([describe(address), attributes])
    return groups

def describe(address):
    text = wintypes.LPWSTR()
    assert security.ConvertSidToStringSidW(ctypes.c_void_p(address), ctypes.byref(text))
    return text.value

def has_thread_token():
    token = wintypes.HANDLE()
    thread = wintypes.HANDLE(kernel.GetCurrentThread())
    return bool(security.OpenThreadToken(thread, 8, True, ctypes.byref(token)))

def is_open(descriptor):
    try:
        return os.fstat(lockdown.take_file(descriptor)).st_size >= 0
    except OSError:
        return False

for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


INTEGRITY = "describe(struct.unpack_from('P', query(25))[0])"
LOW = "S-1-16-4096"
# Wine 8 takes every level and keeps its own.
WINES = "hasattr(ctypes.windll.ntdll, 'wine_get_version') and 'S-1-16-12288'"
CHANGE_NOTIFY = 23


class Asked:
    """A locked-down process that answers."""

    def __init__(self) -> None:
        command = [
            *python_program(),
            "-c",
            ANSWER,
        ]
        environment = {
            **os.environ,
            **python_environment(),
            "PYTHONPATH": import_path(),
        }
        environment["GREETING"] = "Möwe"
        self.process = LockedDownProcess(command, environment)
        self.process.resume()

    def ask(self, expression: str) -> Any:
        self.process.stdin.write(f"{expression}\n".encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture
def child() -> Iterator[Asked]:
    process = Asked()
    yield process
    process.close()


@on_windows
def test_the_process_has_no_privileges_and_its_groups_only_deny(child: Asked) -> None:
    groups = dict(child.ask("read_groups(2)"))
    granting = [name for name, flags in groups.items() if not flags & 0x10]
    # What is left is the logon and, on Windows, the level of integrity.
    assert all(name.startswith(("S-1-5-5-", "S-1-16-")) for name in granting), groups
    assert "S-1-5-11" in groups
    assert child.ask("struct.unpack_from('I', query(3))[0]") == 0
    assert child.ask(INTEGRITY) in (LOW, child.ask(WINES))


@on_windows
def test_a_process_lowers_itself_and_keeps_the_privilege_to_pass_through_folders() -> None:
    privileges = "struct.unpack_from('II', query(3))"
    completed = subprocess.run(
        [*python_program(), "-c", ANSWER],
        input="\n".join(["tokens.give_up_rights()", INTEGRITY, WINES, privileges]),
        env={**os.environ, **python_environment(), "PYTHONPATH": import_path()},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    is_low, integrity, of_wine, held = map(json.loads, completed.stdout.splitlines())
    assert is_low is True
    assert integrity in (LOW, of_wine)
    assert held == [1, CHANGE_NOTIFY]


@on_windows
def test_the_token_with_which_it_begins_can_be_given_up(child: Asked) -> None:
    assert child.ask("has_thread_token()") is True
    assert child.ask("tokens.give_up_opening()") is None
    assert child.ask("has_thread_token()") is False


@on_windows
def test_the_process_gets_its_environment_and_no_other_handle(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"The pelican.")
    import msvcrt

    with path.open("rb") as file:
        handle = msvcrt.get_osfhandle(file.fileno())
        os.set_handle_inheritable(handle, True)
        process = Asked()
        assert process.ask("os.environ['GREETING']") == "Möwe"
        assert process.ask(f"is_open({handle})") is False
        process.close()


@on_windows
def test_a_file_is_handed_over_for_reading_alone(tmp_path: Path, child: Asked) -> None:
    path = tmp_path / "möwe.txt"
    path.write_bytes(b"The pelican.\r\nIt sleeps.")
    handle = child.process.hand_over(path)
    path.rename(tmp_path / "renamed.txt")
    child.ask(f"globals().update(file=lockdown.take_file({handle}))")
    assert child.ask("os.fstat(file).st_size") == 24
    assert child.ask("os.read(file, 99).decode()") == "The pelican.\r\nIt sleeps."
    writing = "ctypes.windll.kernel32.WriteFile(wintypes.HANDLE(%d), b'x', 1, None, None)"
    assert child.ask(writing % handle) == 0
    assert (tmp_path / "renamed.txt").read_bytes() == b"The pelican.\r\nIt sleeps."


@on_windows
def test_a_file_that_is_not_there_is_the_parents_error(tmp_path: Path, child: Asked) -> None:
    with pytest.raises(FileNotFoundError):
        child.process.hand_over(tmp_path / "gone.txt")
    assert child.process.poll() is None


@on_windows
def test_its_end_is_waited_for_and_forced(child: Asked) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        child.process.wait(0.01)
    child.process.stdin.write(b"sys.exit(7)\n")
    child.process.stdin.flush()
    assert child.process.wait(SECONDS) == 7
    killed = Asked()
    killed.process.kill()
    assert killed.process.wait(SECONDS) == 1
    killed.close()


@on_windows
def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LockedDownProcess([str(tmp_path / "gone.exe")], {})


@pytest.mark.posix(reason="Windows has such processes")
def test_elsewhere_no_process_is_locked_down() -> None:
    assert can_lock_down() is False
    with pytest.raises(OSError, match="Windows"):
        LockedDownProcess([sys.executable], {})
    assert take_file(7) == 7
    give_up_opening()
    assert give_up_rights() is False


@on_windows
@pytest.mark.parametrize(("failing", "tokens_made"), [(5, 2), (7, 2), (8, 2), (11, 3), (13, 3)])
def test_no_token_stays_open_after_a_call_that_failed(
    monkeypatch: pytest.MonkeyPatch, failing: int, tokens_made: int
) -> None:
    calls: list[int] = []
    closed: list[int] = []

    def check_call(result: int) -> None:
        calls.append(result)
        if len(calls) == failing:
            raise OSError("refused")

    monkeypatch.setattr(tokens, "check_call", check_call)
    monkeypatch.setattr(
        importlib.import_module("_winapi"),
        "CloseHandle",
        closed.append,
    )
    with pytest.raises(OSError, match="refused"):
        tokens.ReaderTokens()
    assert len(set(closed)) == tokens_made
