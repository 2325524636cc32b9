"""Files that are embedded in an office file as objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from engine.corpus.formats import LeftOut, Member, UnreadableFileError
from engine.corpus.formats.containers import DAMAGED, open_compound, open_package
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.recognition import find_true_format
from engine.corpus.scan.formats import FORMATS, MAGIC, ending_of

_OFFICE = ("docx", "pptx", "xlsx")
# Files in `word/embeddings/` and the like, and documents in `word/` that Word merges into its own.
_EMBEDDED = re.compile(r"(?:[^/]+/embeddings/|word/(?=[^/]+\.(?:mht|mhtml|rtf|docx|txt)$))([^/]+)")
_CHART_RELATIONS = re.compile(r"[^/]+/charts/_rels/[^/]+\.rels")
_EMBEDDED_TARGET = re.compile(rb"embeddings/([^\"'/]+)[\"']")
_PACKAGER_STREAM = "\x01Ole10Native"
# Streams that hold a whole file.
_FILE_STREAMS = ("Package", "CONTENTS", "EmbeddedOdf")
_CHART_WORKBOOK = "the workbook behind a chart, whose words and numbers are read"
_UNREAD_OBJECT = "a file or an object inside this document that is not read"


def may_embed_files(format: str, content: bytes) -> bool:
    """Return whether `find_embedded_files` may find anything.

    This takes a fraction of the time of that search, and rules it out for most files.
    """
    if format not in _OFFICE:
        return False
    try:
        return any(map(_EMBEDDED.fullmatch, open_package(content).namelist()))
    except DAMAGED:
        return False


def find_embedded_files(content: bytes) -> Iterator[Member | LeftOut]:
    """Yield the files embedded in an office file, in the order of its parts.

    A file that cannot be extracted is reported with the reason. Two reports may follow: one for all
    workbooks of charts, and one for all objects that are not files. A damaged office file yields
    nothing.
    """
    try:
        package = open_package(content)
        chart_workbooks = _find_chart_workbooks(package)
    except DAMAGED:
        return
    skipped: dict[str, list[str]] = {}
    for part in package.namelist():
        match = _EMBEDDED.fullmatch(part)
        if match is None:
            continue
        name = match[1]
        if name in chart_workbooks:
            skipped.setdefault(_CHART_WORKBOOK, []).append(name)
            continue
        try:
            embedded = _read_object(name, package.read(part))
        except DAMAGED as error:
            embedded = LeftOut(
                name,
                "quarantined",
                "damaged",
                describe_damage(error),
            )
        if embedded is None:
            skipped.setdefault(_UNREAD_OBJECT, []).append(name)
        else:
            yield embedded
    for why, names in skipped.items():
        member = names[0]
        if len(names) > 1:
            member += f" and {len(names) - 1} more"
        yield LeftOut(
            member,
            "skipped",
            "unsupported",
            why,
        )


def _find_chart_workbooks(package: ZipFile) -> set[str]:
    """Return the names of the embedded files that hold the numbers of charts."""
    names: set[str] = set()
    for part in filter(_CHART_RELATIONS.fullmatch, package.namelist()):
        targets = _EMBEDDED_TARGET.findall(package.read(part))
        names.update(target.decode("utf-8", "replace") for target in targets)
    return names


def _read_object(name: str, data: bytes) -> Member | LeftOut | None:
    """Return the file in an embedded object, None if it holds no file of a known format.

    An object holds its file in a stream, or is itself a document ([MS-OLEDS] 2.3). `name` is the
    object's name in the package.
    """
    if ending_of(name) in FORMATS or not data.startswith(MAGIC):
        return Member(name, data)
    try:
        compound = open_compound(data)
    except ValueError as error:
        return LeftOut(
            name,
            "quarantined",
            "damaged",
            describe_damage(error),
        )
    packaged = _read_packager_stream(name, compound.read(_PACKAGER_STREAM))
    if packaged:
        return packaged
    content = next(filter(None, map(compound.read, _FILE_STREAMS)), data)
    try:
        format = find_true_format(
            Path(name),
            "zip",
            content,
        )
    except UnreadableFileError as error:
        if error.kind == "encrypted":
            return LeftOut(
                name,
                "quarantined",
                error.kind,
                error.why,
            )
        return None
    return Member(f"{name.rpartition('.')[0] or name}.{format}", content)


def _read_packager_stream(name: str, stream: bytes) -> Member | None:
    """Return the file in a stream of Windows' Packager, None if the stream is not of this form.

    The stream holds its size, the number 2, the file's name, the file's path, two numbers, the
    length of a second path, that path, the length of the file's content, and the content. `name` is
    used if the stream names no file.
    """
    if stream[4:6] != b"\2\0":
        return None
    label, _, after_names = stream[6:].partition(b"\0")
    _, _, after_names = after_names.partition(b"\0")
    # The two numbers take 4 bytes, and so does each length.
    start = 12 + int.from_bytes(after_names[4:8], "little")
    size = int.from_bytes(after_names[start - 4 : start], "little")
    content = after_names[start : start + size]
    if not size or len(content) != size:
        return None
    path = label.decode("cp1252", "replace").replace("\\", "/")
    return Member(path.rpartition("/")[2] or name, content)
