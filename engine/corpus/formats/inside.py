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

Inner = Member | LeftOut
_OFFICE = ("docx", "pptx", "xlsx")
# Documents that Word merges into its own.
_MERGED = r"word/(?=[^/]+\.(?:mht|mhtml|rtf|docx|txt)$)"
_EMBEDDED = re.compile(rf"(?:[^/]+/embeddings/|{_MERGED})([^/]+)")
_OF_CHART = re.compile(r"[^/]+/charts/_rels/[^/]+\.rels")
_TARGET = re.compile(rb"embeddings/([^\"'/]+)[\"']")
_NATIVE = "\x01Ole10Native"
_WHOLE = ("Package", "CONTENTS", "EmbeddedOdf")


def may_embed_files(format: str, content: bytes) -> bool:
    """Tell whether `find_embedded_files` may find anything.

    This takes a fraction of its time, and rules out most files.
    """
    try:
        return format in _OFFICE and any(map(_EMBEDDED.fullmatch, open_package(content).namelist()))
    except DAMAGED:
        return False


def find_embedded_files(content: bytes) -> Iterator[Inner]:
    """Yield the files inside a file that `may_embed_files`, in order.

    A file that cannot be extracted is yielded with the reason. Objects that are not files follow,
    one line for each kind. A damaged file yields nothing.
    """
    others: dict[str, list[str]] = {}
    for name, inner in _read_embedded(content):
        if isinstance(inner, str):
            others.setdefault(inner, []).append(name)
        else:
            yield inner
    for why, names in others.items():
        more = ""
        if len(names) > 1:
            more = f" and {len(names) - 1} more"
        yield LeftOut(f"{names[0]}{more}", "skipped", "unsupported", why)


def _read_embedded(content: bytes) -> Iterator[tuple[str, Inner | str]]:
    """Yield (name, content) of everything in a package's folder for embedded files."""
    try:
        package = open_package(content)
        chart_workbooks = _find_chart_workbooks(package)
    except DAMAGED:
        return
    for part in package.namelist():
        match = _EMBEDDED.fullmatch(part)
        if match is None:
            continue
        name = match[1]
        if name in chart_workbooks:
            yield name, "the workbook behind a chart, whose words and numbers are read"
            continue
        try:
            yield name, _read_object(name, package.read(part))
        except DAMAGED as error:
            yield name, LeftOut(name, "quarantined", "damaged", describe_damage(error))


def _find_chart_workbooks(package: ZipFile) -> set[str]:
    names: set[str] = set()
    for part in filter(_OF_CHART.fullmatch, package.namelist()):
        targets = _TARGET.findall(package.read(part))
        names.update(target.decode("utf-8", "replace") for target in targets)
    return names


def _read_object(name: str, data: bytes) -> Inner | str:
    """Return an embedded file, or a text that names an object whose file is not read.

    [MS-OLEDS] 2.3: an object holds its file in a stream, or is itself a document.
    """
    if ending_of(name) in FORMATS or not data.startswith(MAGIC):
        return Member(name, data)
    try:
        compound = open_compound(data)
    except ValueError as error:
        return LeftOut(name, "quarantined", "damaged", describe_damage(error))
    if native := _read_native(name, compound.read(_NATIVE)):
        return native
    # An object without such a stream is itself a document.
    content = next(filter(None, map(compound.read, _WHOLE)), data)
    try:
        format = find_true_format(Path(name), "zip", content)
    except UnreadableFileError as error:
        if error.kind == "encrypted":
            return LeftOut(name, "quarantined", error.kind, error.why)
        return "a file or an object inside this document that is not read"
    return Member(f"{name.rpartition('.')[0] or name}.{format}", content)


def _read_native(name: str, stream: bytes) -> Member | None:
    """Return the file that the Packager put into a stream.

    The stream holds its size, 2, its name, its path, two more numbers, a path and its bytes.
    """
    if stream[4:6] != b"\2\0":
        return None
    label, _, rest = stream[6:].partition(b"\0")
    _, _, rest = rest.partition(b"\0")
    start = 12 + int.from_bytes(rest[4:8], "little")
    size = int.from_bytes(rest[start - 4 : start], "little")
    content = rest[start : start + size]
    if not size or len(content) != size:
        return None
    path = label.decode("cp1252", "replace").replace("\\", "/")
    return Member(path.rpartition("/")[2] or name, content)
