"""Elements of a parsed page: which are shown, which are blocks, and their text on one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from engine.core.characters import clean
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import find_symbol_font, show_symbols

_LEFT_OUT = frozenset(
    {
        "script",
        "style",
        "nav",
        "noscript",
        "template",
        "head",
        "iframe",
        "embed",
        "canvas",
        "audio",
        "video",
        "datalist",
        "annotation",
        "annotation-xml",
        "metadata",
    }
)
# The content of these elements is not text of the page.
_SPEECHLESS = frozenset({"script", "style", "template", "rt", "rp"})
BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "button",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "object",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    }
)

_RAISED_STYLE = re.compile(
    r"vertical-align\s*:\s*(?:super|text-top|(?:[2-9]|[1-9]\d|0?\.[2-9])[\d.]*(?:px|pt|r?em|ex|%))",
    re.IGNORECASE,
)
_CLASS = re.compile(r"\.([\w-]+)\s*(?:,|$)")
_FONT_FAMILY = re.compile(
    r"(?:^|[;\s])font(?:-family\s*:|\s*:[^;]*?\d[\w.%]*(?:/\S+)?)\s*[\"']?([^;,\"']+)",
    re.IGNORECASE,
)
_BEFORE = 20  # characters
_MAX_RULES = 500
# Kinds of `<input>` whose value a page does not show, or that only give orders.
_NO_ENTRY = frozenset(
    ("hidden", "password", "submit", "reset", "button", "image", "file", "range", "color")
)
_DECLARED = re.compile(r"\A\ufeff*\s*<\?xml[^>]*\?>|\A\ufeff+")


class Element:
    """An element of a page with its content: other elements, and texts."""

    __slots__ = ("attributes", "contents", "name", "parent")

    def __init__(self, name: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.contents: list[Element | str] = []

    def get(self, attribute: str) -> str:
        """Return the value of an attribute, empty if missing."""
        return self.attributes.get(attribute, "")


class _Run(NamedTuple):
    """An element with raised text or with a font of its own.

    It holds the name of the symbol font, which is empty for a font of letters.
    """

    element: Element
    is_raised: bool
    font: str


class ParsedPage(NamedTuple):
    """A page: the element that holds it, and all elements in order, that one first."""

    root: Element
    elements: list[Element]


class _Tree:
    """A target of the events of lxml's parser that ignores comments.

    It is many times faster than a tree that can be changed.
    """

    def __init__(self) -> None:
        self._at = Element("", {}, None)
        self._page = ParsedPage(self._at, [self._at])
        self._speechless = 0
        self._runs: list[_Run] = []
        self._before = ""
        self._raised_classes: set[str] = set()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        element = Element(name, dict(attributes) if attributes else {}, self._at)
        self._at.contents.append(element)
        self._page.elements.append(element)
        self._at = element
        self._speechless += name in _SPEECHLESS
        if name in BLOCKS or name == "br":
            self._before = ""
        has_raised_class = bool(self._raised_classes) and "class" in element.attributes
        has_style = "style" in element.attributes or "face" in element.attributes
        if name == "sup" or has_style or has_raised_class:
            self._begin_run(element)

    def _begin_run(self, element: Element) -> None:
        """Note if an element raises its text or names a font."""
        style = element.get("style")
        if self._runs:
            outer = self._runs[-1]
        else:
            outer = _Run(element, False, "")
        is_raised = outer.is_raised or element.name == "sup"
        # The cells of a table are aligned, not raised.
        if not is_raised and element.name not in BLOCKS:
            is_raised = _RAISED_STYLE.search(style) is not None
            if self._raised_classes and not is_raised:
                is_raised = not self._raised_classes.isdisjoint(element.get("class").split())
        family = _FONT_FAMILY.search(style)
        if family:
            face = family[1]
        else:
            face = element.get("face").partition(",")[0]
        font = outer.font
        if face:
            font = find_symbol_font(face)
        if is_raised != outer.is_raised or font != outer.font:
            self._runs.append(_Run(element, is_raised, font))

    def end(self, name: str) -> None:
        if self._runs and self._runs[-1].element is self._at:
            self._runs.pop()
        self._at = self._at.parent or self._at
        self._speechless -= name in _SPEECHLESS

    def data(self, text: str) -> None:
        if self._speechless:
            if self._at.name == "style":
                self._raised_classes |= _find_raised_classes(text)
            return
        if self._runs:
            run = self._runs[-1]
            if run.font:
                text = show_symbols(run.font, text)
            if run.is_raised:
                text = write_superscript(text, self._before)
        self._at.contents.append(text)
        self._before = text[-_BEFORE:]

    def close(self) -> ParsedPage:
        return self._page


def _find_raised_classes(sheet: str) -> set[str]:
    """Return the classes of elements whose text a style sheet raises."""
    classes: set[str] = set()
    for match in islice(_RAISED_STYLE.finditer(sheet), _MAX_RULES):
        begin = sheet.rfind("{", 0, match.start())
        # Sheets in a sheet, such as `@media`, begin with a brace, too.
        before = max(sheet.rfind(sign, 0, max(begin, 0)) for sign in "{}")
        classes.update(_CLASS.findall(sheet[before + 1 : max(begin, 0)].strip()))
    return classes


def parse_page(source: str) -> ParsedPage:
    """Parse a page, even if it is badly broken or empty."""
    from lxml import etree

    parser = etree.HTMLParser(target=_Tree(), recover=True)
    parser.feed(_DECLARED.sub("", source))
    page: ParsedPage = parser.close()
    return page


def is_shown(element: Element) -> bool:
    """Tell whether an element itself is shown; it may be in one that is not."""
    return element.name not in _LEFT_OUT and "hidden" not in element.attributes


def find_contents(element: Element) -> list[Element | str]:
    """Return what is shown in an element: its content, or what is filled into a field of a form."""
    if element.name == "input":
        return [f" {_read_entry(element)} "]
    if element.name == "select":
        return _find_chosen(element)
    return element.contents


def _read_entry(field: Element) -> str:
    """Return what a field of a form shows: its text, or whether it is ticked."""
    kind = field.get("type").lower()
    if kind in _NO_ENTRY:
        return ""
    if kind not in ("checkbox", "radio"):
        return field.get("value")
    # Pages also open their menus by boxes that nobody sees.
    return "\u2611" if "checked" in field.attributes else ""


def _find_chosen(menu: Element) -> list[Element | str]:
    """Return what a menu of a form shows: the selected options, else the first one."""
    options: list[Element] = []
    for inner in menu.contents:
        if isinstance(inner, Element):
            group = inner.contents if inner.name == "optgroup" else [inner]
            options += (option for option in group if isinstance(option, Element))
    chosen = [option for option in options if "selected" in option.attributes]
    if not chosen and "multiple" not in menu.attributes:
        chosen = options[:1]
    contents: list[Element | str] = [" "]
    for option in chosen:
        contents += (option, " ")
    return contents


def join_lines(text: str) -> str:
    """Return a text on one line."""
    return " ".join(clean(text).split())


def read_line(element: Element, most: int = sys.maxsize) -> str:
    """Return all that an element shows on one line; only blocks and line breaks separate words.

    Empty for an element of more than `most` pieces: texts, and two for each element.
    """
    pieces = list(islice(_read_pieces(element, " "), most))
    if len(pieces) < most:
        return join_lines("".join(pieces))
    return ""


def read_preformatted(element: Element) -> str:
    """Return all that an element shows, with its line ends and blanks."""
    return "".join(_read_pieces(element, "")).strip("\r\n")


def _read_pieces(element: Element, gap: str) -> Iterator[str]:
    """Yield the texts in an element without recursion, with a `gap` at both ends of a block."""
    stack = element.contents[::-1]
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            yield inner
        elif inner.name == "br":
            yield "\n"
        elif is_shown(inner):
            around = gap if inner.name in BLOCKS else ""
            yield around
            stack += [around, *reversed(find_contents(inner))]
