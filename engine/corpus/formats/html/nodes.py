"""A page parsed into elements: which of them are shown, which are blocks, and their texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from engine.core.characters import clean_line
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import find_symbol_font, show_symbols

# Navigation, and elements that are no text of the page.
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
# The texts in these elements are dropped when a page is parsed; `rt` and `rp` are the small letters
# that give the pronunciation above others.
_TEXTLESS = frozenset({"script", "style", "template", "rt", "rp"})
# Attributes of a template that is shown as the content of the element around it, in a saved page.
_SHADOW_ROOTS = frozenset({"shadowrootmode", "shadowroot"})
# Elements that begin and end a block of text.
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

# Raised text, such as `vertical-align: super` and `vertical-align: 0.4em`. Values below 2 px or
# 0.2 em only adjust the line.
_RAISED_STYLE = re.compile(
    r"vertical-align\s*:\s*(?:super|text-top|(?:[2-9]|[1-9]\d|0?\.[2-9])[\d.]*(?:px|pt|r?em|ex|%))",
    re.IGNORECASE,
)
# The last class of each selector in a list: `up` and `note` of `p .up, .note`.
_CLASS_SELECTOR = re.compile(r"\.([\w-]+)\s*(?:,|$)")
# The first family of `font-family: Wingdings, serif` or of `font: bold 12pt/1.5 "Wingdings"`.
_FONT_FAMILY = re.compile(
    r"(?:^|[;\s])font(?:-family\s*:|\s*:[^;]*?\d[\w.%]*(?:/\S+)?)\s*[\"']?([^;,\"']+)",
    re.IGNORECASE,
)
_MAX_TEXT_BEFORE = 20  # characters before raised text that decide how it is written
# Maximum number of rules of a style sheet that are examined.
_MAX_RULES = 500
# Elements within a line that pages lay out as boxes.
_WITH_BLANKS = ("input", "select", "label")
# Kinds of `<input>` whose value is not shown, is no text, or is the label of a button.
_INPUTS_WITHOUT_TEXT = frozenset(
    ("hidden", "password", "submit", "reset", "button", "image", "file", "range", "color")
)
# lxml refuses a text with the declaration of an encoding.
_DECLARATION = re.compile(r"\A\ufeff*\s*<\?xml[^>]*\?>|\A\ufeff+")


class Element:
    """An element of a page with its content: other elements, and texts."""

    __slots__ = ("attributes", "contents", "name", "parent")

    def __init__(
        self,
        name: str,
        attributes: dict[str, str],
        parent: Element | None,
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.contents: list[Element | str] = []

    def get(self, attribute: str) -> str:
        """Return the value of an attribute, empty if missing."""
        return self.attributes.get(attribute, "")


class _TextStyle(NamedTuple):
    """How the texts in an element are shown."""

    element: Element
    is_raised: bool
    # The name of the symbol font, empty for a font of letters.
    symbol_font: str


class ParsedPage(NamedTuple):
    """A page: its outermost element, and all elements in the order of the page, that one first."""

    root: Element
    elements: list[Element]


class _TreeBuilder:
    """Builds a `ParsedPage` from the events of lxml's parser.

    Comments are left out, and letters in symbol fonts and raised texts are replaced by the
    characters that they show. This is many times faster than changing lxml's own tree.
    """

    def __init__(self) -> None:
        self._current = Element(
            "",
            {},
            None,
        )
        self._page = ParsedPage(self._current, [self._current])
        # How many of the elements around the current place are `_TEXTLESS`.
        self._textless_depth = 0
        # The styles at the current place, the innermost last.
        self._styles: list[_TextStyle] = []
        self._text_before = ""
        self._raised_classes: set[str] = set()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        if name == "template" and not _SHADOW_ROOTS.isdisjoint(attributes):
            name = "div"
        element = Element(
            name,
            dict(attributes) if attributes else {},
            self._current,
        )
        self._current.contents.append(element)
        self._page.elements.append(element)
        self._current = element
        self._textless_depth += name in _TEXTLESS
        if name in BLOCKS or name == "br":
            self._text_before = ""
        may_be_raised = bool(self._raised_classes) and "class" in element.attributes
        has_style = "style" in element.attributes or "face" in element.attributes
        if name == "sup" or has_style or may_be_raised:
            self._begin_style(element)

    def _begin_style(self, element: Element) -> None:
        """Note the style of an element if it differs from the style around it."""
        css = element.get("style")
        outer = _TextStyle(
            element,
            is_raised=False,
            symbol_font="",
        )
        if self._styles:
            outer = self._styles[-1]
        is_raised = outer.is_raised or element.name == "sup"
        # The cells of a table are aligned, not raised.
        if not is_raised and element.name not in BLOCKS:
            is_raised = _RAISED_STYLE.search(css) is not None
            if self._raised_classes and not is_raised:
                is_raised = not self._raised_classes.isdisjoint(element.get("class").split())
        family = _FONT_FAMILY.search(css)
        if family:
            face = family[1]
        else:
            face = element.get("face").partition(",")[0]
        symbol_font = outer.symbol_font
        if face:
            symbol_font = find_symbol_font(face)
        if is_raised != outer.is_raised or symbol_font != outer.symbol_font:
            self._styles.append(_TextStyle(element, is_raised, symbol_font))

    def end(self, name: str) -> None:
        """End the current element."""
        if self._styles and self._styles[-1].element is self._current:
            self._styles.pop()
        self._textless_depth -= self._current.name in _TEXTLESS
        self._current = self._current.parent or self._current

    def data(self, text: str) -> None:
        """Add a text to the current element, or read the classes of a style sheet."""
        if self._textless_depth:
            if self._current.name == "style":
                self._raised_classes |= _find_raised_classes(text)
            return
        if self._styles:
            style = self._styles[-1]
            if style.symbol_font:
                text = show_symbols(style.symbol_font, text)
            if style.is_raised:
                text = write_superscript(text, self._text_before)
        self._current.contents.append(text)
        self._text_before = text[-_MAX_TEXT_BEFORE:]

    def close(self) -> ParsedPage:
        """Return the page."""
        return self._page


def _find_raised_classes(sheet: str) -> set[str]:
    """Return the classes of elements whose text a style sheet raises: `up` of `.up {…: super}`."""
    classes: set[str] = set()
    for match in islice(_RAISED_STYLE.finditer(sheet), _MAX_RULES):
        rule_start = max(0, sheet.rfind("{", 0, match.start()))
        # Before its selectors stands the end of another rule, or the brace of `@media` or the like.
        selectors_start = 1 + max(sheet.rfind(brace, 0, rule_start) for brace in "{}")
        selectors = sheet[selectors_start:rule_start].strip()
        classes.update(_CLASS_SELECTOR.findall(selectors))
    return classes


def parse_page(source: str) -> ParsedPage:
    """Parse a page, even if it is badly broken or empty."""
    from lxml import etree

    parser = etree.HTMLParser(target=_TreeBuilder(), recover=True)
    parser.feed(_DECLARATION.sub("", source))
    page: ParsedPage = parser.close()
    return page


def is_shown(element: Element) -> bool:
    """Return whether an element is shown if the elements around it are."""
    return element.name not in _LEFT_OUT and "hidden" not in element.attributes


def find_contents(element: Element) -> list[Element | str]:
    """Return what an element shows: its contents, or the value of a form field.

    Blanks are put around labels and elements that a page defines itself, such as `<app-value>`,
    which pages lay out as boxes.
    """
    name = element.name
    if name not in _WITH_BLANKS and "-" not in name:
        return element.contents
    if name == "input":
        return [f" {_read_input(element)} "]
    if name == "select":
        return _find_selected_options(element)
    return [" ", *element.contents, " "]


def _read_input(field: Element) -> str:
    """Return what a field of a form shows: its text, or a ballot box if it is ticked."""
    kind = field.get("type").lower()
    if kind in _INPUTS_WITHOUT_TEXT:
        return ""
    if kind not in ("checkbox", "radio"):
        return field.get("value")
    # An empty box is left out: many pages open their menus by check boxes that nobody sees.
    return "\u2611" if "checked" in field.attributes else ""


def _find_selected_options(menu: Element) -> list[Element | str]:
    """Return the selected options of a menu, by default the first one, each between blanks."""
    options: list[Element] = []
    for inner in menu.contents:
        if isinstance(inner, Element):
            group = inner.contents if inner.name == "optgroup" else [inner]
            options += (option for option in group if isinstance(option, Element))
    selected = [option for option in options if "selected" in option.attributes]
    if not selected and "multiple" not in menu.attributes:
        selected = options[:1]
    contents: list[Element | str] = [" "]
    for option in selected:
        contents += (option, " ")
    return contents


def read_line(element: Element, max_pieces: int = sys.maxsize) -> str:
    """Return all that an element shows on one line; only blocks and line breaks separate words.

    Empty if the element has `max_pieces` pieces or more: each text in it counts as one piece, each
    element as two.
    """
    pieces = list(islice(_read_pieces(element, " "), max_pieces))
    if len(pieces) < max_pieces:
        return clean_line("".join(pieces))
    return ""


def read_preformatted(element: Element) -> str:
    """Return all that an element shows, with the line ends and blanks in it."""
    return "".join(_read_pieces(element, "")).strip("\r\n")


def _read_pieces(element: Element, gap: str) -> Iterator[str]:
    """Yield the shown texts in an element, with a `gap` at both ends of each block.

    It does not recurse, since pages may nest thousands deep.
    """
    stack = element.contents[::-1]
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            yield inner
        elif inner.name == "br":
            yield "\n"
        elif is_shown(inner):
            end = gap if inner.name in BLOCKS else ""
            yield end
            stack += [end, *reversed(find_contents(inner))]
