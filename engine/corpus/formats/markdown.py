"""Markdown as it is written, with its headings. Only marks within words are left out.

The fields before the text (front matter, in YAML or TOML) are text, too.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from engine.core.records import Heading, Marked, ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.plain import decode
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.text.metadata import (
    StatedMetadata,
    join_names,
    parse_first_date,
    parse_tags,
    title_from_name,
)

_MARKED = re.compile(
    # A link or a picture: [berths](berths.md "All berths") or ![A pier](pier.png).
    r"(?P<picture>!?)\[(?P<text>[^\[\]\n]{2,200})\]"
    r"\([ ]*<?(?P<target>[^\s<>()]{1,500})>?(?:[ ]+[\"'][^\n\"']{0,200}[\"'])?[ ]*\)"
    # A term above its definition, which begins with a colon.
    r"|^(?P<term>[^\s:#>|*+-][^\n]{1,80})\n\n?:[ \t]+\S",
    re.MULTILINE,
)
_MAX_HEADING_LENGTH = 300  # characters
_EMPHASIS = re.compile(r"(\*{1,3}|_{2,3}|`+)(?=\S)(.+?)(?<=\S)\1")
# A part of a word, perhaps with hyphens in it.
_PART = r"[^\W_]+(?:-[^\W_]+)*"
_SPLIT_WORD_OR_CODE = re.compile(
    # Code, where everything stays: a fenced block and `words`.
    r"^[ ]{0,3}(?P<fence>`{3,}|~{3,}).*?(?:^[ ]{0,3}(?P=fence)|\Z)|(?P<ticks>`+).+?(?P=ticks)"
    # Emphasis of the first part of a word, **inter**lock, and of a later one, inter**lock**ing.
    rf"|(?<![*\w\\])(?P<first>\*{{1,3}})(?P<first_part>{_PART})(?P=first)(?=[^\W\d_])"
    rf"|(?<=[^\W\d_])(?P<later>\*{{1,3}})(?P<later_part>{_PART})(?P=later)(?!\*)"
    # What is lowered or raised, H<sub>2</sub>O, H~2~O and m<sup>2</sup>, and a line break of HTML.
    # A range such as 9~12~18 is neither, nor are sentences that end in `~`, as in Korean.
    r"|<sub>(?P<lowered>[^<>\n]{1,40})</sub>"
    r"|(?<=[A-Za-z)\]])~(?P<low>\d{1,4}|[A-Za-z]{1,9}(?=~(?!\w)))~"
    r"|<sup>(?P<raised>[^<>\n]{1,40})</sup>|(?<=\w)\^(?P<high>[\w+-]{1,9})\^(?!\w)"
    r"|(?P<break><br[ ]?/?>)"
    # Other elements of HTML that begin or end within a word: inter<b>lock</b>ing.
    r"|(?<=\w)</?(?:b|i|u|em|strong|(?:mark|span|font)(?:[ ][^<>\n]{1,200})?)>(?=\w)"
    # An escape, user\_id, and a character by its name or number, Gr&uuml;n.
    r"|(?<=\w)\\(?P<escaped>[_.*-])(?=\w)"
    r"|&(?:\#\d{1,7}|\#[xX][\da-fA-F]{1,6}|[A-Za-z]{2,8}\d{0,2});",
    re.MULTILINE | re.DOTALL,
)
_MAX_TEXT_BEFORE = 20  # characters before raised text that decide how it is written
# A faster pattern, which matches in every text with a split word.
_MAY_SPLIT_WORDS = re.compile(r"\w[*\\<~^]|\*\w|&[\#\w]+;|<(?:su|br)")
# Fields between lines of `---` (YAML) or `+++` (TOML).
_FRONT_MATTER = re.compile(
    r"\A\s*?(?:---[ \t]*\n(?P<yaml>.*?\n)??(?:---|\.\.\.)"
    r"|\+\+\+[ \t]*\n(?P<toml>.*?\n)??\+\+\+)[ \t]*(?:\n|\Z)",
    re.DOTALL,
)
# `# a comment`, `draft: false` or `image = ""`.
_SAYS_NOTHING = re.compile(
    r"\s*(?:#.*|[\w.-]+\s*[:=]\s*(?:true|false|null|~|\"\"|'')\s*(?:#.*)?)", re.IGNORECASE
)
# `\xfc`, `\u00fc` (no half of a surrogate pair) or `\U000000fc`.
_ESCAPED = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u((?!d[89a-f])[0-9A-Fa-f]{4})|U(000[0-9A-Fa-f]{5}))", re.IGNORECASE
)
_MAX_LENGTH = 2**16  # characters of fields
_KEY = re.compile(r"[\w.-]+")
_NO_VALUE = ("~", "null")
# Names of fields in use, the most usual first.
_AUTHOR = ("author", "authors", "creator", "by")
_CREATED = (
    "date",
    "created",
    "created_at",
    "publishdate",
    "published",
    "pubdate",
    "date_created",
)
_CHANGED = (
    "lastmod",
    "updated",
    "modified",
    "last_modified",
    "last_modified_at",
    "updated_at",
    "date_modified",
    "dateupdated",
)
_TAGS = (
    "tags",
    "tag",
    "keywords",
    "categories",
    "category",
)


class MarkdownReader:
    """A reader of .md files.

    The title is that of the front matter, else the first level-1 heading, else the file's name.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        content, note = decode(read_bytes(path, data), path)
        split = split_front_matter(_join_words(content))
        metadata = split.metadata
        if not split.text.strip():
            raise UnreadableFileError(path, "empty", "empty")
        headings = tuple(find_headings(split.body))
        first_heading = next((heading.title for heading in headings if heading.level == 1), "")
        yield ReadDocument(
            metadata.title or first_heading or title_from_name(path),
            split.text,
            headings,
            format="md",
            note=note,
            author=metadata.author,
            created=metadata.created,
            changed=metadata.changed,
            tags=metadata.tags,
            marked=tuple(_find_marked(split.body)),
        )


