"""The settings, common ones first: what each means, its value, and which stages a change makes
stale.
"""

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
from engine.settings.described import described_sections
from engine.settings.values import Setting, every_setting, from_text, to_text

NAME_WIDTH = 32
DEFAULT = "-default"  # is no setting's value
ALL = "All settings"
COMMON = "Common settings"


class SettingsScreen(Screen[EngineError]):
    """Closes with the error where the settings cannot be read."""

    HELP = """The settings of this project, the same as in its project.toml: those that people change, and those that are set here.
Type to find any other, or press "All settings". Enter edits one; an empty value goes back to the default.
Before a change is saved, the last lines say which steps it puts out of date: the next run does them again.
What is searchable now stays searchable until then."""  # noqa: E501
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="settings.back"),
        Binding("ctrl+s", "save", "save", id="settings.save"),
    ]

    def __init__(self, client: EngineClient, project: ProjectFolder) -> None:
        super().__init__()
        self.client = client
        self._project = project
        self.settings = every_setting()
        self.sections = {section.name: section.help for section in described_sections()}
        self.values: dict[str, Any] = {}
        self._written: set[str] = set()
        self._all = False
        self._preset: Mapping[str, Any] = {}
        self._shown_value: str | None = ""  # None: what the field holds was refused
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
                yield SafeButton(ALL, id="all", action="screen.all")
                yield SafeButton("Close", id="close", action="screen.back")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#setting-value").display = False
        self.query_one("#find").focus()
        self._describe()
        self.load()

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        try:
            found = await self.client.ask(ReadSettings())
        except EngineError as error:
            if self.is_attached:
                self.dismiss(error)
            return
        if not self.is_attached:
            return
        self.values = {
            f"{section}.{key}": value
            for section, keys in found.settings.items()
            for key, value in keys.items()
        }
        self._written = set(found.set)
        self._preset = {
            f"training.{key.removeprefix('training.')}": value
            for key, value in found.preset.items()
        }
        self._draw()

    # The list

    @on(Input.Changed, "#find")
    def _draw(self) -> None:
        shown = [
            setting for setting in self.settings.values() if self.values and self._is_shown(setting)
        ]
        lines: list[tuple[str, Content]] = []
        for section, group in groupby(shown, lambda setting: setting.name.partition(".")[0]):
            lines += [("", plain(f"{section}: {self.sections[section]}", "$text-muted"))]
            lines += [(setting.name, self._line(setting)) for setting in group]
        if self.values and not lines:
            lines = [("", plain(self._none_found(), "$text-muted"))]
        self.query_one("#setting-list", SafeOptions).show(lines)
        self._describe()

    def _none_found(self) -> str:
        words = self.query_one("#find", Input).value.strip()
        near = nearest(words, self.settings)
        return f"No setting has '{words}'." + (f" Did you mean {near}?" if near else "")

    def _is_shown(self, setting: Setting) -> bool:
        if words := self.query_one("#find", Input).value.lower().split():
            return all(word in f"{setting.name} {setting.key.help}".lower() for word in words)
        return self._all or setting.key.common or setting.name in self._written

    def action_all(self) -> None:
        """All settings, or the common ones."""
        self._all = not self._all
        self.query_one("#all", SafeButton).label = COMMON if self._all else ALL
        self._draw()

    def _line(self, setting: Setting) -> Content:
        value = self.values.get(setting.name)
        kind = setting.key.kind
        if value is not None:
            shown = plain(_value_text(value, kind))
        else:
            standard = _value_text(self._preset.get(setting.name, setting.key.default), kind)
            shown = plain(
                f"{standard}  ({'preset' if setting.name in self._preset else 'default'})",
                "$text-muted",
            )
        sign = "•" if setting.name in self._written else " "
        return Content.assemble(plain(f"{sign} {setting.name:<{NAME_WIDTH}} "), shown)

    @property
    def chosen(self) -> Setting | None:
        options = self.query_one("#setting-list", SafeOptions)
        if options.highlighted is None or options.highlighted >= options.option_count:
            return None
        return self.settings.get(str(options.get_option_at_index(options.highlighted).id))

    def _describe(self) -> None:
        setting = self.chosen
        if setting is None:
            if self.values:
                nothing = "no setting matches"
            else:
                nothing = "reading the settings …"
            self.query_one("#setting-help", SafeStatic).update(nothing)
            return
        if setting.name in self._preset:
            unset = "from the preset"
        else:
            unset = "left out"
        if setting.key.default is None:
            default = unset
        else:
            default = _value_text(setting.key.default, setting.key.kind)
        facts = "; ".join(filter(None, [setting.range_text, f"default: {default}"]))
        self.query_one("#setting-help", SafeStatic).update(
            Content.assemble(
                plain(f"{setting.key.help}\n", lines=True), plain(facts, "$text-muted")
            )
        )

    @on(Input.Submitted, "#find")
    def _to_list(self) -> None:
        if self.chosen is not None:
            self.query_one("#setting-list").focus()

    @on(OptionList.OptionHighlighted, "#setting-list")
    def _highlighted(self) -> None:
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
        setting = self.chosen
        if setting is None:
            return
        if setting.answers:
            answers = [*((answer, answer) for answer in setting.answers), (DEFAULT, "Default")]
            self.app.push_screen(
                QuestionDialog(setting.name, setting.key.help, answers),
                lambda answer: self._answered(setting, answer),
            )
            return
        field = self.query_one("#setting-value", Input)
        field.value = self._shown_value = visible(
            to_text(self.values.get(setting.name), setting.key.kind)
        )
        self._edited = setting
        field.display = True
        field.focus()

    def _answered(self, setting: Setting, answer: str | None) -> None:
        if answer:
            self._propose(setting, None if answer == DEFAULT else from_text(answer, setting))

    @on(Input.Blurred, "#setting-value")
    def _left_value(self) -> None:
        if self.app.app_focus:  # else the user has gone to another window in the middle of typing
            self._take_value()

    @on(Input.Submitted, "#setting-value")
    def _take_value(self) -> None:
        field = self.query_one("#setting-value", Input)
        setting = self._edited
        if setting is not None and field.value != self._shown_value:
            self._shown_value = field.value
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
    def _not_written(self) -> None:
        self._shown_value = None

    @on(ChangeLine.Written)
    def _changed(self) -> None:
        self._close_value()
        self.load()

    def action_save(self) -> None:
        """The change that is asked about, or the value in its field; anything else is written
        already.
        """
        if (change := self.query_one(ChangeLine)).waiting:
            change.query_one("#change-apply", SafeButton).press()
        elif self._edited is not None:
            self._take_value()
        else:
            self.query_one("#setting-help", SafeStatic).update(
                "Everything is saved: a change is written as you make it."
            )

    def action_back(self) -> None:
        """Out of a change that is not agreed to, out of the field that is edited, out of the
        screen.
        """
        if self.query_one(ChangeLine).waiting:
            self.query_one(ChangeLine).clear()
        elif self._edited is not None:
            self._close_value()
            self.query_one(ChangeLine).clear()
        else:
            self.dismiss()


def _value_text(value: Any, kind: str) -> str:
    if value in ("", [], None):
        return "(empty)"
    return to_text(value, kind)
