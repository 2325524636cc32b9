"""The `bmembed-desktop` command, and `bmembed-tui --window`: the app in a window of its own."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import __version__
from engine.core.environment import restore_child_signal
from engine.core.errors import EngineError
from engine.core.extras import install_command, missing_packages

if TYPE_CHECKING:
    from bmembed_tui.window.bridge import Bridge
    from bmembed_tui.window.page import Page

SIZE = (1120, 720)
SMALLEST = (480, 320)
ICON_SECONDS = 3.0  # after the page is there: what knows where the icon lies takes 0.3 s to load
# Of Chromium, where the kernel does not keep it off the network: no policy of a page forbids WebRTC
# and preconnecting.
FLAGS = (
    "--disable-background-networking",
    "--no-pings",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--proxy-server=socks5://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
)
SOCKETS = Path("/tmp/.X11-unix")


def parser(name: str) -> argparse.ArgumentParser:
    """The command line of `bmembed-tui` and `bmembed-desktop`."""
    about = "Search your documents offline, by keyword and by meaning."
    made = argparse.ArgumentParser(prog=name, description=about)
    made.add_argument(
        "project", nargs="?", metavar="PROJECT", help="a project's name, or the path of its folder"
    )
    made.add_argument(
        "--window", action="store_true", help="in a window of its own (needs the extra desktop)"
    )
    made.add_argument(
        "--install-shortcut",
        action="store_true",
        help="put the window among the system's applications",
    )
    made.add_argument("--version", action="version", version=f"{name} {__version__}")
    return made


def main(arguments: list[str] | None = None) -> None:
    """`bmembed-desktop`."""
    restore_child_signal()
    open_desktop(parser("bmembed-desktop").parse_args(arguments))


def open_desktop(chosen: argparse.Namespace) -> None:
    """Open a window, or make a shortcut to it."""
    try:
        check_extra()
        if chosen.install_shortcut:
            from bmembed_tui.window.shortcut import install

            print("\n".join(str(path) for path in install()))
            return
        _leave(open_window(chosen.project))
    except EngineError as error:
        _report(error)
        sys.exit(error.exit_code)


def _leave(code: int) -> None:
    """End the process at once: a call of the page that was under way waits for ever for the
    page, which is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _report(error: EngineError) -> None:
    """On standard error; and where that is no terminal, as after a click in a menu, by the
    system.
    """
    if sys.stderr is not None:
        print(f"Error: {error}", file=sys.stderr)
    if sys.stderr is None or not sys.stderr.isatty():
        from bmembed_tui.window.system import show_notice

        show_notice(str(error))


def open_window(project: str | None) -> int:
    """Show the app until its window is closed; a run goes on.

    Raises EngineError where no window can be opened.
    """
    check_extra()
    check_display()
    if sys.platform.startswith("linux"):
        from bmembed_tui.window.libraries import check_libraries

        check_libraries()
    from bmembed_tui.window.bridge import Bridge
    from bmembed_tui.window.no_network import refuse_network
    from bmembed_tui.window.page import page

    _prepare_web_view()
    bridge = Bridge(project)  # the app starts while the window's libraries are loaded
    if display_is_here():
        refuse_network()
    try:
        _show(bridge, page())
    finally:
        code = bridge.close()
    return code


def _show(bridge: Bridge, page: Page) -> None:
    import webview

    from bmembed_tui.window.bridge import NOTHING, offered
    from bmembed_tui.window.system import copier

    webview.settings["OPEN_EXTERNAL_LINKS_IN_BROWSER"] = False
    window = webview.create_window(
        "bmembed",
        html=page.html,
        js_api=NOTHING,
        width=SIZE[0],
        height=SIZE[1],
        min_size=SMALLEST,
        background_color="#12181f",
    )

    def choose() -> str | None:
        found = window.create_file_dialog(webview.FileDialog.FOLDER)
        if isinstance(found, (tuple, list)):
            found = found[0] if found else None
        if found:
            return str(found)
        return None

    def dropped(event: dict[str, Any]) -> None:
        files = event.get("dataTransfer", {}).get("files", [])
        bridge.paste(
            [str(file["pywebviewFullPath"]) for file in files if file.get("pywebviewFullPath")]
        )

    def begin() -> None:
        bridge.to_clipboard = copier()
        if view := (
            getattr(window.native, "webview", None) if sys.platform.startswith("linux") else None
        ):
            _look_after(view, bridge)
            return
        with suppress(Exception):  # a window that is closed at once
            window.dom.document.events.drop += dropped

    def fill() -> None:  # from another thread: the one of the windows would wait for itself
        threading.Thread(
            target=window.run_js, args=[page.script], daemon=True, name="window-page"
        ).start()

    functions = offered(bridge)
    _let_through({function.__name__ for function in functions})
    window.expose(*functions)
    bridge.choose_folder = choose
    bridge.on_end = window.destroy
    if sys.platform.startswith("linux"):
        _load_qt()
    window.events.before_load += fill
    window.events.loaded += begin
    webview.start(
        gui="qt" if sys.platform.startswith("linux") else None, http_server=False, private_mode=True
    )


