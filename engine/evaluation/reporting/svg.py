"""matplotlib as reports use it: one figure, drawn by our settings and not by the user's, as SVG
that belongs to the page.

The SVG holds no script, style sheet, address or identifier, so that any number of them stand in one
page. Its text is text in the page's font, and its colours are variables of the page's style sheet:
one drawing serves in the light, in the dark and on paper.
"""

from __future__ import annotations

import io
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml.etree import _Element
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 640
"""Of every chart, in the units of its box: text has 12 of them."""
INCH = 72
"""Units of the box in what matplotlib calls an inch: one of them is one of its points."""
INK = "#010203"
SOFT = "#010204"
RULE = "#010205"
PAPER = "#010206"
"""They stand for the page's colours of text and marks, of numbers along axes, of grid lines, and
of the page itself.
"""
SERIES = tuple(f"#02030{number}" for number in range(8))
KINDS = ("bar", "whisker", "zero", "grid", "line", "point", "sign", "sample", "label", "tick")
"""Groups of the SVG that keep their name, as class: what was drawn with one of them as `gid`."""
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
    "font.family": (
        "DejaVu Sans"
    ),  # comes with matplotlib; text is laid out by its widths, which few fonts exceed
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
_UNKNOWN = ("Creator", "Date", "Format", "Type")  # what matplotlib would say of itself in the file


def drawn(title: str, height: float, draw: Callable[[Figure, Axes], None]) -> str:
    """An `<svg>` of WIDTH × `height` for an HTML page, with `title` for those who do not see it,
    filled by `draw`.

    No `pyplot`, no display, nothing written; equal drawings give equal texts.
    """
    with _our_settings():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH / INCH, height / INCH), dpi=INCH, layout="constrained")
        write: Any = FigureCanvasSVG(figure).print_svg  # has no types
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
    """matplotlib with its own defaults and ours upon them; whoever else uses it gets back what
    was set.
    """
    _load()
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings(
            "ignore", "Glyph .* missing from", UserWarning
        )  # the page's font shall have it
        yield


@cache
def _load() -> None:
    """Import matplotlib while it finds nothing but an empty folder to read and write in: the
    user's settings, styles, fonts and choice of a backend have no say, faults in them are no
    faults of ours, and no cache is left behind.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with TemporaryDirectory(prefix="bmembed-charts-", ignore_cleanup_errors=True) as folder:
        where = {
            "MPLCONFIGDIR": folder,
            "MATPLOTLIBRC": folder,
            "MPLBACKEND": "svg",
            "MPL_IGNORE_SYSTEM_FONTS": "1",
        }
        # A file of this name in the working folder would be read all the same.
        with _environment(where), chdir(folder) if Path("matplotlibrc").exists() else nullcontext():
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
    """matplotlib's file as an element of an HTML page."""
    from lxml import etree

    root = etree.fromstring(svg[svg.index("<svg") :], etree.XMLParser(remove_blank_text=True))
    _spell_out_signs(root)
    for item in list(root.iter(etree.Element)):
        item.tag = etree.QName(item).localname
        kind = item.attrib.pop("id", "")
        if kind in KINDS:
            item.set("class", kind)
        elif item.tag == "g" and not item.attrib:
            item.tag = "plain"
        _tidy(item)
    etree.strip_tags(root, "plain")
    etree.strip_elements(root, "defs")  # the style sheet, which would be the whole page's
    head = etree.Element("svg", viewBox=root.attrib["viewBox"], role="img", **{"aria-label": title})
    etree.SubElement(head, "title").text = title
    head.extend(root)
    etree.cleanup_namespaces(head)
    return str(etree.tostring(head, encoding="unicode"))


def _spell_out_signs(root: _Element) -> None:
    """Signs at points are drawn where they stand: as references they would need identifiers."""
    shapes = {path.get("id"): path.get("d") for path in root.iterfind(".//{*}defs/{*}path")}
    for use in list(root.iterfind(".//{*}use")):
        reference = next(value for name, value in use.attrib.items() if name.endswith("href"))
        use.tag = "path"
        where = f"translate({use.get('x')} {use.get('y')})"
        looks = {
            "id": "sign",
            "d": shapes[reference.lstrip("#")],
            "transform": where,
            "style": use.get("style"),
        }
        use.attrib.clear()
        use.attrib.update({name: value or "" for name, value in looks.items()})


def _tidy(item: _Element) -> None:
    """Hundredths are fine enough for places; the page has the font."""
    for name in _PLACES:
        if value := item.get(name):
            item.set(name, re.sub(r"-?\d+\.\d+", _rounded, value))
    for name, value in item.attrib.items():  # not in its text, which may be any words of the user's
        item.set(
            name, re.sub("|".join(_VARIABLES), lambda found: f"var({_VARIABLES[found[0]]})", value)
        )
    if shape := item.get("d"):
        item.set("d", re.sub(r"\s*([A-Za-z])\s*", r"\1", shape).strip())
    if re.match(r"rotate\(-?0 ", item.get("transform", "")):
        del item.attrib["transform"]
    if item.tag == "text":
        item.set("style", re.sub(r"font-family: [^;]*;? ?", "", item.get("style", "")))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
