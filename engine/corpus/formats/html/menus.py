"""Menus, page headers and page footers of a parsed page, which say nothing of what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from engine.corpus.formats.html.nodes import Element, hide

_CANDIDATES = frozenset({"header", "footer", "div", "ul", "ol", "table", "p"})
_MENU = re.compile(r"\b(menu|nav|navbar|navigation|breadcrumbs?)\b")
_RIGHTS = re.compile(r"\u00a9|\bcopyright\b|\ball rights reserved\b", re.IGNORECASE)
_MAX_IMPRINT_LENGTH = 300
_CONTENT = frozenset({"article", "main", "section"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_NONE = frozenset[str]()


class _Said(NamedTuple):
    """What an element says: its letters, those of them that stand in links, whether it names rights, and the names of the
    headings in it.
    """

    letters: int = 0
    linked: int = 0
    rights: bool = False
    headings: frozenset[str] = frozenset()


def hide_menus(elements: Sequence[Element]) -> None:
    """Hide page headers, page footers, and blocks called a menu, that hold hardly anything but links.

    The header of an article is none of the page. The headings of a page header stay, and the first of a page wherever it stands:
    a blog's titles are links.
    """
    within = _within_content(elements)
    called = [element for element in elements if _is_edge(element, within) or _is_called_menu(element)]
    if not called:
        return
    said = _said(elements, rights=any(element.name == "footer" for element in called))
    hidden: set[Element] = set()
    for element in called:
        of = said[element]
        links = of.linked > 0 and of.linked >= 0.8 * of.letters
        if links or (element.name == "footer" and of.letters <= _MAX_IMPRINT_LENGTH and of.rights):
            kept = {"header": _HEADINGS, "footer": _NONE}.get(element.name, frozenset({"h1"}))
            _hide_but(element, kept, said, hidden)


def _is_edge(element: Element, within: Set[Element]) -> bool:
    return element.name == "footer" or (element.name == "header" and element not in within)


def _is_called_menu(element: Element) -> bool:
    if element.name not in _CANDIDATES or not element.attributes:
        return False
    words = f"{element.get('id')} {element.get('class')} {element.get('role')}"
    return _MENU.search(words.lower()) is not None


def _hide_but(element: Element, kept: Set[str], said: Mapping[Element, _Said], hidden: set[Element]) -> None:
    """Hide an element, or all in it but some headings. What is `hidden` is not looked through again."""
    stack = [element]
    while stack:
        node = stack.pop()
        if node in hidden or node.name in kept:
            continue
        hidden.add(node)
        if kept.isdisjoint(said[node].headings):
            hide(node)
        else:
            inner = [inner for inner in node.contents if isinstance(inner, Element)]
            node.contents = [*inner]
            stack += inner


def _within_content(elements: Sequence[Element]) -> set[Element]:
    """All elements that stand in an article or a section, or in what is called the main part of the page."""
    within: set[Element] = set()
    for element in elements:
        above = element.parent
        if above is not None and (above.name in _CONTENT or above in within):
            within.add(element)
    return within


def _said(elements: Sequence[Element], *, rights: bool) -> dict[Element, _Said]:
    """What every element says, its rights where these are asked for; every text is looked at once, however deep it lies."""
    said: dict[Element, _Said] = {}
    for element in reversed(elements):
        letters, linked, named, headings = 0, 0, False, {element.name} & _HEADINGS
        for inner in element.contents:
            if isinstance(inner, str):
                letters += sum(map(str.isalnum, inner))
                named = named or (rights and _RIGHTS.search(inner) is not None)
            else:
                of = said[inner]
                letters, linked, named = letters + of.letters, linked + of.linked, named or of.rights
                headings |= of.headings
        said[element] = _Said(letters, letters if element.name == "a" else linked, named, frozenset(headings))
    return said
