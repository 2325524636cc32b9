"""Markdown: text as it stands, without its front matter, with its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.core.records import Heading, Marked, ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.front_matter import split_front_matter
from engine.corpus.formats.plain import decoded
from engine.corpus.text.hard_wrapped import with_whole_words
from engine.corpus.text.metadata import title_from_name

_ATX = re.compile(r" {0,3}(#{1,6})((?:[ \t].*)?)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NOT_A_PARAGRAPH = re.compile(r"[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]|\||<)|(?: {4}|\t)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKED = re.compile(
    r"(?P<picture>!?)\[(?P<shown>[^\[\]\n]{2,200})\]\([ ]*<?(?P<target>[^\s<>()]{1,500})>?(?:[ ]+[\"'][^\n\"']{0,200}[\"'])?[ ]*\)"
    r"|^(?P<term>[^\s:#>|*+-][^\n]{1,80})\n\n?:[ \t]+\S",
    re.MULTILINE,
)
_MAX_HEADING_LENGTH = 300  # characters; the two patterns take time with the square of the length
_EMPHASIS = re.compile(r"(\*{1,3}|_{2,3}|`+)(?=\S)(.+?)(?<=\S)\1")


class MarkdownReader:
    """Reads .md files. The title is the front matter's, else the first level-1 heading, else the file's name."""

    formats = frozenset({"md"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        content, note = decoded(read_bytes(path, data), path)
        text, said = split_front_matter(content)
        text = with_whole_words(text, markdown=True)
        if not text.strip():
            raise UnreadableFileError(path, "empty")
        headings = tuple(find_headings(text))
        first = next((heading.title for heading in headings if heading.level == 1), "")
        yield ReadDocument(
            said.title or first or title_from_name(path), text, headings, format="md", note=note, author=said.author,
            created=said.created, changed=said.changed, marked=tuple(_marked(text)),
        )  # fmt: skip


READER = MarkdownReader()


def _marked(text: str) -> Iterator[Marked]:
    """Links, descriptions of pictures, and terms of lists in which a line with a colon explains the line above."""
    for found in _MARKED.finditer(text):
        if found["term"]:
            yield Marked("glossary", found["term"])
        elif found["picture"]:
            yield Marked("caption", found["shown"])
        else:
            yield Marked("link", _EMPHASIS.sub(r"\2", found["shown"]), found["target"])


def find_headings(text: str) -> Iterator[Heading]:
    """ATX and setext headings outside fenced code, by offset."""
    fence = ""
    start, paragraph = 0, -1
    for line in text.split("\n"):
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif opening := _opening(line):
            fence, paragraph = opening, -1
        elif atx := _ATX.fullmatch(line):
            yield from _heading(start, len(atx.group(1)), _without_closing(atx.group(2)))
            paragraph = -1
        elif paragraph >= 0 and (underline := _UNDERLINE.fullmatch(line)):
            yield from _heading(paragraph, 1 if underline.group(1)[0] == "=" else 2, text[paragraph:start])
            paragraph = -1
        elif not line.strip() or (paragraph < 0 and _NOT_A_PARAGRAPH.match(line)):
            paragraph = -1
        elif paragraph < 0 and not _inside_list(text, start):
            paragraph = start
        start += len(line) + 1


def _inside_list(text: str, start: int) -> bool:
    """Whether the line before is a list item, quotation or table row that this line lazily continues."""
    before = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : max(start - 1, 0)]
    return bool(before.strip()) and _NOT_A_PARAGRAPH.match(before) is not None


def _heading(start: int, level: int, raw: str) -> Iterator[Heading]:
    plain = " ".join(raw.split())[:_MAX_HEADING_LENGTH].rstrip()
    title = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", plain))
    if title:
        yield Heading(start, level, title)


def _without_closing(raw: str) -> str:
    """An ATX heading's text without the run of # that may close it: `One ##` → `One`, but `C#` stays."""
    text = raw.rstrip(" \t")
    bare = text.rstrip("#")
    return bare if bare[-1:] in ("", " ", "\t") else text


def _opening(line: str) -> str:
    found = _FENCE.fullmatch(line)
    return found.group(1) if found and not (found.group(1)[0] == "`" and "`" in found.group(2)) else ""


def _closes(line: str, fence: str) -> bool:
    found = _FENCE.fullmatch(line)
    return bool(found and found.group(1).startswith(fence) and not found.group(2).strip())
