"""Step Model: the encoder that is adapted, where it runs and how precisely, and whether this machine is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Input

from bmembed_tui.home.new_project import PRESETS
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.model.hanging import HangingStatic
from bmembed_tui.steps.model.text import choice_line, machine_text, model_line, of_topic, preset_text
from bmembed_tui.widgets.change_line import ChangeLine, error_text
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import Examine, Finding, ProjectStatus, ReadSettings
from engine.settings.schema import DEFAULT_MODEL

BUNDLED = (DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}")
DEVICES = tuple((name, name) for name in ("auto", "cpu", "cuda"))
PRECISIONS = tuple((name, name) for name in ("auto", "float32", "bfloat16", "float16"))
KEYS = {"model-device": "encoder.device", "model-dtype": "encoder.dtype", "model-preset": "training.preset"}
NOTES = {"encoder.model": "model-note", "encoder.device": "device-note", "encoder.dtype": "dtype-note"}
LOOKING = "looking …"


class ModelPane(StepPane):
    """Step Model."""

    step = "model"
    title = "Model"
    lead = "The encoder turns texts into vectors. Training adapts it to your documents."
    help_text = """Encoder: the bundled one knows English best and is small and quick. A folder may hold another \
sentence-transformers model, as safetensors: Enter checks it and says what is wrong with it. Nothing is ever downloaded.
Device: where the encoder is trained and run. auto takes a CUDA GPU where there is one.
Precision: how exactly numbers are kept. auto takes what is fastest here without harm; the reason stands below.
Training: quick is for a first look, standard for use, paper to compare with the published method.
A change that makes results stale is shown before it is written; search goes on with the former results until the next run.
Everything else about training is in the settings."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "look", "look at the machine again", id="model.look", show=False)
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._settings: Mapping[str, Any] = {}
        self._values: Mapping[str, Any] = {}

    def compose_body(self) -> ComposeResult:
        """Choices with their reasons, then the machine."""
        with VerticalScroll(id="model-scroll"):
            yield ChoiceRow("Encoder", (("bundled", "bundled"), ("folder", "a folder")), id="model-encoder")
            with Horizontal(id="model-folder-row"):
                yield PathField(placeholder="a folder with a sentence-transformers model", id="model-folder")
                yield SafeButton("Check", id="model-check")
            yield SafeStatic(LOOKING, id="model-note", classes="model-reason")
            yield ChoiceRow("Device", DEVICES, id="model-device")
            yield SafeStatic(LOOKING, id="device-note", classes="model-reason")
            yield ChoiceRow("Precision", PRECISIONS, id="model-dtype")
            yield SafeStatic(LOOKING, id="dtype-note", classes="model-reason")
            yield ChoiceRow("Training", [(name, name) for name in PRESETS], id="model-preset")
            yield SafeStatic("", id="preset-note", classes="model-reason")
            yield SafeStatic("This machine", classes="model-heading")
            yield HangingStatic(LOOKING, id="machine")
        yield ChangeLine(self.ask, id="model-change")

    def compose_buttons(self) -> ComposeResult:
        """On to the queries."""
        yield SafeButton("Continue", id="primary", variant="primary")
        yield SafeButton("Look again", id="model-look")

    def on_mount(self) -> None:
        """The path of a model is asked for only where one is wanted."""
        self._show_folder(False)

    def entered(self) -> None:
        """Look anew: memory and disk change."""
        super().entered()
        if self._settings:
            self.look()
        self.load()

    def left(self) -> None:
        """A change that was not applied is forgotten."""
        if self.query_one(ChangeLine).waiting:
            self._restore()
        self.query_one(ChangeLine).clear()

    def show_status(self, status: ProjectStatus) -> None:
        """Settings may have been changed elsewhere."""
        if self.host.pane is self and not self.query_one(ChangeLine).waiting:
            self.load()

    # What is set

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        """Read the settings; look at the machine where they have changed."""
        try:
            found = await self.ask(ReadSettings())
        except EngineError as error:
            if self.is_attached:
                self.query_one("#model-note", SafeStatic).update(error_text(error))
            return
        if not self.is_attached:
            return
        former, self._settings, self._values = self._settings, found.settings, found.preset
        if former.get("encoder") != self._settings["encoder"]:
            self._restore()
        self._show_choices()
        if former != self._settings:
            self.look()

    @property
    def _model(self) -> str:
        return str(self._settings.get("encoder", {}).get("model", DEFAULT_MODEL)).strip()

    def _restore(self) -> None:
        """Show the settings as they are."""
        field, own = self.query_one("#model-folder", PathField), self._model not in BUNDLED
        self.query_one("#model-encoder", ChoiceRow).show("folder" if own else "bundled")
        self._show_folder(own)
        if own:
            field.pick(Path(self._model))
        self._show_choices()

    def _show_choices(self) -> None:
        for name, key in KEYS.items():
            section, _, setting = key.partition(".")
            self.query_one(f"#{name}", ChoiceRow).show(str(self._settings.get(section, {}).get(setting, "")))
        training = self._settings.get("training", {})
        note = preset_text(str(training.get("preset", "")), training, self._values)
        self.query_one("#preset-note", SafeStatic).update(note)

    def _show_folder(self, shown: bool) -> None:
        self.query_one("#model-folder-row").display = shown

    # What is there

    def action_look(self) -> None:
        """Look at the machine again."""
        for name in ("machine", "device-note", "dtype-note", "model-note"):
            self.query_one(f"#{name}", SafeStatic).update(plain(LOOKING, "$text-muted"))
        self.look()

    @work(exclusive=True, group="doctor")
    async def look(self) -> None:
        """Ask the engine's doctor. What it told before stays until it has told anew."""
        try:
            findings = (await self.ask(Examine())).findings
        except EngineError as error:
            if self.is_attached:
                self.query_one("#machine", HangingStatic).show(error_text(error))
            return
        if not self.is_attached:
            return
        self._show_machine(findings)
        self.query_one("#model-note", SafeStatic).update(model_line(findings))

    def _show_machine(self, findings: Sequence[Finding]) -> None:
        for topic in ("device", "dtype"):
            self.query_one(f"#{topic}-note", SafeStatic).update(choice_line(findings, topic))
        self.query_one("#machine", HangingStatic).show(machine_text(findings))

    @work(exclusive=True, group="doctor")
    async def check(self, model: str) -> None:
        """Look at a model folder; take it where it can be used."""
        note = self.query_one("#model-note", SafeStatic)
        note.update(plain(LOOKING, "$text-muted"))
        try:
            findings = (await self.ask(Examine(model))).findings
        except EngineError as error:
            if self.is_attached:
                note.update(error_text(error))
            return
        if not self.is_attached:
            return
        note.update(model_line(findings))
        if all(finding.state == "good" for finding in of_topic(findings, "model")):
            self._show_machine(findings)
            if model != self._model:
                self.query_one(ChangeLine).propose({"encoder.model": model})

    # What is wanted

    @on(ChoiceRow.Chosen)
    def _chosen(self, event: ChoiceRow.Chosen) -> None:
        event.stop()
        change = self.query_one(ChangeLine)
        if event.row.id in KEYS:
            change.propose({KEYS[event.row.id]: event.value})
            return
        self._show_folder(event.value == "folder")
        change.clear()
        if event.value == "folder":
            self.query_one("#model-note", SafeStatic).update("Type the folder's path, then Enter checks it.")
            self.query_one("#model-folder").focus()
        elif self._model not in BUNDLED:
            change.propose({"encoder.model": None})
        else:
            self.look()

    @on(Input.Submitted, "#model-folder")
    @on(Button.Pressed, "#model-check")
    def _check(self, event: Input.Submitted | Button.Pressed) -> None:
        event.stop()
        field = self.query_one("#model-folder", PathField)
        if field.path is not None:
            self.check(str(field.path))
        else:
            self.query_one("#model-note", SafeStatic).update("✗ Type the path of a folder first.")

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        event.stop()
        self._settings = event.settings
        self._restore()
        for key in event.changes:
            if key in NOTES:
                self.query_one(f"#{NOTES[key]}", SafeStatic).update(plain(LOOKING, "$text-muted"))
        self.host.load()
        self.look()

    @on(ChangeLine.Dropped)
    def _dropped(self, event: ChangeLine.Dropped) -> None:
        event.stop()
        self._restore()
        self.look()

    @on(Button.Pressed, "#primary")
    def _continue(self, event: Button.Pressed) -> None:
        event.stop()
        self.host.go("queries")

    @on(Button.Pressed, "#model-look")
    def _look_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_look()

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        """What can be done here now."""
        return {"Model: look at the machine again": ("memory, disk, device and model are checked anew", "look")}
