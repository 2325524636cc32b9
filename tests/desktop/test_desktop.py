"""What the command says where no window can be opened, the page, and the shortcuts."""

from __future__ import annotations

import importlib.util
import os
import plistlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import environment

from bmembed_tui import desktop
from bmembed_tui.window import clipboard, shortcut
from bmembed_tui.window import page as pages
from engine.errors import EngineError

HAS_TERMINAL = importlib.util.find_spec("textual_serve") is not None
needs_terminal = pytest.mark.skipif(not HAS_TERMINAL, reason="textual-serve is not installed")


def command(*arguments: str, module: str = "bmembed_tui.desktop", **changes: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in environment().items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False, timeout=60,
        env={**variables, **changes},
    )  # fmt: skip


def give_extra(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    real = importlib.util.find_spec
    found = real("json")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: (
            None if name in missing else found if name in ("webview", "textual_serve") else real(name, *rest)
        ),
    )


@pytest.mark.parametrize("way", ["bmembed_tui.desktop", "bmembed_tui"])
def test_without_the_extra_or_a_display_one_line_says_so(way: str) -> None:
    done = command(*(["--window"] if way == "bmembed_tui" else []), module=way)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Error: A window cannot be opened" in done.stderr
    assert "bmembed-tui" in done.stderr


@pytest.mark.parametrize(("missing", "package"), [("webview", "pywebview"), ("textual_serve", "textual-serve")])
def test_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str, package: str) -> None:
    give_extra(monkeypatch, missing)
    with pytest.raises(EngineError, match=rf"{package} is not installed. Install bmembed-tui\[desktop\]"):
        desktop.open_window(None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays are named so on Linux alone")
@pytest.mark.parametrize("display", ["", ":4711", "unix:4711.0"])
def test_a_display_that_is_not_there(monkeypatch: pytest.MonkeyPatch, display: str) -> None:
    give_extra(monkeypatch)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    with pytest.raises(EngineError, match="display"):
        desktop.open_window(None)


def test_displays_that_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "X7").touch()
    monkeypatch.setattr(desktop, "SOCKETS", tmp_path)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for display in (":7", ":7.0", "unix:7", "elsewhere:10.0"):
        monkeypatch.setenv("DISPLAY", display)
        desktop._check_display()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    desktop._check_display()


@needs_terminal
def test_the_page_loads_and_sends_nothing() -> None:
    page = pages.page()
    text = page.html
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["frame-src"] == rules["form-action"] == "'none'"
    (nonce,) = re.findall(r"<script nonce=\"([^\"]+)\">", text)
    assert rules["script-src"] == f"'nonce-{nonce}' 'unsafe-eval'"
    assert nonce not in pages.page().html
    outside = text.split("<script", 1)[0]
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!\s*[\"']?data:)", outside)
    assert "new WebSocket" not in page.script
    assert "loadAddon(this.weblinksAddon)" not in page.script
    assert len(re.findall(r"<script", text)) == 1
    assert len(text) < 20_000  # a web view takes the page as an address, every letter escaped
    assert not re.search(r"@(?:policy|nonce|style|bridge)@", text)


@needs_terminal
def test_an_unknown_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_HANDLE", "no such code")
    with pytest.raises(EngineError, match="terminal cannot be shown"):
        pages.page()


@pytest.mark.parametrize(("platform", "encoding"), [("darwin", "utf-8"), ("win32", "utf-16")])
def test_the_clipboards_of_other_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, encoding: str
) -> None:
    keep = ["sh", "-c", 'cat > "$0"', str(tmp_path / "clipboard")]
    monkeypatch.setitem(clipboard.PROGRAMS, platform, (keep, encoding))
    clipboard.copier(platform)("Übergröße 東京")
    assert (tmp_path / "clipboard").read_bytes().decode(encoding) == "Übergröße 東京"
    monkeypatch.setitem(clipboard.PROGRAMS, platform, (["no-such-program"], encoding))
    clipboard.copier(platform)("lost without harm")


def test_a_shortcut_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(shortcut, "COMMAND", ("/opt/my python/bin/python", "-m", "bmembed_tui.desktop", 'a"$b\\'))
    entry, *icons = shortcut.install("linux", tmp_path)
    assert entry == tmp_path / ".local/share/applications/bmembed.desktop"
    text = entry.read_text("utf-8")
    assert r'Exec="/opt/my python/bin/python" -m bmembed_tui.desktop "a\\"\\$b\\\\"' in text.splitlines()
    assert "Icon=bmembed" in text
    assert all(icon.stat().st_size > 0 for icon in icons)
    assert {icon.suffix for icon in icons} == {".png", ".svg"}


def test_the_shortcut_runs_what_it_says(tmp_path: Path) -> None:
    done = command("--install-shortcut", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    entry = Path(done.stdout.splitlines()[0])
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


def test_a_shortcut_on_windows_puts_no_path_into_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPDATA", raising=False)
    ran: list[tuple[list[str], dict[str, str]]] = []
    (link,) = shortcut.install("win32", tmp_path / "it's; a user", lambda *call: ran.append(call))
    ((arguments, values),) = ran
    assert link.parent.is_dir()
    assert values["BMEMBED_LINK"] == str(link)
    assert values["BMEMBED_ARGUMENTS"] == "-P -m bmembed_tui.desktop"
    assert Path(values["BMEMBED_ICON"]).read_bytes()[:4] == b"\0\0\1\0"
    assert not [part for part in arguments if "it's" in part]


def test_a_shortcut_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (tmp_path / ".local").write_text("a file")
    with pytest.raises(EngineError, match="shortcut could not be made"):
        shortcut.install("linux", tmp_path)