def _load_qt() -> None:
    """Raises EngineError where Qt is there in part only: pywebview would then take another
    library, or print a traceback.
    """
    from bmembed_tui.window.qt import set_application_name

    try:
        set_application_name("bmembed")
        importlib.import_module("webview.platforms.qt")
    except ImportError as error:
        raise EngineError(
            f"A window cannot be opened: Qt cannot be loaded ({error}). Install what it needs again"
            f" ({install_command('desktop')}), or use bmembed-tui.",
            code="window-unavailable",
        ) from error


def _icon(name: str) -> str:
    from engine.core.assets import asset_path

    return str(asset_path("desktop") / name)


def _look_after(view: Any, bridge: Bridge) -> None:
    """What Qt's web view and its window are not given by pywebview: drops, which do not reach
    their page, and an icon.
    """
    from bmembed_tui.window.qt import gui_thread

    def picture() -> None:
        with suppress(EngineError):
            gui_thread().show_icon(view, _icon("bmembed.png"))

    gui_thread().watch(view, bridge.paste)
    later = threading.Timer(ICON_SECONDS, picture)
    later.daemon = True
    later.start()


def _let_through(names: set[str]) -> None:
    """Refuse the page all but these: pywebview also answers to names of its own, such as one
    that moves the window.
    """
    from webview import util

    call = util.js_bridge_call
    if not sys.platform.startswith("linux"):
        names = {*names, "pywebviewEventHandler"}  # which reports a drop

    def guarded(window: Any, name: str, values: Any, key: str) -> None:
        if name in names:
            call(window, name, values, key)

    util.js_bridge_call = guarded  # what draws the window is imported later, and takes this one


def check_extra() -> None:
    """Raises EngineError where a package of the extra `desktop` is missing."""
    missing = missing_packages("desktop")
    if sys.platform.startswith("linux") and importlib.util.find_spec("PySide6") is None:
        missing.append("PySide6")  # elsewhere the system has a web view of its own
    if missing:
        raise EngineError(
            f"A window cannot be opened: {missing[0]} is not installed. Install what it needs "
            f"({install_command('desktop')}), or use bmembed-tui.",
            code="window-unavailable",
        )


def check_display() -> None:
    """Raises EngineError where there is none: the window's libraries would end the process
    without a word.
    """
    if not sys.platform.startswith("linux") or os.environ.get("WAYLAND_DISPLAY"):
        return
    display = os.environ.get("DISPLAY", "")
    number = display.removeprefix("unix").partition(":")[2].partition(".")[0]
    if not display or (display_is_here() and not (SOCKETS / f"X{number}").exists()):
        if display:
            shown = f"the display {display} is not there"
        else:
            shown = "there is no display (DISPLAY is not set)"
        raise EngineError(
            f"A window cannot be opened: {shown}. Use bmembed-tui, which works in a terminal.",
            code="window-unavailable",
        )


def display_is_here() -> bool:
    """Whether the display is one of this machine: another one, as over SSH, is reached through
    the network.
    """
    return bool(os.environ.get("WAYLAND_DISPLAY")) or os.environ.get("DISPLAY", "").startswith(
        (":", "unix:")
    )


def _prepare_web_view() -> None:
    os.environ.setdefault("QT_API", "pyside6")
    name = "QTWEBENGINE_CHROMIUM_FLAGS"
    os.environ[name] = " ".join([os.environ.get(name, ""), *FLAGS]).strip()
    if os.geteuid() == 0:
        os.environ.setdefault(
            "QTWEBENGINE_DISABLE_SANDBOX", "1"
        )  # Chromium's own refuses the administrator


if __name__ == "__main__":
    main()
