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
from engine.core.platforms.names import list_system_roots
from engine.core.text import visible


class FolderPicker(ModalScreen[Path | None]):
    """Asks for a path; closes with an absolute path that exists, or None.

    `verb`: the label of the button that takes the path.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-picker")
    ]

    def __init__(
        self,
        title: str,
        text: str,
        verb: str,
    ) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._verb = verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog picker-dialog"):
            yield SafeStatic(self._title, classes="dialog-title")
            yield SafeStatic(self._text, classes="picker-text")
            yield PathField(
                placeholder="path: Tab completes it",
                files=True,
                id="picker-path",
            )
            yield FolderTree(id="picker-tree")
            yield SafeStatic("", id="picker-note")
            with Horizontal(classes="dialog-buttons"):
                if self.app.is_web:  # in a window, the system has a dialog
                    yield SafeButton(
                        "Browse …",
                        id="browse",
                        action="screen.browse",
                    )
                yield SafeButton(
                    self._verb,
                    id="take",
                    variant="primary",
                    action="screen.take",
                )
                yield SafeButton(
                    "Cancel",
                    id="cancel",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self.query_one(FolderTree).show_roots(list_roots())
        self.query_one(PathField).focus()

    @on(FolderTree.Picked)
    def _take_picked(self, event: FolderTree.Picked) -> None:
        self.query_one(PathField).pick(event.path)

    @on(FolderTree.Typed)
    def _take_typed(self, event: FolderTree.Typed) -> None:
        self.query_one(PathField).type_on(event.character)

    def action_browse(self) -> None:
        self.query_one(PathField).browse()

    @on(Input.Submitted)
    def action_take(self) -> None:
        field = self.query_one(PathField)
        path = field.path
        try:
            exists = path is not None and path.exists()
        except (OSError, ValueError):
            exists = False
        if exists:
            self.dismiss(path)
            return
        if field.value.strip():
            problem = f"✗ {visible(field.value.strip())} does not exist."
        else:
            problem = "✗ Name a folder first."
        self.query_one("#picker-note", SafeStatic).update(plain(problem, "$text-error"))
        field.focus()


def list_roots(start: Path | None = None) -> list[tuple[str, Path]]:
    """Return (label, path) of the roots of a folder tree, each path once.

    They are `start`, the current folder, the home, and the system's root or drives.
    """
    paths = [start] if start is not None else []
    for find in (Path.cwd, Path.home):
        with suppress(OSError, RuntimeError):  # the folder is gone, or the home is not known
            paths.append(find())
    paths += list_system_roots()
    return [(str(path), path) for path in dict.fromkeys(paths)]
