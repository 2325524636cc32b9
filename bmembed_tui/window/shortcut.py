"""The window among the system's applications, for this user alone."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import EngineError
from engine.project import desktop_files

NAME = "bmembed"
COMMAND = (sys.executable, "-P", "-m", "bmembed_tui.desktop")
_SHELL_LINK = (
    "$link = (New-Object -ComObject WScript.Shell).CreateShortcut($env:BMEMBED_LINK); "
    "$link.TargetPath = $env:BMEMBED_TARGET; $link.Arguments = $env:BMEMBED_ARGUMENTS; "
    "$link.IconLocation = $env:BMEMBED_ICON; $link.Save()"
)
Run = Callable[[list[str], dict[str, str]], None]


def install(platform: str = sys.platform, home: Path | None = None, run: Run | None = None) -> list[Path]:
    """Write the shortcut and its icon; returns the files. Raises EngineError where they cannot be written."""
    place = home or Path.home()
    try:
        if platform == "darwin":
            return _on_macos(place)
        if platform == "win32":
            return _on_windows(place, run or _run)
        return _on_linux(place)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError("The shortcut could not be made.", f"{error}.", "Check the folder's permissions.") from error


def _on_linux(home: Path) -> list[Path]:
    """freedesktop.org's places: applications/ and icons/hicolor/ of the user's data folder."""
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    icons = data / "icons" / "hicolor"
    copies = {
        icons / "scalable" / "apps" / f"{NAME}.svg": desktop_files() / "bmembed.svg",
        icons / "256x256" / "apps" / f"{NAME}.png": desktop_files() / "bmembed.png",
    }
    for target, source in copies.items():
        _copy(source, target)
    entry = data / "applications" / f"{NAME}.desktop"
    text = (desktop_files() / "bmembed.desktop").read_text(encoding="utf-8")
    command = " ".join(_quoted(part) for part in COMMAND)
    _write(entry, re.sub(r"(?m)^Exec=.*$", lambda _found: f"Exec={command}", text))
    return [entry, *copies]


def _quoted(part: str) -> str:
    """An argument as the desktop entry specification wants it: quoted, then the string's own escapes."""
    inner = re.sub(r'(["`$\\])', r"\\\1", part).replace("%", "%%")
    return f'"{inner}"'.replace("\\", "\\\\") if re.search(r'[\s"\'\\><~|&;$*?#()`%]', part) else part


def _on_macos(home: Path) -> list[Path]:
    """An application folder that runs our command."""
    bundle = home / "Applications" / f"{NAME}.app" / "Contents"
    program, plist, icon = bundle / "MacOS" / NAME, bundle / "Info.plist", bundle / "Resources" / f"{NAME}.icns"
    _write(program, f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    facts = {
        "CFBundleName": NAME, "CFBundleExecutable": NAME, "CFBundleIconFile": NAME, "CFBundlePackageType": "APPL",
        "CFBundleIdentifier": f"org.{NAME}.desktop", "NSHighResolutionCapable": True,
    }  # fmt: skip
    plist.write_bytes(plistlib.dumps(facts))
    _copy(desktop_files() / "bmembed.icns", icon)
    return [plist, program, icon]


def _on_windows(home: Path, run: Run) -> list[Path]:
    """A link in the start menu. What it is made of goes through the environment, so that no shell reads it."""
    roaming = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    link = roaming / "Microsoft" / "Windows" / "Start Menu" / "Programs" / f"{NAME}.lnk"
    link.parent.mkdir(parents=True, exist_ok=True)
    windowed = Path(COMMAND[0]).with_name("pythonw.exe")
    values = {
        "BMEMBED_LINK": str(link),
        "BMEMBED_TARGET": str(windowed if windowed.exists() else COMMAND[0]),
        "BMEMBED_ARGUMENTS": subprocess.list2cmdline(COMMAND[1:]),
        "BMEMBED_ICON": str(desktop_files() / "bmembed.ico"),
    }
    run(["powershell", "-NoProfile", "-NonInteractive", "-Command", _SHELL_LINK], values)
    return [link]


def _run(command: list[str], values: dict[str, str]) -> None:
    subprocess.run(command, env={**os.environ, **values}, check=True, capture_output=True, timeout=60)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
