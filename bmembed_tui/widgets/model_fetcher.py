"""Fetching a model of the catalogue: what it means, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.content import Content
from textual.widget import Widget

from bmembed_tui.client.engine_client import follow_command, parse_answer
from bmembed_tui.widgets.change_line import await_or_show_error
from engine.core.messages.models import ModelChange
from engine.core.text import size_text


class ModelFetcher:
    """Fetches models for a `widget`. `show`: shows a note to the user."""

    def __init__(self, widget: Widget, show: Callable[[Content | str], object]) -> None:
        self._widget = widget
        self._show = show
        self._offered = ""

    def confirm(self, name: str, size: int) -> bool:
        """Return whether the user has chosen this model twice in a row.

        The first time, shows what fetching it means. `size`: of the download, in bytes.
        """
        if self._offered == name:
            self._offered = ""
            return True
        self._offered = name
        self._show(format_offer(name, size))
        return False

    def forget(self) -> None:
        """Forget the model that was chosen once, since another choice came in between."""
        self._offered = ""

    async def fetch(self, name: str, size: int) -> ModelChange | None:
        """Fetch a model and return what was added, or show the error and return None."""
        self._show(format_fetching(name, 0, size))

        def show_progress(line: Any) -> None:
            if isinstance(line, dict) and "done" in line and self._widget.is_attached:
                self._show(format_fetching(name, int(line["done"]), int(line["total"])))

        fetching = follow_command(
            show_progress,
            "models",
            "get",
            name,
            "--json",
        )
        last_line = await await_or_show_error(
            self._widget,
            fetching,
            self._show,
        )
        if last_line is None:
            return None
        return parse_answer(ModelChange, last_line)


def format_offer(name: str, size: int) -> str:
    """Return what fetching a model means, for the user to confirm."""
    return (
        f"{name} is not on this machine. Enter again fetches {size_text(size)} from the hub of"
        f" models; nothing of your documents is sent. Without a network: 'engine models get {name}"
        " --to FOLDER' elsewhere, then 'engine models add FILE' here."
    )


def format_fetching(
    name: str,
    done: int,
    total: int,
) -> str:
    """Return how far a fetch is: `Fetching multilingual-e5-small: 120.0 MB of 488.0 MB …`."""
    return f"Fetching {name}: {size_text(done)} of {size_text(total)} …"
