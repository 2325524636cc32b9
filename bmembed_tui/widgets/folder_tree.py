"""A tree of folders that never blocks the app: folders are listed in a thread."""

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

MAX_SHOWN = 1000  # entries of a folder


@dataclass
class Place:
    """What a line of the tree stands for."""

    path: Path
    kind: str  # folder, file or note
    listed: bool = False  # whether reading the folder's entries has begun


class Entry(NamedTuple):
    """An entry of a folder; folders sort first, then by name.

    `folded`: the name without case. `size`: the size of a file, as text.
    """

    is_file: bool
    folded: str
    name: str
    size: str = ""


class FolderTree(SafeTree[Place]):
    """The folders and files below some roots.

    Expanding a folder lists it; of a large folder the first thousand entries are shown. A file's
    size follows its name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "open", "open", show=False),
        Binding("left", "shut", "close", show=False),
    ]

    @dataclass
    class Picked(Message):
        """A folder or file was chosen by Enter or a click."""

        path: Path

    @dataclass
    class Typed(Message):
        """A character without a meaning in the tree was typed, perhaps the start of a path."""

        character: str

    def __init__(self, **options: Any) -> None:
        super().__init__("", **options)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False

    def show_roots(self, roots: Sequence[tuple[str, Path]]) -> None:
        """Replace all roots by these (label, path). The first one is listed at once."""
        self.workers.cancel_group(self, "listing")
        self.clear()
        for number, (label, path) in enumerate(roots):
            node = self.root.add(rich_text(label), Place(path, "folder"))
            if not number:
                node.expand()
        self.root.expand()
        self.cursor_line = 0

    def root_number(self) -> int | None:
        """Return the number of the root that contains the cursor, counted from 0."""
        node = self.cursor_node
        while node is not None and node.parent is not self.root:
            node = node.parent
        if node is not None:
            return list(self.root.children).index(node)
        return None

    def get_label_width(self, node: TreeNode[Place]) -> int:
        """Return a line's width without drawing it, since every change needs all lines' widths."""
        label = node.label
        width = label.cell_len if isinstance(label, Text) else len(label)
        if node.allow_expand:
            width += 2  # the arrow
        return width

    @on(SafeTree.NodeExpanded)
    def _list_expanded(self, event: SafeTree.NodeExpanded[Place]) -> None:
        """Read the entries of a folder when it is expanded for the first time."""
        place = event.node.data
        if place is not None and place.kind == "folder" and not place.listed:
            place.listed = True
            event.node.add_leaf(rich_text("looking …"), Place(place.path, "note"))
            self.list_folder(event.node)

    @on(SafeTree.NodeSelected)
    def _pick(self, event: SafeTree.NodeSelected[Place]) -> None:
        """Expand the selected folder, and report that it or the file was picked."""
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
        """Read the entries of a folder in a thread, and show them or a note below it."""
        place = node.data
        assert place is not None
        try:
            entries, total = await asyncio.to_thread(list_entries, place.path)
        except NotADirectoryError:
            self._show_note(node, "a file")
            return
        except OSError as error:
            self._show_note(node, f"✗ {(error.strerror or str(error)).lower()}")
            return
        if not entries:
            self._show_note(node, "empty")
        elif self.is_attached and node.children:  # else the tree shows something else by now
            node.remove_children()
            for entry in entries:
                path = place.path / entry.name
                if entry.is_file:
                    node.add_leaf(rich_text(f"{entry.name}  {entry.size}"), Place(path, "file"))
                else:
                    node.add(rich_text(f"{entry.name}/"), Place(path, "folder"))
            if total > len(entries):
                more_text = f"… {total - len(entries):,} more"
                node.add_leaf(rich_text(more_text), Place(place.path, "note"))

    def _show_note(self, node: TreeNode[Place], text: str) -> None:
        """Show a note in place of a folder's entries."""
        if self.is_attached and node.children:
            node.children[-1].set_label(rich_text(text))


def list_entries(folder: Path) -> tuple[list[Entry], int]:
    """Return the first entries of a folder, sorted, and how many it has in all.

    Hidden entries are left out. Raises OSError where the folder cannot be listed.
    """
    total = 0

    def read_entries(directory: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
        """Return the entries that are not hidden, and count them in `total`."""
        nonlocal total
        for directory_entry in directory:
            if not directory_entry.name.startswith("."):
                total += 1
                yield Entry(
                    not _is_folder(directory_entry),
                    directory_entry.name.casefold(),
                    directory_entry.name,
                )

    with os.scandir(folder) as directory:
        # nsmallest works entry by entry: sorting all of them would block every other thread.
        first = heapq.nsmallest(MAX_SHOWN, read_entries(directory))
    entries = []
    for entry in first:
        if entry.is_file:
            entry = entry._replace(size=_format_file_size(folder / entry.name))
        entries.append(entry)
    return entries, total


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _format_file_size(file: Path) -> str:
    with suppress(OSError):
        return size_text(file.stat().st_size)
    return ""
