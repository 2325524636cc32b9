"""Sockets are refused and seen, in children too; files are opened as asked, and listed."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from engine.core.errors import ResourceError
from engine.doctor.watched import WatchedProgram, run_watched

ROOT = Path(__file__).parents[2]
CHILD = "import socket; socket.socket(socket.AF_UNIX)"


def watched(code: str, folder: Path) -> WatchedProgram:
    try:
        return run_watched(
            [sys.executable, "-c", f"import os; os.chdir({str(folder)!r})\n{code}"], os.environ
        )
    except ResourceError:
        pytest.skip("this kernel refuses the filter")


def test_sockets_of_every_family_are_refused_and_seen(tmp_path: Path) -> None:
    found = watched(
        f"""
import socket, subprocess, sys
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    try:
        socket.socket(family)
    except PermissionError:
        print("refused")
code = subprocess.run([sys.executable, "-c", {CHILD!r}], stderr=subprocess.DEVNULL).returncode
a, b = socket.socketpair()
a.send(b"pair"); print(b.recv(4), code)
sys.exit(7)
""",
        tmp_path,
    )
    assert [one.family for one in found.sockets] == ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"]
    assert CHILD in found.sockets[3].process
    assert found.output.splitlines() == ["refused"] * 3 + ["b'pair' 1"]
    assert found.exit_code == 7


def test_a_raw_system_call_is_seen_as_well(tmp_path: Path) -> None:
    """A ring of io_uring could make sockets that no filter sees."""
    found = watched("import ctypes; print(ctypes.CDLL(None).syscall(425, 1, 0))", tmp_path)
    assert (found.output.strip(), [one.family for one in found.sockets]) == ("-1", ["io_uring"])


def test_onnx_runtime_sends_no_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is told not to, importing it makes a number for the device and a file of events
    to send.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    found = watched(
        "from engine.core.environment import prepare; prepare(); import onnxruntime", ROOT
    )
    assert (found.exit_code, found.sockets) == (0, [])
    assert not [path for path in found.written if path.startswith(str(tmp_path))]


def test_files_are_listed_by_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("read", "by folder", "untouched"):
        (tmp_path / "inner" / name).write_text("The pelican.")
    found = watched(
        """
open("inner/read"); open("inner/../new", "w"); open("inner/old", "a")
folder = os.open("inner", os.O_RDONLY)
os.open("by folder", os.O_RDONLY, dir_fd=folder)
try:
    open("inner/missing")
except FileNotFoundError:
    pass
""",
        tmp_path,
    )
    assert (found.exit_code, found.output, found.sockets) == (0, "", [])
    assert {path for path in found.read if path.startswith(str(tmp_path))} == {
        str(tmp_path / "inner" / name) for name in ("read", "by folder")
    }
    assert {path for path in found.written if path.startswith(str(tmp_path))} == {
        str(tmp_path / "new"),
        str(tmp_path / "inner/old"),
    }


def test_files_are_listed_whatever_call_names_them(tmp_path: Path) -> None:
    for name in ("cut", "moved", "moved at", "read", "updated"):
        (tmp_path / name).write_text("The pelican.")
    found = watched(
        """
import ctypes, platform, struct
call = ctypes.CDLL(None).syscall
for name, flags in (("read", os.O_RDONLY), ("updated", os.O_RDWR), ("made", os.O_WRONLY | os.O_CREAT)):
    how = struct.pack("QQQ", flags, 0o600 if flags & os.O_CREAT else 0, 0)
    assert call(437, -100, name.encode(), how, len(how)) > 0
os.truncate("cut", 3)
os.rename("moved", "new name")
os.rename("moved at", "newer name", src_dir_fd=os.open(".", os.O_RDONLY), dst_dir_fd=os.open(".", os.O_RDONLY))
if platform.machine() == "x86_64":
    assert call(85, b"made too", 0o600) > 0
os.execve(os.open(os.path.realpath("/bin/true"), os.O_PATH), ["true"], {})
""",  # noqa: E501
        tmp_path,
    )
    assert (found.exit_code, found.output) == (0, "")
    if platform.machine() == "x86_64":
        made = {"made too"}
    else:
        made = set()
    written = {Path(path).name for path in found.written if path.startswith(str(tmp_path))}
    assert written == {"updated", "made", "cut", "new name", "newer name"} | made
    assert {Path(path).name for path in found.read if path.startswith(str(tmp_path))} == {"read"}
    assert os.path.realpath("/bin/true") in found.read


def test_a_process_that_goes_on_alone_is_watched_to_its_end(tmp_path: Path) -> None:
    late = "import time, socket; time.sleep(1); socket.socket()"
    found = watched(
        f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {late!r}], stderr=subprocess.DEVNULL, start_new_session=True)
""",  # noqa: E501
        tmp_path,
    )
    assert [one.family for one in found.sockets] == ["AF_INET"]
