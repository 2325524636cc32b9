"""Step Train: the curve of the training while it goes on, and afterwards."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll

from bmembed_tui.client.project_status import STAGES
from bmembed_tui.client.run_history import Curve
from bmembed_tui.dialogs.confirmations import ask
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.train.loss_chart import LossChart
from bmembed_tui.steps.train.text import format_details, format_status
from bmembed_tui.widgets.safe import SafeButton, SafeStatic

WIDE = 100  # columns from which more lines of choices are shown
KEEP_QUESTION = "It ends with its best adapter and cannot be resumed. The next steps follow."
KEEP_NOTICE = "Training ends soon, with its best adapter. The next steps follow."
STOP_NOTICE = "Stopping at the next safe point. The next run resumes there."
DETACH_NOTICE = "The run continues without the app. Open the project again to see it."


class TrainPane(StepPane):
    """Numbers, chart, choices; buttons to pause, to end and to leave."""

    step = "train"
    title = "Train"
    lead = "The encoder learns which chunks answer which queries."
    help_text = """Loss: how far the encoder's ranking is from its teacher's; it should fall. A dot is a step, the line their mean.
Hit@10: how many of the held-out queries, which it does not learn from, find their chunk among the first ten; it should rise. \
They are titles and headings, or, where those are few, queries by a language model or imported ones; where there are neither, \
the last step counts. nDCG@10, in the numbers: how near to the top they find it, 100 % for always first. It chooses the adapter \
that is kept, which the vertical line and ◆ mark. f shows these figures, and what was chosen automatically.

Pause: the run waits, and keeps its memory. Keep best: training ends now with the best adapter, and the next steps follow.
Stop: the run ends; the next one resumes there. Detach: leave it running and go back to the projects.
Closing the app or losing the connection does not stop a run."""  # noqa: E501
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
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._offered: tuple[object, ...] = ()
        self._unfolded = False

    def compose_body(self) -> ComposeResult:
        with Vertical(id="train-body"):
            yield SafeStatic("", id="train-status")
            yield LossChart(id="train-chart")
            with VerticalScroll(id="train-more"):
                yield SafeStatic("", id="train-choices")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "wide")

    # Drawing

    def draw(self) -> None:
        if not self.query("#primary"):
            return  # called while the screen is being left
        host = self.host
        status = host.status
        state = host.run_state
        history = host.history
        self._offer()
        text = format_status(status, state, history, host.activity, unfolded=self._unfolded)
        self.query_one("#train-status", SafeStatic).update(text)
        curve = self._curve
        going = state.running and state.current == "train"
        self.set_class(not (curve.steps or curve.held_out or going), "empty")
        self.query_one(LossChart).show(curve, with_checks=self._unfolded)
        stage = history.reported(state, "train")
        choices = stage.choices if self._unfolded else {}
        warnings = [*stage.warnings, *state.warnings]
        self.query_one("#train-choices", SafeStatic).update(format_details(choices, warnings))
        self.query_one("#train-more").display = bool(choices or warnings)

    @property
    def _curve(self) -> Curve:
        return self.host.history.curve(self.host.run_state, current=self.host.status.done("train"))

    def _offer(self) -> None:
        host, state = self.host, self.host.run_state
        offered = (
            host.going,
            host.has_run,
            state.current,
            host.waits,
            host.status.done("train"),
            self._broken_off,
            self._is_first,
            bool(self._curve.steps),
        )
        if offered == self._offered:
            return
        self._offered = offered
        self.query_one("#primary", SafeButton).label = self._primary_label()
        self.query_one("#pause", SafeButton).label = "Resume" if host.waits else "Pause"
        focused = self.screen.focused
        for name in ("pause", "stop", "detach", "keep"):
            button = self.query_one(f"#{name}")
            button.display = self._has_meaning(name)
            if button is focused and not button.display:
                self.focus_primary()
        self.refresh_bindings()

    @property
    def _broken_off(self) -> bool:
        run = self.host.run_state.stages.get("train")
        return (
            run is not None
            and run.state in ("running", "failed", "lost")
            and self.host.run_state.over
        )

    @property
    def _is_first(self) -> bool:
        """Whether nothing was trained yet: what it could show is said before it begins."""
        status = self.host.status
        return status.built("ingest") and not (status.built("train") or self._broken_off)

    def _primary_label(self) -> str:
        if self.host.going:
            if self.host.run_state.paused:
                return "Paused"
            return "Running …"
        if self.host.status.done("train"):
            return "Continue"
        if self._broken_off:
            return "Resume"
        if self._is_first:
            return "Train …"
        return "Train"

    # Doing

    def action_primary(self) -> None:
        host = self.host
        if host.going:
            self.notify("Running. p pauses, x stops, d leaves it running.", markup=False)
        elif host.status.done("train"):
            host.go("result")
        elif self._is_first:
            host.offer_adaptation()
        else:
            host.start_run(STAGES, follow=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("pause", "stop", "detach", "keep"):
            return self._has_meaning(action)
        if action == "figures":
            return bool(self._curve.steps)
        return super().check_action(action, parameters)

    def _has_meaning(self, action: str) -> bool:
        host = self.host
        if action == "detach":
            return host.going
        return host.has_run and (action != "keep" or host.run_state.current == "train")

    def action_figures(self) -> None:
        """Show or hide details."""
        self._unfolded = not self._unfolded
        self.draw()

    def action_pause(self) -> None:
        self.host.control("resume" if self.host.waits else "pause")

    def action_keep(self) -> None:
        """End the training with its best adapter, after a question: it cannot be resumed."""
        answers = [("go-on", "Train on"), ("keep", "Keep the best")]
        ask(self.app, "End the training now?", KEEP_QUESTION, answers, keep=self._keep)

    def _keep(self) -> None:
        if self.is_attached and self._has_meaning("keep"):
            self.notify(KEEP_NOTICE, markup=False)
            self.host.control("finish")

    def action_stop(self) -> None:
        self.notify(STOP_NOTICE, markup=False)
        self.host.control("cancel")

    def action_detach(self) -> None:
        self.app.notify(DETACH_NOTICE, markup=False)
        self.host.action_leave()
