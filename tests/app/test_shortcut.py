"""The shortcuts of two systems: what is written, and that it starts the window."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, notifications
from fixtures.pipeline import environment
from textual.pilot import Pilot

from bmembed_tui import shortcut
from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.palette import Commands
from engine import __version__
from engine.core.assets import asset_path
from engine.core.errors import EngineError


@pytest.mark.posix(reason="a desktop entry names paths as POSIX")
def test_a_shortcut_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    command = ("/opt/my python/bin/python", "-m", "bmembed_tui.window.desktop", 'a"$b\\')
    entry, *icons = shortcut.install_shortcut("linux", tmp_path, command)
    assert entry == tmp_path / ".local/share/applications/bmembed.desktop"
    text = entry.read_text("utf-8")
    assert (
        r'Exec="/opt/my python/bin/python" -m bmembed_tui.window.desktop "a\\"\\$b\\\\"'
        in text.splitlines()
    )
    assert "Icon=bmembed" in text
    assert all(icon.stat().st_size > 0 for icon in icons)
    assert {icon.suffix for icon in icons} == {".png", ".svg"}


@pytest.mark.posix(reason="a desktop entry quotes as a POSIX shell")
def test_the_shortcut_starts_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    entry, *_ = shortcut.install_shortcut("linux", tmp_path / "home")
    assert not (tmp_path / "home").exists()
    (line,) = re.findall(r"(?m)^Exec=(.*)$", entry.read_text("utf-8"))
    printed = subprocess.run(
        [*shlex.split(line), "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    ).stdout
    assert printed.startswith("bmembed-desktop ")


@pytest.mark.posix(reason="an application of macOS is a shell script")
def test_a_shortcut_on_macos(tmp_path: Path) -> None:
    plist, program, icon = shortcut.install_shortcut("macos", tmp_path)
    facts = plistlib.loads(plist.read_bytes())
    assert (
        program
        == tmp_path
        / "Applications"
        / "bmembed.app"
        / "Contents"
        / "MacOS"
        / facts["CFBundleExecutable"]
    )
    assert os.access(program, os.X_OK)
    assert icon.read_bytes()[:4] == b"icns"
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout.startswith("bmembed-desktop ")


@pytest.mark.posix(reason="its stand-in for PowerShell is a shell script")
def test_a_shortcut_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for PowerShell keeps what it is given."""
    assert shortcut.POWERSHELL.endswith(r"\System32\WindowsPowerShell\v1.0\powershell.exe")
    stand_in = tmp_path / "powershell"
    stand_in.write_text(f'#!/bin/sh\nenv > "{tmp_path}/given"\n')
    stand_in.chmod(0o755)
    monkeypatch.setattr(
        shortcut,
        "POWERSHELL",
        str(stand_in),
    )
    monkeypatch.setenv("APPDATA", str(tmp_path / "Roaming"))
    command = ("/opt/my python/python.exe", "-P", "-m", "bmembed_tui.window.desktop")
    (link,) = shortcut.install_shortcut("windows", tmp_path, command)
    assert link == tmp_path / "Roaming/Microsoft/Windows/Start Menu/Programs/bmembed.lnk"
    assert link.parent.is_dir()
    given = dict(line.split("=", 1) for line in (tmp_path / "given").read_text().splitlines())
    assert given["BMEMBED_LINK"] == str(link)
    assert given["BMEMBED_PROGRAM"] == "/opt/my python/pythonw.exe"
    assert given["BMEMBED_ARGUMENTS"] == "-X utf8 -P -m bmembed_tui.window.desktop"


def test_what_macos_wants_to_know_of_an_application(tmp_path: Path) -> None:
    facts = plistlib.loads(shortcut.install_shortcut("macos", tmp_path)[0].read_bytes())
    assert facts["CFBundlePackageType"] == "APPL"
    assert re.fullmatch(r"[A-Za-z0-9.-]+", facts["CFBundleIdentifier"])
    assert facts["CFBundleShortVersionString"] == __version__
    assert re.fullmatch(r"\d+(\.\d+){0,2}", facts["CFBundleVersion"])
    assert facts["LSArchitecturePriority"][0] == "arm64"
    contents = tmp_path / "Applications" / "bmembed.app" / "Contents"
    assert (contents / "Resources" / f"{facts['CFBundleIconFile']}.icns").is_file()
    assert sorted(path.name for path in contents.iterdir()) == ["Info.plist", "MacOS", "Resources"]


def test_the_icons_are_pictures_of_every_size_that_systems_show() -> None:
    from PIL import Image

    folder = asset_path("desktop")
    with Image.open(folder / "bmembed.icns") as icon:
        assert {(width * scale) for width, _, scale in icon.info["sizes"]} == {
            32,
            64,
            128,
            256,
            512,
            1024,
        }
    with Image.open(folder / "bmembed.png") as icon:
        assert (icon.size, icon.mode) == ((256, 256), "RGBA")
    for name in ("bmembed.icns", "bmembed.png"):
        with Image.open(folder / name) as icon:
            assert len(icon.convert("RGB").getcolors(2**20)) > 10, name  # a picture, not a blank


@pytest.mark.skipif(
    shutil.which("desktop-file-validate") is None, reason="desktop-file-validate is not installed"
)
def test_the_desktop_entry_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    command = ("/opt/my python/bin/python", "-m", "bmembed_tui.window.desktop")
    entry, *_ = shortcut.install_shortcut("linux", tmp_path, command)
    for file in (entry, asset_path("desktop") / "bmembed.desktop"):
        done = subprocess.run(
            ["desktop-file-validate", str(file)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "")


def test_a_shortcut_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (tmp_path / ".local").write_text("a file")
    with pytest.raises(EngineError) as caught:
        shortcut.install_shortcut("linux", tmp_path)
    assert caught.value.code == "write-failed"


@pytest.mark.posix(reason="PowerShell makes it on Windows")
@pytest.mark.parametrize("has_extra", [True, False])
def test_the_app_offers_the_shortcut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_extra: bool
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    missing = [] if has_extra else ["pywebview"]
    monkeypatch.setattr(
        shortcut,
        "missing_packages",
        lambda _extra: [*missing],
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    entry = tmp_path / "applications" / "bmembed.desktop"

    async def story(pilot: Pilot[Any]) -> None:
        offers = Commands(pilot.app.screen).list_offers()
        (call,) = [offer.call for offer in offers if "install_shortcut" in repr(offer.call)]
        notices = notifications(pilot.app)
        await call()
        if has_extra:
            assert entry.is_file()
            assert len(notices) == 1
            assert str(entry) in notices[0]
        else:
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert pilot.app.screen.error.code == "window-unavailable"
            assert not entry.exists()

    drive(story)
