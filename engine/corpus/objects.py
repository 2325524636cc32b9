"""Objects embedded in OpenDocument and RTF files and in PowerPoint presentations of before 2007: their bytes.

OpenDocument 1.2, part 3, 2.2 (a document in a folder of another); [MS-OLEDS] 2.2.4 and 2.2.5 (what RTF holds in digits);
[MS-PPT] 2.10.34 (storages of objects).
"""

from __future__ import annotations

import re
import zipfile
import zlib
from binascii import a2b_hex
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO

from engine.corpus.archive import MAX_MEMBER
from engine.corpus.compound import MAGIC
from engine.corpus.damage import damaged
from engine.corpus.package import DAMAGED, Package, package_of
from engine.corpus.readers import LeftOut
from engine.corpus.records_ppt import Record, Records
from engine.corpus.slides_ppt import stream_of

Object = tuple[str, bytes | LeftOut]
_BODY = re.compile(rb"<office:(text|spreadsheet|presentation)[\s/>]")
_ENDINGS = {b"text": "odt", b"spreadsheet": "ods", b"presentation": "odp"}
_MANIFEST = b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
_IN_DIGITS = re.compile(rb"\\objdata(?![a-z])[^0-9A-Fa-f{}\\]*([0-9A-Fa-f\s]+)")
_EMBEDDED = 2  # of RTF: an object that is no link
_STORAGE, _PACKED = 0x1011, 1


def _in_package(content: bytes) -> Iterator[Object]:
    package = package_of(content)
    folders: dict[str, list[str]] = {}
    for name in package.archive.namelist():
        folder, slash, _ = name.partition("/")
        folders.setdefault(folder if slash else "", []).append(name)
    for name in [*folders.pop("", ()), *folders]:
        try:
            if name not in folders:
                yield from [] if "." in name else _stored(package, name)
            elif f"{name}/content.xml" in folders[name]:
                yield from _document(package, name, folders[name])
        except DAMAGED as error:
            yield name, LeftOut(name, "quarantined", "damaged", damaged(error))


def _stored(package: Package, name: str) -> Iterator[Object]:
    if (data := package.read(name)).startswith(MAGIC):
        yield name, data


def _document(package: Package, folder: str, names: Iterable[str]) -> Iterator[Object]:
    """What lies in a folder of a package as a package of its own, where it is a document."""
    body = _BODY.search(package.read(f"{folder}/content.xml"))
    if body is None:
        return
    parts = {name.removeprefix(f"{folder}/"): package.read(name) for name in names if not name.endswith("/")}
    parts["mimetype"] = b"application/vnd.oasis.opendocument." + body[1]
    parts.setdefault("META-INF/manifest.xml", _MANIFEST)  # no reader asks what it says, one that it is there
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    yield f"{folder}.{_ENDINGS[body[1]]}", written.getvalue()


def _in_rtf(content: bytes) -> Iterator[Object]:
    for number, found in enumerate(_IN_DIGITS.finditer(content), 1):
        digits = b"".join(found[1].split())
        if data := _native(a2b_hex(digits[: len(digits) // 2 * 2])):
            yield f"object{number}", data


def _native(data: bytes) -> bytes:
    """What an object holds for the program that made it; empty for a link, and where it is cut."""
    at = 8
    for _ in range(3):  # its class, and two names of what it is linked to
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    size = int.from_bytes(data[at : at + 4], "little")
    native = data[at + 4 : at + 4 + size]
    return native if int.from_bytes(data[4:8], "little") == _EMBEDDED and len(native) == size else b""


def _in_slides(content: bytes) -> Iterator[Object]:
    records = Records(stream_of(content))
    storages = [record for record in records.inside(Record(0, 0, 0, len(records.data))) if record.kind == _STORAGE]
    for number, record in enumerate(storages, 1):
        name, data = f"object{number}", records.read(record)
        try:
            if record.instance == _PACKED:
                data = zlib.decompressobj().decompress(data[4:], MAX_MEMBER + 1)
        except zlib.error as error:
            yield name, LeftOut(name, "quarantined", "damaged", damaged(error))
        else:
            yield name, data


_READERS: dict[str, Callable[[bytes], Iterator[Object]]] = {
    **dict.fromkeys(("odt", "ods", "odp"), _in_package), "rtf": _in_rtf, "ppt": _in_slides,
}  # fmt: skip
FORMATS_WITH_OBJECTS = frozenset(_READERS)


def objects_in(format: str, content: bytes) -> Iterator[Object]:
    """(name, its bytes or why they cannot be had) of each object in a file of one of `FORMATS_WITH_OBJECTS`; none of one that is
    damaged.
    """
    try:
        yield from _READERS[format](content)
    except (*DAMAGED, OverflowError):
        return
