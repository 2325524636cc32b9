"""The `bmembed-tui` command."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from bmembed_tui.window.desktop import build_parser, open_desktop
from engine.core.platforms.pipes import open_missing_streams
from engine.core.platforms.processes import restore_child_signal

if TYPE_CHECKING:
    from bmembed_tui.client.engine_client import EngineClient


def main(arguments: list[str] | None = None) -> None:
    """Open the app: its first screen, or a project given by name or path."""
    restore_child_signal()
    options = build_parser("bmembed-tui").parse_args(arguments)
    if options.window or options.install_shortcut:
        open_desktop(options)
        return
    open_missing_streams()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(
            "Error: bmembed-tui needs a terminal.\n"
            "Its input or output is a file or a pipe.\n"
            "Start it in a terminal, or use 'engine', which works without one.",
            file=sys.stderr,
        )
        sys.exit(2)
    os.umask(0o077)  # what the app writes is private to the user
    draw_in_utf8()
    # A shell that exports these reports the size that the terminal had when it did so.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    with asyncio.Runner() as runner:
        client = runner.run(start_engine(options.project))
        from bmembed_tui.app import BmembedApp

        app = BmembedApp(options.project, client)
        app.run(loop=runner.get_loop())
    sys.exit(app.return_code or 0)


def draw_in_utf8() -> None:
    """Have Textual, which draws on the standard error, write UTF-8 in every locale.

    Terminals read UTF-8 in other locales, too, whose encodings lack the lines and signs.
    """
    if isinstance(sys.__stderr__, io.TextIOWrapper):
        sys.__stderr__.reconfigure(encoding="utf-8")


async def start_engine(name: str | None) -> EngineClient | None:
    """Start the engine of the project that will probably be opened.

    The engine takes as long to load as the app, so both load at the same time. `name`: the name or
    path that the user gave; without it, the project that was opened last. Returns None where there
    is no such project.
    """
    from bmembed_tui.client.engine_client import EngineClient
    from bmembed_tui.home.recents import read_recents
    from engine.core.errors import EngineError

    with suppress(EngineError):  # the error is shown when the project is opened
        if name is None:
            path = next(iter(read_recents()), None)
        else:
            # This import loads the settings, which the list of recent projects does without.
            from engine.project.folder import locate

            path = locate(name)
        if path:
            client = EngineClient(path)
            await client.begin()
            return client
    return None
