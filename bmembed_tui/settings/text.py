"""project.toml as text, to be mended where it is not valid: the settings cannot be shown one by one then."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import TextArea

from bmembed_tui.dialogs.confirmations import ErrorDialog, ask
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain, visible
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError, SettingsError
from engine.project.folder import ProjectFolder


class SettingsTextScreen(Screen[bool]):
    """Closes with whether a valid project.toml was written. Nothing else is ever written."""

    HELP = """project.toml as it stands on the disk. Something in it is not valid; the lines below the text say what.
The cursor stands where the fault is. Ctrl+S checks the text and writes it; Esc leaves the file as it is."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="settings.back"),
        Binding("ctrl+s", "save", "save", id="settings.apply"),
    ]
    DEFAULT_CSS = """
    SettingsTextScreen #settings-text { height: 1fr; border: none; }
    SettingsTextScreen #settings-problem { height: auto; max-height: 8; background: $panel; padding: 0 1; }
    """

    def __init__(self, project: ProjectFolder, error: EngineError) -> None:
        super().__init__()
        self._project, self._error = project, error
        self._before = self._shown = ""
        self._saving = False

    def compose(self) -> ComposeResult:
        with Vertical(id="settings"):
            yield SafeStatic(plain(f"project.toml of {self._project.name}", "bold"), id="settings-title")
            yield TextArea(show_line_numbers=True, id="settings-text")
            yield SafeStatic(error_text(self._error), id="settings-problem")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Save", id="save", variant="primary", action="screen.save")
                yield SafeButton("Close", id="close", action="screen.back")
        yield KeyLine()

    def on_mount(self) -> None:
        self.load()

    @work(exclusive=True, group="settings-text")
    async def load(self) -> None:
        try:
            self._before = await asyncio.to_thread(self._project.settings_text)
        except EngineError as error:
            if self.is_attached:
                self.app.push_screen(ErrorDialog(error), lambda _: self.dismiss(False))
            return
        if self.is_attached:
            area = self.query_one(TextArea)
            area.text = "\n".join(map(_shown, _lines(self._before)))
            self._shown = area.text
            self._to_fault(self._error)
            area.focus()

    def _to_fault(self, error: EngineError) -> None:
        area = self.query_one(TextArea)
        area.move_cursor((fault_line(area.text, error), 0), center=True)

    @work(group="settings-text-save")
    async def action_save(self) -> None:
        if self._saving:
            return
        self._saving = True
        text = restored(self._before, self.query_one(TextArea).text)
        try:
            await asyncio.to_thread(self._project.replace_settings, self._before, text)
        except EngineError as error:
            if self.is_attached:
                self.query_one("#settings-problem", SafeStatic).update(error_text(error))
                self._to_fault(error)
            return
        finally:
            self._saving = False
        if self.is_attached:
            self.dismiss(True)

    def action_back(self) -> None:
        if self.query_one(TextArea).text == self._shown:
            self.dismiss(False)
            return
        answers = (("stay", "Go on editing"), ("leave", "Leave it as it was"))
        text = "What you changed in project.toml would be lost."
        ask(self.app, "Close without saving?", text, answers, leave=lambda: self.dismiss(False))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _shown(line: str) -> str:
    """A line of a file with a sign for every character that a terminal must not get."""
    return visible(line, lines=True).replace("\n", "\ufffd")


def restored(before: str, edited: str) -> str:
    """`edited` with the line ends of the text `before`; a line that was not touched is what it was, signs or not."""
    hidden = {_shown(line): line for line in _lines(before) if _shown(line) != line}
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in before), "\n")
    return line_end.join(hidden.get(line, line) for line in edited.split("\n"))


def fault_line(text: str, error: EngineError) -> int:
    """The line of `text`, from 0, that an error is about; 0 where that is not known."""
    if not isinstance(error, SettingsError):
        return 0
    lines = text.split("\n")
    if error.line:
        return min(error.line, len(lines)) - 1
    for part in filter(None, reversed(error.key.split("."))):
        written = re.compile(rf"\s*\[?\s*{re.escape(part)}\s*[=\]]")
        at = next((at for at, line in enumerate(lines) if written.match(line)), None)
        if at is not None:
            return at
    return 0
