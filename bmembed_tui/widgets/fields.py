"""Text fields: Enter and the arrows go to the next field, and Tab completes paths."""

from __future__ import annotations

import asyncio
import csv
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.suggester import Suggester
from textual.widgets import Input

from bmembed_tui.widgets.dropped import find_dropped_path
from engine.core.text import visible
from engine.project.folder import full_path

# The editing actions of Textual's Input by their keys, such as `delete_left` by `backspace`.
_EDITING_ACTIONS = {
    binding.key: binding.action
    for binding in Binding.make_bindings(Input.BINDINGS)
    if binding.action != "submit"
}
SEPARATORS = tuple(dict.fromkeys((os.sep, "/")))
MAX_ENTRIES = 20_000  # entries of a folder that a completion reads


class Field(Input):
    """A line of text.

    Up and down go to the neighbouring fields. Pasted lines become one. Control characters that are
    pasted become visible signs.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    # Unlike that of `Widget`, it lays nothing out: the field's place does not depend on its text.
    virtual_size = reactive(Size(0, 0))

    def __init__(self, value: str = "", **options: Any) -> None:
        """Take the options of `Input`, of which two have another default here."""
        super().__init__(visible(value), **{"compact": True, "select_on_focus": False, **options})

    def validate_value(self, value: str) -> str:
        """Return the value with control characters replaced, since they would steer the terminal.

        The length stays the same.
        """
        return visible(value)

    async def _on_key(self, event: events.Key) -> None:
        """Handle editing keys at once, as letters are.

        A binding would travel up through all ancestors, and arrive after letters that were typed
        meanwhile.
        """
        action = _EDITING_ACTIONS.get(event.key)
        if action and await self.app.run_action(action, self):
            event.stop()
            event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:
        """Join the lines of a pasted text, of which `Input` would insert only the first."""
        lines = event.text.splitlines()
        if len(lines) > 1:
            event.text = " ".join(filter(None, map(str.strip, lines)))


class PatternField(Field):
    """Patterns separated by commas.

    Pasted lines become patterns, too. Esc reverts a change.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "take_back", "take back", show=False)
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._saved_text = ""

    @property
    def is_changed(self) -> bool:
        return self.patterns != split_patterns(self._saved_text)

    @property
    def patterns(self) -> list[str]:
        """The patterns. A pattern that contains a comma is written in double quotes."""
        return split_patterns(self.value)

    def show(self, patterns: Iterable[str]) -> None:
        """Show the saved patterns, unless the user has typed others."""
        was_changed = self.is_changed
        self._saved_text = visible(join_patterns(patterns))
        if not was_changed:
            self.value = self._saved_text

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Esc its usual meaning while nothing is changed."""
        if action == "take_back":
            return self.is_changed
        return super().check_action(action, parameters)

    def action_take_back(self) -> None:
        self.value = self._saved_text

    def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        self.insert_text_at_cursor(visible(", ".join(lines)))


def split_patterns(text: str) -> list[str]:
    """Return the patterns in a text: `a, b, "c,d"` gives a, b and `c,d`. Empty ones are dropped."""
    parts: list[str] = []
    try:
        for row in csv.reader([text], skipinitialspace=True):
            parts += row
    except csv.Error:  # the text is too long, or contains a line end
        parts = text.split(",")
    return [part.strip() for part in parts if part.strip()]


def join_patterns(patterns: Iterable[str]) -> str:
    """Return the patterns as text that `split_patterns` reads."""
    return ", ".join(_quote(pattern) for pattern in patterns)


def _quote(pattern: str) -> str:
    """Return a pattern in double quotes if `split_patterns` could not read it without."""
    if "," in pattern or pattern.startswith('"'):
        doubled = pattern.replace('"', '""')
        return f'"{doubled}"'
    return pattern


class PathField(Field):
    """A path. Tab completes it, and goes to the next field once it names what exists.

    A second Tab goes there in any case.

    `files`: whether files are offered as well as folders.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "complete", show=False)]

    def __init__(
        self,
        value: str = "",
        *,
        files: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            value,
            suggester=_PathSuggester(files),
            **options,
        )
        self._files = files
        self._uncompleted = ""  # the text that the last Tab could not complete
        # The text that `pick` showed, and the path that it stands for.
        self._picked_text = ""
        self._picked_path: Path | None = None

    @property
    def path(self) -> Path | None:
        """The absolute path, or None where the field is empty or names an unknown user's home."""
        if self._picked_path is not None and self._picked_text == self.value:
            return self._picked_path
        text = self.value.strip()
        if not text:
            return None
        try:
            return full_path(Path(text).expanduser())
        except RuntimeError:  # `~` of a user who is not known
            return None

    def pick(self, path: Path) -> None:
        """Show a path that was chosen elsewhere, whatever characters its name contains."""
        text = visible(str(path))
        self._picked_text = text
        self._picked_path = path
        self.value = text
        self.cursor_position = len(text)

    async def on_paste(self, event: events.Paste) -> None:
        """Replace a path in quotes or a file:// address by the path; `Input` inserts it."""
        path = await asyncio.to_thread(find_dropped_path, event.text)
        if path is not None:
            event.text = str(path)

    def type_on(self, character: str) -> None:
        """Focus the field and insert a character that was typed outside of it."""
        self.focus()
        self.insert_text_at_cursor(character)

    def browse(self) -> None:
        """Let the window ask for a folder, whose path replaces the selected text."""
        self.focus()
        self.select_all()
        if self.app.is_web:
            from bmembed_tui.window_driver import send_to_window

            send_to_window(self.app, type="pick_folder")

    @work(exclusive=True, group="completion")
    async def action_complete(self) -> None:
        """Complete the path as far as it is unambiguous, else go to the next field."""
        typed = self.value
        if self.cursor_at_end:
            completed = await asyncio.to_thread(
                complete_path,
                typed,
                self._files,
            )
        else:
            completed = typed
        if not self.is_attached or self.value != typed:
            return
        if len(completed) > len(typed):
            self.value = completed
            self.cursor_position = len(completed)
        elif self.has_focus and await self._is_finished(typed):
            self.screen.focus_next()
        else:
            self._uncompleted = typed

    async def _is_finished(self, text: str) -> bool:
        """Return whether Tab should leave the field: nothing to complete, or the path exists."""
        if not text or not self.cursor_at_end or text == self._uncompleted:
            return True
        return await asyncio.to_thread(_exists, self.path)


