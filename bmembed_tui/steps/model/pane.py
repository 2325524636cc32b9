"""Step Model: the encoder that is adapted, where it runs and how precisely, and whether this machine is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Input

from bmembed_tui.home.new_project import PRESETS
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.model.text import format_machine, format_preset, format_topic, of_topic
from bmembed_tui.widgets.change_line import ChangeLine, answer_or_error
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.hanging import HangingStatic
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.messages.project import Examine, Finding, ProjectStatus, ReadSettings
from engine.settings.load import validate
from engine.settings.schema import DEFAULT_MODEL, Settings

BUNDLED = (DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}")
DEVICES = tuple((name, name) for name in ("auto", "cpu", "cuda"))
PRECISIONS = tuple((name, name) for name in ("auto", "float32", "bfloat16", "float16"))
KEYS = {"model-device": "encoder.device", "model-dtype": "encoder.dtype", "model-preset": "training.preset"}
NOTES = {"model": "#model-note", "device": "#device-note", "dtype": "#dtype-note"}  # by the doctor's topic
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
        self._settings: Settings | None = None
        self._values: Mapping[str, Any] = {}

    def compose_body(self) -> ComposeResult:
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
        yield SafeButton("Continue", id="primary", variant="primary")
        yield SafeButton("Look again", id="look")

    def on_mount(self) -> None:
        self._show_folder(False)

    def entered(self) -> None:
        super().entered()
        if self._settings:
            self.look()
        self.load()

    def left(self) -> None:
        if self.query_one(ChangeLine).waiting:
            self._restore()
        self.query_one(ChangeLine).clear()

    def show_status(self, status: ProjectStatus) -> None:
        if self.host.pane is self and not self.query_one(ChangeLine).waiting:
            self.load()

    # What is set

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        found = await answer_or_error(self, self.ask(ReadSettings()), self.query_one("#model-note", SafeStatic).update)
        if found is None:
            return
        former, self._settings, self._values = self._settings, validate(found.settings), found.preset
        if former is None or former.encoder != self._settings.encoder:
            self._restore()
        self._show_choices()
        if former != self._settings:
            self.look()

    @property
    def _model(self) -> str:
        return self._settings.encoder.model if self._settings else DEFAULT_MODEL

    def _restore(self) -> None:
        field, own = self.query_one("#model-folder", PathField), self._model not in BUNDLED
        self.query_one("#model-encoder", ChoiceRow).show("folder" if own else "bundled")
        self._show_folder(own)
        if own:
            field.pick(Path(self._model))
        self._show_choices()

    def _show_choices(self) -> None:
        if self._settings is None:
            return
        for name, key in KEYS.items():
            self.query_one(f"#{name}", ChoiceRow).show(attrgetter(key)(self._settings))
        note = format_preset(self._settings.training, self._values)
        self.query_one("#preset-note", SafeStatic).update(note)

    def _show_folder(self, shown: bool) -> None:
        self.query_one("#model-folder-row").display = shown

    # What is there

    def action_look(self) -> None:
        self.query_one("#machine", SafeStatic).update(plain(LOOKING, "$text-muted"))
        self.look()

    @work(exclusive=True, group="doctor")
    async def look(self) -> None:
        """Ask the engine's doctor. What it found before stays until there is an answer."""
        if answer := await answer_or_error(self, self.ask(Examine()), self.query_one("#machine", HangingStatic).show):
            self._show_findings(answer.findings)

    def _show_findings(self, findings: Sequence[Finding]) -> None:
        for topic, note in NOTES.items():
            self.query_one(note, SafeStatic).update(format_topic(findings, topic))
        self.query_one("#machine", HangingStatic).show(format_machine(findings))

    @work(exclusive=True, group="doctor")
    async def check(self, model: str) -> None:
        note = self.query_one("#model-note", SafeStatic)
        note.update(plain(LOOKING, "$text-muted"))
        answer = await answer_or_error(self, self.ask(Examine(model)), note.update)
        if answer is None:
            return
        if any(finding.state != "good" for finding in of_topic(answer.findings, "model")):
            note.update(format_topic(answer.findings, "model"))
            return
        self._show_findings(answer.findings)
        if model != self._model:
            self.query_one(ChangeLine).propose({"encoder.model": model})

    # What is wanted

    @on(ChoiceRow.Chosen)
    def _chosen(self, event: ChoiceRow.Chosen) -> None:
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
    def _check(self) -> None:
        field = self.query_one("#model-folder", PathField)
        if field.path is not None:
            self.check(str(field.path))
        else:
            self.query_one("#model-note", SafeStatic).update("✗ Type the path of a folder first.")

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        self._settings = validate(event.settings)
        self._restore()
        self.host.load()
        self.look()

    @on(ChangeLine.Dropped)
    def _dropped(self) -> None:
        self._restore()
        self.look()

    def action_primary(self) -> None:
        self.host.go("queries")
