"""Step Train: the curve of the training, during it and afterwards."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.client.project_status import STAGES
from bmembed_tui.client.run_history import Curve
from bmembed_tui.dialogs.confirmations import ask
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.train.loss_chart import LossChart
from bmembed_tui.steps.train.text import format_details, format_status, format_teacher
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.offer import AdaptationOffer
from engine.core.messages.project import ReadSettings
from engine.settings.load import validate

TALL = 30  # lines from which more lines of choices and warnings are shown
KEEP_QUESTION = "It ends with its best adapter and cannot be resumed. The next steps follow."
KEEP_NOTICE = "Training ends soon, with its best adapter. The next steps follow."
STOP_NOTICE = "Stopping at the next safe point. The next run resumes there."
NO_TEACHER = "The encoder no longer learns from the reranker.\n"
NO_RERANKER = (
    "No reranker that knows the documents' language is on this machine. In step Search, R on a hit"
    " lists some to fetch."
)
MEASURING = "Measuring how long a reranker takes as teacher …"
DETACH_NOTICE = "The run continues without the app. Open the project again to see it."


class TrainPane(StepPane):
    """Numbers, chart and choices, with buttons to pause, to end and to leave."""

    step = "train"
    title = "Train"
    lead = "The encoder learns which chunks answer which queries."
    buttons: ClassVar[dict[str, str]] = {
        "primary": "Train",
        "pause": "Pause",
        "keep": "Keep best",
        "stop": "Stop",
        "detach": "Detach",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause/go on", id="train.pause"),
        Binding("k", "keep", "keep best", id="train.keep"),
        Binding("x", "stop", "stop", id="train.stop"),
        Binding("d", "detach", "detach", id="train.detach"),
        Binding("f", "figures", "figures", id="train.figures"),
        Binding("t", "teacher", "teacher", id="train.teacher"),
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._drawn_buttons: tuple[object, ...] = ()  # what they depend on, when last drawn
        self._unfolded = False  # whether figures for experts are shown

    def compose_body(self) -> ComposeResult:
        with Vertical(id="train-body"):
            yield SafeStatic("", id="train-status")
            yield LossChart(id="train-chart")
            with VerticalScroll(id="train-more"):
                yield SafeStatic("", id="train-choices")
        yield ChangeLine(self.ask, id="train-change")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= TALL, "tall")

    # Drawing

    def draw(self) -> None:
        """Draw the numbers, the chart, the choices and the buttons."""
        if not self.query("#primary"):
            return  # the screen is being left
        host = self.host
        status = host.status
        state = host.run_state
        history = host.history
        self._draw_buttons()
        text = format_status(
            status,
            state,
            history,
            host.activity,
            unfolded=self._unfolded,
        )
        self.query_one("#train-status", SafeStatic).update(text)
        curve = self._curve
        is_training = state.running and state.current == "train"
        self.set_class(not (curve.steps or curve.held_out or is_training), "empty")
        self.query_one(LossChart).show(curve, with_checks=self._unfolded)
        stage = history.find_report(state, "train")
        choices = {}
        if self._unfolded:
            choices = stage.choices
        warnings = [*stage.warnings, *state.warnings]
        self.query_one("#train-choices", SafeStatic).update(format_details(choices, warnings))
        self.query_one("#train-more").display = bool(choices or warnings)
        self.set_class(bool(choices), "unfolded")

    @property
    def _curve(self) -> Curve:
        """The training to show."""
        host = self.host
        return host.history.build_curve(host.run_state, current=host.status.done("train"))

    def _draw_buttons(self) -> None:
        """Draw the buttons, if anything that they depend on has changed."""
        host = self.host
        drawn_buttons = (
            host.is_busy,
            host.has_run,
            host.run_state.current,
            host.is_paused,
            host.run_state.paused,
            host.status.done("train"),
            self._is_interrupted,
            self._is_first_training,
            bool(self._curve.steps),
        )
        if drawn_buttons == self._drawn_buttons:
            return
        self._drawn_buttons = drawn_buttons
        self.query_one("#primary", SafeButton).label = self._format_primary_label()
        self.query_one("#pause", SafeButton).label = "Resume" if host.is_paused else "Pause"
        focused = self.screen.focused
        for name in ("pause", "stop", "detach", "keep"):
            button = self.query_one(f"#{name}")
            button.display = self._is_available(name)
            if button is focused and not button.display:
                self.focus_primary()
        self.refresh_bindings()

    @property
    def _is_interrupted(self) -> bool:
        """Whether the newest run ended in the middle of the training."""
        run_state = self.host.run_state
        stage = run_state.stages.get("train")
        if stage is None or not run_state.over:
            return False
        return stage.state in ("running", "failed", "lost")

    @property
    def _is_first_training(self) -> bool:
        """Whether nothing was trained yet, so that an estimate is shown before the training."""
        status = self.host.status
        return status.built("ingest") and not (status.built("train") or self._is_interrupted)

    def _format_primary_label(self) -> str:
        """Return the label of the first button: what Enter does now."""
        if self.host.is_busy:
            if self.host.run_state.paused:
                return "Paused"
            return "Running …"
        if self.host.status.done("train"):
            return "Continue"
        if self._is_interrupted:
            return "Resume"
        if self._is_first_training:
            return "Train …"
        return "Train"

    # Actions

    def action_primary(self) -> None:
        host = self.host
        if host.is_busy:
            self.notify("Running. p pauses, x stops, d leaves it running.", markup=False)
        elif host.status.done("train"):
            host.go("result")
        elif self._is_first_training:
            host.offer_adaptation()
        else:
            host.start_run(STAGES, follow=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("pause", "stop", "detach", "keep"):
            return self._is_available(action)
        if action == "figures":
            return bool(self._curve.steps)
        return super().check_action(action, parameters)

    def _is_available(self, action: str) -> bool:
        """Return whether a run can be paused, stopped, left or ended with its best adapter now."""
        host = self.host
        if action == "detach":
            return host.is_busy
        if action == "keep":
            return host.has_run and host.run_state.current == "train"
        return host.has_run

    def action_figures(self) -> None:
        """Show or hide details."""
        self._unfolded = not self._unfolded
        self.draw()

    @work(exclusive=True, group="teacher")
    async def action_teacher(self) -> None:
        """Propose the reranker as teacher, with the time it takes, or propose to end that."""
        change = self.query_one(ChangeLine)
        try:
            settings = validate((await self.ask(ReadSettings())).settings)
            if settings.training.teacher == "cross-encoder":
                change.propose({"training.teacher": None}, NO_TEACHER)
                return
            change.announce(MEASURING)
            project = str(self.host.project.path)
            output = await run_command(
                "adapt",
                project,
                "--dry-run",
                "--json",
            )
            teacher = parse_answer(AdaptationOffer, output).teacher
        except EngineError as error:
            if self.is_attached:
                change.clear()
            self.notify(
                f"{error.what} {error.why}",
                severity="error",
                markup=False,
            )
            return
        if not self.is_attached:
            return
        if teacher is None:
            change.clear()
            self.notify(NO_RERANKER, markup=False)
        else:
            changes = {"training.teacher": "cross-encoder", "training.cross_encoder": teacher.name}
            # Before the first training nothing becomes stale, but it takes hours all the same.
            change.propose(
                changes,
                format_teacher(teacher),
                always_ask=True,
            )

    @on(ChangeLine.Written)
    def _show_written(self) -> None:
        self.host.load()

    def leave(self) -> None:
        self.query_one(ChangeLine).clear()

    def action_pause(self) -> None:
        self.host.control("resume" if self.host.is_paused else "pause")

    def action_keep(self) -> None:
        """End the training with its best adapter, after a question, since it cannot be resumed."""
        answers = [("go-on", "Train on"), ("keep", "Keep the best")]
        ask(
            self.app,
            "End the training now?",
            KEEP_QUESTION,
            answers,
            keep=self._keep,
        )

    def _keep(self) -> None:
        if self.is_attached and self._is_available("keep"):
            self.notify(KEEP_NOTICE, markup=False)
            self.host.control("finish")

    def action_stop(self) -> None:
        self.notify(STOP_NOTICE, markup=False)
        self.host.control("cancel")

    def action_detach(self) -> None:
        self.app.notify(DETACH_NOTICE, markup=False)
        self.host.action_leave()
