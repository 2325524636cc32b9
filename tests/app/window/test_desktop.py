"""What the command says where no window can be opened, and the page."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest
from fixtures.pipeline import environment
from fixtures.user_folders import STATE

from bmembed_tui.window import desktop, libraries, system
from bmembed_tui.window.page import build_page
from engine.core.errors import EngineError
from engine.core.platforms import SYSTEM

ROOT = Path(__file__).resolve().parents[3]
HAS_TERMINAL = importlib.util.find_spec("textual_serve") is not None
needs_terminal = pytest.mark.skipif(not HAS_TERMINAL, reason="textual-serve is not installed")


def command(
    *arguments: str, module: str = "bmembed_tui.window.desktop", **changes: str
) -> subprocess.CompletedProcess[str]:
    variables = {
        name: value
        for name, value in environment().items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY")
    }
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**variables, **changes},
    )


def give_extra(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    real = importlib.util.find_spec
    found = real("json")

    def find_spec(name: str, *rest: str) -> ModuleSpec | None:
        if name in missing:
            return None
        if name in ("webview", "textual_serve", "PySide6"):
            return found
        return real(name, *rest)

    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        find_spec,
    )


def assert_unavailable(*facts: str) -> None:
    """No window is opened, and the error names these."""
    with pytest.raises(EngineError) as caught:
        desktop.open_window(None)
    assert caught.value.code == "window-unavailable"
    assert all(fact in str(caught.value) for fact in facts)


@pytest.mark.parametrize("way", ["bmembed_tui.window.desktop", "bmembed_tui"])
def test_without_the_extra_or_a_display_the_error_is_one_line(way: str) -> None:
    done = command(*(["--window"] if way == "bmembed_tui" else []), module=way)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Error: ")
    assert "bmembed-tui" in done.stderr


@pytest.mark.parametrize(
    ("missing", "package"), [("webview", "pywebview"), ("textual_serve", "textual-serve")]
)
def test_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    package: str,
) -> None:
    give_extra(monkeypatch, missing)
    assert_unavailable(package, "-m pip install")


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="Qt is Linux's way to a window"
)


@linux
def test_without_qt_one_line_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    give_extra(monkeypatch, "PySide6")
    assert_unavailable("PySide6", "-m pip install")


@linux
def test_libraries_that_the_system_lacks_are_named_before_qt_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    give_extra(monkeypatch)
    (tmp_path / "X7").touch()
    monkeypatch.setattr(desktop, "X11_SOCKETS", tmp_path)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr(
        libraries, "FOR_PAGES", {"libc.so.6": "libc6", "libnotthere.so.3": "libnotthere3"}
    )
    monkeypatch.setattr(
        libraries,
        "FOR_X11",
        {"libneither.so.1": "libneither1"},
    )
    assert_unavailable("libnotthere.so.3, libneither.so.1", "libnotthere3 libneither1")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert libraries.find_missing_libraries() == {"libnotthere.so.3": "libnotthere3"}


@linux
@pytest.mark.skipif(importlib.util.find_spec("PySide6") is None, reason="PySide6 is not installed")
def test_all_that_qt_wants_of_the_system_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its files name as needed, beyond those that any Python process with a graphical
    library has.
    """
    (folder,) = importlib.util.find_spec("PySide6").submodule_search_locations  # type: ignore[union-attr]
    qt = Path(folder) / "Qt"
    todo = [
        qt / "plugins/platforms/libqxcb.so",
        qt / "lib/libQt6WebEngineCore.so.6",
        qt / "lib/libQt6WebEngineWidgets.so.6",
    ]
    seen = set[Path]()
    outside = set[str]()
    while todo:
        file = todo.pop()
        seen.add(file)
        for name in needed_by(file):
            own = qt / "lib" / name
            if not own.exists():
                outside.add(name)
            elif own not in seen:
                todo.append(own)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    usual = re.compile(
        r"(ld-linux.*|lib(c|m|dl|pthread|resolv|rt|gcc_s|stdc\+\+|z|zstd|expat|brotli\w+|freetype|udev|gthread-2\.0|gssapi_krb5"
        # those of NSS come with it, those of X11 with its others
        r"|nssutil3|smime3|X11|Xext|Xfixes|xcb|xcb-dri3))\.so.*"
    )
    assert {name for name in outside if not usual.fullmatch(name)} == set(
        libraries.list_needed_libraries()
    )


