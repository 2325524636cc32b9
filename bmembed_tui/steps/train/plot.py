"""The plotting library's widget, adapted to this app.

Imports numpy: import this module when there is something to draw.
"""

from __future__ import annotations

from math import inf, isclose

from textual.app import ComposeResult
from textual.containers import Grid
from textual.strip import Strip
from textual_hires_canvas import Canvas
from textual_plot import NumericAxisFormatter, PlotWidget
from textual_plot.plot_widget import Legend


class Plot(PlotWidget, can_focus=False, inherit_bindings=False):
    """A plot without interaction."""

    def compose(self) -> ComposeResult:
        with Grid():
            for name in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield SoundCanvas(
                    1,
                    1,
                    id=name,
                )
        yield Legend(id="legend")

    def set_ticks(
        self,
        max_x: int,
        max_y: int,
        top: float = inf,
    ) -> None:
        """Show at most `max_x` and `max_y` numbers on the horizontal and the vertical axis.

        `top`: the highest number of the vertical axis.
        """
        self.set_x_formatter(WholeTicks(max_x))
        self.set_y_formatter(FewTicks(max_y, top))


class FewTicks(NumericAxisFormatter):
    """At most `count` round numbers, up to `top`."""

    def __init__(self, count: int, top: float = inf) -> None:
        super().__init__()
        self._count = count
        self._top = top

    def get_ticks(
        self,
        min_: float,
        max_: float,
        max_ticks: int = 8,
    ) -> list[float]:
        ticks = super().get_ticks(
            min_,
            max_,
            self._count,
        )
        return [tick for tick in ticks if tick <= self._top]


class WholeTicks(FewTicks):
    """At most `count` whole numbers."""

    def get_ticks(
        self,
        min_: float,
        max_: float,
        max_ticks: int = 8,
    ) -> list[float]:
        ticks = super().get_ticks(min_, max_, max_ticks)
        return [round(tick) for tick in ticks if isclose(tick, round(tick), abs_tol=1e-6)]


class SoundCanvas(Canvas):
    """A canvas whose empty lines have a style.

    Lines without a style crash an app without colours.
    """

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if all(segment.style is not None for segment in strip):
            return strip
        return Strip.blank(self.size.width, self.rich_style)
