"""The elements of a page, compared with those that BeautifulSoup finds with the same parser."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, CData, NavigableString
from hypothesis import example, given
from hypothesis import strategies as st

from engine.corpus.formats.html.nodes import Element, parse_page

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data" / "office"
NAMES = (
    "html",
    "head",
    "body",
    "title",
    "p",
    "div",
    "b",
    "a",
    "table",
    "tr",
    "td",
    "ul",
    "li",
    "pre",
    "script",
    "style",
    "template",
    "ruby",
    "rt",
    "svg",
    "text",
    "textarea",
    "select",
    "option",
    "o:p",
    "nav",
    "form",
    "noscript",
    "frameset",
)
WHOLE = (
    "<br>",
    "<img alt='x'>",
    "<!-- no text -->",
    "<?php echo 1 ?>",
    "<![CDATA[data]]>",
    "<!DOCTYPE html>",
    "&amp;",
    "&nbsp;",
    "&#x41;",
    "&bogus;",
    "<p",
    "</",
    "<",
    ">",
    "<a href='x",
    "<div hidden>",
    "<p class='a  b' id=c>",
    "text",
    " ",
    "\n",
    "Größe 漢字",
    "\ufffd",
    "<?xml version='1.0'?>",
    "\ufeff",
)
PIECES = st.one_of(
    st.sampled_from([f"<{name}>" for name in NAMES]),
    st.sampled_from([f"</{name}>" for name in NAMES]),
    st.sampled_from(WHOLE),
)


def parts_of(element: Element) -> Iterator[Any]:
    """The elements and the words in their order; texts that follow each other are one."""
    for inner in element.contents:
        if isinstance(inner, str):
            yield inner
        else:
            yield (
                inner.name,
                {name: " ".join(value.split()) for name, value in inner.attributes.items()},
            )
            yield from parts_of(inner)
            yield "end", inner.name


def parts_of_soup(tag: Any) -> Iterator[Any]:
    for inner in tag.contents:
        if type(inner) in (NavigableString, CData):
            yield str(inner)
        elif not isinstance(inner, NavigableString):
            values = {
                name: value if isinstance(value, str) else " ".join(value)
                for name, value in inner.attrs.items()
            }
            yield inner.name, {name: " ".join(value.split()) for name, value in values.items()}
            yield from parts_of_soup(inner)
            yield "end", inner.name


def joined(parts: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        else:
            found.append(part)
    texts = (plain("".join(part.split())) if isinstance(part, str) else part for part in found)
    return [part for part in texts if part]


def plain(text: str) -> str:
    """A text without what makes a digit a superscript, which Beautiful Soup does not show."""
    return unicodedata.normalize("NFKC", text).replace("\u2212", "-")


def soup_of(source: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BeautifulSoup(source, "lxml")


@given(st.lists(PIECES, max_size=25).map("".join))
@example("")
@example("\ufeff\ufeff")
@example("<template><p>not <b>this</b></template>but this")
@example("<ruby>漢<rt>kan</rt></ruby>")
@example("<table><p>moved</table>")
@example("</p></div></body></html>after the end")
def test_a_page_has_the_elements_and_words_that_beautiful_soup_finds(source: str) -> None:
    page = parse_page(source)
    assert joined(parts_of(page.root)) == joined(parts_of_soup(soup_of(source.lstrip("\ufeff"))))
    assert [element for element in page.elements if element.name] == page.elements[1:]
    assert all(element in (element.parent or page.root).contents for element in page.elements[1:])


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not there")
def test_real_pages_have_the_elements_and_words_that_beautiful_soup_finds() -> None:
    compared = 0
    for path in sorted(SHARED.rglob("*.htm*")):
        source = path.read_bytes().decode("utf-8", "replace").replace("\0", "\ufffd")
        assert joined(parts_of(parse_page(source).root)) == joined(
            parts_of_soup(soup_of(source))
        ), path.name
        compared += 1
    assert compared > 25
