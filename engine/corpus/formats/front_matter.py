"""What stands before a Markdown text: fields in YAML between `---`, or in TOML between `+++`.

Of YAML that is read which such fields are written in: texts, quoted or not, over several lines, and lists of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.corpus.text.metadata import Said, first_moment, joined

_FRONT_MATTER = re.compile(
    r"\A\s*?(?:---[ \t]*\n(.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\n(.*?\n)??\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_KEY = re.compile(r"""["']?([\w.-]+)["']?[ \t]*:(?:[ \t]+(.*)|[ \t]*)""")
_OTHER_KEY = re.compile(r"[^\s:][^:]{0,40}:(?:\s|\Z)")
_TOML_KEY = re.compile(r"([\w.-]+)[ \t]*=[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_NAME = re.compile(r"""(?:\A|[{,\s])["']?name["']?[ \t]*:[ \t]+("[^"]*"|'[^']*'|[^,}\n]+)""", re.IGNORECASE)
_BLOCK = re.compile(r"[|>][-+\d]{0,2}")
_COMMENT = re.compile(r"(?:\A|[ \t])#.*")
_LISTED = re.compile(r"""\s*(?:"(?:[^"\\]|\\.)*"|'[^']*')\s*|[^,]+""")
_GOES_ON = (" ", "\t", "-", "#", "]", "}")
_NOTHING = ("", "~", "null")
_AUTHOR = ("author", "authors", "creator", "by")
_CREATED = ("date", "created", "created_at", "publishdate", "published", "pubdate", "date_created")
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


def split_front_matter(text: str) -> tuple[str, Said]:
    """The text without its front matter, and what that says of it. What stands between two lines and is no such fields stays."""
    found = _FRONT_MATTER.match(text)
    if not found:
        return text, Said()
    yaml, toml = found[1] or "", found[2] or ""
    fields = _of_toml(toml) if toml else _of_yaml(yaml)
    if fields is None:
        return text, Said()
    titles = [one for one in fields.get("title", ()) if one.strip()]
    return text[found.end() :], Said(
        " ".join(titles[0].split()) if titles else "",
        joined(name for key in _AUTHOR for name in fields.get(key, ())),
        first_moment(date for key in _CREATED for date in fields.get(key, ())),
        first_moment(date for key in _CHANGED for date in fields.get(key, ())),
    )


def _of_toml(text: str) -> Mapping[str, Sequence[str]] | None:
    try:
        return {key.lower(): list(_texts(value)) for key, value in tomllib.loads(text).items()}
    except (tomllib.TOMLDecodeError, RecursionError):
        found = {one[1].lower(): [_scalar(one[2])] for one in map(_TOML_KEY.match, text.split("\n")) if one}
        return found or None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = value.get("name", "")
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    else:
        yield str(value)


def _of_yaml(text: str) -> Mapping[str, Sequence[str]] | None:
    """The fields of some lines; None where one is no field, and does not go on with one."""
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        if line.startswith(_GOES_ON) and (current or line.startswith("#")):
            current.append(line)
        elif found := _KEY.fullmatch(line.rstrip()):
            current = fields.setdefault(found[1].lower(), [])
            current[:] = [found[2] or ""]
        elif _OTHER_KEY.match(line):
            current = [""]
        elif line.strip():
            return None
    if text.strip() and not fields:
        return None
    return {key: _values(lines[0].strip(), lines[1:]) for key, lines in fields.items()}


def _values(first: str, more: Sequence[str]) -> list[str]:
    """The texts of a field: what stands behind its name, and the lines below."""
    first = "" if first.startswith("#") else first
    if _BLOCK.fullmatch(first):
        return [" ".join(line.strip() for line in more)]
    below = [line for line in more if line.strip() and not line.lstrip().startswith("#")]
    if first.startswith(("[", "{")):
        whole = _COMMENT.sub("", " ".join((first, *map(str.strip, below)))).strip()
        named = _NAME.findall(whole)
        return [_scalar(one) for one in named or _LISTED.findall(whole.strip("[]{} "))]
    if first or not below:
        return [_scalar(" ".join((first, *map(str.strip, below))))]
    items = [found[1] for found in map(_ITEM.fullmatch, below) if found]
    named = _NAME.findall("\n".join(found[1] if (found := _ITEM.fullmatch(line)) else line for line in below))
    return [_scalar(one) for one in named or items]


def _scalar(text: str) -> str:
    text = text.strip()
    if text[:1] == '"' and (end := re.match(r'"((?:[^"\\]|\\.)*)"', text)):
        return re.sub(r"\\(.)", r"\1", end[1])
    if text[:1] == "'" and (end := re.match(r"'((?:[^']|'')*)'", text)):
        return end[1].replace("''", "'")
    text = _COMMENT.sub("", text).strip()
    return "" if text.lower() in _NOTHING else text
