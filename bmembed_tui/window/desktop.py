"""The `bmembed-desktop` command and `bmembed-tui --window`: the app in a window of its own."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bmembed_tui.shortcut import check_extra, install_shortcut
from engine import __version__
from engine.core.errors import EngineError
from engine.core.extras import install_command
from engine.core.platforms import SYSTEM, System
from engine.core.platforms.processes import restore_child_signal
from engine.core.platforms.users import is_superuser

if TYPE_CHECKING:
    from bmembed_tui.window.bridge import Bridge
    from bmembed_tui.window.page import Page

# Width and height of the window, in pixels.
SIZE = (1120, 720)
MIN_SIZE = (480, 320)
ICON_SECONDS = 3.0  # the icon is set after the page is shown, since finding it takes 0.3 s
# For Chromium where the kernel does not keep it off the network: no policy of a page forbids WebRTC
# and preconnecting.
CHROMIUM_FLAGS = (
    "--disable-background-networking",
    "--no-pings",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--proxy-server=socks5://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
)
FLAG_VARIABLES = ("QTWEBENGINE_CHROMIUM_FLAGS", "WEBVIEW2_ADDITIONAL_BROWSER_ARGUMENTS")
"""Qt and WebView2 add these to Chromium's own."""
WEB_VIEWS: dict[System, Literal["qt", "cocoa", "edgechromium"]] = {
    "linux": "qt",
    "macos": "cocoa",
    "windows": "edgechromium",
}
X11_SOCKETS = Path("/tmp/.X11-unix")
"""Holds the socket X0 of display :0, and so on."""


