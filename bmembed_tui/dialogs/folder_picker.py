"""A dialog to name a folder or file: typed, completed with Tab, or picked in a tree."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.folder_tree import FolderTree
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.text import visible


class FolderPicker(ModalScreen[Path | None]):
    """Closes with an absolute path that exists, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-picker")
    ]

    def __init__(self, title: str, text: str, verb: str) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._verb = verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog picker-dialog"):
            yield SafeStatic(self._title, classes="dialog-title")
            yield SafeStatic(self._text, classes="picker-text")
            yield PathField(placeholder="path: Tab completes it", files=True, id="picker-path")
            yield FolderTree(id="picker-tree")
            yield SafeStatic("", id="picker-note")
            with Horizontal(classes="dialog-buttons"):
                if self.app.is_web:  # in a window: what the system offers
                    yield SafeButton("Browse …", id="browse", action="screen.browse")
                yield SafeButton(self._verb, id="take", variant="primary", action="screen.take")
                yield SafeButton("Cancel", id="cancel", action="screen.dismiss")

    def on_mount(self) -> None:
        self.query_one(FolderTree).show_roots(roots())
        self.query_one(PathField).focus()

    @on(FolderTree.Picked)
    def _picked(self, event: FolderTree.Picked) -> None:
        self.query_one(PathField).pick(event.path)

    @on(FolderTree.Typed)
    def _typed(self, event: FolderTree.Typed) -> None:
        self.query_one(PathField).type_on(event.character)

    def action_browse(self) -> None:
        self.query_one(PathField).browse()

    @on(Input.Submitted)
    def action_take(self) -> None:
        field = self.query_one(PathField)
        path = field.path
        try:
            there = path is not None and path.exists()
        except (OSError, ValueError):
            there = False
        if there:
            self.dismiss(path)
            return
        if field.value.strip():
            what = f"✗ {visible(field.value.strip())} does not exist."
        else:
            what = "✗ Name a folder first."
        self.query_one("#picker-note", SafeStatic).update(plain(what, "$text-error"))
        field.focus()


def roots(start: Path | None = None) -> list[tuple[str, Path]]:
    """Where a tree of folders begins: the wanted folder, the current one, the user's own, and
    everything.
    """
    places = [start] if start is not None else []
    for find in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # it is gone, or nobody knows the home
            places.append(find())
    return [(str(path), path) for path in dict.fromkeys([*places, Path("/")])]
