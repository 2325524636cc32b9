"""The `bmembed-tui` command."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from bmembed_tui.window.desktop import open_desktop, parser
from engine.core.environment import restore_child_signal

if TYPE_CHECKING:
    from pathlib import Path

    from bmembed_tui.client.engine_client import EngineClient


def main(arguments: list[str] | None = None) -> None:
    """Open the app: its first screen, or a project given by name or path."""
    restore_child_signal()
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
    with asyncio.Runner() as runner:
        client = runner.run(begun(chosen.project))
        from bmembed_tui.app import BmembedApp

        app = BmembedApp(chosen.project, client)
        app.run(loop=runner.get_loop())
    sys.exit(app.return_code or 0)


async def begun(wanted: str | None) -> EngineClient | None:
    """The engine for the project that will be opened, by all appearances: it takes as long to
    load as the app, and meanwhile.
    """
    from bmembed_tui.client.engine_client import EngineClient
    from bmembed_tui.home.recents import listed
    from engine.core.errors import EngineError

    with suppress(EngineError):  # it is shown when the project is opened
        if path := _located(wanted) if wanted is not None else next(iter(listed()), None):
            client = EngineClient(path)
            await client.begin()
            return client
    return None


def _located(name: str) -> Path:
    from engine.project.folder import (
        locate,
    )  # it loads the settings, which the list of projects does without

    return locate(name)
