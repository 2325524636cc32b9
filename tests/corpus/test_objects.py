"""Objects inside OpenDocument, RTF and .ppt files are documents of their own, or have their line."""

from __future__ import annotations

import struct
import time
import zlib
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from corpus.test_inside import packaged, with_parts
from corpus.test_slides_ppt import Deck, document, listed, record, said, shape, slide
from fixtures import office

from engine.corpus.inside import may_hold_files
from engine.corpus.objects import objects_in
from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument

CHART = (
    b'<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    b'xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    b"<office:body><office:chart><chart:chart><chart:title><text:p>Gulls by quarter</text:p></chart:title></chart:chart>"
    b"</office:chart></office:body></office:document-content>"
)


def reported(tmp_path: Path, name: str, content: bytes) -> dict[str, str]:
    """By member: the text of each document, the kind of what is left out."""
    (tmp_path / name).write_bytes(content)
    found = everything_in(tmp_path / name, name.rpartition(".")[2])
    return {item.member: item.text if isinstance(item, ReadDocument) else item.kind for item in found}


def in_folder(folder: str, source: bytes) -> dict[str, bytes]:
    with ZipFile(BytesIO(source)) as archive:
        return {f"{folder}/{name}": archive.read(name) for name in archive.namelist() if name.endswith(".xml")}


def embedded(name: bytes, native: bytes, *, kind: int = 2) -> bytes:
    """What RTF says of an object, in lines of digits."""
    head = struct.pack("<II", 0x0501, kind) + struct.pack("<I", len(name) + 1) + name + b"\0" + bytes(8)
    digits = (head + struct.pack("<I", len(native)) + native + b"\1\5\0\0").hex().encode()
    lines = b"\r\n".join(digits[at : at + 128] for at in range(0, len(digits), 128))
    return b"{\\object\\objemb{\\*\\objclass " + name + b"}{\\*\\objdata " + lines + b"}{\\result {The result.}}}"


def storage(content: bytes, *, packed: bool) -> bytes:
    return record(
        0x1011, struct.pack("<I", len(content)) + zlib.compress(content) if packed else content, instance=int(packed)
    )


def presentation(*objects: bytes) -> bytes:
    made = Deck()
    made.save({9 + number: content for number, content in enumerate(objects)})
    made.save({2: slide(shape(said("The heron."))), 1: document(listed(0, (2, 256, b"")))})
    return made.bytes()


@pytest.mark.parametrize("outer", ["odt", "ods", "odp"])
def test_documents_inside_an_open_document_file(tmp_path: Path, outer: str) -> None:
    parts = {
        **in_folder("Object 1", office.ods()),
        "Object 2": office.doc("The tern rests.\r"),
        "ObjectReplacements/Object 1": office.doc("Never shown.\r"),
        "Object 3": b"a picture",
    }
    source = getattr(office, outer)()
    found = reported(tmp_path, f"a.{outer}", with_parts(source, parts))
    assert list(found) == ["", "Object 2.doc", "Object 1.ods"]
    assert found[""] == reported(tmp_path, f"b.{outer}", source)[""]
    assert found["Object 2.doc"] == "The tern rests."
    assert found["Object 1.ods"] == reported(tmp_path, "c.ods", office.ods())[""]


def test_documents_inside_documents_inside_an_open_document_file(tmp_path: Path) -> None:
    inner = with_parts(office.ods(), {"Object 1": office.doc("The tern rests.\r")})
    with ZipFile(BytesIO(inner)) as archive:
        parts = {f"Object 7/{name}": archive.read(name) for name in archive.namelist()}
    found = reported(tmp_path, "a.odt", with_parts(office.odt(), parts))
    assert found["Object 7.ods/Object 1.doc"] == "The tern rests."


@pytest.mark.parametrize("outer", ["odt", "ods", "odp"])
def test_the_words_of_a_chart_in_an_open_document_file_are_its_own(tmp_path: Path, outer: str) -> None:
    source = getattr(office, outer)()
    found = reported(tmp_path, f"a.{outer}", with_parts(source, {"Object 1/content.xml": CHART}))
    assert list(found) == [""]
    assert "Gulls by quarter" in found[""]


def test_a_damaged_part_costs_only_its_object(tmp_path: Path) -> None:
    content = with_parts(office.odt(), {"Object 1": office.doc("The tern rests.\r"), "Object 2": b"The gull flies."})
    check = struct.pack("<I", zlib.crc32(b"The gull flies."))
    assert content.count(check) == 2
    content = content.replace(check, b"torn")
    found = reported(tmp_path, "a.odt", content)
    assert found["Object 1.doc"] == "The tern rests."
    assert found["Object 2"] == "damaged"


def test_objects_in_rtf(tmp_path: Path) -> None:
    native = packaged("notes.txt", b"The gull flies.")
    package = native[native.index(b"\2\0notes.txt") :][: 2 + 10 + 13 + 4 + 4 + 4 + 4 + 15]
    rtf = b"{\\rtf1 The pelican boards. " + embedded(b"Word.Document.8", office.doc("The tern rests.\r"))
    rtf += embedded(b"Word.Document.8", b"C:\\\\other.doc", kind=1) + embedded(b"Package", package) + b"}"
    found = reported(tmp_path, "a.rtf", rtf)
    assert found.pop("").startswith("The pelican boards.")
    assert found == {"object1.doc": "The tern rests.", "notes.txt": "The gull flies."}


@pytest.mark.parametrize(
    "digits", [b"", b"0", b"01050000", b"0105000002000000ffffffff", b"zz", b"0105000002000000" + b"f" * 99]
)
def test_rtf_objects_that_are_cut_are_none(digits: bytes) -> None:
    assert list(objects_in("rtf", b"{\\rtf1{\\object{\\*\\objdata " + digits + b"}}}")) == []


def test_many_objects_in_rtf_take_no_long_time() -> None:
    started = time.process_time()
    assert list(objects_in("rtf", b"{\\rtf1" + b"\\objdata " * 100_000 + b" " * 1_000_000 + b"}")) == []
    assert time.process_time() - started < 2


def test_objects_in_a_presentation(tmp_path: Path) -> None:
    macros = office.compound({"VBA/dir": b"x" * 50, "PROJECT": b"y"})
    content = presentation(
        storage(office.doc("The tern rests.\r"), packed=True),
        storage(packaged("notes.txt", b"The gull flies."), packed=False),
        storage(macros, packed=True),
        storage(office.compound({"Other": b"z" * 50}), packed=True),
        storage(b"torn", packed=True).replace(zlib.compress(b"torn"), b"x" * len(zlib.compress(b"torn"))),
    )
    assert reported(tmp_path, "a.ppt", content) == {
        "": "The heron.",
        "object1.doc": "The tern rests.",
        "notes.txt": "The gull flies.",
        "object5": "damaged",
        "object4": "unsupported",
    }


def test_files_without_objects_hold_no_files() -> None:
    assert not may_hold_files("odt", office.odt())
    assert not may_hold_files("rtf", b"{\\rtf1 The pelican.}")
    assert not may_hold_files("ppt", office.ppt())
    assert not may_hold_files("odt", b"no package")
    assert not may_hold_files("ppt", b"no compound file")
