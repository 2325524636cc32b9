"""The offer to make search better: what adaptation does, how long it takes here, and what it
could show.
"""

from __future__ import annotations

from dataclasses import replace

from textual import work

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.client.in_app import HELP_WAYS
from bmembed_tui.client.project_status import titles
from bmembed_tui.dialogs.confirmations import QUIET_SECONDS, QuestionDialog
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.offer import AdaptationOffer
from engine.project.folder import ProjectFolder

NOW = "now"
BY_STEPS = "steps"
NOT_NOW = "no"
WHAT = (
    "The encoder learns the words of your documents from queries made from them. You can search"
    " meanwhile."
)


class AdaptDialog(QuestionDialog):
    """Closes with `NOW`, `BY_STEPS` or None.

    Nothing can be started before the estimate is there to read.
    """

    def __init__(self, project: ProjectFolder) -> None:
        answers = [(NOW, "Adapt now"), (BY_STEPS, "Step by step"), (NOT_NOW, "Not now")]
        super().__init__(
            "Make search better?",
            f"{WHAT}\n\nEstimating how long it takes on this machine …",
            answers,
        )
        self._project = project

    def on_mount(self) -> None:
        self.query_one(f"#answer-{NOW}").disabled = True
        self.look()

    @work
    async def look(self) -> None:
        """Ask the engine, which measures for some seconds."""
        advised = NOW
        try:
            offer = parsed(
                AdaptationOffer,
                await command("adapt", str(self._project.path), "--dry-run", "--json"),
            )
            text = "\n".join(by_steps(offer).lines(HELP_WAYS))
            may_be_used = offer.provable or offer.expects
            if may_be_used and not offer.up_to_date:
                advised = NOW
            else:
                advised = NOT_NOW
            self.query_one(f"#answer-{NOW}").display = not offer.up_to_date
            if offer.up_to_date:
                self.query_one(".dialog-title", SafeStatic).update("Everything is up to date")
        except EngineError as error:
            text = f"{WHAT}\n\n✗ {error.what} {error.why}"
        if self.is_attached:
            self.query_one(".dialog-body > SafeStatic", SafeStatic).update(plain(text, lines=True))
            # Enter pressed while it was awaited is not for it
            self.set_timer(QUIET_SECONDS, lambda: self._allow(advised))

    def _allow(self, advised: str) -> None:
        """Let the user start. Where nothing can come into use, Enter does not."""
        focused = self.focused
        for button in self.query(SafeButton):
            button.disabled = False
            if button.id == f"answer-{advised}":
                button.variant = "primary"
            else:
                button.variant = "default"
        if focused is None or not isinstance(focused, SafeButton):
            self.query_one(f"#answer-{advised}").focus()


def by_steps(offer: AdaptationOffer) -> AdaptationOffer:
    """The times of steps, as the sidebar calls them, instead of those of the engine's stages."""
    seconds: dict[str, float] = {}
    for stage, time in offer.seconds.items():
        seconds[titles([stage])] = seconds.get(titles([stage]), 0.0) + time
    return replace(offer, seconds=seconds, unknown=tuple(filter(None, [titles(offer.unknown)])))