def needed_by(file: Path) -> list[str]:
    """DT_NEEDED of an ELF file of 64 bits, by its program headers."""
    data = memoryview(file.read_bytes())
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, at + size * number) for number in range(count)]
    loads = [
        (place, address, length) for kind, _, place, address, _, length, *_ in headers if kind == 1
    ]
    (dynamic,) = (
        data[place : place + length] for kind, _, place, _, _, length, *_ in headers if kind == 2
    )
    entries = [struct.unpack_from("<QQ", dynamic, step) for step in range(0, len(dynamic), 16)]
    entries = entries[: entries.index((0, 0))]
    (names,) = (value for tag, value in entries if tag == 5)
    (start,) = (
        names - address + place
        for place, address, length in loads
        if address <= names < address + length
    )
    wanted = [start + value for tag, value in entries if tag == 1]
    return [bytes(data[place : place + 200]).split(b"\0", 1)[0].decode() for place in wanted]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="displays are named so on Linux alone"
)
@pytest.mark.parametrize("display", ["", ":4711", "unix:4711.0"])
def test_a_display_that_is_not_there(monkeypatch: pytest.MonkeyPatch, display: str) -> None:
    give_extra(monkeypatch)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    assert_unavailable("display")


def test_displays_that_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "X7").touch()
    monkeypatch.setattr(desktop, "X11_SOCKETS", tmp_path)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for display in (":7", ":7.0", "unix:7", "elsewhere:10.0"):
        monkeypatch.setenv("DISPLAY", display)
        desktop.check_display()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    desktop.check_display()


HELD_UP = """
import threading
from bmembed_tui.window import desktop
def open_window(project):
    threading.Thread(target=threading.Event().wait).start()
    print("closed")
    return 7
desktop.open_window, desktop.check_extra = open_window, lambda: None
desktop.main([])
"""


def test_a_call_that_the_page_never_takes_an_answer_of_does_not_keep_the_process() -> None:
    """pywebview answers each call in a thread that Python waits for, and the page may be gone by
    then.
    """
    done = subprocess.run(
        [sys.executable, "-c", HELD_UP],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (7, "closed\n")


@needs_terminal
def test_the_page_loads_and_sends_nothing() -> None:
    page = build_page()
    text = page.html
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (
        rules["default-src"]
        == rules["connect-src"]
        == rules["frame-src"]
        == rules["form-action"]
        == "'none'"
    )
    (nonce,) = re.findall(r"<script nonce=\"([^\"]+)\">", text)
    assert rules["script-src"] == f"'nonce-{nonce}' 'unsafe-eval'"
    assert nonce not in build_page().html
    outside = text.split("<script", 1)[0]
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!\s*[\"']?data:)", outside)
    assert "new WebSocket" not in page.script
    assert "loadAddon(this.weblinksAddon)" not in page.script
    assert len(re.findall(r"<script", text)) == 1
    assert len(text) < 20_000  # a web view takes the page as an address, every letter escaped
    assert not re.search(r"@(?:policy|nonce|style|bridge)@", text)


@needs_terminal
def test_an_unknown_terminal_is_refused(tmp_path: Path) -> None:
    static = shutil.copytree(str(files("textual_serve") / "static"), tmp_path / "static")
    terminal = static / "js" / "textual.js"
    code = terminal.read_text("utf-8")
    terminal.write_text(code.replace("window.onresize=()=>{this.fit()}", "no such code"), "utf-8")
    with pytest.raises(EngineError) as caught:
        build_page(static)
    assert caught.value.code == "window-unavailable"


@pytest.mark.posix(reason="its stand-in for another program is a shell script")
def test_the_clipboard_of_another_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        system.COPIERS, "macos", ["sh", "-c", 'cat > "$0"', str(tmp_path / "clipboard")]
    )
    system.build_copier("macos")("Übergröße 東京")
    assert (tmp_path / "clipboard").read_text("utf-8") == "Übergröße 東京"
    monkeypatch.setitem(
        system.COPIERS,
        "macos",
        ["no-such-program"],
    )
    system.build_copier("macos")("lost without harm")


@pytest.mark.posix(reason="its stand-in for another program is a shell script")
def test_windows_gets_utf_16_without_a_mark_from_its_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = system.COPIERS["windows"]
    assert program.endswith(r"\System32\clip.exe")
    monkeypatch.setitem(
        system.COPIERS, "windows", ["sh", "-c", 'cat > "$0"', str(tmp_path / "clipboard")]
    )
    system.build_copier("windows")("aß\n東")
    assert (tmp_path / "clipboard").read_bytes() == b"a\0\xdf\0\n\0\x71\x67"


