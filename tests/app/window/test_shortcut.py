"""The shortcuts of three systems: what is written, and that it starts the window."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import struct
import subprocess
from pathlib import Path, PureWindowsPath
from typing import Any
from uuid import UUID

import pytest
from fixtures.pipeline import environment

from bmembed_tui.window import shortcut
from bmembed_tui.window.shell_link import shell_link
from engine import __version__
from engine.core.assets import asset_path
from engine.core.errors import EngineError

TARGET = r"C:\Users\Zoë Ångström\my python\pythonw.exe"


def test_a_shortcut_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(
        shortcut, "COMMAND", ("/opt/my python/bin/python", "-m", "bmembed_tui.window.desktop", 'a"$b\\')
    )
    entry, *icons = shortcut.install("linux", tmp_path)
    assert entry == tmp_path / ".local/share/applications/bmembed.desktop"
    text = entry.read_text("utf-8")
    assert r'Exec="/opt/my python/bin/python" -m bmembed_tui.window.desktop "a\\"\\$b\\\\"' in text.splitlines()
    assert "Icon=bmembed" in text
    assert all(icon.stat().st_size > 0 for icon in icons)
    assert {icon.suffix for icon in icons} == {".png", ".svg"}


def test_the_shortcut_runs_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    entry, *_ = shortcut.install("linux", tmp_path / "home")
    assert not (tmp_path / "home").exists()
    (line,) = re.findall(r"(?m)^Exec=(.*)$", entry.read_text("utf-8"))
    told = subprocess.run(
        [*shlex.split(line), "--version"], capture_output=True, text=True, check=True, env=environment()
    ).stdout
    assert told.startswith("bmembed-desktop ")


def test_a_shortcut_on_macos(tmp_path: Path) -> None:
    plist, program, icon = shortcut.install("darwin", tmp_path)
    facts = plistlib.loads(plist.read_bytes())
    assert program == tmp_path / "Applications" / "bmembed.app" / "Contents" / "MacOS" / facts["CFBundleExecutable"]
    assert os.access(program, os.X_OK)
    assert icon.read_bytes()[:4] == b"icns"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.startswith("bmembed-desktop ")


def test_what_macos_wants_to_know_of_an_application(tmp_path: Path) -> None:
    facts = plistlib.loads(shortcut.install("darwin", tmp_path)[0].read_bytes())
    assert facts["CFBundlePackageType"] == "APPL"
    assert re.fullmatch(r"[A-Za-z0-9.-]+", facts["CFBundleIdentifier"])
    assert facts["CFBundleShortVersionString"] == __version__
    assert re.fullmatch(r"\d+(\.\d+){0,2}", facts["CFBundleVersion"])
    assert facts["LSArchitecturePriority"][0] == "arm64"
    contents = tmp_path / "Applications" / "bmembed.app" / "Contents"
    assert (contents / "Resources" / f"{facts['CFBundleIconFile']}.icns").is_file()
    assert sorted(path.name for path in contents.iterdir()) == ["Info.plist", "MacOS", "Resources"]


def read_link(data: bytes) -> dict[str, Any]:
    """A .lnk file as [MS-SHLLINK] says that one is read: header, link info, strings, extra data."""
    size, kind, flags, attributes = struct.unpack_from("<I16sII", data)
    assert (size, UUID(bytes_le=kind)) == (0x4C, UUID("00021401-0000-0000-C000-000000000046"))
    assert not flags & 0x1  # no list of item ids
    icon_index, show = struct.unpack_from("<iI", data, 56)
    assert data[66:76] == bytes(10)  # reserved
    found: dict[str, Any] = {"attributes": attributes, "icon_index": icon_index, "show": show}
    place = 0x4C
    if flags & 0x2:
        found |= _read_info(data[place:])
        place += struct.unpack_from("<I", data, place)[0]
    for bit, name in enumerate(("name", "relative", "folder", "arguments", "icon"), 2):
        if flags & 1 << bit:
            (count,) = struct.unpack_from("<H", data, place)
            found[name] = data[place + 2 : place + 2 + 2 * count].decode("utf-16-le")
            place += 2 + 2 * count
    while (length := struct.unpack_from("<I", data, place)[0]) >= 4:
        (signature,) = struct.unpack_from("<I", data, place + 4)
        assert (signature, length, flags & 0x200) == (0xA0000001, 0x314, 0x200)
        found["narrow"] = data[place + 8 : place + 268].split(b"\0", 1)[0].decode("ascii")
        wide = data[place + 268 : place + length].decode("utf-16-le")
        found["environment"], rest = wide.split("\0", 1)
        assert not rest.strip("\0")
        place += length
    assert place + 4 == len(data)
    return found


def _read_info(data: bytes) -> dict[str, Any]:
    size, head, flags, volume, narrow, network, suffix, wide, wide_suffix = struct.unpack_from("<9I", data)
    assert (head, flags, network) == (0x24, 1, 0)
    volume_size, kind, _serial, label = struct.unpack_from("<4I", data, volume)
    assert (kind, data[volume + label]) == (3, 0)
    assert volume + volume_size <= narrow < suffix < wide < wide_suffix < size
    assert wide % 2 == 0
    assert data[suffix] == 0
    assert data[wide_suffix:size] == b"\0\0"
    assert data[narrow:suffix].endswith(b"\0")
    return {"path": data[wide : wide_suffix - 2].decode("utf-16-le")}


@pytest.mark.parametrize("extra", ["", "x"])  # wide letters begin at an even place for either
def test_a_link_of_windows_says_what_it_was_made_of(extra: str) -> None:
    target, arguments = TARGET + extra, '-P -m bmembed_tui.window.desktop "a b"'
    found = read_link(shell_link(target, arguments, r"C:\icons\b.ico", "what it is"))
    assert found == {
        "attributes": 0x80, "icon_index": 0, "show": 1, "path": target, "environment": target, "arguments": arguments,
        "icon": r"C:\icons\b.ico", "name": "what it is", "narrow": target.replace("ë", "?").replace("Å", "?").replace("ö", "?"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("target", "told_by"),
    [
        (r"\\server\share\python.exe", {"environment"}),
        (r"C:\100%done%\python.exe", {"path"}),  # a variable's name there would be taken for its value
        ("C:\\" + "long\\" * 60 + "python.exe", {"path"}),
    ],
)
def test_targets_that_fit_one_place_alone(target: str, told_by: set[str]) -> None:
    found = read_link(shell_link(target, "-m x", "i.ico", "d"))
    assert {name: found[name] for name in ("path", "environment") if name in found} == dict.fromkeys(told_by, target)


def test_a_shortcut_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPDATA", raising=False)
    monkeypatch.setattr(
        shortcut, "COMMAND", (TARGET.replace("w.exe", ".exe"), "-P", "-m", "bmembed_tui.window.desktop")
    )
    link, icon = shortcut.install("win32", tmp_path / "it's; a user")
    assert link.parent.parts[-5:] == ("Roaming", "Microsoft", "Windows", "Start Menu", "Programs")
    found = read_link(link.read_bytes())
    assert found["environment"] == TARGET.replace("w.exe", ".exe")
    assert found["arguments"] == "-P -m bmembed_tui.window.desktop"
    assert found["icon"] == str(icon)
    assert icon.read_bytes() == (asset_path("desktop") / "bmembed.ico").read_bytes()
    (tmp_path / "pythonw.exe").touch()  # a program without a console, where there is one
    monkeypatch.setattr(shortcut, "COMMAND", (str(tmp_path / "python.exe"), "-m", "bmembed_tui.window.desktop"))
    link, _ = shortcut.install("win32", tmp_path / "it's; a user")
    assert PureWindowsPath(read_link(link.read_bytes())["environment"]).name == "pythonw.exe"


def test_the_icons_are_pictures_of_every_size_that_systems_show() -> None:
    from PIL import Image

    folder = asset_path("desktop")
    with Image.open(folder / "bmembed.ico") as icon:
        assert icon.info["sizes"] == {(16, 16), (32, 32), (48, 48), (256, 256)}
    with Image.open(folder / "bmembed.icns") as icon:
        assert {(width * scale) for width, _, scale in icon.info["sizes"]} == {32, 64, 128, 256, 512, 1024}
    with Image.open(folder / "bmembed.png") as icon:
        assert (icon.size, icon.mode) == ((256, 256), "RGBA")
    for name in ("bmembed.ico", "bmembed.icns", "bmembed.png"):
        with Image.open(folder / name) as icon:
            assert len(icon.convert("RGB").getcolors(2**20)) > 10, name  # a picture, not a blank


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="desktop-file-validate is not installed")
def test_the_desktop_entry_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(shortcut, "COMMAND", ("/opt/my python/bin/python", "-m", "bmembed_tui.window.desktop"))
    entry, *_ = shortcut.install("linux", tmp_path)
    for file in (entry, asset_path("desktop") / "bmembed.desktop"):
        done = subprocess.run(["desktop-file-validate", str(file)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")


def test_a_shortcut_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (tmp_path / ".local").write_text("a file")
    with pytest.raises(EngineError) as caught:
        shortcut.install("linux", tmp_path)
    assert caught.value.code == "write-failed"
