"""Step Encoder: the encoder to adapt, where it runs, and whether this machine suffices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.home.new_project import PRESETS
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.model.text import (
    filter_topic,
    format_encoder,
    format_machine,
    format_offer,
    format_preset,
    format_topic,
)
from bmembed_tui.widgets.change_line import ChangeLine, await_or_show_error
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import Field, PathField
from bmembed_tui.widgets.hanging import HangingStatic
from bmembed_tui.widgets.model_fetcher import ModelFetcher
from bmembed_tui.widgets.model_list import ModelList
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.encoders import EncoderFile, EncoderOffer, EncoderProposal
from engine.core.messages.project import Examine, Finding, ProjectStatus, ReadSettings
from engine.core.text import visible
from engine.settings.load import validate
from engine.settings.schema import DEFAULT_MODEL, EncoderSettings, Settings

ENCODERS = (
    ("bundled", "bundled"),
    ("folder", "on this machine"),
    ("server", "on a server"),
)
NO_SERVER = {"encoder.endpoint": None, "encoder.endpoint_model": None}
BUNDLED = (DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}")
DEVICES = tuple((name, name) for name in ("auto", "cpu", "cuda"))
PRECISIONS = tuple((name, name) for name in ("auto", "float32", "bfloat16", "float16"))
# The settings of the choices, by the ids of their widgets.
KEYS = {
    "model-device": "encoder.device",
    "model-dtype": "encoder.dtype",
    "model-preset": "training.preset",
}
# Where the doctor's findings are shown, by their topic.
NOTES = {
    "model": "#model-note",
    "device": "#device-note",
    "dtype": "#dtype-note",
}
LOOKING = "looking …"


class ModelPane(StepPane):
    """The pane of step Encoder."""

    step = "model"
    title = "Encoder"
    lead = (
        "The encoder is the model that turns texts into vectors. Training adapts it to your"
        " documents."
    )
    buttons: ClassVar[dict[str, str]] = {"primary": "Continue", "look": "Look again"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "look", "look at the machine again", id="model.look", show=False)
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._settings: Settings | None = None
        self._preset_values: Mapping[str, Any] = {}
        self._languages = ""  # those of the documents, as text
        self._fetcher = ModelFetcher(self, self._show_note)

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="model-scroll"):
            yield ChoiceRow(
                "Encoder",
                ENCODERS,
                id="model-encoder",
            )
            with Horizontal(classes="encoder-row for-folder"):
                yield PathField(
                    files=True,
                    placeholder="a folder of sentence-transformers, or a GGUF file",
                    id="model-folder",
                )
                yield SafeButton("Check", id="model-check")
            yield ModelList(
                self._format_encoder,
                self._format_note,
                classes="for-folder",
            )
            with Horizontal(classes="encoder-row for-server"):
                yield Field(placeholder="http://127.0.0.1:8080/v1", id="model-endpoint")
            with Horizontal(classes="encoder-row for-server"):
                yield Field(
                    placeholder="its model; empty where it has one only", id="model-endpoint-model"
                )
                yield SafeButton("Use", id="model-server")
            yield SafeStatic(
                LOOKING,
                id="model-note",
                classes="model-reason",
            )
            yield ChoiceRow(
                "Device",
                DEVICES,
                id="model-device",
            )
            yield SafeStatic(
                LOOKING,
                id="device-note",
                classes="model-reason",
            )
            yield ChoiceRow(
                "Precision",
                PRECISIONS,
                id="model-dtype",
            )
            yield SafeStatic(
                LOOKING,
                id="dtype-note",
                classes="model-reason",
            )
            yield ChoiceRow(
                "Training",
                [(name, name) for name in PRESETS],
                id="model-preset",
            )
            yield SafeStatic(
                "",
                id="preset-note",
                classes="model-reason",
            )
            yield SafeStatic(
                "This machine: 'engine doctor' shows the calculations", classes="model-heading"
            )
            yield HangingStatic(LOOKING, id="machine")
        yield ChangeLine(self.ask, id="model-change")

    def on_mount(self) -> None:
        self._show_encoder_fields("bundled")

    def enter(self) -> None:
        super().enter()
        if self._settings:
            self.examine()
        self.load()

    def leave(self) -> None:
        if self.query_one(ChangeLine).waiting:
            self._show_configured_encoder()
        self.query_one(ChangeLine).clear()

    def show_status(self, status: ProjectStatus) -> None:
        if self.host.pane is self and not self.query_one(ChangeLine).waiting:
            self.load()

    # Settings

    @work(exclusive=True, group="settings")
    async def load(self) -> None:
        """Show the settings, and examine the machine if they have changed."""
        show_error = self.query_one("#model-note", SafeStatic).update
        answer = await await_or_show_error(
            self,
            self.ask(ReadSettings()),
            show_error,
        )
        if answer is None:
            return
        former_settings = self._settings
        self._settings = validate(answer.settings)
        self._preset_values = answer.preset
        # Without a change of the encoder, keep what is typed and not yet proposed.
        if former_settings is None or former_settings.encoder != self._settings.encoder:
            self._show_configured_encoder()
        self._show_choices()
        if former_settings != self._settings:
            self.examine()

    @property
    def _encoder(self) -> EncoderSettings:
        if self._settings:
            return self._settings.encoder
        return EncoderSettings()

    def _show_configured_encoder(self) -> None:
        """Show the encoder that project.toml names, in place of what was chosen or typed."""
        encoder = self._encoder
        is_bundled = encoder.model in BUNDLED
        if encoder.endpoint:
            kind = "server"
        elif is_bundled:
            kind = "bundled"
        else:
            kind = "folder"
        self.query_one("#model-encoder", ChoiceRow).show(kind)
        self._show_encoder_fields(kind)
        if not is_bundled:
            self.query_one("#model-folder", PathField).pick(Path(encoder.model))
        self.query_one("#model-endpoint", Field).value = visible(encoder.endpoint)
        self.query_one("#model-endpoint-model", Field).value = visible(encoder.endpoint_model)
        self._show_choices()

    def _show_note(self, text: Content | str) -> None:
        self.query_one("#model-note", SafeStatic).update(text)

    def _show_choices(self) -> None:
        if self._settings is None:
            return
        for name, key in KEYS.items():
            self.query_one(f"#{name}", ChoiceRow).show(attrgetter(key)(self._settings))
        note = format_preset(self._settings.training, self._preset_values)
        self.query_one("#preset-note", SafeStatic).update(note)

    def _show_encoder_fields(self, kind: str) -> None:
        """Show the fields for an encoder that is bundled, in a folder or on a server."""
        models = self.query_one(ModelList)
        if kind == "folder" and not models.display:
            models.find(self._find_encoders())
        for name in ("folder", "server"):
            self.query(f".for-{name}").set(display=kind == name)

    def _format_note(self, encoders: Sequence[EncoderFile | EncoderOffer]) -> str:
        count = sum(isinstance(encoder, EncoderFile) for encoder in encoders)
        note = f"{count} found; Enter checks one."
        if count < len(encoders):
            note += " ⇣ can be fetched."
        return (
            f"{note} To measure some on your queries:"
            f" engine encoders compare {self.host.project.argument} NAME …"
        )

    def _format_encoder(self, encoder: EncoderFile | EncoderOffer) -> Content:
        if isinstance(encoder, EncoderOffer):
            return format_offer(encoder, self._languages)
        return format_encoder(encoder)

    async def _find_encoders(self) -> tuple[EncoderFile | EncoderOffer, ...]:
        """Return the encoders on this machine, then those of the catalogue."""
        project = str(self.host.project.path)
        output = await run_command(
            "encoders",
            "list",
            project,
            "--json",
        )
        encoders = parse_answer(tuple[EncoderFile, ...], output)
        try:
            output = await run_command(
                "encoders",
                "propose",
                project,
                "--json",
            )
            proposal = parse_answer(EncoderProposal, output)
        except EngineError:  # the encoders that are here can be chosen all the same
            return encoders
        self._languages = proposal.format_languages
        return (*encoders, *proposal.offers)

    # What the doctor finds

    def action_look(self) -> None:
        self.query_one("#machine", SafeStatic).update(plain(LOOKING, "$text-muted"))
        self.examine()

    @work(exclusive=True, group="doctor")
    async def examine(self) -> None:
        """Examine the machine and the configured encoder; earlier findings stay until then."""
        show_error = self.query_one("#machine", HangingStatic).show
        answer = await await_or_show_error(
            self,
            self.ask(Examine()),
            show_error,
        )
        if answer is not None:
            self._show_findings(answer.findings)

    def _show_findings(self, findings: Sequence[Finding]) -> None:
        for topic, note in NOTES.items():
            self.query_one(note, SafeStatic).update(format_topic(findings, topic))
        self.query_one("#machine", HangingStatic).show(format_machine(findings))

    @work(exclusive=True, group="doctor")
    async def check(self, path: str) -> None:
        """Check an encoder, and propose it if it is good."""
        note = self.query_one("#model-note", SafeStatic)
        note.update(plain(LOOKING, "$text-muted"))
        answer = await await_or_show_error(
            self,
            self.ask(Examine(path)),
            note.update,
        )
        if answer is None:
            return
        model_findings = filter_topic(answer.findings, "model")
        if any(finding.state != "good" for finding in model_findings):
            note.update(format_topic(answer.findings, "model"))
            return
        self._show_findings(answer.findings)
        if self._encoder.model != path or self._encoder.endpoint or self._encoder.endpoint_model:
            self.query_one(ChangeLine).propose({"encoder.model": path, **NO_SERVER})

    # Choosing

    @on(ChoiceRow.Chosen)
    def _take_choice(self, event: ChoiceRow.Chosen) -> None:
        """Propose a device, precision or preset, or show the fields of another kind of encoder."""
        change = self.query_one(ChangeLine)
        if event.row.id in KEYS:
            change.propose({KEYS[event.row.id]: event.value})
            return
        self._show_encoder_fields(event.value)
        change.clear()
        note = self.query_one("#model-note", SafeStatic)
        if event.value == "folder":
            note.update("Type its path, or take one that was found.")
            self.query_one("#model-folder").focus()
        elif event.value == "server":
            note.update(
                "The server gets the text of all chunks and queries. Its model is not trained; a"
                " small one beside it can be (encoder.small_model)."
            )
            self.query_one("#model-endpoint").focus()
        elif self._encoder.model not in BUNDLED or self._encoder.endpoint:
            change.propose({"encoder.model": None, **NO_SERVER})
        else:
            self.examine()

    @on(ModelList.Chosen)
    def _take_model(self, event: ModelList.Chosen) -> None:
        """Check the chosen encoder; fetch one of the catalogue when it is chosen twice."""
        if isinstance(event.model, EncoderOffer):
            if self._fetcher.confirm(event.model.name, event.model.size):
                self.fetch(event.model)
            return
        self._fetcher.forget()
        self.query_one("#model-folder", PathField).pick(Path(event.model.model))
        self.check(event.model.model)

    @work(exclusive=True, group="fetch")
    async def fetch(self, offer: EncoderOffer) -> None:
        """Fetch an encoder, and propose it when it is here."""
        changed = await self._fetcher.fetch(offer.name, offer.size)
        if changed is None:
            return
        self.query_one(ModelList).find(self._find_encoders())
        self.query_one("#model-folder", PathField).pick(changed.path)
        self.check(str(changed.path))

    @on(Input.Submitted, "#model-endpoint")
    @on(Input.Submitted, "#model-endpoint-model")
    @on(Button.Pressed, "#model-server")
    def _use_server(self) -> None:
        """Propose the server that was typed."""
        address = self.query_one("#model-endpoint", Input).value.strip()
        model = self.query_one("#model-endpoint-model", Input).value.strip()
        if address:
            self.query_one(ChangeLine).propose(
                {"encoder.endpoint": address, "encoder.endpoint_model": model}
            )
        else:
            self.query_one("#model-note", SafeStatic).update("✗ Type the server's address first.")

    @on(Input.Submitted, "#model-folder")
    @on(Button.Pressed, "#model-check")
    def _check_folder(self) -> None:
        """Check the encoder in the folder that was typed."""
        path = self.query_one("#model-folder", PathField).path
        if path is not None:
            self.check(str(path))
        else:
            self.query_one("#model-note", SafeStatic).update("✗ Type a path first.")

    @on(ChangeLine.Written)
    def _show_written(self, event: ChangeLine.Written) -> None:
        """Show the settings that were just written."""
        self._settings = validate(event.settings)
        self._show_configured_encoder()
        self.host.load()
        self.examine()

    @on(ChangeLine.Dropped)
    def _revert(self) -> None:
        self._show_configured_encoder()
        self.examine()

    def action_primary(self) -> None:
        self.host.go("queries")
