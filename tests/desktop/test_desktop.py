"""What the command says where no window can be opened, and the page."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import environment

from bmembed_tui import desktop
from bmembed_tui.window import clipboard, notice
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


def test_a_shortcut_is_made_only_where_a_window_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    give_extra(monkeypatch, "webview")
    with pytest.raises(SystemExit) as left:
        desktop.main(["--install-shortcut"])
    assert left.value.code == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_stream", [True, False])
def test_what_went_wrong_is_shown_where_nobody_reads_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_stream: bool
) -> None:
    """A click in a menu: no terminal, and on Windows no standard error at all."""
    keep = ["sh", "-c", 'printf %s "$0" > told', "--"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(notice.PROGRAMS, sys.platform, keep[:-1])
    monkeypatch.setattr(sys, "stderr", io.StringIO() if has_stream else None)
    give_extra(monkeypatch, "textual_serve")
    with pytest.raises(SystemExit):
        desktop.main([])
    assert "textual-serve is not installed" in (tmp_path / "told").read_text()


def test_no_notification_is_no_second_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(notice.PROGRAMS, "linux", ["no-such-program"])
    notice.show("text", "linux")
    notice.show("text", "plan9")


REFUSED = '''
import json, socket, subprocess, sys, threading
from bmembed_tui.window.no_network import refuse_network
CODE = """
import socket
for kind in (socket.AF_INET, socket.AF_INET6):
    try: socket.socket(kind)
    except OSError as error: print(error.errno)
"""
held, own = refuse_network(), []
def ask():
    try: socket.socket()
    except OSError as error: own.append(error.errno)
thread = threading.Thread(target=ask)
thread.start()
thread.join()
inside = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True).stdout.split()
socket.socketpair()
socket.socket(socket.AF_UNIX)
print(json.dumps([held, own, inside]))
'''


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's refusal is Linux's")
def test_the_kernel_refuses_the_network_to_the_window_and_its_programs() -> None:
    told = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True, env=environment()
    )
    held, own, inside = json.loads(told.stdout)
    if not held:
        pytest.skip("this kernel or processor has no such filter")
    assert (own, inside) == ([97], ["97", "97"])  # EAFNOSUPPORT


@pytest.mark.parametrize(
    ("display", "wayland", "here"),
    [
        (":1", "", True),
        ("unix:0", "", True),
        ("localhost:10.0", "", False),
        ("box:0", "", False),
        ("", "wayland-0", True),
    ],
)
def test_a_display_that_is_reached_through_the_network_is_known(
    monkeypatch: pytest.MonkeyPatch, display: str, wayland: str, here: bool
) -> None:
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setenv("WAYLAND_DISPLAY", wayland)
    assert desktop._display_is_here() is here
