"""Markdown: text as it stands, with its headings, without the fields before it (YAML between `---`, TOML between `+++`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.core.records import Heading, Marked, ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.plain import decoded
from engine.corpus.text.hyphens import with_whole_words
from engine.corpus.text.metadata import Said, first_moment, joined, title_from_name

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
_FRONT_MATTER = re.compile(
    r"\A\s*?(?:---[ \t]*\n(.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\n(.*?\n)??\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_MAX_LENGTH = 2**16  # characters; more are read line by line
_KEY = re.compile(r"[\w.-]+")
_FIELD = re.compile(r"""["']?([\w.-]+)["']?[ \t]*[:=](?:[ \t]+(.*))?""")
_COMMENT = re.compile(r"(?:\A|[ \t])#.*")
_GOES_ON = (" ", "\t", "-", "#", "]", "}")
_NOTHING = ("~", "null")
_AUTHOR = ("author", "authors", "creator", "by")
_CREATED = ("date", "created", "created_at", "publishdate", "published", "pubdate", "date_created")
_CHANGED = (
    "lastmod", "updated", "modified", "last_modified", "last_modified_at", "updated_at", "date_modified", "dateupdated",
)  # fmt: skip


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


def split_front_matter(text: str) -> tuple[str, Said]:
    """The text without its front matter, and what that says of it. What stands between two lines and is no such fields stays."""
    found = _FRONT_MATTER.match(text)
    fields = _fields(found[1] or "", found[2] or "") if found else None
    if not found or fields is None:
        return text, Said()
    titles = [*filter(str.strip, fields.get("title", ()))]
    return text[found.end() :], Said(
        " ".join(titles[0].split()) if titles else "",
        joined(name for key in _AUTHOR for name in fields.get(key, ())),
        first_moment(date for key in _CREATED for date in fields.get(key, ())),
        first_moment(date for key in _CHANGED for date in fields.get(key, ())),
    )


def _fields(yaml: str, toml: str) -> Mapping[str, list[str]] | None:
    """The texts of each field; None where it is none that is written there."""
    found = _parsed(yaml, toml) if (yaml + toml).strip() else {}
    if not isinstance(found, Mapping) or (found and not any(_KEY.fullmatch(str(key)) for key in found)):
        return None
    try:
        return {str(key).lower(): [*_texts(value)] for key, value in found.items()}
    except RecursionError:
        return None


def _parsed(yaml: str, toml: str) -> Any:
    """What YAML or TOML says; of what is neither, each line that is a field, if all are."""
    from yaml import AliasEvent, BaseLoader, YAMLError, load

    class Loader(BaseLoader):  # type: ignore[misc]
        """Every value is a text; one that stands for another is refused, which could make a few lines endless."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(AliasEvent):
                raise YAMLError
            return super().compose_node(parent, index)

    try:
        if len(yaml) + len(toml) <= _MAX_LENGTH:
            return tomllib.loads(toml) if toml else load(yaml, Loader)
    except (tomllib.TOMLDecodeError, YAMLError, RecursionError, ValueError):
        pass
    lines = [line for line in (yaml or toml).split("\n") if line.strip() and not line.startswith(_GOES_ON)]
    found = [_FIELD.match(line) for line in lines]
    return {one[1]: _COMMENT.sub("", one[2] or "").strip(" \"'") for one in found if one} if all(found) else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = value.get("name", "")
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif str(value).lower() not in _NOTHING:
        yield str(value)
