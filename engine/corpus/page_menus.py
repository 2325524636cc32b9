"""Menus, page headers and page footers of a parsed page, which say nothing of what it is about."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from engine.corpus.page_nodes import hide, is_text

_CANDIDATES = ["header", "footer", "div", "ul", "ol", "table", "p"]
_MENU = re.compile(r"\b(menu|nav|navbar|navigation|breadcrumbs?)\b")
_RIGHTS = re.compile(r"\u00a9|\bcopyright\b|\ball rights reserved\b", re.IGNORECASE)
_LONGEST_IMPRINT = 300


class _Said(NamedTuple):
    """What an element says: its letters, those of them that stand in links, and whether it names rights."""

    letters: int = 0
    linked: int = 0
    rights: bool = False


def hide_menus(soup: Any) -> None:
    """Hide page headers, page footers, and blocks called a menu, that hold hardly anything but links."""
    said = _said(soup)
    for element in soup.find_all(_CANDIDATES):
        words = f"{element.get('id', '')} {' '.join(element.get('class') or [])} {element.get('role', '')}".lower()
        letters, linked, rights = said[id(element)]
        links = linked > 0 and linked >= 0.8 * letters
        if element.name == "footer":
            links = links or (letters <= _LONGEST_IMPRINT and rights)
        if (element.name in ("header", "footer") or _MENU.search(words)) and links:
            hide(element)


def _said(soup: Any) -> dict[int, _Said]:
    """What every element says, by its id; every text is looked at once, however deep it lies."""
    said: dict[int, _Said] = {}
    for node in reversed([soup, *soup.descendants]):
        letters, linked, rights = said.get(id(node), _Said())
        if node.name is None:
            shown = is_text(node)
            letters, rights = (sum(map(str.isalnum, node)), bool(_RIGHTS.search(node))) if shown else (0, False)
        else:
            linked = letters if node.name == "a" else linked
            said[id(node)] = _Said(letters, linked, rights)
        if node.parent is not None:
            above = said.get(id(node.parent), _Said())
            said[id(node.parent)] = _Said(above.letters + letters, above.linked + linked, above.rights or rights)
    return said
