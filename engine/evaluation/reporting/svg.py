"""Drawings by matplotlib as SVG elements that belong to an HTML page.

The SVG holds no script and no address outside itself. Its text is in the page's font, and its
colours are variables of the page's style sheet, so that one drawing serves light and dark screens
and paper.
"""

from __future__ import annotations

import html
import io
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 640
"""Width of every chart in units of its box; text has a height of 12."""
INCH = 72
"""Units of the box in an inch of matplotlib, so that a unit is a point."""
INK = "#010203"
"""Placeholder for the colour of text and marks."""
SOFT = "#010204"
"""Placeholder for the colour of numbers along axes."""
RULE = "#010205"
"""Placeholder for the colour of grid lines."""
PAPER = "#010206"
"""Placeholder for the colour of the page."""
SERIES = tuple(f"#02030{number}" for number in range(8))
"""Placeholders for the colours of lines and bars."""
_VARIABLES = {
    INK: "--ink",
    SOFT: "--soft",
    RULE: "--rule",
    PAPER: "--paper",
    **{colour: f"--c{number}" for number, colour in enumerate(SERIES)},
}
_COLOUR = re.compile(r"(fill|stroke): (#0\d{5})")
"""A placeholder in a style attribute, such as `fill: #010203`.

A label that contains such a text shows the variable's name instead.
"""
_SETTINGS: dict[Any, object] = {
    # Equal drawings have equal identifiers.
    "svg.hashsalt": "bmembed",
    "svg.fonttype": "none",
    "text.parse_math": False,
    # This font comes with matplotlib. Text is laid out by its widths, which few fonts exceed.
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 1,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "butt",
    "lines.scale_dashes": False,
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.frameon": False,
}
# Metadata that matplotlib would write about itself.
_UNKNOWN = ("Creator", "Date", "Format", "Type")


def draw_svg(
    title: str,
    height: float,
    draw: Callable[[Figure, Axes], None],
) -> str:
    """Return an `<svg>` of WIDTH × `height` for an HTML page, filled by `draw`.

    The title is for readers who do not see it. Uses no `pyplot` and no display and writes nothing;
    equal drawings give equal texts.
    """
    with _our_settings():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(
            figsize=(WIDTH / INCH, height / INCH),
            dpi=INCH,
            layout="constrained",
        )
        # The method has no type annotations.
        write: Any = FigureCanvasSVG(figure).print_svg
        figure.patch.set_visible(False)
        axes = figure.add_subplot(frame_on=False)
        draw(figure, axes)
        for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
            line.set(gid="grid", clip_on=False)
        file = io.StringIO()
        write(file, metadata=dict.fromkeys(_UNKNOWN))
    return _fit_into_page(file.getvalue(), title)


@contextmanager
def _our_settings() -> Iterator[None]:
    """Apply our settings over matplotlib's defaults, and restore the former ones at the end."""
    _load()
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        # A glyph that matplotlib's font lacks may be in the page's font.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


@cache
def _load() -> None:
    """Import matplotlib while only an empty folder is available for its settings and caches.

    So the user's settings, styles, fonts and backend have no effect, even faulty ones, and no cache
    is left behind.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with TemporaryDirectory(prefix="bmembed-charts-", ignore_cleanup_errors=True) as folder:
        variables = {
            "MPLCONFIGDIR": folder,
            "MATPLOTLIBRC": folder,
            "MPLBACKEND": "svg",
            "MPL_IGNORE_SYSTEM_FONTS": "1",
        }
        working_folder: AbstractContextManager[None] = nullcontext()
        # matplotlib would read a file of this name in the working folder in any case.
        if Path("matplotlibrc").exists():
            working_folder = chdir(folder)
        with _environment(variables), working_folder:
            import matplotlib.font_manager
            import matplotlib.style  # noqa: F401


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and restore the former ones at the end."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _fit_into_page(svg: str, title: str) -> str:
    """Return matplotlib's file as an element of an HTML page, with the page's colours.

    Its style sheet, which would apply to the whole page, and its namespaces are left out.
    """
    head, body = svg[svg.index("<svg ") :].split(">", 1)
    head = re.sub(r' xmlns(:\w+)?="[^"]*"', "", head)
    head = head.replace(
        "<svg ",
        f'<svg role="img" aria-label="{html.escape(title)}" ',
        1,
    )
    body = re.sub(
        r"<style.*?</style>",
        "",
        body,
        count=1,
    )
    # HTML knows no `xlink`.
    body = body.replace("<use xlink:href=", "<use href=")
    return f"{head}>{_COLOUR.sub(_name_colour, body)}"


def _name_colour(match: re.Match[str]) -> str:
    """Return a style's colour as a variable of the page, or as it is if it is no placeholder."""
    variable = _VARIABLES.get(match[2])
    return f"{match[1]}: var({variable})" if variable else match[0]
