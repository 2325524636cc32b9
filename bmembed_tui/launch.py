"""The `bmembed-tui` command."""

from __future__ import annotations

import argparse
import os
import sys

from engine import __version__


def main(arguments: list[str] | None = None) -> None:
    """Open the app: its first screen, or a project given by name or path."""
    chosen = parser("bmembed-tui").parse_args(arguments)
    if chosen.window or chosen.install_shortcut:
        from bmembed_tui.window.desktop import open_desktop

        open_desktop(chosen)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(
            "Error: bmembed-tui needs a terminal.\n"
            "Its input or output is a file or a pipe.\n"
            "Start it in a terminal, or use 'engine', which works without one.",
            file=sys.stderr,
        )
        sys.exit(2)
    os.umask(0o077)  # what the app writes is private to the user
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # a shell that exports them has the size of another moment
    from bmembed_tui.app import BmembedApp

    app = BmembedApp(project=chosen.project)
    app.run()
    sys.exit(app.return_code or 0)


def parser(name: str) -> argparse.ArgumentParser:
    """The command line of `bmembed-tui` and `bmembed-desktop`."""
    about = "Adapt an embedding model to your documents, offline, and search them."
    made = argparse.ArgumentParser(prog=name, description=about)
    made.add_argument("project", nargs="?", metavar="PROJECT", help="a project's name, or the path of its folder")
    made.add_argument("--window", action="store_true", help="in a window of its own (needs the extra desktop)")
    made.add_argument("--install-shortcut", action="store_true", help="put the window among the system's applications")
    made.add_argument("--version", action="version", version=f"{name} {__version__}")
    return made
