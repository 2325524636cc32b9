"""The list of steps with the state of each."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.project_status import STEPS, step_state
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.messages.project import ProjectStatus

SIGNS = {
    "done": ("✓", "$text-success"), "running": ("▶", "bold $text-accent"), "paused": ("‖", "bold $text-warning"),
    "failed": ("✗", "bold $text-error"), "stale": ("~", "$text-warning"), "to do": ("·", "$text-muted"),
    "none": ("✗", "bold $text-error"), "BM25": ("✓", "$text-success"), "": (" ", ""),
}  # fmt: skip


class Sidebar(SafeOptions):
    """The steps; Enter or a click selects one. Each line says its state as a sign and as a word, not by colour alone."""

    _current = STEPS[0].key

    def on_mount(self) -> None:
        self.draw(ProjectStatus(), RunState(), STEPS[0].key)

    def draw(self, status: ProjectStatus, run: RunState, current: str, seen: frozenset[str] = frozenset()) -> None:
        """Show the states. `seen`: steps that the user has been to and left."""
        lines = [
            (step.key, _line(n, step.title, step_state(step, status, run, seen))) for n, step in enumerate(STEPS, 1)
        ]
        self._current = current
        self.show(lines, None if self.has_focus and self.highlighted is not None else current)

    def on_blur(self) -> None:
        self.highlighted = self.get_option_index(self._current)


def _line(number: int, title: str, state: str) -> Content:
    sign, style = SIGNS[state]
    return Content.assemble(plain(f"{sign} ", style), plain(f"{number} {title:<10}"), plain(f"{state:>7}", style))
