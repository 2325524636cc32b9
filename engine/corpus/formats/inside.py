"""Files that a PDF or an office file has inside it: attached, or embedded as objects."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.corpus.formats import LeftOut, Member, UnreadableFileError
from engine.corpus.formats.archive import MAX_MEMBER
from engine.corpus.formats.containers import DAMAGED, CompoundFile, Package, compound_of, package_of
from engine.corpus.formats.damage import damaged
from engine.corpus.formats.pdf.pdfium import opened, said
from engine.corpus.formats.recognition import true_format
from engine.corpus.scan.formats import FORMATS, MAGIC, ending_of

Inner = Member | LeftOut
_OFFICE = ("docx", "pptx", "xlsx")
_EMBEDDED = re.compile(r"[^/]+/embeddings/([^/]+)")
_OF_CHART = re.compile(r"[^/]+/charts/_rels/[^/]+\.rels")
_TARGET = re.compile(rb"embeddings/([^\"'/]+)[\"']")
_ATTACHING = re.compile(rb"/(?:EmbeddedFiles?|EF|FileAttachment)(?![A-Za-z])")
_PINNED = b"/FileAttachment"
_OBJECTS = re.compile(rb"/ObjStm\b.{0,400}?stream\r?\n", re.DOTALL)
_MAX_OBJECTS = 2**24  # bytes of one stream of objects; of a PDF that has a larger one, PDFium is asked
_NATIVE, _WHOLE = "\x01Ole10Native", ("Package", "CONTENTS", "EmbeddedOdf")
_KIND_AT = 28  # where the stream CompObj names the kind of an object
_MAX_KIND_LENGTH = 100


def may_hold_files(format: str, content: bytes) -> bool:
    """Whether it is worth while to ask `files_inside`: known in a fraction of its time, and of most files no."""
    if format == "pdf":
        return _attaches(content)
    try:
        return format in _OFFICE and any(map(_EMBEDDED.fullmatch, package_of(content).archive.namelist()))
    except DAMAGED:
        return False


def files_inside(format: str, content: bytes) -> Iterator[Inner]:
    """The files inside one that `may_hold_files`, in order, and those that cannot be taken out with the reason; none of one that
    is damaged.
    """
    for found in _attached(content) if format == "pdf" else _by_kind(_embedded(content)):
        if isinstance(found, Member) and len(found.data) > MAX_MEMBER:
            why = f"it unpacks to more than {MAX_MEMBER // 2**20} MB"
            yield LeftOut(found.path, "quarantined", "too large", why)
        else:
            yield found


def _attaches(content: bytes, name: re.Pattern[bytes] = _ATTACHING) -> bool:
    """Whether a PDF may attach files: it has the names for that, in itself or in its packed objects, or these cannot be read."""
    if name.search(content):
        return True
    for found in _OBJECTS.finditer(content):
        end = content.find(b"endstream", found.end())
        unpacking = zlib.decompressobj()
        try:
            objects = unpacking.decompress(content[found.end() : end if end > 0 else None], _MAX_OBJECTS)
        except zlib.error:  # one that is locked, or packed in another way
            return True
        if name.search(objects) or unpacking.unconsumed_tail:
            return True
    return False


def _attached(content: bytes) -> Iterator[Inner]:
    """The files attached to a PDF as a whole, then those that are pinned to its pages."""
    try:
        document = opened(content)
    except (ValueError, RuntimeError):
        return
    with closing(document):
        for number in range(document.count_attachments()):
            yield _taken(partial(document.get_attachment, number), number + 1)
        if _attaches(content, re.compile(re.escape(_PINNED))):
            yield from _pinned(document)


def _pinned(document: Any) -> Iterator[Inner]:
    from pypdfium2 import PdfAttachment, PdfiumError, raw

    for index in range(len(document)):
        try:
            page = document[index]
        except PdfiumError:
            continue
        with closing(page):
            for place in range(raw.FPDFPage_GetAnnotCount(page)):
                note = raw.FPDFPage_GetAnnot(page, place)
                try:
                    file = raw.FPDFAnnot_GetFileAttachment(note) if note else None
                    if file:
                        yield _taken(partial(PdfAttachment, file, document), place + 1)
                finally:
                    raw.FPDFPage_CloseAnnot(note)


def _taken(attachment: Callable[[], Any], number: int) -> Inner:
    name = f"attachment-{number}"
    try:
        file = attachment()
        name = clean(said(file.get_name)) or name
        return Member(name, bytes(file.get_data()))
    except (RuntimeError, ValueError):  # of PDFium
        return LeftOut(name, "quarantined", "damaged", "damaged: PDFium cannot extract it from the PDF")


def _by_kind(objects: Iterator[tuple[str, Inner | str]]) -> Iterator[Inner]:
    """The files among objects; of those that are none, after them, one line for each kind."""
    others: dict[str, list[str]] = {}
    for name, inner in objects:
        if isinstance(inner, str):
            others.setdefault(inner, []).append(name)
        else:
            yield inner
    for why, names in others.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield LeftOut(f"{names[0]}{more}", "skipped", "unsupported", why)


def _embedded(content: bytes) -> Iterator[tuple[str, Inner | str]]:
    """(name, what it is) of all in the folder for embedded files of a package."""
    try:
        package = package_of(content)
        behind = _behind_charts(package)
    except DAMAGED:
        return
    for part in package.archive.namelist():
        found = _EMBEDDED.fullmatch(part)
        if found is None:
            continue
        name = found[1]
        if name in behind:
            yield name, "the workbook behind a chart, whose words and numbers are read"
            continue
        try:
            yield name, _object(name, package.read(part))
        except DAMAGED as error:
            yield name, LeftOut(name, "quarantined", "damaged", damaged(error))


def _behind_charts(package: Package) -> set[str]:
    parts = filter(_OF_CHART.fullmatch, package.archive.namelist())
    return {name.decode("utf-8", "replace") for part in parts for name in _TARGET.findall(package.read(part))}


def _object(name: str, data: bytes) -> Inner | str:
    """What an embedded file is; a text that says so for an object that is no file that is read.

    [MS-OLEDS] 2.3: an object holds its file in a stream, or is itself a document.
    """
    if ending_of(name) in FORMATS or not data.startswith(MAGIC):
        return Member(name, data)
    try:
        compound = compound_of(data)
    except ValueError as error:
        return LeftOut(name, "quarantined", "damaged", damaged(error))
    if native := _native(name, compound.read(_NATIVE)):
        return native
    content = next(filter(None, map(compound.read, _WHOLE)), b"") or data
    try:
        format = true_format(Path(name), "zip", content)
    except UnreadableFileError as error:
        if error.kind == "encrypted":
            return LeftOut(name, "quarantined", error.kind, error.why)
        kind, why = _kind(compound), "a file or an object inside this document that is not read"
        return f"{why}: {kind}" if kind else why
    return Member(f"{name.rpartition('.')[0] or name}.{format}", content)


def _native(name: str, stream: bytes) -> Member | None:
    """The file that the Packager put into a stream: its size, 2, its name, its path, two numbers more, a path, its bytes."""
    if stream[4:6] != b"\2\0":
        return None
    label, _, rest = stream[6:].partition(b"\0")
    _, _, rest = rest.partition(b"\0")
    start = 12 + int.from_bytes(rest[4:8], "little")
    size = int.from_bytes(rest[start - 4 : start], "little")
    content = rest[start : start + size]
    if not size or len(content) != size:
        return None
    return Member(_decoded(label).replace("\\", "/").rpartition("/")[2] or name, content)


def _kind(compound: CompoundFile) -> str:
    """What an object is called by the program that made it; empty where it does not say so."""
    stream = compound.read("\x01CompObj", 4096)
    length = int.from_bytes(stream[_KIND_AT : _KIND_AT + 4], "little")
    kind = stream[_KIND_AT + 4 : _KIND_AT + 4 + min(length, _MAX_KIND_LENGTH)].partition(b"\0")[0]
    return " ".join(clean(_decoded(kind)).split())


def _decoded(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("cp1252", "replace")
