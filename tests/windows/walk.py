"""The app without a terminal, with real engine processes: `walk.py PROJECT QUERY FILE`.

Reads the documents, searches them by keyword, opens and leaves the settings, and shows every step.
FILE is the document that the query should find first. Prints each step that is done.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from fixtures.app import drive, opened, screen_text, until, until_screen
from fixtures.search_step import search_for, searching
from textual.pilot import Pilot

from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.settings.screen import SettingsScreen
from bmembed_tui.steps.documents.pane import DocumentsPane


def report(step: str) -> None:
    """Print a step that is done."""
    print(f"{step}: done", flush=True)


async def walk(
    pilot: Pilot[Any],
    query: str,
    file: str,
) -> None:
    """Go through the steps.

    Raises AssertionError, with what the screen shows, at one that cannot be reached.
    """
    screen = await opened(pilot, "documents")
    pane = screen.query_one(DocumentsPane)
    await until(
        pilot,
        lambda: pane.scanned is not None,
        "the files to be counted",
    )
    report("files counted")
    await pilot.press("enter")
    await until(
        pilot,
        lambda: screen.is_at("search"),
        "the search",
    )
    await until(
        pilot,
        lambda: pane.is_read() and not pane.is_reading(),
        "the documents",
    )
    report("documents read")
    search = await searching(pilot)
    await pilot.press("f7")
    await search_for(pilot, search, query)
    paths = [hit.path for hit in search.active_list.hits]
    assert paths[:1] == [file], f"{paths} were found:\n{screen_text(pilot.app)}"  # type: ignore[arg-type]
    report("keyword search")
    await pilot.press("ctrl+s")
    await until_screen(pilot, SettingsScreen)
    await pilot.press("escape")
    await until_screen(pilot, ProjectScreen)
    report("settings")
    for step in ("documents", "model", "queries", "index", "train", "result", "search"):
        screen.action_go(step)
        await until(
            pilot,
            partial(screen.is_at, step),
            f"the step {step}",
        )
    report("every step")


if __name__ == "__main__":
    project, wanted, first = sys.argv[1:]
    drive(partial(walk, query=wanted, file=first), Path(project))
