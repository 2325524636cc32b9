"""Folders as a tree that never holds up the app: a folder is listed in a thread."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rich.text import Text
from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets.tree import TreeNode

from bmembed_tui.widgets.plain import rich_text
from bmembed_tui.widgets.safe import SafeTree
from engine.core.text import size_text

SHOWN = 1000  # entries of one folder


@dataclass
class Place:
    """What a line of the tree stands for. `kind`: folder, file or note."""

    path: Path
    kind: str
    listed: bool = False


class Entry(NamedTuple):
    """Something in a folder. Folders come first, then by name. `size`: of a file, in words."""

    is_file: bool
    folded: str
    name: str
    size: str = ""


class FolderTree(SafeTree[Place]):
    """The folders and files under some roots.

    Opening a folder lists it; of a large one the first thousand are shown. A file's size stands
    behind its name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "open", "open", show=False),
        Binding("left", "shut", "close", show=False),
    ]

    @dataclass
    class Picked(Message):
        """Enter or a click on a folder or file."""

        path: Path

    @dataclass
    class Typed(Message):
        """A character that means nothing here: of a path, if there is a field for one."""

        character: str

    def __init__(self, **options: Any) -> None:
        super().__init__("", **options)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False

    def show_roots(self, roots: Sequence[tuple[str, Path]]) -> None:
        """Show these (label, path) and nothing else. The first one is listed at once."""
        self.workers.cancel_group(self, "listing")
        self.clear()
        for number, (label, path) in enumerate(roots):
            node = self.root.add(rich_text(label), Place(path, "folder"))
            if not number:
                node.expand()
        self.root.expand()
        self.cursor_line = 0

    def root_number(self) -> int | None:
        node = self.cursor_node
        while node is not None and node.parent is not self.root:
            node = node.parent
        if node is not None:
            return list(self.root.children).index(node)
        return None

    def get_label_width(self, node: TreeNode[Place]) -> int:
        """Counted without drawing: it is called for every line of the tree at every change."""
        label = node.label
        return (label.cell_len if isinstance(label, Text) else len(label)) + 2 * node.allow_expand

    @on(SafeTree.NodeExpanded)
    def _opened(self, event: SafeTree.NodeExpanded[Place]) -> None:
        place = event.node.data
        if place is not None and place.kind == "folder" and not place.listed:
            place.listed = True
            event.node.add_leaf(rich_text("looking …"), Place(place.path, "note"))
            self.list_folder(event.node)

    @on(SafeTree.NodeSelected)
    def _selected(self, event: SafeTree.NodeSelected[Place]) -> None:
        place = event.node.data
        if place is not None and place.kind != "note":
            event.node.expand()
            self.post_message(self.Picked(place.path))

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and event.key not in self.screen.active_bindings:
            self.post_message(self.Typed(event.character))

    def action_open(self) -> None:
        if self.cursor_node is not None:
            self.cursor_node.expand()

    def action_shut(self) -> None:
        node = self.cursor_node
        if node is not None and node.is_expanded and node.allow_expand:
            node.collapse()
        elif node is not None and node.parent is not self.root:
            self.action_cursor_parent()

    @work(group="listing")
    async def list_folder(self, node: TreeNode[Place]) -> None:
        place = node.data
        assert place is not None
        try:
            entries, total = await asyncio.to_thread(list_entries, place.path)
        except NotADirectoryError:
            self._note(node, "a file")
            return
        except OSError as error:
            self._note(node, f"✗ {(error.strerror or str(error)).lower()}")
            return
        if not entries:
            self._note(node, "empty")
        elif self.is_attached and node.children:  # else the tree shows something else by now
            node.remove_children()
            for entry in entries:
                path = place.path / entry.name
                if entry.is_file:
                    node.add_leaf(rich_text(f"{entry.name}  {entry.size}"), Place(path, "file"))
                else:
                    node.add(rich_text(f"{entry.name}/"), Place(path, "folder"))
            if total > len(entries):
                node.add_leaf(
                    rich_text(f"… {total - len(entries):,} more"), Place(place.path, "note")
                )

    def _note(self, node: TreeNode[Place], text: str) -> None:
        if self.is_attached and node.children:
            node.children[-1].set_label(rich_text(text))


def list_entries(folder: Path) -> tuple[list[Entry], int]:
    """The first of what is in a folder, sorted, and how many there are in all.

    Raises OSError where it cannot be listed.
    """
    counted = 0

    def entries(found: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
        nonlocal counted
        for entry in found:
            if not entry.name.startswith("."):
                counted += 1
                yield Entry(not _is_folder(entry), entry.name.casefold(), entry.name)

    with os.scandir(folder) as found:
        first = heapq.nsmallest(
            SHOWN, entries(found)
        )  # entry by entry: a sort of all would hold up every other thread
    return [
        entry._replace(size=_file_size(folder / entry.name)) if entry.is_file else entry
        for entry in first
    ], counted


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file_size(file: Path) -> str:
    with suppress(OSError):
        return size_text(file.stat().st_size)
    return ""