READER = MarkdownReader()


def _join_words(text: str) -> str:
    """Return a text without marks within words: `inter**lock**ing` → `interlocking`."""
    if not _MAY_SPLIT_WORDS.search(text):
        return text
    return _SPLIT_WORD_OR_CODE.sub(_join_word, text)


def _join_word(match: re.Match[str]) -> str:
    """Return the visible characters of a mark within a word; code stays as it is."""
    if match["fence"] or match["ticks"]:
        return match[0]
    if match["break"]:
        return " "
    raised = match["raised"] or match["high"]
    phrase = match["lowered"] or raised or ""
    if " " in phrase:
        return f" {phrase}"
    if raised:
        before = match.string[max(0, match.start() - _MAX_TEXT_BEFORE) : match.start()]
        return write_superscript(raised, before)
    for part in ("first_part", "later_part", "escaped", "lowered", "low"):
        if match[part]:
            return match[part]
    if match[0].startswith("<"):
        return ""
    return html.unescape(match[0])


def _find_marked(text: str) -> Iterator[Marked]:
    """Yield links, descriptions of pictures, and terms of definition lists."""
    for match in _MARKED.finditer(text):
        if match["term"]:
            yield Marked("glossary", match["term"])
        elif match["picture"]:
            yield Marked("caption", match["text"])
        else:
            yield Marked(
                "link",
                _EMPHASIS.sub(r"\2", match["text"]),
                match["target"],
            )


def find_headings(text: str) -> Iterator[Heading]:
    """Yield the CommonMark headings outside lists and quotations, with their offsets."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    # Parsing what is inside other blocks would take most of the time.
    tokens = parser.disable("inline").parse(text)
    parser.enable("inline")
    for opening, content in pairwise(tokens):
        if opening.type != "heading_open" or opening.level > 0 or not opening.map:
            continue
        source = " ".join(content.content.split())[:_MAX_HEADING_LENGTH]
        title = ""
        for token in parser.parseInline(source):
            title += "".join(child.content for child in token.children or ())
        if title.strip():
            first_line = opening.map[0]
            level = int(opening.tag.removeprefix("h"))
            yield Heading(
                line_starts[first_line],
                level,
                title.strip(),
            )


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A Markdown text, split into the fields at its beginning and the text after them."""

    # What is searched: the lines of the fields, then the text. The lines around the fields and the
    # fields that say nothing, such as `draft: false`, are empty lines.
    text: str
    # The text after the fields, with blanks in their place so that offsets are those in `text`.
    body: str
    # What the fields say about the document.
    metadata: StatedMetadata = field(default_factory=StatedMetadata)


