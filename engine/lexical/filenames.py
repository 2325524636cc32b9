"""Queries that name a file, such as "In lease-4711.pdf: who may terminate?": they are meant for
that document.

Neither ranker knows what to do with the name by itself: the encoder sees the passage alone, and to
BM25 every passage of the document is as good as the other, by words that say nothing of the answer.
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
MAX_NAME_LENGTH = 200  # characters of a file's name
NAME_WEIGHT = 2
"""How often a name counts as standing in each chunk: measured in docs/log/bm25.md."""
_HUMP = re.compile(
    "(?<=[a-zß-ÿ]{3})(?=[A-ZÀ-Þ][a-zß-ÿ]{2})"
)  # of a name such as `LeaseNorthHarbour`
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class FilenameMatch:
    """What a query is meant for: the documents that it names (none: all of them), and `text` to
    look for in them.
    """

    text: str
    documents: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()


def searched_label(title: str, path: str) -> str:
    """What of a document is searched with each of its chunks: its title, and its file's name,
    which counts `NAME_WEIGHT` times.

    `path` is empty for an entry of a data set, which is no file.
    """
    return "\n".join(filter(str.strip, (title, *(NAME_WEIGHT * searched_names(path)))))


def searched_names(path: str) -> tuple[str, ...]:
    """The names of the files that a document is, or lies in: without the ending, with words that
    are written as one apart.

    An archive or a mailbox gives no document of its own, so that its name is searched with what
    lies in it; a mail in a mailbox has none.
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
    """The file names of documents, out of (document id, title, path); a title counts where it is
    a name of an office file.
    """

    def __init__(self, documents: Iterable[tuple[int, str, str]]) -> None:
        self._ids: dict[str, set[int]] = {}
        for key, title, path in documents:
            for name in _file_names(title.strip(), path):
                self._ids.setdefault(name.casefold(), set()).add(key)

    def match(self, query: str) -> FilenameMatch:
        """The documents whose file names stand in a query, extension and all, and the query
        without these names.

        A query of nothing but names is looked for as it is.
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
        """Where names stand, in order, none within another: the longest one that ends with each
        extension.
        """
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
    """What a query may call a document: its path, its file's name, and its title where that is a
    file's name.
    """
    # an entry of a data set is no file
    if "#" not in path:
        names = {path, path.rpartition("/")[2]}
    else:
        names = set()
    if (end := _EXTENSION.search(title)) and _OFFICE.fullmatch(end[0]):
        names.add(title)
    composed = (
        normalize("NFC", name) for name in names
    )  # macOS writes letters and their marks apart
    return {
        name for name in composed if len(name) <= MAX_NAME_LENGTH and _FILE_NAME.fullmatch(name)
    }
