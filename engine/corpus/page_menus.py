"""Menus, page headers and page footers of a parsed page, which say nothing of what it is about."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from engine.corpus.page_nodes import hide, is_text

_CANDIDATES = ["header", "footer", "div", "ul", "ol", "table", "p"]
_MENU = re.compile(r"\b(menu|nav|navbar|navigation|breadcrumbs?)\b")
_RIGHTS = re.compile(r"\u00a9|\bcopyright\b|\ball rights reserved\b", re.IGNORECASE)
_LONGEST_IMPRINT = 300
_CONTENT = frozenset({"article", "main", "section"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


class _Said(NamedTuple):
    """What an element says: its letters, those of them that stand in links, whether it names rights, and the names of the
    headings in it.
    """

    letters: int = 0
    linked: int = 0
    rights: bool = False
    headings: frozenset[str] = frozenset()


def hide_menus(soup: Any) -> None:
    """Hide page headers, page footers, and blocks called a menu, that hold hardly anything but links.

    The header of an article is none of the page. The headings of a page header stay, and the first of a page wherever it stands:
    a blog's titles are links.
    """
    said, within = _said(soup), _within_content(soup)
    hidden: set[int] = set()
    for element in soup.find_all(_CANDIDATES):
        words = f"{element.get('id', '')} {' '.join(element.get('class') or [])} {element.get('role', '')}".lower()
        of = said[id(element)]
        links = of.linked > 0 and of.linked >= 0.8 * of.letters
        if element.name == "footer":
            links = links or (of.letters <= _LONGEST_IMPRINT and of.rights)
        edge = element.name == "footer" or (element.name == "header" and id(element) not in within)
        if (edge or _MENU.search(words)) and links:
            kept = {"header": _HEADINGS, "footer": frozenset[str]()}.get(element.name, frozenset({"h1"}))
            _hide_but(element, kept, said, hidden)


def _hide_but(element: Any, kept: frozenset[str], said: dict[int, _Said], hidden: set[int]) -> None:
    """Hide an element, or all in it but some headings. What is `hidden` is not looked through again."""
    stack = [element]
    while stack:
        node = stack.pop()
        if id(node) in hidden or node.name in kept:
            continue
        hidden.add(id(node))
        if kept.isdisjoint(said[id(node)].headings):
            hide(node)
        else:
            node.contents = [inner for inner in node.contents if inner.name is not None]
            stack += node.contents


def _within_content(soup: Any) -> set[int]:
    """The ids of all elements that stand in an article or a section, or in what is called the main part of the page."""
    within: set[int] = set()
    for element in soup.find_all(True):
        above = element.parent
        if above is not None and (above.name in _CONTENT or id(above) in within):
            within.add(id(element))
    return within


def _said(soup: Any) -> dict[int, _Said]:
    """What every element says, by its id; every text is looked at once, however deep it lies."""
    said: dict[int, _Said] = {}
    for node in reversed([soup, *soup.descendants]):
        of = said.get(id(node), _Said())
        if node.name is not None:
            own = {node.name} & _HEADINGS
            of = _Said(of.letters, of.letters if node.name == "a" else of.linked, of.rights, of.headings | own)
            said[id(node)] = of
        elif is_text(node):
            of = _Said(sum(map(str.isalnum, node)), 0, bool(_RIGHTS.search(node)))
        if node.parent is not None:
            above = said.get(id(node.parent), _Said())
            said[id(node.parent)] = _Said(
                above.letters + of.letters,
                above.linked + of.linked,
                above.rights or of.rights,
                above.headings | of.headings,
            )
    return said
