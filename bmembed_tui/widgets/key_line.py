"""The last line: the keys that work here, as many as there is room for."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.widgets import Footer

USUAL = ("help", "run_all", "steps", "quit", "settings", "leave")  # actions known everywhere, the most wanted first
BORDER = 2  # columns that the palette's key takes for its border


class KeyLine(Footer):
    """A `Footer` that begins with the keys of the place, and leaves out the least wanted ones instead of cutting one off.

    All of them are in the help.
    """

    def compose(self) -> ComposeResult:
        """The keys in the order of their weight, the palette's at the right."""
        Reactive._clear_watchers(self)  # each key binds itself to the footer, which would hold it for ever
        found = list(super().compose())
        keys = sorted((key for key in found if not key.has_class("-command-palette")), key=_weight)
        beside = [key for key in found if key.has_class("-command-palette")]
        room = self.app.size.width - sum(_width(key) + BORDER for key in beside)
        while keys and sum(map(_width, keys)) > room:
            keys.pop()
        yield from (*keys, *beside)

    def on_resize(self) -> None:
        """More keys, or fewer."""
        if self._bindings_ready:
            self.call_after_refresh(self.recompose)


def _weight(key: object) -> int:
    action = str(getattr(key, "action", "")).rpartition(".")[2]
    return USUAL.index(action) + 1 if action in USUAL else 0


def _width(key: object) -> int:
    """Columns of a key with its description: a blank on each side of the key, one after the description."""
    return cell_len(str(getattr(key, "key_display", ""))) + cell_len(str(getattr(key, "description", ""))) + 3
