"""The offer to make search better: what adaptation does, how long it takes here, and what it could show."""

from __future__ import annotations

from textual import work

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.offer import AdaptationOffer
from engine.project.folder import ProjectFolder

NOW, BY_STEPS = "now", "steps"
WHAT = "The encoder learns the words of your documents from queries made from them. You can search meanwhile."


class AdaptDialog(QuestionDialog):
    """Closes with `NOW`, `BY_STEPS` or None. What it takes is measured while it stands there; nobody needs to wait for that."""

    def __init__(self, project: ProjectFolder) -> None:
        answers = [(NOW, "Adapt now"), (BY_STEPS, "Step by step"), ("no", "Not now")]
        super().__init__("Make search better?", f"{WHAT}\n\nEstimating how long it takes on this machine …", answers)
        self._project = project

    def on_mount(self) -> None:
        self.look()

    @work
    async def look(self) -> None:
        """Ask the engine, which measures for some seconds."""
        try:
            printed = await command("adapt", str(self._project.path), "--dry-run", "--json")
            text = "\n".join(parsed(AdaptationOffer, printed).lines())
        except EngineError as error:
            text = f"✗ {error.what} {error.why}"
        if self.is_attached:
            self.query_one(".dialog-body > SafeStatic", SafeStatic).update(plain(f"{WHAT}\n\n{text}", lines=True))
