"""The titles of plain texts, which depend on the language in which a text is marked up."""

from __future__ import annotations

import re
from pathlib import Path

from engine.corpus.scan.formats import ending_of, names_no_format
from engine.corpus.text.metadata import title_from_name

_MAX_LENGTH = 100
# Titles of reStructuredText, AsciiDoc, Org and LaTeX; that of Org may also be its first heading.
_LINE_UNDER_TITLE = r"[=\-~^\"'#*+.:_`]{3,}"
_MARKED_TITLES = {
    ".rst": re.compile(rf"^[ \t]*(\S.*)\n{_LINE_UNDER_TITLE}[ \t]*$", re.MULTILINE),
    ".adoc": re.compile(r"^=[ \t]+(.+)$", re.MULTILINE),
    ".asciidoc": re.compile(r"^=[ \t]+(.+)$", re.MULTILINE),
    ".org": re.compile(r"^(?:#\+title:|\*)[ \t]+(.+)$", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(r"^[^%\n]*\\title(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}", re.MULTILINE),
}
# Texts that may begin with their title, as do files whose names have no format.
_TEXT_ENDINGS = frozenset((".txt", ".text", ".textile", ".wiki", ".mediawiki", ".nfo"))
# A day and a time, or a time with seconds, at the start of a line of a log or a chat.
_MOMENT = re.compile(r"\W*(?:\d[\d./-]{3,9}[,T ]+|\w{3} +\d{1,2} )\d?\d[:.]\d\d|\W*\d?\d:\d\d:\d\d")
# Commands of LaTeX, and the braces around what they apply to.
_COMMAND = re.compile(r"\\\\(?:\[[^\]]*\])?|\\[A-Za-z]+\*?|[{}]|~")


def find_title(text: str, path: Path) -> str:
    """Return the title that a text names or begins with, else one made from the file's name.

    The first line is a title if it is short, holds a letter and does not begin with a time.
    """
    ending = ending_of(path.name)
    title = ""
    if marked := _MARKED_TITLES.get(ending):
        match = marked.search(text)
        title = match[1] if match else ""
        if ending == ".tex":
            title = _COMMAND.sub(" ", title)
    elif ending in _TEXT_ENDINGS or names_no_format(ending):
        # `splitlines` also splits at the form feeds that old programs write between pages.
        title = next((line for line in text.splitlines() if line.strip()), "")
        if _MOMENT.match(title):
            title = ""
    title = " ".join(title.split())
    if len(title) > _MAX_LENGTH or not any(map(str.isalpha, title)):
        return title_from_name(path)
    return title
