"""Children: how they ended, how they are asked to stop, and what bounds them."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from engine.core.platforms import processes
from engine.core.platforms.jobs import pack_limits
from engine.core.platforms.locks import is_held
from engine.core.platforms.pipes import PipeReader, has_lost_reader
from engine.core.platforms.processes import (
    describe_exit_code,
    find_program,
    is_alive,
    own_session,
    peak_memory,
    quote_argument,
)
from engine.core.platforms.stopping import STOP_LINE, ask_to_stop

CHILD = """
import sys, threading
from engine.core.platforms.stopping import obey_parent, take_input
stopping = threading.Event()
obey_parent(take_input(buffered=False), stopping, float(sys.argv[1]))
print("ready", flush=True)
stopping.wait(60)
if float(sys.argv[1]) < 1:
    threading.Event().wait(60)
print("stopping", flush=True)
"""


def start_child(orphan_seconds: float = 60.0) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(orphan_seconds),
    ]
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        **own_session(),
    )


def test_exit_codes_are_named() -> None:
    assert describe_exit_code(3) == "exit code 3"
    assert describe_exit_code(0xC0000005) == "access violation, 0xC0000005"


@pytest.mark.parametrize(
    ("text", "posix", "windows"),
    [
        ("handbook", "handbook", "handbook"),
        (r"C:\Users\ada\quay", r"'C:\Users\ada\quay'", r"C:\Users\ada\quay"),
        ("my handbook", "'my handbook'", '"my handbook"'),
        ("D:\\my quay\\", "'D:\\my quay\\'", '"D:\\my quay\\\\"'),
        ("a&b", "'a&b'", '"a&b"'),
        ('a\\"b"', "'a\\\"b\"'", '"a\\\\\\"b\\""'),
        ("", "''", '""'),
    ],
)
def test_arguments_are_quoted_for_the_shell_of_the_system(
    text: str, posix: str, windows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        processes,
        "sys",
        SimpleNamespace(platform="linux"),
    )
    assert quote_argument(text) == posix
    monkeypatch.setattr(
        processes,
        "sys",
        SimpleNamespace(platform="win32"),
    )
    assert quote_argument(text) == windows


@pytest.mark.parametrize("path", ["", ".", "relative"])
def test_a_program_in_the_working_directory_is_not_found(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents from somebody else may lie there, and a program among them."""
    programs = tmp_path / "programs"
    for folder in (tmp_path, tmp_path / "relative", programs):
        folder.mkdir(exist_ok=True)
        (folder / "tesseract.exe").touch()
    monkeypatch.setattr(
        processes,
        "sys",
        SimpleNamespace(platform="win32"),
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert find_program("tesseract") is None
    monkeypatch.setenv("PATH", os.pathsep.join([path, str(programs)]))
    assert find_program("tesseract") == str(programs / "tesseract.exe")


def test_our_processes_look_for_programs_on_the_path_alone() -> None:
    code = (
        "import os; from engine.core.environment import ONLY_ON_PATH, prepare_process;"
        "prepare_process(); print(os.environ[ONLY_ON_PATH])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
    )
    assert completed.stdout.strip() == b"1"


def test_limits_of_a_job_lie_where_windows_looks_for_them() -> None:
    limits = pack_limits(2**31, 1)
    assert len(limits) == 144
    assert struct.unpack_from("I", limits, 16)[0] == 0x8 | 0x100 | 0x400 | 0x2000
    assert struct.unpack_from("I", limits, 40)[0] == 1
    assert struct.unpack_from("Q", limits, 112)[0] == 2**31


@pytest.mark.parametrize("by_line", [True, False])
def test_a_child_that_is_asked_to_stop_ends_by_itself(*, by_line: bool) -> None:
    """By the line, which is Windows' way and works everywhere, or as the system does it."""
    with start_child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"ready"
        if by_line:
            child.stdin.write(STOP_LINE)
            child.stdin.flush()
        else:
            ask_to_stop(child)
        assert child.stdout.readline().strip() == b"stopping"
        assert child.wait(60) == 0


def test_a_child_that_has_lost_its_parent_stops_at_a_safe_point() -> None:
    with start_child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"ready"
        child.stdin.close()
        assert child.stdout.readline().strip() == b"stopping"
        assert child.wait(60) == 0


def test_a_child_that_does_not_stop_ends_with_its_parents_pipe() -> None:
    with start_child(0.1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"ready"
        child.stdin.close()
        assert child.wait(60) == 1


def test_a_pipe_is_read_for_a_time_and_to_its_end() -> None:
    read_end, write_end = os.pipe()
    reader = PipeReader(os.fdopen(read_end, "rb", 0))
    assert reader.read(0.01) is None
    os.write(write_end, b"some")
    assert reader.read(60) == b"some"
    threading.Timer(0.05, os.close, (write_end,)).start()
    assert reader.read(60) == b""
    reader.close()


def test_a_lock_is_seen_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    assert not is_held(path)
    with FileLock(path):
        assert is_held(path)
    assert not is_held(path)


def test_this_process_lives_and_holds_memory() -> None:
    assert is_alive(os.getpid())
    assert 10**6 < peak_memory() < 10**12


@pytest.mark.parametrize(
    ("error", "elsewhere", "on_windows"),
    [
        (BrokenPipeError(errno.EPIPE, "broken"), True, True),
        (OSError(errno.EINVAL, "invalid"), False, True),
        (OSError(errno.EINVAL, "invalid", "a:b?"), False, False),
        (OSError(errno.ENOSPC, "full"), False, False),
        (None, False, False),
    ],
)
def test_who_has_lost_the_reader_of_a_pipe(
    error: OSError | None, elsewhere: bool, on_windows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for system, lost in (("linux", elsewhere), ("win32", on_windows)):
        monkeypatch.setattr(sys, "platform", system)
        assert has_lost_reader(error) == lost
