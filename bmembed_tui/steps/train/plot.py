"""The plotting library's widget, fit for this app.

Imports numpy: import this module when there is something to draw.
"""

from __future__ import annotations

from math import inf

from textual.app import ComposeResult
from textual.containers import Grid
from textual.strip import Strip
from textual_hires_canvas import Canvas
from textual_plot import NumericAxisFormatter, PlotWidget
from textual_plot.plot_widget import Legend


class Plot(PlotWidget, can_focus=False, inherit_bindings=False):
    """A drawing that is only looked at."""

    def compose(self) -> ComposeResult:
        with Grid():
            for name in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield SoundCanvas(1, 1, id=name)
        yield Legend(id="legend")

    def set_ticks(self, most_x: int, most_y: int, top: float = inf) -> None:
        """At most so many numbers on each axis.

        `top`: the highest that the vertical one may bear.
        """
        self.set_x_formatter(FewTicks(most_x))
        self.set_y_formatter(FewTicks(most_y, top))


class FewTicks(NumericAxisFormatter):
    """Round numbers up to `top`, at most `most`."""

    def __init__(self, most: int, top: float = inf) -> None:
        super().__init__()
        self._most = most
        self._top = top

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        return [tick for tick in super().get_ticks(min_, max_, self._most) if tick <= self._top]


class SoundCanvas(Canvas):
    """A canvas whose empty lines have a style, too: without one they end an app that shows no
    colours.
    """

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if all(segment.style is not None for segment in strip):
            return strip
        return Strip.blank(self.size.width, self.rich_style)
