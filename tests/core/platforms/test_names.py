"""Names and paths, with Windows' ways taken on any system."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine.core.platforms import names


def test_the_url_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert names.file_url("/my docs", "a\udce9.md") == "file:///my%20docs/a%E9.md"
    monkeypatch.setattr(sys, "platform", "win32")
    assert names.file_url(r"C:\my docs", "a/é.md") == "file:///C:/my%20docs/a/%C3%A9.md"
    assert names.file_url(r"\\office\share\x", "a.pdf") == "file://office/share/x/a.pdf"


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("con", True),
        ("CON.txt", True),
        ("nul .md", True),
        ("COM1", True),
        ("lpt².pdf", True),
        ("CONIN$", True),
        ("conout$.log", True),
        ("plan.", True),
        ("plan ", True),
        ("com0", False),
        ("console.txt", False),
        ("a.con", False),
    ],
)
def test_names_that_windows_keeps_for_devices(name: str, *, reserved: bool) -> None:
    assert names.is_reserved(name) == reserved


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("C:\\docs/2031", "C:\\docs/2031"),
        (f"C:\\docs/{'a' * 250}/b.txt", f"\\\\?\\C:\\docs\\{'a' * 250}\\b.txt"),
        (f"\\\\nas\\share/{'a' * 250}", f"\\\\?\\UNC\\nas\\share\\{'a' * 250}"),
        (f"\\\\?\\C:\\{'a' * 250}", f"\\\\?\\C:\\{'a' * 250}"),
        ("C:\\docs/con.txt", "\\\\?\\C:\\docs\\con.txt"),
        ("\\\\nas\\share/Aux/plan.md", "\\\\?\\UNC\\nas\\share\\Aux\\plan.md"),
        ("C:\\docs/plan. /a.md", "\\\\?\\C:\\docs\\plan. \\a.md"),
        ("C:\\docs/plan.", "\\\\?\\C:\\docs\\plan."),
        ("C:\\docs/console.txt", "C:\\docs/console.txt"),
        ("C:\\docs/a.con", "C:\\docs/a.con"),
    ],
)
def test_paths_of_windows_that_need_their_long_form(
    monkeypatch: pytest.MonkeyPatch, path: str, reached: str
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert names.reachable_path(path) == reached


def test_long_paths_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert names.reachable_path(f"/docs/{'a' * 250}/b.txt") == f"/docs/{'a' * 250}/b.txt"


def test_all_paths_begin_at_the_root_or_at_a_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_partitions(all: bool = False) -> list[SimpleNamespace]:
        # Without `all`, psutil leaves out the drives of a network.
        letters = ("C:\\", "D:\\", "S:\\") if all else ("C:\\", "D:\\")
        return [SimpleNamespace(mountpoint=letter) for letter in letters]

    monkeypatch.setattr(psutil, "disk_partitions", list_partitions)
    monkeypatch.setattr(sys, "platform", "linux")
    assert names.list_system_roots() == [Path("/")]
    monkeypatch.setattr(sys, "platform", "win32")
    assert names.list_system_roots() == [Path("C:\\"), Path("D:\\"), Path("S:\\")]
