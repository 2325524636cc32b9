"""The list of steps with the state of each."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.project_status import STEPS, find_step_state
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.messages.project import ProjectStatus

WIDE = 100  # columns of the terminal from which the states are shown in words, too
# Sign and style, by the state of a step (`find_step_state`).
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

    The state of each is shown by a sign, not by colour alone, and in a wide terminal by a word,
    too.
    """

    _current = STEPS[0].key
    # What `draw` was last given, to draw it again at another width.
    _drawn = ProjectStatus(), RunState(), STEPS[0].key, frozenset[str]()

    def on_mount(self) -> None:
        self.draw(*self._drawn)

    def on_resize(self) -> None:
        self.draw(*self._drawn)

    def draw(
        self, status: ProjectStatus, run: RunState, current: str, seen: frozenset[str] = frozenset()
    ) -> None:
        """Show the states. `current`: the visible step. `seen`: those that the user has left."""
        self._drawn = status, run, current, seen
        with_words = self.app.size.width >= WIDE
        lines = []
        for number, step in enumerate(STEPS, 1):
            state = find_step_state(
                step,
                status,
                run,
                seen,
            )
            lines.append((step.key, _format_step(number, step.title, state, with_words)))
        self._current = current
        keeps_cursor = self.has_focus and self.highlighted is not None
        self.show(lines, None if keeps_cursor else current)

    def on_blur(self) -> None:
        self.highlighted = self.get_option_index(self._current)


def _format_step(
    number: int,
    title: str,
    state: str,
    with_word: bool,
) -> Content:
    sign, style = SIGNS[state]
    word = plain(f"{state:>8}" if with_word else "", style)
    return Content.assemble(
        plain(f"{sign} ", style),
        plain(f"{number} {title:<10}"),
        word,
    )
