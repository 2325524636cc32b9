"""Drawings by matplotlib as SVG elements that belong to an HTML page.

The SVG holds no script, style sheet, address or identifier, so that a page may have any number of
them. Its text is in the page's font, and its colours are variables of the page's style sheet, so
that one drawing serves light and dark screens and paper.
"""

from __future__ import annotations

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
    from lxml.etree import _Element
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
KINDS = ("bar", "whisker", "zero", "grid", "line", "point", "sign", "sample", "label", "tick")
"""Values of `gid` that remain in the SVG, as class."""
_VARIABLES = {
    INK: "--ink",
    SOFT: "--soft",
    RULE: "--rule",
    PAPER: "--paper",
    **{colour: f"--c{number}" for number, colour in enumerate(SERIES)},
}
_SETTINGS: dict[Any, object] = {
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
_PLACES = ("d", "x", "y", "transform")
# Metadata that matplotlib would write about itself.
_UNKNOWN = ("Creator", "Date", "Format", "Type")


def draw_svg(title: str, height: float, draw: Callable[[Figure, Axes], None]) -> str:
    """Return an `<svg>` of WIDTH × `height` for an HTML page, filled by `draw`.

    The title is for readers who do not see it. Uses no `pyplot` and no display and writes nothing;
    equal drawings give equal texts.
    """
    with _our_settings():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH / INCH, height / INCH), dpi=INCH, layout="constrained")
        # The method has no type annotations.
        write: Any = FigureCanvasSVG(figure).print_svg
        figure.patch.set_visible(False)
        axes = figure.add_subplot(frame_on=False)
        draw(figure, axes)
        for line in (*axes.get_xgridlines(), *axes.get_ygridlines()):
            line.set(gid="grid", clip_on=False)
        file = io.StringIO()
        write(file, metadata=dict.fromkeys(_UNKNOWN))
    return _for_page(file.getvalue(), title)


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


def _for_page(svg: str, title: str) -> str:
    """Return matplotlib's file as an element of an HTML page."""
    from lxml import etree

    root = etree.fromstring(svg[svg.index("<svg") :], etree.XMLParser(remove_blank_text=True))
    _inline_signs(root)
    for item in list(root.iter(etree.Element)):
        item.tag = etree.QName(item).localname
        kind = item.attrib.pop("id", "")
        if kind in KINDS:
            item.set("class", kind)
        elif item.tag == "g" and not item.attrib:
            item.tag = "plain"
        _tidy(item)
    etree.strip_tags(root, "plain")
    # The definitions hold a style sheet, which would apply to the whole page.
    etree.strip_elements(root, "defs")
    head = etree.Element("svg", viewBox=root.attrib["viewBox"], role="img", **{"aria-label": title})
    etree.SubElement(head, "title").text = title
    head.extend(root)
    etree.cleanup_namespaces(head)
    return str(etree.tostring(head, encoding="unicode"))


def _inline_signs(root: _Element) -> None:
    """Draw signs at their points instead of by references, which would need identifiers."""
    shapes = {path.get("id"): path.get("d") for path in root.iterfind(".//{*}defs/{*}path")}
    for use in list(root.iterfind(".//{*}use")):
        reference = next(value for name, value in use.attrib.items() if name.endswith("href"))
        attributes = {
            "id": "sign",
            "d": shapes[reference.lstrip("#")],
            "transform": f"translate({use.get('x')} {use.get('y')})",
            "style": use.get("style"),
        }
        use.tag = "path"
        use.attrib.clear()
        use.attrib.update({name: value or "" for name, value in attributes.items()})


def _tidy(item: _Element) -> None:
    """Round positions to hundredths, name the page's colours, and remove fonts."""
    for name in _PLACES:
        if value := item.get(name):
            item.set(name, re.sub(r"-?\d+\.\d+", _round_number, value))
    # Only attributes are changed, since the text may be any words of the user.
    for name, value in item.attrib.items():
        item.set(name, re.sub("|".join(_VARIABLES), _name_colour, value))
    if shape := item.get("d"):
        item.set("d", re.sub(r"\s*([A-Za-z])\s*", r"\1", shape).strip())
    if re.match(r"rotate\(-?0 ", item.get("transform", "")):
        del item.attrib["transform"]
    if item.tag == "text":
        item.set("style", re.sub(r"font-family: [^;]*;? ?", "", item.get("style", "")))


def _name_colour(match: re.Match[str]) -> str:
    return f"var({_VARIABLES[match[0]]})"


def _round_number(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