class _PathSuggester(Suggester):
    """Suggests the first path that begins with what was typed."""

    def __init__(self, files: bool) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._files = files

    async def get_suggestion(self, value: str) -> str | None:
        # Suggesting an entry of the folder would make it look chosen.
        if value.endswith(SEPARATORS):
            return None
        paths = await asyncio.to_thread(
            find_paths,
            value,
            self._files,
        )
        return paths[0] if paths else None


def complete_path(text: str, files: bool = False) -> str:
    """Return `text` extended by what all paths that begin with `text` share.

    `/home/a/Do` becomes `/home/a/Documents/` if no other folder begins so. Without anything to add,
    `text` is returned.
    """
    # The common prefix is one of characters, not of whole path components.
    return os.path.commonprefix(find_paths(text, files)) or text  # noqa: RUF071


def find_paths(text: str, files: bool = False) -> list[str]:
    """Return the folders, and with `files` the files, whose path begins with `text`, sorted.

    Folders end with the separator that was typed last, and `~` stays as it was typed. Names with
    control characters are left out: they can be picked in the tree. Never raises.
    """
    last_separator = max(text.rfind(separator) for separator in SEPARATORS)
    if last_separator < 0:
        return []
    folder = text[: last_separator + 1]
    prefix = text[last_separator + 1 :]
    try:
        with os.scandir(Path(folder).expanduser()) as entries:
            names = [
                _format_entry(entry, text[last_separator])
                for entry in islice(entries, MAX_ENTRIES)
                if entry.name.startswith(prefix)
            ]
    except (OSError, RuntimeError, ValueError):
        return []
    paths = []
    for name in names:
        is_wanted = files or name.endswith(SEPARATORS)
        is_hidden = name.startswith(".") and not prefix
        if is_wanted and not is_hidden and visible(name) == name:
            paths.append(f"{folder}{name}")
    return sorted(paths)


def _exists(path: Path | None) -> bool:
    try:
        return path is not None and path.exists()
    except (OSError, ValueError):
        return False


def _format_entry(entry: os.DirEntry[str], separator: str) -> str:
    """Return the name of an entry; that of a folder ends with the separator."""
    try:
        is_folder = entry.is_dir()
    except OSError:
        is_folder = False
    return f"{entry.name}{separator}" if is_folder else entry.name
