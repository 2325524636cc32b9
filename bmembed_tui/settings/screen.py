"""Every setting, from the engine's own schema: its meaning, its value, and which stages a change makes stale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.dialogs.confirmations import ErrorDialog, QuestionDialog, ask
from bmembed_tui.settings.text import SettingsTextScreen
from bmembed_tui.settings.values import Setting, from_text, to_text
from bmembed_tui.widgets.change_line import error_text, format_effect
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain, visible
from bmembed_tui.widgets.safe import SafeButton, SafeOptions, SafeStatic
from engine.core.errors import EngineError, SettingsError
from engine.core.messages.project import ChangeSettings, Effect, ReadSchema, ReadSettings, WhatIf
from engine.project.folder import ProjectFolder

NAME_WIDTH = 32
DEFAULT = "-default"  # is no setting's value


class SettingsScreen(Screen[bool]):
    """Closes with whether something was changed. Changes are gathered, and written together by Apply."""

    HELP = """Every setting of this project, the same as in its project.toml.
Type to find one; Enter on it edits it; an empty value goes back to the default.
Before anything is written, the last lines say which stages a change makes stale: they are done again by the next run.
What is searchable now stays searchable until then."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="settings.back"),
        Binding("ctrl+s", "apply", "apply", id="settings.apply"),
        Binding("ctrl+z", "discard", "discard changes", id="settings.discard"),
    ]

    def __init__(self, client: EngineClient, project: ProjectFolder) -> None:
        super().__init__()
        self._client, self._project = client, project
        self.settings: dict[str, Setting] = {}
        self.values: dict[str, Any] = {}
        self._written: set[str] = set()
        self._preset: Mapping[str, Any] = {}
        self.changes: dict[str, Any] = {}
        self._written_once = False
        self._checked = False
        self._shown_value = ""
        self._edited: Setting | None = None
        self._apply_wanted = False

    def compose(self) -> ComposeResult:
        with Vertical(id="settings"):
            yield SafeStatic(plain(f"Settings of {self._project.name}", "bold"), id="settings-title")
            yield Field(placeholder="type to find a setting", id="find")
            yield SafeOptions(id="setting-list")
            with Vertical(id="setting-details"):
                yield SafeStatic("", id="setting-help")
                yield Field(id="setting-value")
                yield SafeStatic("", id="setting-effect")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Apply", id="apply", variant="primary", disabled=True, action="screen.apply")
                yield SafeButton("Discard", id="discard", disabled=True, action="screen.discard")
                yield SafeButton("Close", id="close", action="screen.back")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#setting-value").display = False
        self.query_one("#find").focus()
        self.load()

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        try:
            schema = await self._client.ask(ReadSchema())
            found = await self._client.ask(ReadSettings())
        except SettingsError as error:
            if self.is_attached:
                self.app.push_screen(SettingsTextScreen(self._project, error), self._mended)
            return
        except EngineError as error:
            if self.is_attached:
                self.app.push_screen(ErrorDialog(error), lambda _: self.dismiss(self._written_once))
            return
        if not self.is_attached:
            return
        made = [Setting(f"{part.name}.{key.name}", key) for part in schema.sections for key in part.keys]
        self.settings = {setting.name: setting for setting in made}
        self.values = {
            f"{section}.{key}": value for section, keys in found.settings.items() for key, value in keys.items()
        }
        self._written = set(found.set)
        self._preset = {f"training.{key.removeprefix('training.')}": value for key, value in found.preset.items()}
        self._draw()

    def _mended(self, is_mended: bool | None) -> None:
        """project.toml was not valid, and has been looked at as text."""
        if is_mended:
            self._written_once = True
            self.load()
        else:
            self.dismiss(self._written_once)

    # The list

    @on(Input.Changed, "#find")
    def _draw(self) -> None:
        words = self.query_one("#find", Input).value.lower().split()
        lines = [
            (name, self._line(setting))
            for name, setting in self.settings.items()
            if all(word in f"{name} {setting.key.help}".lower() for word in words)
        ]
        self.query_one("#setting-list", SafeOptions).show(lines)
        self.query_one("#apply").disabled = not (self.changes and self._checked)
        self.query_one("#discard").disabled = not self.changes
        self._describe()

    def _line(self, setting: Setting) -> Content:
        changed = setting.name in self.changes
        value = self.changes[setting.name] if changed else self.values.get(setting.name)
        sign = "* " if changed else "• " if setting.name in self._written else "  "
        return Content.assemble(
            plain(f"{sign}{setting.name:<{NAME_WIDTH}} ", "bold" if changed else ""), self._shown(setting, value)
        )

    def _shown(self, setting: Setting, value: Any) -> Content:
        if value is not None:
            return plain(to_text(value, setting.key.kind) or "(empty)")
        standard = self._preset.get(setting.name, setting.key.default)
        origin = "preset" if setting.name in self._preset else "default"
        return plain(f"{to_text(standard, setting.key.kind) or 'none'}  ({origin})", "$text-muted")

    @property
    def chosen(self) -> Setting | None:
        options = self.query_one("#setting-list", SafeOptions)
        if options.highlighted is None or options.highlighted >= options.option_count:
            return None
        return self.settings.get(str(options.get_option_at_index(options.highlighted).id))

    def _describe(self) -> None:
        setting = self.chosen
        if setting is None:
            self.query_one("#setting-help", SafeStatic).update("" if self.settings else "reading the settings …")
            return
        unset = "from the preset" if setting.name in self._preset else "left out"
        default = to_text(setting.key.default, setting.key.kind) or unset
        facts = "; ".join(filter(None, [setting.range_text, f"default: {default}"]))
        self.query_one("#setting-help", SafeStatic).update(
            Content.assemble(plain(f"{setting.key.help}\n", lines=True), plain(facts, "$text-muted"))
        )

    @on(Input.Submitted, "#find")
    def _to_list(self) -> None:
        self.query_one("#setting-list").focus()

    @on(OptionList.OptionHighlighted, "#setting-list")
    def _highlighted(self) -> None:
        self._take_value()
        self._hide_value()
        self._describe()

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
                QuestionDialog(setting.name, setting.key.help, answers), lambda answer: self._answered(setting, answer)
            )
            return
        value = self.changes.get(setting.name, self.values.get(setting.name))
        field = self.query_one("#setting-value", Input)
        field.value = self._shown_value = visible(to_text(value, setting.key.kind))
        self._edited = setting
        field.display = True
        field.focus()

    def _answered(self, setting: Setting, answer: str | None) -> None:
        if answer:
            self._change(setting, None if answer == DEFAULT else from_text(answer, setting))

    @on(Input.Blurred, "#setting-value")
    def _left_value(self) -> None:
        if self.app.app_focus:  # else the user has gone to another window in the middle of typing
            self._take_value()

    def _take_value(self) -> None:
        field, setting = self.query_one("#setting-value", Input), self._edited
        if setting is not None and field.value != self._shown_value:
            self._shown_value = field.value
            self._change(setting, from_text(field.value, setting))

    @on(Input.Submitted, "#setting-value")
    def _close_value(self) -> None:
        self._take_value()
        self._hide_value()
        self.query_one("#setting-list").focus()

    def _hide_value(self) -> None:
        self._edited = None
        self.query_one("#setting-value").display = False

    def _change(self, setting: Setting, value: Any) -> None:
        if value == self.values.get(setting.name) and (value is not None or setting.name not in self._written):
            self.changes.pop(setting.name, None)
        else:
            self.changes[setting.name] = value
        self._checked = False
        self._draw()
        self.check_effect()

    @work(exclusive=True, group="effect")
    async def check_effect(self) -> None:
        line = self.query_one("#setting-effect", SafeStatic)
        if not self.changes:
            self._apply_wanted = False
            line.update("")
            return
        line.update("looking what this changes …")
        try:
            found = await self._client.ask(WhatIf(self.changes))
        except EngineError as error:
            found = Effect(problem=error)
        if self.is_attached and self.query("#apply"):  # while the screen is taken down, its parts go first
            line.update(_effect(found))
            self._checked = not found.problem
            self.query_one("#apply").disabled = not self._checked
            self._apply_if_wanted(found)

    # Applying

    def _apply_if_wanted(self, found: Effect) -> None:
        """Apply was pressed before it was known what becomes stale, which has to be seen first."""
        wanted, self._apply_wanted = self._apply_wanted and self._checked, False
        if wanted and not found.makes_stale:
            self._write()
        elif wanted and not isinstance(self.focused, Input):
            self.query_one("#apply").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """All changes are not discarded by a key that takes back a letter elsewhere."""
        return not (action == "discard" and isinstance(self.focused, Input))

    def action_apply(self) -> None:
        """Write the changes to project.toml, what is being typed among them, once it is shown what they make stale."""
        if self._edited is not None:
            self._close_value()
        if self.changes and self._checked:
            self._write()
        else:
            self._apply_wanted = bool(self.changes)

    @work(exclusive=True, group="apply")
    async def _write(self) -> None:
        written = dict(self.changes)
        try:
            await self._client.ask(ChangeSettings(written))
        except EngineError as error:
            if self.is_attached:
                self.app.push_screen(ErrorDialog(error))
            return
        self._written_once = True
        if self.is_attached:
            left = {
                name: value for name, value in self.changes.items() if name not in written or value != written[name]
            }
            self.changes = left
            self.query_one("#setting-effect", SafeStatic).update("Written to project.toml.")
            self.load()
            if left:
                self.check_effect()

    def action_discard(self) -> None:
        self._hide_value()
        self.changes, self._checked = {}, False
        self._draw()
        self.check_effect()

    def action_back(self) -> None:
        """Out of the field that is edited; out of the screen, after a question where changes are not applied."""
        field = self.query_one("#setting-value", Input)
        if field.has_focus:
            self._hide_value()
            self.query_one("#setting-list").focus()
            return
        self._take_value()
        if self.changes:
            text, answers = f"{len(self.changes)} changes are not written yet.", [("stay", "Stay"), ("leave", "Leave")]
            ask(self.app, "Leave without applying?", text, answers, leave=lambda: self.dismiss(self._written_once))
        else:
            self.dismiss(self._written_once)


def _effect(found: Effect) -> Content:
    if found.problem:
        return error_text(found.problem)
    return format_effect(found.stages) if found.stages else plain("✓ Makes no further stage stale.", "$text-success")
