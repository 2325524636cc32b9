"""The `bmembed-tui` command."""

from __future__ import annotations

import argparse
import os
import sys

from engine import __version__


def main(arguments: list[str] | None = None) -> None:
    """Open the app: its first screen, or a project given by name or path."""
    chosen = _parser().parse_args(arguments)
    if chosen.window or chosen.install_shortcut:
        from bmembed_tui.window.desktop import main as open_desktop

        wanted = ["--install-shortcut"] if chosen.install_shortcut else ["--", chosen.project] if chosen.project else []
        open_desktop(wanted)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bmembed-tui", description="Adapt an embedding model to your documents, offline, and search them."
    )
    parser.add_argument("project", nargs="?", metavar="PROJECT", help="a project's name, or the path of its folder")
    parser.add_argument("--window", action="store_true", help="in a window of its own (needs the extra desktop)")
    parser.add_argument(
        "--install-shortcut", action="store_true", help="put the window among the system's applications"
    )
    parser.add_argument("--version", action="version", version=f"bmembed-tui {__version__}")
    return parser
