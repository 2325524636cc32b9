"""Titles and headings of plain texts, by the language in which a text is marked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.core.records import Heading
from engine.corpus.scan.formats import ending_of, names_no_format
from engine.corpus.text.blocks import MAX_HEADING_LENGTH
from engine.corpus.text.metadata import title_from_name

_MAX_TITLE_LENGTH = 100
# Number of characters in which a title is looked for.
_BEGINNING = 2**16
_ASCIIDOC = r"^(?P<marks>={1,6})[ \t]+(?P<title>\S.*)$"
# Headings of each language, at the start of a line. The level is the number of marks, or the place
# of the command or the underline.
_HEADINGS = {
    ".adoc": re.compile(_ASCIIDOC, re.MULTILINE),
    ".asciidoc": re.compile(_ASCIIDOC, re.MULTILINE),
    ".org": re.compile(r"^(?P<marks>\*{1,8})[ \t]+(?P<title>\S.*)$", re.MULTILINE),
    ".rst": re.compile(
        r"^(?P<above>(?P<over>[^\w\s])(?P=over){2,}[ \t]*\n)?[ \t]*(?P<title>\S.*)\n"
        r"(?P<underline>(?P<under>[=\-~^\"'#*+.:_`])(?P=under){2,})[ \t]*$",
        re.MULTILINE,
    ),
    ".tex": re.compile(
        r"^[ \t]*\\(?P<command>part|chapter|(?:sub){0,2}section)\*?(?:\[[^\]\n]*\])?"
        r"\{(?P<title>(?:[^{}\n]++|\{[^{}\n]*\})+)\}",
        re.MULTILINE,
    ),
}
_MIN_UNDERLINE = 4  # characters below a title of as many and more (docutils)
_LATEX_LEVELS = (
    "part",
    "chapter",
    "section",
    "subsection",
    "subsubsection",
)
# Titles that are no headings.
_TITLES = {
    ".org": re.compile(r"^#\+title:[ \t]+(.+)$", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(
        r"^[^%\n]*\\title(?:\[[^\]\n]*\])?\{((?:[^{}]|\{[^{}]*\}){1,500})\}", re.MULTILINE
    ),
}
# Texts that may begin with their title, as do files whose names have no format.
_TEXT_ENDINGS = frozenset((".txt", ".text", ".textile", ".wiki", ".mediawiki", ".nfo"))
# A day and a time, or a time with seconds, at the start of a line of a log or a chat.
_MOMENT = re.compile(r"\W*(?:\d[\d./-]{3,9}[,T ]+|\w{3} +\d{1,2} )\d?\d[:.]\d\d|\W*\d?\d:\d\d:\d\d")
# Commands of LaTeX, and the braces around what they apply to.
_COMMAND = re.compile(r"\\\\(?:\[[^\]]*\])?|\\[A-Za-z]+\*?|[{}]|~")


def find_title(text: str, path: Path) -> str:
    """Return the title that a text names or begins with, else one made from the file's name.

    The first line is a title if it is short and holds a letter. In logs and chats, where more lines
    begin with a time, it is none.
    """
    ending = ending_of(path.name)
    beginning = text[:_BEGINNING]
    title = ""
    if ending in _HEADINGS:
        match = _TITLES[ending].search(beginning) if ending in _TITLES else None
        if match is not None:
            title = _clean_title(match[1], ending)
        elif ending != ".tex":
            title = next((heading.title for heading in find_headings(beginning, path)), "")
    elif ending in _TEXT_ENDINGS or names_no_format(ending):
        # `splitlines` also splits at the form feeds that old programs write between pages.
        lines = [line for line in beginning.splitlines() if line.strip()]
        title = next(iter(lines), "")
        if _MOMENT.match(title) and (len(lines) == 1 or any(map(_MOMENT.match, lines[1:]))):
            title = ""
    title = " ".join(title.split())
    if len(title) > _MAX_TITLE_LENGTH or not any(map(str.isalpha, title)):
        return title_from_name(path)
    return title


def find_headings(text: str, path: Path) -> Iterator[Heading]:
    """Yield the headings of a text, by the ending of its file's name."""
    ending = ending_of(path.name)
    if ending not in _HEADINGS:
        return
    # The styles of underlines, in the order in which they occur.
    styles: dict[tuple[bool, str], int] = {}
    for match in _HEADINGS[ending].finditer(text):
        title = _clean_title(match["title"], ending)[:MAX_HEADING_LENGTH]
        if not any(map(str.isalnum, title)):
            continue
        if ending == ".rst":
            # Three points below a line are rather an ellipsis.
            if len(match["underline"]) < min(_MIN_UNDERLINE, len(title)):
                continue
            style = (match["above"] is not None, match["under"])
            level = styles.setdefault(style, len(styles) + 1)
        elif ending == ".tex":
            level = _LATEX_LEVELS.index(match["command"]) + 1
        else:
            level = len(match["marks"])
        yield Heading(
            match.start("title" if ending == ".rst" else 0),
            level,
            title,
        )


def _clean_title(title: str, ending: str) -> str:
    """Return a title on one line, without commands of LaTeX."""
    if ending == ".tex":
        title = _COMMAND.sub(" ", title)
    return " ".join(title.split())
