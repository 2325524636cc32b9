"""Fields for text: Enter and the arrows go to the next one; paths are completed by Tab."""

from __future__ import annotations

import asyncio
import csv
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from textual import events, work
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.suggester import Suggester
from textual.widgets import Input

from engine.core.text import visible
from engine.project.folder import full_path

_EDITS = {
    binding.key: binding.action
    for binding in Binding.make_bindings(Input.BINDINGS)
    if binding.action != "submit"
}
MAX_ENTRIES = 20_000  # entries of a folder that a completion looks at


class Field(Input):
    """A line of text.

    Up and down go to the fields beside it. Control characters that are pasted are shown by signs.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(self, value: str = "", **options: Any) -> None:
        super().__init__(visible(value), **{"compact": True, "select_on_focus": False, **options})

    def validate_value(self, value: str) -> str:
        """One sign for one sign: as they are, they would steer the terminal."""
        return visible(value)

    async def _on_key(self, event: events.Key) -> None:
        """Edit at once, as letters do: a binding comes up through all ancestors, behind letters
        that were typed meanwhile.
        """
        if (action := _EDITS.get(event.key)) and await self.app.run_action(action, self):
            event.stop()
            event.prevent_default()

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Draw anew. Its size does not depend on its text: a letter typed lays nothing out."""
        return super().refresh(*regions, repaint=repaint, recompose=recompose)


class PatternField(Field):
    """Patterns with commas between.

    Lines that are pasted become patterns, too. Esc takes a change back.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "take_back", "take back", show=False)
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._kept = ""

    @property
    def is_changed(self) -> bool:
        return self.patterns != split_patterns(self._kept)

    @property
    def patterns(self) -> list[str]:
        """The patterns; a pattern that holds a comma stands in double quotes."""
        return split_patterns(self.value)

    def show(self, patterns: Iterable[str]) -> None:
        was_changed = self.is_changed
        self._kept = visible(join_patterns(patterns))
        if not was_changed:
            self.value = self._kept

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc has its usual meaning while nothing was changed."""
        if action == "take_back":
            return self.is_changed
        return super().check_action(action, parameters)

    def action_take_back(self) -> None:
        self.value = self._kept

    def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        self.insert_text_at_cursor(visible(", ".join(lines)))


def split_patterns(text: str) -> list[str]:
    """`a, b, "c,d"` → a / b / c,d. Empty ones are left out."""
    try:
        parts = [part for row in csv.reader([text], skipinitialspace=True) for part in row]
    except csv.Error:  # too long for it, or with a line end in it
        parts = text.split(",")
    return [part.strip() for part in parts if part.strip()]


def join_patterns(patterns: Iterable[str]) -> str:
    """The other way round."""
    return ", ".join(_quoted(pattern) for pattern in patterns)


def _quoted(pattern: str) -> str:
    if "," in pattern or pattern.startswith('"'):
        doubled = pattern.replace('"', '""')
        return f'"{doubled}"'
    return pattern


class PathField(Field):
    """A path. Tab completes it, and goes on to the next field once it names what exists.

    `files`: whether files are offered, too.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "complete", show=False)]

    def __init__(self, value: str = "", *, files: bool = False, **options: Any) -> None:
        super().__init__(value, suggester=_PathSuggester(files), **options)
        self._files = files
        self._picked: tuple[str, Path] | None = None

    @property
    def path(self) -> Path | None:
        """What is named, absolute; None where nothing is, or where it names no folder."""
        if self._picked is not None and self._picked[0] == self.value:
            return self._picked[1]
        text = self.value.strip()
        try:
            if text:
                return full_path(Path(text).expanduser())
            return None
        except RuntimeError:  # `~` of a user who is not known
            return None

    def pick(self, path: Path) -> None:
        """Show a path that was chosen elsewhere, whatever characters its name holds."""
        shown = visible(str(path))
        self._picked = (shown, path)
        self.value = shown
        self.cursor_position = len(shown)

    def type_on(self, character: str) -> None:
        """Take what was typed beside the field."""
        self.focus()
        self.insert_text_at_cursor(character)

    def browse(self) -> None:
        self.focus()
        self.select_all()
        if self.app.is_web:
            from bmembed_tui.window_driver import send_to_window

            send_to_window(self.app, type="pick_folder")

    @work(exclusive=True, group="completion")
    async def action_complete(self) -> None:
        """Complete as far as it is clear, else go on."""
        typed = self.value
        if self.cursor_at_end:
            longer = await asyncio.to_thread(completion, typed, self._files)
        else:
            longer = typed
        if not self.is_attached or self.value != typed:
            return
        if len(longer) > len(typed):
            self.value = longer
            self.cursor_position = len(longer)
        elif self.has_focus and (
            not typed or not self.cursor_at_end or await asyncio.to_thread(_is_there, self.path)
        ):
            self.screen.focus_next()


class _PathSuggester(Suggester):
    def __init__(self, files: bool) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._files = files

    async def get_suggestion(self, value: str) -> str | None:
        if value.endswith("/"):  # a folder is named: what is in it would look chosen
            return None
        found = await asyncio.to_thread(matches, value, self._files)
        return found[0] if found else None


def completion(text: str, files: bool = False) -> str:
    """`text` made longer by what all paths that begin so share; `text` itself where that is
    nothing.
    """
    return os.path.commonprefix(matches(text, files)) or text  # noqa: RUF071 — by characters, as it is typed


def matches(text: str, files: bool = False) -> list[str]:
    """Paths of folders (and files) that begin with `text`, sorted; folders end with a slash.

    Never raises.

    `~` stays as it was typed. Names that hold control characters are left out: they can be picked
    in the tree.
    """
    head, slash, begun = text.rpartition("/")
    if not slash:
        return []
    try:
        folder = Path(f"{head}/").expanduser()
        with os.scandir(folder) as entries:
            names = [
                _named(entry)
                for entry in islice(entries, MAX_ENTRIES)
                if entry.name.startswith(begun)
            ]
    except (OSError, RuntimeError, ValueError):
        return []
    return sorted(
        f"{head}/{name}"
        for name in names
        if (files or name.endswith("/"))
        and visible(name) == name
        and (begun or not name.startswith("."))
    )


def _is_there(path: Path | None) -> bool:
    try:
        return path is not None and path.exists()
    except (OSError, ValueError):
        return False


def _named(entry: os.DirEntry[str]) -> str:
    try:
        return f"{entry.name}/" if entry.is_dir() else entry.name
    except OSError:
        return entry.name
