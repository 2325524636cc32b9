"""What stands before a Markdown text: fields in YAML between `---`, or in TOML between `+++`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from engine.corpus.text.metadata import Said, first_moment, joined

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