def test_a_shortcut_is_made_only_where_a_window_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    give_extra(monkeypatch, "webview")
    with pytest.raises(SystemExit) as left:
        desktop.main(["--install-shortcut"])
    assert left.value.code == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix(reason="its stand-in for another program is a shell script")
@pytest.mark.parametrize("has_stream", [True, False])
def test_what_went_wrong_is_shown_where_nobody_reads_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_stream: bool
) -> None:
    """A click in a menu: no terminal, and on Windows no standard error at all."""
    keep = ["sh", "-c", 'printf %s "$0" > notice', "--"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(
        system.NOTIFIERS,
        SYSTEM,
        keep[:-1],
    )
    monkeypatch.setattr(
        sys,
        "stderr",
        io.StringIO() if has_stream else None,
    )
    give_extra(monkeypatch, "textual_serve")
    with pytest.raises(SystemExit):
        desktop.main([])
    assert "textual-serve" in (tmp_path / "notice").read_text()


def test_no_notification_is_no_second_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        system.NOTIFIERS,
        "linux",
        ["no-such-program"],
    )
    # A notice that cannot be shown raises nothing.
    system.show_notice("text", "linux")


@pytest.mark.parametrize(("has_stream", "boxes"), [(False, 1), (True, 0)])
def test_windows_shows_a_box_only_where_there_is_no_standard_error(
    monkeypatch: pytest.MonkeyPatch, has_stream: bool, boxes: int
) -> None:
    """A program that Start menu's shortcut starts has none; a script's log must not wait."""
    shown: list[str] = []
    monkeypatch.setattr(
        system,
        "show_message_box",
        lambda _title, text: shown.append(text),
    )
    monkeypatch.setattr(
        system, "show_notice", lambda text, show=system.show_notice: show(text, "windows")
    )
    monkeypatch.setattr(desktop, "SYSTEM", "windows")
    monkeypatch.setattr(
        sys,
        "stderr",
        io.StringIO() if has_stream else None,
    )
    give_extra(monkeypatch, "textual_serve")
    with pytest.raises(SystemExit):
        desktop.main([])
    assert ["textual-serve" in text for text in shown] == [True] * boxes


def test_a_fault_without_standard_error_is_shown_and_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_project: str | None) -> int:
        raise RuntimeError("secret text")

    shown: list[str] = []
    monkeypatch.setenv(STATE, str(tmp_path))
    monkeypatch.setattr(
        system,
        "show_message_box",
        lambda _title, text: shown.append(text),
    )
    monkeypatch.setattr(
        system, "show_notice", lambda text, show=system.show_notice: show(text, "windows")
    )
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(desktop, "open_window", fail)
    give_extra(monkeypatch)
    with pytest.raises(RuntimeError):
        desktop.main([])
    (record,) = tmp_path.rglob("fault-*.txt")
    assert len(shown) == 1
    assert str(record) in shown[0]
    assert "secret text" not in shown[0]


@pytest.mark.parametrize("renderer", ["mshtml", "edgechromium", None])
def test_without_webview2_there_is_an_error_instead_of_an_old_engine(
    monkeypatch: pytest.MonkeyPatch, renderer: str | None
) -> None:
    def import_module(name: str) -> SimpleNamespace:
        assert name == "webview.platforms.winforms"
        if renderer is None:
            raise RuntimeError("Failed to initialize Python.Runtime.dll")
        return SimpleNamespace(renderer=renderer)

    monkeypatch.setattr(importlib, "import_module", import_module)
    if renderer == "edgechromium":
        desktop.load_webview2()
        return
    with pytest.raises(EngineError) as caught:
        desktop.load_webview2()
    assert caught.value.code == "window-unavailable"


@pytest.mark.parametrize(
    "name", ["QTWEBENGINE_CHROMIUM_FLAGS", "WEBVIEW2_ADDITIONAL_BROWSER_ARGUMENTS"]
)
def test_every_chromium_gets_the_flags_against_the_network(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in desktop.FLAG_VARIABLES:
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("QTWEBENGINE_DISABLE_SANDBOX", "")
    monkeypatch.setenv("QT_API", "")
    monkeypatch.setenv(name, "--user-flag")
    desktop.prepare_web_view()
    flags = os.environ[name].split()
    assert flags[0] == "--user-flag"
    assert "--proxy-server=socks5://127.0.0.1:9" in flags


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
    done = subprocess.run(
        [sys.executable, "-c", REFUSED],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    held, own, inside = json.loads(done.stdout)
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
    assert desktop.is_display_local() is here
