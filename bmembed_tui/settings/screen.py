"""The settings screen: what each setting means, its value, and what a change makes stale."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeOptions, SafeStatic
from engine.core.errors import EngineError, nearest
from engine.core.messages.project import ReadSettings
from engine.core.text import visible
from engine.project.folder import ProjectFolder
from engine.settings.described import describe_sections
from engine.settings.values import Setting, from_text, list_settings, to_text

NAME_WIDTH = 32  # columns of the list for names
DEFAULT = "-default"  # the key of the answer that removes a setting; no setting has this value
ALL = "All settings"
COMMON = "Common settings"


class SettingsScreen(Screen[EngineError]):
    """The settings, common ones first. Closes with an error if they cannot be read."""

    HELP_NAME = "settings"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="settings.back"),
        Binding("ctrl+s", "save", "save", id="settings.save"),
    ]

    def __init__(self, client: EngineClient, project: ProjectFolder) -> None:
        super().__init__()
        self.client = client
        self._project = project
        self.settings = list_settings()
        self.sections = {section.name: section.help for section in describe_sections()}
        self.values: dict[str, Any] = {}
        self._written: set[str] = set()  # the names of the settings that project.toml has
        self._shows_all = False
        self._preset: Mapping[str, Any] = {}  # by name, the preset's values for settings not given
        # The field's text when it was last proposed; None after a refusal, so that Enter proposes
        # the same text again.
        self._last_value: str | None = ""
        self._edited: Setting | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="settings"):
            yield SafeStatic(
                plain(f"Settings of {self._project.name}", "bold"), id="settings-title"
            )
            yield Field(placeholder="type to find any setting", id="find")
            yield SafeOptions(id="setting-list")
            with Vertical(id="setting-details"):
                yield SafeStatic("", id="setting-help")
                yield Field(id="setting-value")
            yield ChangeLine(self.client.ask)
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    ALL,
                    id="all",
                    action="screen.all",
                )
                yield SafeButton(
                    "Close",
                    id="close",
                    action="screen.back",
                )
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#setting-value").display = False
        self.query_one("#find").focus()
        self._describe()
        self.load()

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        """Read the settings and draw them; close with the error if that fails."""
        try:
            answer = await self.client.ask(ReadSettings())
        except EngineError as error:
            if self.is_attached:
                self.dismiss(error)
            return
        if not self.is_attached:
            return
        self.values = {}
        for section, keys in answer.settings.items():
            self.values |= {f"{section}.{key}": value for key, value in keys.items()}
        self._written = set(answer.set)
        self._preset = {f"training.{key}": value for key, value in answer.preset.items()}
        self._draw()

    # The list

    @on(Input.Changed, "#find")
    def _draw(self) -> None:
        """List the settings to show, each section below a heading."""
        lines: list[tuple[str, Content]] = []
        if self.values:
            listed = [setting for setting in self.settings.values() if self._is_shown(setting)]
            for section, group in groupby(listed, lambda setting: setting.name.partition(".")[0]):
                lines.append(("", plain(f"{section}: {self.sections[section]}", "$text-muted")))
                lines += [(setting.name, self._format_line(setting)) for setting in group]
            if not listed:
                lines.append(("", plain(self._format_no_match(), "$text-muted")))
        self.query_one("#setting-list", SafeOptions).show(lines)
        self._describe()

    def _format_no_match(self) -> str:
        """Return that no setting matches what was typed, and the nearest name."""
        words = self.query_one("#find", Input).value.strip()
        text = f"No setting has '{words}'."
        nearest_name = nearest(words, self.settings)
        if nearest_name:
            text += f" Did you mean {nearest_name}?"
        return text

    def _is_shown(self, setting: Setting) -> bool:
        """Return whether to list a setting.

        What was typed selects by name and help text; else common and changed settings are listed.
        """
        words = self.query_one("#find", Input).value.lower().split()
        if words:
            text = f"{setting.name} {setting.key.help}".lower()
            return all(word in text for word in words)
        return self._shows_all or setting.key.common or setting.name in self._written

    def action_all(self) -> None:
        """Switch between all settings and the common ones."""
        self._shows_all = not self._shows_all
        self.query_one("#all", SafeButton).label = COMMON if self._shows_all else ALL
        self._draw()

    def _format_line(self, setting: Setting) -> Content:
        """Return the line of a setting; a • marks those that project.toml sets."""
        value = self.values.get(setting.name)
        origin = ""
        style = ""
        if value is None:
            style = "$text-muted"
            if setting.name in self._preset:
                value = self._preset[setting.name]
                origin = "  (preset)"
            else:
                value = setting.key.default
                origin = "  (default)"
        value_text = plain(f"{_format_value(value, setting.key.kind)}{origin}", style)
        sign = "•" if setting.name in self._written else " "
        return Content.assemble(plain(f"{sign} {setting.name:<{NAME_WIDTH}} "), value_text)

    @property
    def chosen(self) -> Setting | None:
        """The setting at the list's cursor; None at a heading."""
        options = self.query_one("#setting-list", SafeOptions)
        if options.highlighted is None or options.highlighted >= options.option_count:
            return None
        return self.settings.get(str(options.get_option_at_index(options.highlighted).id))

    def _describe(self) -> None:
        """Show the help, range and default of the chosen setting."""
        setting = self.chosen
        if setting is None:
            message = "no setting matches" if self.values else "reading the settings …"
            self.query_one("#setting-help", SafeStatic).update(message)
            return
        if setting.key.default is not None:
            default = _format_value(setting.key.default, setting.key.kind)
        elif setting.name in self._preset:
            default = "from the preset"
        else:
            default = "left out"
        facts = f"default: {default}"
        if setting.range_text:
            facts = f"{setting.range_text}; {facts}"
        help_text = plain(f"{setting.key.help}\n", lines=True)
        self.query_one("#setting-help", SafeStatic).update(
            Content.assemble(help_text, plain(facts, "$text-muted"))
        )

    @on(Input.Submitted, "#find")
    def _go_to_list(self) -> None:
        if self.chosen is not None:
            self.query_one("#setting-list").focus()

    @on(OptionList.OptionHighlighted, "#setting-list")
    def _show_highlighted(self) -> None:
        """Describe the highlighted setting, and close the field of another one."""
        self._hide_value()
        self._describe()
        if not self.query_one(ChangeLine).waiting:
            self.query_one(ChangeLine).clear()

    def on_key(self, event: events.Key) -> None:
        find = self.query_one("#find", Input)
        if event.character and event.is_printable and self.query_one("#setting-list").has_focus:
            event.stop()
            find.focus()
            find.insert_text_at_cursor(event.character)

    # Editing

    @on(OptionList.OptionSelected, "#setting-list")
    def _edit(self) -> None:
        """Ask for another value: in a dialog if there are few, else in the text field."""
        setting = self.chosen
        if setting is None:
            return
        if setting.answers:
            answers = [*((answer, answer) for answer in setting.answers), (DEFAULT, "Default")]
            self.app.push_screen(
                QuestionDialog(setting.name, setting.key.help, answers),
                lambda answer: self._take_answer(setting, answer),
            )
            return
        field = self.query_one("#setting-value", Input)
        text = visible(to_text(self.values.get(setting.name), setting.key.kind))
        field.value = text
        self._last_value = text
        self._edited = setting
        field.display = True
        field.focus()

    def _take_answer(self, setting: Setting, answer: str | None) -> None:
        """Propose the value that was chosen in the dialog."""
        if answer == DEFAULT:
            self._propose(setting, None)
        elif answer:
            self._propose(setting, from_text(answer, setting))

    @on(Input.Blurred, "#setting-value")
    def _take_left_value(self) -> None:
        """Propose the value in a field that has lost the focus."""
        if self.app.app_focus:  # else the user went to another window while typing
            self._take_value()

    @on(Input.Submitted, "#setting-value")
    def _take_value(self) -> None:
        """Propose the value in the field, or close the field if nothing has changed."""
        field = self.query_one("#setting-value", Input)
        setting = self._edited
        if setting is not None and field.value != self._last_value:
            self._last_value = field.value
            self._propose(setting, from_text(field.value, setting))
        elif field.has_focus:
            self._close_value()

    def _propose(self, setting: Setting, value: Any) -> None:
        self.query_one(ChangeLine).propose({setting.name: value})

    def _close_value(self) -> None:
        self._hide_value()
        self.query_one("#setting-list").focus()

    def _hide_value(self) -> None:
        self._edited = None
        self.query_one("#setting-value").display = False

    @on(ChangeLine.Dropped)
    def _note_refusal(self) -> None:
        """Remember that the last value was refused."""
        self._last_value = None

    @on(ChangeLine.Written)
    def _show_written(self) -> None:
        """Close the field, and read the settings that were just written."""
        self._close_value()
        self.load()

    def action_save(self) -> None:
        """Apply the waiting change, or propose the value in the field.

        If there is neither, say that everything is saved.
        """
        change = self.query_one(ChangeLine)
        if change.waiting:
            change.query_one("#change-apply", SafeButton).press()
        elif self._edited is not None:
            self._take_value()
        else:
            self.query_one("#setting-help", SafeStatic).update(
                "Everything is saved: a change is written as you make it."
            )

    def action_back(self) -> None:
        """Drop the waiting change, else leave the edited field, else close the screen."""
        if self.query_one(ChangeLine).waiting:
            self.query_one(ChangeLine).clear()
        elif self._edited is not None:
            self._close_value()
            self.query_one(ChangeLine).clear()
        else:
            self.dismiss()


def _format_value(value: Any, kind: str) -> str:
    """Return a value as text: `(empty)` for an empty text or list, and for null."""
    if value in ("", [], None):
        return "(empty)"
    return to_text(value, kind)