def split_front_matter(text: str) -> FrontMatter:
    """Split a text into the fields at its beginning and the rest.

    Lines between two `---` that are not fields, as between two rules, stay in the text.
    """
    match = _FRONT_MATTER.match(text)
    if not match:
        return FrontMatter(text, text)
    source = match["yaml"] or match["toml"] or ""
    fields = _read_fields(source, _parse_toml if match["toml"] else _parse_yaml)
    if fields is None:
        return FrontMatter(text, text)
    if source:
        before, _, after = match[0].partition(source)
    else:
        before = match[0]
        after = ""
    lines: list[str] = []
    for line in _ESCAPED.sub(_unescape, source).split("\n"):
        lines.append("" if _SAYS_NOTHING.fullmatch(line) else line)
    # Left-out lines become empty ones, so that line numbers are those of the file.
    field_lines = _keep_line_ends(before) + "\n".join(lines) + _keep_line_ends(after)
    blank_lines = re.sub(r"[^\n]", " ", field_lines)
    text_after = text[match.end() :]
    return FrontMatter(
        field_lines + text_after,
        blank_lines + text_after,
        _read_metadata(fields),
    )


def _keep_line_ends(text: str) -> str:
    """Return only the line ends of a text."""
    return "\n" * text.count("\n")


def _unescape(escape: re.Match[str]) -> str:
    """Return the character of an escape, and a blank for a control character."""
    code = int(escape[1] or escape[2] or escape[3], 16)
    return chr(max(code, ord(" ")))


def _read_metadata(fields: Mapping[str, list[str]]) -> StatedMetadata:
    """Return what `fields`, by their names in lower case, say about a document."""
    title = next(filter(str.strip, fields.get("title", ())), "")
    return StatedMetadata(
        title=" ".join(title.split()),
        author=join_names(_list_values(fields, _AUTHOR)),
        created=parse_first_date(_list_values(fields, _CREATED)),
        changed=parse_first_date(_list_values(fields, _CHANGED)),
        tags=parse_tags(_list_values(fields, _TAGS)),
    )


def _list_values(fields: Mapping[str, list[str]], keys: Iterable[str]) -> list[str]:
    """Return the values of the fields named `keys`, in the order of `keys`."""
    values: list[str] = []
    for key in keys:
        values += fields.get(key, ())
    return values


def _read_fields(source: str, parse: Callable[[str], Any]) -> Mapping[str, list[str]] | None:
    """Return the values of each field, by its name in lower case; None if `source` is not fields.

    `parse` is `_parse_yaml` or `_parse_toml`.
    """
    if not source.strip():
        return {}
    fields = parse(source)
    if not isinstance(fields, Mapping):
        return None
    # YAML also takes a sentence for a mapping: `The last berth: it is closed.`
    if fields and not any(_KEY.fullmatch(str(key)) for key in fields):
        return None
    try:
        return {str(key).lower(): [*_list_texts(value)] for key, value in fields.items()}
    # Lists may be nested deep.
    except RecursionError:
        return None


def _parse_toml(source: str) -> Any:
    """Return the value of TOML, None if it is invalid."""
    import tomllib

    try:
        return tomllib.loads(source[:_MAX_LENGTH])
    except (ValueError, RecursionError):
        return None


def _parse_yaml(yaml: str) -> Any:
    """Return the value of YAML, None if it is invalid."""
    from yaml import AliasEvent, BaseLoader, YAMLError, load

    class Loader(BaseLoader):  # type: ignore[misc]
        """A loader that reads every value as a text and refuses aliases.

        A few lines with aliases could expand endlessly.
        """

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(AliasEvent):
                raise YAMLError
            return super().compose_node(parent, index)

    try:
        return load(yaml[:_MAX_LENGTH], Loader)
    except (YAMLError, RecursionError, ValueError):
        return None


def _list_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a field's value: a text, the items of a list, or a person's `name`."""
    if isinstance(value, Mapping):
        value = value.get("name", "")
    if isinstance(value, list):
        for item in value:
            yield from _list_texts(item)
    elif str(value).lower() not in _NO_VALUE:
        yield str(value)
