"""Queries that name a file, such as "In lease-4711.pdf: who may terminate?".

Such a query is about that document only, but neither ranker can use the name: the encoder sees only
the passage, and for BM25 all passages of the document match the name equally.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
# Characters around a name that are removed with it.
_EDGES = " \t\n:;,\"'“”„»«()[]<>"
# Maximum characters of a file's name in a query.
MAX_NAME_LENGTH = 200
NAME_WEIGHT = 2
"""How often a name counts as occurring in each chunk, measured in docs/log/bm25.md."""
# Splits a name such as `LeaseNorthHarbour`.
_HUMP = re.compile("(?<=[a-zß-ÿа-џ]{3})(?=[A-ZÀ-ÞЀ-Я][a-zß-ÿа-џ]{2})")
# Splits `teststand3` and `2031v2`, but neither `v2` nor `12mm`.
_DIGIT_EDGE = re.compile(r"(?<=[^\W\d_]{3})(?=\d)|(?<=\d)(?=[^\W\d_]{3})|(?<=\d{3})(?=[^\W\d_]\d)")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class FilenameMatch:
    """The documents that a query names."""

    text: str
    """The text to search for: the query without the names."""
    documents: frozenset[int] = frozenset()
    """Ids of the named documents; empty if the query names none."""
    names: tuple[str, ...] = ()
    """The names as typed."""


def build_search_label(title: str, path: str) -> str:
    """Return the text that precedes each chunk of a document in the BM25 index.

    It is the title, and the file's name repeated `NAME_WEIGHT` times. `path` is empty for an entry
    of a data set, which is not a file.
    """
    lines = (title, *(NAME_WEIGHT * find_search_names(path)))
    return "\n".join(line for line in lines if line.strip())


def find_search_names(path: str) -> tuple[str, ...]:
    """Return the names of a document's file and of the archives and mailboxes that contain it.

    Names have no extension; if they join words, these follow: `LeaseNorth` gives
    `LeaseNorth Lease North`. A mail in a mailbox has no name of its own.
    """
    if not path:
        return ()
    *folders, file = path.split("/")
    formats = [FORMATS.get(ending_of(folder), "") for folder in folders]
    containers = zip(
        folders,
        formats,
        strict=True,
    )
    files = [folder for folder, format in containers if format in STREAMED]
    if "mbox" not in formats[-1:]:
        files.append(file)
    names = map(_split_name, files)
    return tuple(dict.fromkeys(filter(None, names)))


def _split_name(file: str) -> str:
    """Return a file's name without extension, followed by its words if it joins several.

    `LeaseNorth2.pdf` gives `LeaseNorth2 Lease North 2`.
    """
    ending = ending_of(file)
    stem = file
    if ending in FORMATS or ending in PICTURES:
        stem = file[: -len(ending)].removesuffix(".tar")
    stem = _PERCENT.sub(_unquote, stem)
    words = _DIGIT_EDGE.sub(" ", _HUMP.sub(" ", stem))
    return stem if words == stem else f"{stem} {words}"


def _unquote(escapes: re.Match[str]) -> str:
    """Return the characters of escapes such as `%20`; invalid UTF-8 becomes a blank."""
    return unquote(escapes[0], errors="replace").replace("\ufffd", " ")


class DocumentNames:
    """The file names of documents given as (document id, title, path of the file).

    A title counts if it is the name of an office file. The path is empty for an entry of a data
    set, which is not a file.
    """

    def __init__(self, documents: Iterable[tuple[int, str, str]]) -> None:
        self._ids: dict[str, set[int]] = {}
        for key, title, path in documents:
            for name in _find_file_names(title.strip(), path):
                self._ids.setdefault(name.casefold(), set()).add(key)

    def match(self, query: str) -> FilenameMatch:
        """Find the file names, with extension, in a query.

        They are removed from the text to search for, unless the query consists only of names.
        """
        composed = normalize("NFC", query)
        documents: set[int] = set()
        names = []
        pieces = []
        rest_start = 0
        for start, end in self._find_names(composed):
            name = composed[start:end]
            names.append(name)
            documents |= self._ids[name.casefold()]
            pieces.append(composed[rest_start:start].strip(_EDGES))
            rest_start = end
        if not documents:
            return FilenameMatch(query)
        pieces.append(composed[rest_start:].lstrip(_EDGES).rstrip())
        text = " ".join(filter(None, pieces))
        if not _WORD.search(text):
            text = composed
        return FilenameMatch(
            text,
            frozenset(documents),
            tuple(names),
        )

    def _find_names(self, query: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of file names, ascending and without overlap.

        Of the names that end in the same extension, the longest one counts.
        """
        previous_end = 0
        for extension in _EXTENSION.finditer(query):
            end = extension.end()
            earliest = max(previous_end, end - MAX_NAME_LENGTH)
            for beginning in _NAME_START.finditer(query, earliest, extension.start()):
                start = beginning.start()
                if query[start:end].casefold() in self._ids:
                    yield start, end
                    previous_end = end
                    break


def _find_file_names(title: str, path: str) -> set[str]:
    """Return the names by which a query may refer to a document.

    These are its path, its file's name, and its title if that is the name of an office file.
    """
    names = {path, path.rpartition("/")[2]}
    extension = _EXTENSION.search(title)
    if extension and _OFFICE.fullmatch(extension[0]):
        names.add(title)
    # macOS writes letters and their marks separately.
    composed = [normalize("NFC", name) for name in names]
    short = [name for name in composed if len(name) <= MAX_NAME_LENGTH]
    return {name for name in short if _FILE_NAME.fullmatch(name)}
