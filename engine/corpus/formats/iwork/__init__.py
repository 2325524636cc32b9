"""Documents of Apple's Pages, Keynote and Numbers: their texts, notes and the texts of tables.

Since 2013 they are objects in packed members, before they were one XML file. This runs only in a
sandboxed process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from engine.core.characters import clean
from engine.corpus.formats import Finding, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_package
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.general import extract_document, require_text
from engine.corpus.formats.iwork.messages import read_fields, read_varint, unpack_member
from engine.corpus.formats.iwork.old_documents import read_old_document
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.recognition import check_unpacked_size
from engine.corpus.text.blocks import (
    NOTES,
    Builder,
    Text,
    append_side_text,
    find_missing_lines,
    join_slides,
)
from engine.corpus.text.metadata import build_document

# Members with objects that hold texts of the document: not those of styles, masters and formulas.
_OBJECTS = re.compile(r"(?:.*/)?(?!DocumentStylesheet)(?:Document|Slide|Tables/DataList)[^/]*\.iwa")
_INNER_PACKAGE = re.compile(r"(?:.*/)?Index\.zip")
_OLD_DOCUMENT = re.compile(r"(?:.*/)?index\.(?:xml|apxl)")
_LOCK = re.compile(r"(?:.*/)?\.iw(?:ph|pv\d?)")
# Numbers of types of objects: all have texts, and only Keynote has slides.
_SHOW = 2
_SLIDE_NODE = 4
_SLIDE = 5
_STORAGE = 2001
_TABLE_TEXTS = 6005
# Kinds of text storages, and of lists of a table's values.
_HEADER = 1
_NOTE = 4
_TEXTS = 1
# Anchors of pictures and the like, and control characters, which end lines and pages.
_ANCHOR = re.compile("[\ufffc\ufeff]")
_LINE_END = re.compile("[\x01-\x08\x0b-\x1f\u2028\u2029]")


class IWorkReader:
    """A reader of .pages, .key and .numbers files."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        format = path.suffix.lstrip(".").lower()
        lost: list[LeftOut] = []
        try:
            content = read_bytes(path, data)
            package = open_package(content)
            if any(map(_LOCK.fullmatch, package.namelist())):
                raise UnreadableFileError(path, explain_lock(), "encrypted")
            old_document = next(filter(_OLD_DOCUMENT.fullmatch, package.namelist()), "")
            if old_document:
                text = read_old_document(path, package.read(old_document))
            else:
                text = _build_text(_read_objects(_open_objects(path, package), format, lost))
                if format == "numbers":
                    text = _add_rows(path, content, text)
        except NotImplementedError as error:
            # Old programs mark what a password locks as packed in a way of their own.
            raise UnreadableFileError(
                path,
                explain_lock(),
                "encrypted",
            ) from error
        except DAMAGED as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        text = require_text(path, text, lost)
        yield build_document(
            path,
            format,
            text,
            {},
        )
        yield from lost


READER = IWorkReader()


