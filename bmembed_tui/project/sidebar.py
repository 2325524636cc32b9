"""The list of steps with the state of each."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.project_status import STEPS, step_state
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.messages.project import ProjectStatus

WIDE = 100  # columns of the terminal from which there is room for the words
SIGNS = {
    "done": ("✓", "$text-success"),
    "running": ("▶", "bold $text-accent"),
    "paused": ("‖", "bold $text-warning"),
    "failed": ("✗", "bold $text-error"),
    "stale": ("~", "$text-warning"),
    "to do": ("·", "$text-muted"),
    "none": ("✗", "bold $text-error"),
    "keywords": ("✓", "$text-success"),
    "": (" ", ""),
}


class Sidebar(SafeOptions):
    """The steps; Enter or a click selects one.

    A sign says the state of each, not a colour alone; where it is wide, a word, too.
    """

    _current = STEPS[0].key
    _drawn = ProjectStatus(), RunState(), STEPS[0].key, frozenset[str]()

    def on_mount(self) -> None:
        self.draw(*self._drawn)

    def on_resize(self) -> None:
        self.draw(*self._drawn)

    def draw(
        self, status: ProjectStatus, run: RunState, current: str, seen: frozenset[str] = frozenset()
    ) -> None:
        """Show the states. `seen`: steps that the user has been to and left."""
        self._drawn = status, run, current, seen
        words = self.app.size.width >= WIDE
        lines = [
            (step.key, _line(n, step.title, step_state(step, status, run, seen), words))
            for n, step in enumerate(STEPS, 1)
        ]
        self._current = current
        self.show(lines, None if self.has_focus and self.highlighted is not None else current)

    def on_blur(self) -> None:
        self.highlighted = self.get_option_index(self._current)


def _line(number: int, title: str, state: str, words: bool) -> Content:
    sign, style = SIGNS[state]
    word = plain(f"{state:>8}" if words else "", style)
    return Content.assemble(plain(f"{sign} ", style), plain(f"{number} {title:<10}"), word)