def build_parser(name: str) -> argparse.ArgumentParser:
    """Return the command line of `bmembed-tui` or `bmembed-desktop`."""
    description = "Search your documents offline, by keyword and by meaning."
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument(
        "project", nargs="?", metavar="PROJECT", help="a project's name, or the path of its folder"
    )
    parser.add_argument(
        "--window", action="store_true", help="in a window of its own (needs the extra desktop)"
    )
    parser.add_argument(
        "--install-shortcut",
        action="store_true",
        help="add the window to the applications menu",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"{name} {__version__}",
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run `bmembed-desktop`."""
    restore_child_signal()
    open_desktop(build_parser("bmembed-desktop").parse_args(arguments))


def open_desktop(options: argparse.Namespace) -> None:
    """Open a window, or install a shortcut to it."""
    try:
        check_extra()
        if options.install_shortcut:
            print("\n".join(str(path) for path in install_shortcut()))
            return
        _exit_at_once(open_window(options.project))
    except EngineError as error:
        _report(error)
        sys.exit(error.exit_code)
    except Exception as error:
        # Without standard error, as after a click in Windows' Start menu, a traceback is lost.
        if sys.stderr is None:
            from bmembed_tui.faults import report_fault
            from bmembed_tui.window.system import show_notice

            show_notice(report_fault(error))
        raise


def _exit_at_once(code: int) -> None:
    """End the process without waiting for threads.

    A call from the page that is still running waits forever for the page, which is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _report(error: EngineError) -> None:
    """Print an error; without a terminal, as after a click in a menu, also show a notice."""
    if sys.stderr is not None:
        print(f"Error: {error}", file=sys.stderr)
        # On Windows, a program that was started from a menu has no standard error at all. If there
        # is one, it is read by somebody, and a notice would wait for a click.
        if SYSTEM == "windows" or sys.stderr.isatty():
            return
    from bmembed_tui.window.system import show_notice

    show_notice(str(error))


def open_window(project: str | None) -> int:
    """Show the app until its window is closed and return the exit code. A run continues.

    Raises EngineError where no window can be opened.
    """
    check_extra()
    check_display()
    if SYSTEM == "linux":
        from bmembed_tui.window.libraries import check_libraries

        check_libraries()
    from bmembed_tui.window.bridge import Bridge
    from bmembed_tui.window.no_network import refuse_network
    from bmembed_tui.window.page import build_page

    prepare_web_view()
    bridge = Bridge(project)  # the app starts while the window's libraries are loaded
    if is_display_local():
        refuse_network()
    try:
        _show_window(bridge, build_page())
    finally:
        code = bridge.close()
    return code


def _show_window(bridge: Bridge, page: Page) -> None:
    """Open a window with the page, connect it to the app, and return when it is closed."""
    import webview

    from bmembed_tui.window.bridge import NOTHING, list_page_functions
    from bmembed_tui.window.system import build_copier

    is_linux = SYSTEM == "linux"
    webview.settings["OPEN_EXTERNAL_LINKS_IN_BROWSER"] = False
    window = webview.create_window(
        "bmembed",
        html=page.html,
        js_api=NOTHING,
        width=SIZE[0],
        height=SIZE[1],
        min_size=MIN_SIZE,
        background_color="#12181f",
    )

    def choose_folder() -> str | None:
        """Return the folder that the user chooses in the system's dialog, or None."""
        answer = window.create_file_dialog(webview.FileDialog.FOLDER)
        # A sequence of one folder on most systems, a folder on others.
        if answer and isinstance(answer, (tuple, list)):
            answer = answer[0]
        if answer:
            return str(answer)
        return None

    def paste_dropped(event: dict[str, Any]) -> None:
        """Hand the paths of dropped files to the app."""
        files = event.get("dataTransfer", {}).get("files", [])
        paths = [file.get("pywebviewFullPath") for file in files]
        bridge.paste([str(path) for path in paths if path])

    def prepare_window() -> None:
        """Connect the clipboard and dropped files, once there is a window."""
        bridge.to_clipboard = build_copier()
        view = getattr(window.native, "webview", None) if is_linux else None
        if view:
            _prepare_qt_view(view, bridge)
            return
        with suppress(Exception):  # the window may be closed at once
            window.dom.document.events.drop += paste_dropped

    def fill_page() -> None:
        """Run the script that starts the terminal in the page."""
        # In another thread: the thread of the windows would wait for itself.
        threading.Thread(
            target=window.run_js, args=[page.script], daemon=True, name="window-page"
        ).start()

    functions = list_page_functions(bridge)
    _restrict_calls({function.__name__ for function in functions})
    window.expose(*functions)
    bridge.choose_folder = choose_folder
    bridge.on_end = window.destroy
    if is_linux:
        _load_qt()
    elif SYSTEM == "windows":
        load_webview2()
    window.events.before_load += fill_page
    window.events.loaded += prepare_window
    webview.start(
        gui=WEB_VIEWS[SYSTEM],
        http_server=False,
        private_mode=True,
    )


def _load_qt() -> None:
    """Load Qt; raise EngineError if a part of it is missing.

    Without Qt, pywebview would use another library, or print a traceback.
    """
    try:
        from bmembed_tui.window.qt import set_application_name

        set_application_name("bmembed")
        importlib.import_module("webview.platforms.qt")
    except ImportError as error:
        raise EngineError(
            f"A window cannot be opened: Qt cannot be loaded ({error}). Install what it needs again"
            f" ({install_command('desktop')}), or use bmembed-tui.",
            code="window-unavailable",
        ) from error


def load_webview2() -> None:
    """Load WebView2; raise EngineError where Windows lacks it.

    Without WebView2, pywebview would use Internet Explorer's engine, which cannot run the page.
    """
    try:
        renderer = importlib.import_module("webview.platforms.winforms").renderer
    except Exception as error:  # of the .NET runtime, besides ImportError
        problem = f".NET cannot be loaded ({error})"
        cause: Exception | None = error
    else:
        if renderer == "edgechromium":
            return
        problem = f"the Microsoft Edge WebView2 Runtime is missing ({renderer} would be used)"
        cause = None
    raise EngineError(
        f"A window cannot be opened: {problem}. Ask for it where programs are installed for you, "
        "or use bmembed-tui.",
        code="window-unavailable",
    ) from cause


def _find_icon(name: str) -> str:
    from engine.core.assets import asset_path

    return str(asset_path("desktop") / name)


def _prepare_qt_view(view: Any, bridge: Bridge) -> None:
    """Accept drops on Qt's web view and give its window an icon, which pywebview does not."""
    from bmembed_tui.window.qt import get_gui_thread

    def show_icon() -> None:
        with suppress(EngineError):
            get_gui_thread().show_icon(view, _find_icon("bmembed.png"))

    get_gui_thread().watch(view, bridge.paste)
    timer = threading.Timer(ICON_SECONDS, show_icon)
    timer.daemon = True
    timer.start()


def _restrict_calls(names: set[str]) -> None:
    """Let the page call only these functions.

    pywebview also answers to names of its own, such as one that moves the window.
    """
    from webview import util

    call = util.js_bridge_call
    allowed = set(names)
    if SYSTEM != "linux":
        allowed.add("pywebviewEventHandler")  # reports a drop

    def call_if_allowed(
        window: Any,
        name: str,
        values: Any,
        key: str,
    ) -> None:
        if name in allowed:
            call(window, name, values, key)

    # The module that draws the window is imported later, and takes this function.
    util.js_bridge_call = call_if_allowed


def check_display() -> None:
    """Raise EngineError if there is no display.

    Without a display, the window's libraries would end the process without a message.
    """
    if SYSTEM != "linux" or os.environ.get("WAYLAND_DISPLAY"):
        return
    display = os.environ.get("DISPLAY", "")
    number = display.partition(":")[2].partition(".")[0]  # the 1 of unix:1.0
    if not display:
        problem = "there is no display (DISPLAY is not set)"
    elif is_display_local() and not (X11_SOCKETS / f"X{number}").exists():
        problem = f"the display {display} is not there"
    else:
        return
    raise EngineError(
        f"A window cannot be opened: {problem}. Use bmembed-tui, which works in a terminal.",
        code="window-unavailable",
    )


def is_display_local() -> bool:
    """Return whether the display belongs to this machine.

    The display of another machine, as over SSH, is reached through the network.
    """
    if os.environ.get("WAYLAND_DISPLAY"):
        return True
    return os.environ.get("DISPLAY", "").startswith((":", "unix:"))


def prepare_web_view() -> None:
    """Set the variables that the system's web view reads."""
    os.environ.setdefault("QT_API", "pyside6")
    for name in FLAG_VARIABLES:
        os.environ[name] = " ".join([os.environ.get(name, ""), *CHROMIUM_FLAGS]).strip()
    if is_superuser():
        # Chromium's sandbox refuses to run for root.
        os.environ.setdefault("QTWEBENGINE_DISABLE_SANDBOX", "1")


if __name__ == "__main__":
    main()
