"""Queries that name a file, such as "In lease-4711.pdf: who may terminate?".

They are meant for that document, but neither ranker can use the name: the encoder sees only the
passage, and for BM25 all passages of the document match it equally, by words that say nothing of
the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import normalize
from urllib.parse import unquote

from engine.corpus.scan.formats import FORMATS, PICTURES, STREAMED, ending_of

_EXTENSION = re.compile(r"\.[^\W_]{1,5}(?!\w|\.+\w)")
_NAME_START = re.compile(r"(?<![\w.-])\w")
_FILE_NAME = re.compile(r"\w(.*\w)?\.[^\W_]{1,5}", re.DOTALL)
_OFFICE = re.compile(
    r"\.(pdf|docx?|pptx?|xlsx?|od[tps]|rtf|html?|txt|md|eml|msg|mbox|epub|csv|tsv|json|jsonl|xml|zip|tex)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")
_EDGES = " \t\n:;,\"'“”„»«()[]<>"
# Maximum characters of a file's name.
MAX_NAME_LENGTH = 200
NAME_WEIGHT = 2
"""How often a name counts as occurring in each chunk, measured in docs/log/bm25.md."""
# Splits a name such as `LeaseNorthHarbour`.
_HUMP = re.compile("(?<=[a-zß-ÿ]{3})(?=[A-ZÀ-Þ][a-zß-ÿ]{2})")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class FilenameMatch:
    """The documents that a query names (none: all), and the `text` to search for in them."""

    text: str
    documents: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()


def build_search_label(title: str, path: str) -> str:
    """Return what is searched of a document with each of its chunks.

    It is the title, and the file's name repeated `NAME_WEIGHT` times. `path` is empty for an entry
    of a data set, which is not a file.
    """
    return "\n".join(filter(str.strip, (title, *(NAME_WEIGHT * find_search_names(path)))))


def find_search_names(path: str) -> tuple[str, ...]:
    """Return the names of the files that a document is or lies in.

    They have no extension, and joined words are split. An archive or a mailbox is not a document,
    so its name is searched with its contents; a mail in a mailbox has no name.
    """
    if path:
        parts = path.split("/")
    else:
        parts = []
    containers = [FORMATS.get(ending_of(part), "") for part in parts[:-1]]
    holders = [
        part for part, format in zip(parts[:-1], containers, strict=True) if format in STREAMED
    ]
    is_numbered = "mbox" in containers[-1:]
    if is_numbered:
        files = holders
    else:
        files = [*holders, *parts[-1:]]
    return tuple(dict.fromkeys(name for file in files if (name := _name_as_words(file))))


def _name_as_words(file: str) -> str:
    ending = ending_of(file)
    is_format = ending in FORMATS or ending in PICTURES
    if is_format:
        stem = file[: -len(ending)].removesuffix(".tar")
    else:
        stem = file
    stem = _PERCENT.sub(
        lambda escaped: unquote(escaped[0], errors="replace").replace("\ufffd", " "), stem
    )
    words = _HUMP.sub(" ", stem)
    return stem if words == stem else f"{stem} {words}"


class DocumentNames:
    """The file names of documents given as (document id, title, path).

    A title counts if it is the name of an office file.
    """

    def __init__(self, documents: Iterable[tuple[int, str, str]]) -> None:
        self._ids: dict[str, set[int]] = {}
        for key, title, path in documents:
            for name in _file_names(title.strip(), path):
                self._ids.setdefault(name.casefold(), set()).add(key)

    def match(self, query: str) -> FilenameMatch:
        """Return the documents whose file names, with extension, occur in a query.

        The names are removed from the text to search for, unless the query consists only of names.
        """
        typed = query
        query = normalize("NFC", query)
        found: set[int] = set()
        names = []
        pieces = []
        start = 0
        for first, last in self._places(query):
            names.append(query[first:last])
            found |= self._ids[query[first:last].casefold()]
            pieces.append(query[start:first].strip(_EDGES))
            start = last
        if not found:
            return FilenameMatch(typed)
        rest = " ".join(
            piece for piece in (*pieces, query[start:].lstrip(_EDGES).rstrip()) if piece
        )
        return FilenameMatch(rest if _WORD.search(rest) else query, frozenset(found), tuple(names))

    def _places(self, query: str) -> list[tuple[int, int]]:
        """Return the positions of names, ascending, not nested: the longest for each extension."""
        places: list[tuple[int, int]] = []
        for extension in _EXTENSION.finditer(query):
            last = extension.end()
            floor = places[-1][1] if places else 0
            for start in _NAME_START.finditer(
                query, max(floor, last - MAX_NAME_LENGTH), extension.start()
            ):
                if query[start.start() : last].casefold() in self._ids:
                    places.append((start.start(), last))
                    break
        return places


def _file_names(title: str, path: str) -> set[str]:
    """Return what a query may call a document.

    It is the document's path, its file's name, and its title if that is a file's name.
    """
    # An entry of a data set is not a file.
    if "#" not in path:
        names = {path, path.rpartition("/")[2]}
    else:
        names = set()
    if (end := _EXTENSION.search(title)) and _OFFICE.fullmatch(end[0]):
        names.add(title)
    # macOS writes letters and their marks separately.
    composed = (normalize("NFC", name) for name in names)
    return {
        name for name in composed if len(name) <= MAX_NAME_LENGTH and _FILE_NAME.fullmatch(name)
    }
