"""Characters that nobody sees and that part words for a search: they go from documents and from queries alike.

Soft hyphens, word joiners and byte order marks go everywhere. A zero width space goes but beside scripts that put no blanks between
words: there it is what parts them. Joiners and non-joiners stay: they make different letters and emoji.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate, pairwise

from engine.corpus.readers import ReadDocument

_HYPHEN, _SPACE = "\u00ad", "\u200b"
_NOTHING = ("\u2060", "\ufeff")
# Thai, Lao, Tibetan, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Javanese, Tai Viet
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"
_PARTS_NOTHING = re.compile(f"(?<![{_UNSPACED}]){_SPACE}(?![{_UNSPACED}])")
_OVER_LINES = re.compile(
    rf"(?<=[^\W\d_])(?:{_HYPHEN}[ \t]*\n[ \t]*[^\W\d_](?:[^\s{_HYPHEN}]|{_HYPHEN}(?![ \t]*\n))*)+[ \t]*\n?"
)


def visible(text: str) -> str:
    """A text without what nobody sees; a word that a soft hyphen parts at a line's end is put together, and the line ends
    behind it.
    """
    if text.isascii():
        return text
    if _HYPHEN in text:
        text = _OVER_LINES.sub(_put_together, text).replace(_HYPHEN, "")
    for char in _NOTHING:
        text = text.replace(char, "")
    return _PARTS_NOTHING.sub("", text) if _SPACE in text else text


def made_visible(document: ReadDocument) -> ReadDocument:
    """A document without what nobody sees; its headings and pages begin where they did."""
    if all(map(_is_visible, (document.text, document.title, document.author))):
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


def _is_visible(text: str) -> bool:
    return text.isascii() or not any(char in text for char in (_HYPHEN, _SPACE, *_NOTHING))


def _put_together(found: re.Match[str]) -> str:
    over = found[0].rstrip()
    ends = found[0].endswith("\n") or found.end() < len(found.string)
    return "".join(over.replace(_HYPHEN, "").split()) + ("\n" if ends else "")