@dataclass(slots=True)
class _Texts:
    """The texts of one member of a package."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    margins: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Objects:
    """The texts of a document, by member or by slide."""

    texts: dict[str, _Texts] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    # By the number of the object: the member of a slide, and the objects below a slide's node.
    members: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, list[int]] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)


def _build_text(objects: _Objects) -> Text:
    """Return the text of a document: its slides in order, or all its lines, then its tables."""
    order = _list_slides(objects)
    if order:
        slides: dict[int, str] = {}
        for number, member in enumerate(order, 1):
            texts = objects.texts.get(member, _Texts())
            parts = ["\n".join(texts.lines)]
            if texts.notes:
                parts.append("\n".join((NOTES, *texts.notes)))
            slides[number] = "\n\n".join(filter(None, parts))
        text = join_slides(slides)
    else:
        builder = Builder()
        for texts in objects.texts.values():
            for line in texts.lines:
                builder.block(line)
        text = builder.done()
    margins = [line for texts in objects.texts.values() for line in texts.margins]
    return append_side_text(text, find_missing_lines(text.text, [*objects.tables, *margins]))


def _add_rows(
    path: Path,
    content: bytes,
    text: Text,
) -> Text:
    """Return the text of a Numbers file with the rows of its tables, which xberg reads, before it.

    xberg reads nothing else of the file.
    """
    with suppress(UnreadableFileError):
        tables = extract_document(path, content, "numbers").text
        return append_side_text(tables, find_missing_lines(tables.text, text.text.split("\n")))
    return text


def _list_slides(objects: _Objects) -> list[str]:
    """Return the members that hold slides, in the order of the presentation."""
    ordered: dict[str, None] = {}
    seen: set[int] = set()
    waiting = objects.roots[::-1]
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        if number in objects.members:
            ordered[objects.members[number]] = None
        waiting += objects.nodes.get(number, [])[::-1]
    for member in objects.members.values():
        ordered.setdefault(member, None)
    return list(ordered)


def _open_objects(path: Path, package: ZipFile) -> ZipFile:
    """Return the package in which the objects are: the document's own, or one inside it.

    Raises UnreadableFileError if the inner one is suspiciously large.
    """
    inner = next(filter(_INNER_PACKAGE.fullmatch, package.namelist()), "")
    if not inner:
        return package
    archive = ZipFile(BytesIO(package.read(inner)))
    check_unpacked_size(archive, path)
    return archive


def _read_objects(
    archive: ZipFile,
    format: str,
    lost: list[LeftOut],
) -> _Objects:
    """Return the texts of all objects of a document; damaged members are added to `lost`."""
    objects = _Objects()
    kinds = [_STORAGE, _TABLE_TEXTS]
    if format == "key":
        kinds += (_SHOW, _SLIDE_NODE, _SLIDE)
    for name in filter(_OBJECTS.fullmatch, archive.namelist()):
        try:
            _add_objects(
                objects,
                name,
                unpack_member(archive.read(name)),
                kinds,
            )
        except (IndexError, TypeError, *DAMAGED):
            lost.append(LeftOut(name, "quarantined", "damaged", describe_damage("")))
    return objects


def _add_objects(
    objects: _Objects,
    name: str,
    data: bytes,
    kinds: Collection[int],
) -> None:
    """Add the objects of some kinds in a member of a package.

    Each begins with a message that holds its number, and the type and the length of each of its
    parts.
    """
    texts = objects.texts.setdefault(name, _Texts())
    position = 0
    while position < len(data):
        length, position = read_varint(data, position)
        header = list(read_fields(data[position : position + length]))
        position += length
        number = next((value for key, value in header if key == 1), 0)
        for key, part in header:
            if key != 2 or not isinstance(part, bytes):
                continue
            facts = dict(read_fields(part))
            kind = facts.get(1, 0)
            end = position + int(facts.get(3, 0))
            if kind in kinds:
                fields = list(read_fields(data[position:end]))
                _add_object(
                    objects,
                    texts,
                    name,
                    number,
                    kind,
                    fields,
                )
            position = end


def _add_object(
    objects: _Objects, texts: _Texts, name: str, number: Any, kind: Any, fields: Any
) -> None:
    """Add an object by its number, its kind and its fields."""
    if kind == _SLIDE:
        objects.members[number] = name
    elif kind == _SLIDE_NODE:
        slides = [value for key, value in fields if key == 2]
        children = [value for key, value in fields if key == 1]
        objects.nodes[number] = list(_read_references([*slides, *children]))
    elif kind == _SHOW:
        for key, tree in fields:
            if key == 3:
                nodes = [value for inner, value in read_fields(tree) if inner == 2]
                objects.roots += _read_references(nodes)
    elif kind == _TABLE_TEXTS:
        objects.tables += _read_table_texts(fields)
    else:
        storage_kind = next((value for key, value in fields if key == 1), None)
        target = texts.lines
        if storage_kind == _HEADER:
            target = texts.margins
        elif storage_kind == _NOTE:
            target = texts.notes
        for key, value in fields:
            if key == 3 and isinstance(value, bytes):
                target += _read_lines(value)


def _read_lines(value: bytes) -> Iterator[str]:
    """Yield the lines of a text that are not empty."""
    text = _ANCHOR.sub("", clean(value.decode("utf-8", "replace")))
    for line in _LINE_END.sub("\n", text).split("\n"):
        if line.strip():
            yield line.strip()


def _read_table_texts(fields: Iterable[tuple[int, Any]]) -> Iterator[str]:
    """Yield the texts of a table's cells, each once, in the order in which they were typed."""
    entries: dict[int, bytes] = {}
    for key, value in fields:
        if key == 1 and value != _TEXTS:
            return
        if key == 3:
            entry = dict(read_fields(value))
            if isinstance(entry.get(3), bytes):
                entries[entry.get(1) or 0] = entry[3]
    for number in sorted(entries):
        yield from _read_lines(entries[number])


def _read_references(references: Iterable[bytes]) -> Iterator[int]:
    """Yield the numbers of the objects to which references lead."""
    for reference in references:
        for key, value in read_fields(reference):
            if key == 1:
                yield value
