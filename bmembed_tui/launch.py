"""The `bmembed-tui` command."""

from __future__ import annotations

import os
import sys

from bmembed_tui.window.desktop import open_desktop, parser


def main(arguments: list[str] | None = None) -> None:
    """Open the app: its first screen, or a project given by name or path."""
    chosen = parser("bmembed-tui").parse_args(arguments)
    if chosen.window or chosen.install_shortcut:
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
