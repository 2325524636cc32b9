"""Folders as a tree that never holds up the app: a folder is listed in a thread, and shown a page at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets.tree import TreeNode

from bmembed_tui.widgets.plain import rich_text
from bmembed_tui.widgets.safe import SafeTree

PAGE = 500  # entries shown at once
LISTED = 500_000  # entries of one folder, at most: a listing must not fill the memory
RUN = 5000  # entries sorted in one go: sorting holds up every other thread


@dataclass
class Place:
    """What a line of the tree stands for. `kind`: folder, file, more (the next page) or note."""

    path: Path
    kind: str
    waiting: list[Entry] = field(default_factory=list)
    listed: bool = False


class Entry(NamedTuple):
    """Something in a folder. Folders come first, then by name."""

    is_file: bool
    folded: str
    name: str


class FolderTree(SafeTree[Place]):
    """The folders and files under some roots. Opening a folder lists it; `… 99,500 more` shows the next page.

    `files`: whether files are shown, too. A file's size stands behind its name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "open", "open", show=False),
        Binding("left", "shut", "close", show=False),
    ]

    @dataclass
    class Picked(Message):
        """Enter or a click on a folder or file."""

        tree: FolderTree
        path: Path
        is_folder: bool

        @property
        def control(self) -> FolderTree:
            return self.tree

    def __init__(self, *, files: bool = True, hidden: bool = False, **options: Any) -> None:
        super().__init__("", **options)
        self.show_root, self.guide_depth, self.auto_expand = False, 2, False
        self._files, self._hidden = files, hidden

    def show_roots(self, roots: Sequence[tuple[str, Path]], *, opened: bool = True) -> None:
        """Show these (label, path) and nothing else. With `opened` the first one is listed at once."""
        self.workers.cancel_group(self, "listing")
        self.clear()
        for number, (label, path) in enumerate(roots):
            node = self.root.add(rich_text(label), Place(path, "folder"))
            if opened and not number:
                node.expand()
        self.root.expand()
        self.cursor_line = 0

    def root_number(self) -> int | None:
        node = self.cursor_node
        while node is not None and node.parent is not self.root:
            node = node.parent
        return list(self.root.children).index(node) if node is not None else None

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
        if place is None or place.kind == "note":
            return
        if place.kind == "more":
            self.show_page(event.node)
        else:
            event.node.expand()
            self.post_message(self.Picked(self, place.path, place.kind == "folder"))

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
            entries = await asyncio.to_thread(list_entries, place.path, self._files, self._hidden)
        except NotADirectoryError:
            self._note(node, "a file")
            return
        except OSError as error:
            self._note(node, f"✗ {(error.strerror or str(error)).lower()}")
            return
        if not entries:
            self._note(node, "nothing to see here" if self._files else "no folders in it")
            return
        await self._show(node, entries)

    @work(group="listing")
    async def show_page(self, node: TreeNode[Place]) -> None:
        """Put the next page in the place of a line `… more`."""
        place, parent = node.data, node.parent
        if place is None or parent is None or not place.waiting:
            return
        entries, place.waiting = place.waiting, []
        await self._show(parent, entries)

    async def _show(self, node: TreeNode[Place], entries: list[Entry]) -> None:
        """The first page of `entries` as children of `node`, in the place of its last line, which said to wait."""
        place = node.data
        assert place is not None
        page, waiting = entries[:PAGE], entries[PAGE:]
        sizes = await asyncio.to_thread(file_sizes, place.path, page)
        if not self.is_attached or not node.children:  # the tree shows something else by now
            return
        line = node.children[-1].line
        was_here = line >= 0 and self.cursor_line == line
        node.children[-1].remove()
        for entry in page:
            path = place.path / entry.name
            if entry.is_file:
                node.add_leaf(rich_text(f"{entry.name}  {sizes.get(entry.name, '')}"), Place(path, "file"))
            else:
                node.add(rich_text(f"{entry.name}/"), Place(path, "folder"))
        if waiting:
            node.add_leaf(rich_text(f"… {len(waiting):,} more"), Place(place.path, "more", waiting))
        if was_here:
            self.call_after_refresh(self._move_to, line)

    def _move_to(self, line: int) -> None:
        self.cursor_line = line

    def _note(self, node: TreeNode[Place], text: str) -> None:
        if self.is_attached and node.children:
            node.children[-1].set_label(rich_text(text))


def list_entries(folder: Path, files: bool = True, hidden: bool = False) -> list[Entry]:
    """What is in a folder, sorted, LISTED entries at most. Raises OSError where it cannot be listed."""
    with os.scandir(folder) as found:
        entries = (
            Entry(not folder_like, entry.name.casefold(), entry.name)
            for entry in islice(found, LISTED)
            if (hidden or not entry.name.startswith(".")) and ((folder_like := _is_folder(entry)) or files)
        )
        return list(merge(*_sorted_runs(entries)))


def _sorted_runs(entries: Iterator[Entry]) -> list[list[Entry]]:
    runs = []
    while run := sorted(islice(entries, RUN)):
        runs.append(run)
    return runs


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def file_sizes(folder: Path, entries: Sequence[Entry]) -> dict[str, str]:
    """Name → size in words of the files of a page."""
    found = {}
    for entry in entries:
        if entry.is_file:
            with suppress(OSError):
                found[entry.name] = size_text((folder / entry.name).stat().st_size)
    return found


def size_text(size: float) -> str:
    """Bytes in words: `980 B`, `12.3 kB`, `4.0 MB` (powers of 1,000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
