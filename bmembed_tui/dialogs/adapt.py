"""The offer to adapt the encoder: what adaptation does, how long it takes, what it could show."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.client.in_app import HELP_KEYS
from bmembed_tui.client.project_status import format_step_titles
from bmembed_tui.dialogs.confirmations import QUIET_SECONDS, QuestionDialog
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.offer import AdaptationOffer
from engine.project.folder import ProjectFolder

NOW = "now"
BY_STEPS = "steps"
NOT_NOW = "no"
STEP_BY_KEY = {"2": "model", "3": "queries"}
"""The steps that the offer's advice names (`HELP_KEYS`), by their keys."""
WHAT = (
    "The encoder learns the words of your documents from queries made from them. You can search"
    " meanwhile."
)


class AdaptDialog(QuestionDialog):
    """Offers an adaptation; closes with `NOW`, `BY_STEPS`, a step of `STEP_BY_KEY` or None.

    Nothing can be started before the estimate is shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"dismiss({step!r})", show=False) for key, step in STEP_BY_KEY.items()
    ]

    def __init__(self, project: ProjectFolder) -> None:
        answers = [
            (NOW, "Adapt now"),
            (BY_STEPS, "Step by step"),
            (NOT_NOW, "Not now"),
        ]
        super().__init__(
            "Make search better?",
            f"{WHAT}\n\nEstimating how long it takes on this machine …",
            answers,
        )
        self._project = project

    def on_mount(self) -> None:
        self.query_one(f"#answer-{NOW}").disabled = True
        self.estimate()

    @work
    async def estimate(self) -> None:
        """Show the engine's estimate, which takes some seconds to measure."""
        advised = NOW
        try:
            output = await run_command(
                "adapt",
                str(self._project.path),
                "--dry-run",
                "--json",
            )
            offer = parse_answer(AdaptationOffer, output)
            text = "\n".join(group_by_steps(offer).lines(HELP_KEYS))
            may_be_used = offer.provable or offer.expects
            if offer.up_to_date or not may_be_used:
                advised = NOT_NOW
            self.query_one(f"#answer-{NOW}").display = not offer.up_to_date
            if offer.up_to_date:
                self.query_one(".dialog-title", SafeStatic).update("Everything is up to date")
        except EngineError as error:
            text = f"{WHAT}\n\n✗ {error.what} {error.why}"
        if self.is_attached:
            self.query_one(".dialog-body > SafeStatic", SafeStatic).update(plain(text, lines=True))
            # An Enter pressed during the wait is not an answer.
            self.set_timer(QUIET_SECONDS, lambda: self._enable_answers(advised))

    def _enable_answers(self, advised: str) -> None:
        """Let the user answer. `advised`: the answer that Enter gives."""
        has_chosen = isinstance(self.focused, SafeButton)
        for button in self.query(SafeButton):
            button.disabled = False
            if button.id == f"answer-{advised}":
                button.variant = "primary"
            else:
                button.variant = "default"
        if not has_chosen:
            self.query_one(f"#answer-{advised}").focus()


def group_by_steps(offer: AdaptationOffer) -> AdaptationOffer:
    """Return the offer with times by the sidebar's steps instead of the engine's stages."""
    seconds: dict[str, float] = {}
    for stage, stage_seconds in offer.seconds.items():
        title = format_step_titles([stage])
        seconds[title] = seconds.get(title, 0.0) + stage_seconds
    unknown_titles = format_step_titles(offer.unknown)
    return replace(
        offer,
        seconds=seconds,
        unknown=(unknown_titles,) if unknown_titles else (),
    )
