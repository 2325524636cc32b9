"""Step Index: the keyword index, and the rankings mined with it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.index.text import HEAD, STAGES, format_status
from bmembed_tui.widgets.hanging import HangingStatic
from bmembed_tui.widgets.safe import SafeButton


class IndexPane(StepPane):
    """Facts about the index and the rankings, and progress."""

    step = "index"
    title = "Index"
    lead = "The index finds passages by keywords. Its rankings teach the encoder."
    buttons: ClassVar[dict[str, str]] = {"primary": "Build"}

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="index-body"):
            yield HangingStatic(id="index-status")

    def draw(self) -> None:
        if not self.query("#primary"):
            return  # the screen is being left
        host = self.host
        text = format_status(
            host.status,
            host.run_state,
            host.history,
        )
        self.query_one("#index-status", HangingStatic).show(
            text, HEAD if host.status.built("index") else 0
        )
        if host.is_busy:
            label = "Running …"
        elif host.status.done("index", "rank"):
            label = "Continue"
        else:
            label = "Build"
        self.query_one("#primary", SafeButton).label = label

    def action_primary(self) -> None:
        if self.host.is_busy:
            self.notify("A run is in progress; this step follows.", markup=False)
        elif self.host.status.done("index", "rank"):
            self.host.go("train")
        else:
            self.host.start_run(STAGES, follow=False)
