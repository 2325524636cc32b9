"""Characters that nobody sees go from documents; their headings and pages begin where they did."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from engine.core.characters import visible
from engine.core.records import ReadDocument


def made_visible(document: ReadDocument) -> ReadDocument:
    """A document without what nobody sees; its headings and pages begin where they did."""
    if all(visible(one) == one for one in (document.text, document.title, document.author)):
        return document
    text = document.text
    cuts = sorted({0, len(text), *(one.start for one in document.headings), *(one.start for one in document.pages)})
    pieces = [visible(text[start:end]) for start, end in pairwise(cuts)]
    places = dict(zip(cuts, accumulate(map(len, pieces), initial=0), strict=True))
    return replace(
        document,
        title=visible(document.title),
        author=visible(document.author),
        text="".join(pieces),
        headings=tuple(
            replace(heading, start=places[heading.start], title=visible(heading.title)) for heading in document.headings
        ),
        pages=tuple(replace(page, start=places[page.start], name=visible(page.name)) for page in document.pages),
    )
