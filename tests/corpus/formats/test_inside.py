"""Files attached to a PDF, and embedded in office files, are documents of their own or have
their line.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fixtures import office
from fixtures.compound_writer import compound_file
from fixtures.errors import unreadable
from fixtures.read_files import opened
from pypdfium2 import PdfDocument

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, Member, opening
from engine.corpus.formats.opening import LIMITS, FileLimits, read_everything
from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.formats import ending_of

PDF = office.pdf("The pelican boards at dawn.")


def reported(found: list[ReadDocument | LeftOut]) -> list[tuple[str, str]]:
    """(member, format, or why it was left out) of each."""
    return [
        (item.member, item.format if isinstance(item, ReadDocument) else item.kind)
        for item in found
    ]


def with_attachments(source: bytes, files: Mapping[str, bytes]) -> bytes:
    document = PdfDocument(source)
    for name, content in files.items():
        document.new_attachment(name).set_data(content)
    written = io.BytesIO()
    document.save(written)
    document.close()
    return written.getvalue()


def with_parts(source: bytes, parts: Mapping[str, bytes]) -> bytes:
    from zipfile import ZipFile

    with ZipFile(io.BytesIO(source)) as archive:
        return office.zipped({**{name: archive.read(name) for name in archive.namelist()}, **parts})


def packaged(name: str, content: bytes) -> bytes:
    """An object of the Packager."""
    body = (
        b"\2\0"
        + name.encode()
        + b"\0C:\\"
        + name.encode()
        + b"\0\0\0\3\0"
        + struct.pack("<I", 4)
        + b"C:\\\0"
    )
    body += struct.pack("<I", len(content)) + content
    return compound_file({"\x01Ole10Native": struct.pack("<I", len(body)) + body})


def test_files_attached_to_a_pdf_are_read_down_to_those_inside_them(tmp_path: Path) -> None:
    inner = with_attachments(PDF, {"deep.txt": b"The tern rests."})
    files = {
        "plan.pdf": inner,
        "image.png": b"\x89PNG",
        "a.txt": b"The gull.",
    }
    found = opened(
        tmp_path,
        "portfolio.pdf",
        with_attachments(PDF, files),
    )
    assert reported(found[:1]) == [("", "pdf")]
    assert sorted(reported(found[1:])) == [
        ("a.txt", "txt"),
        ("image.png", "needs OCR"),
        ("plan.pdf", "pdf"),
        ("plan.pdf/deep.txt", "txt"),
    ]
    assert {
        item.text
        for item in found
        if item.member.endswith(".txt") and isinstance(item, ReadDocument)
    } == {
        "The gull.",
        "The tern rests.",
    }


def test_a_file_that_is_pinned_to_a_page_is_read(tmp_path: Path) -> None:
    file = b"<</Type/EmbeddedFile/Length 15>>stream\nThe tern rests.\nendstream"
    pin = (
        b"/Annots[<</Subtype/FileAttachment/Rect[9 9 19"
        b" 19]/FS<</Type/Filespec/F(note.txt)/UF(note.txt)/EF<</F 8 0 R>>>>>>]"
    )
    content = office.pdf("The pelican boards at dawn.", extra=file)
    assert b"\n8 0 obj\n<</Type/EmbeddedFile" in content
    found = opened(
        tmp_path,
        "a.pdf",
        content.replace(b"/MediaBox", pin + b"/MediaBox"),
    )
    assert reported(found) == [("", "pdf"), ("note.txt", "txt")]


def test_the_files_stay_where_a_pdf_has_no_text(tmp_path: Path) -> None:
    found = opened(
        tmp_path,
        "scan.pdf",
        with_attachments(office.pdf(""), {"a.txt": b"The gull."}),
    )
    assert reported(found) == [("its own text", "needs OCR"), ("a.txt", "txt")]
    with unreadable("damaged"):
        opened(tmp_path, "a.pdf", b"%PDF-1.4 /EmbeddedFiles")


def test_files_embedded_in_office_files_are_read(tmp_path: Path) -> None:
    parts = {
        "word/embeddings/": b"",
        "word/embeddings/Sheet1.xlsx": office.xlsx(),
        "word/embeddings/oleObject1.bin": compound_file({"Package": office.pptx()}),
        "word/embeddings/oleObject2.bin": compound_file({"CONTENTS": PDF}),
        "word/embeddings/oleObject3.bin": office.doc(),
        "word/embeddings/oleObject4.bin": packaged("note.txt", b"The tern rests."),
    }
    found = opened(
        tmp_path,
        "a.docx",
        with_parts(office.docx(), parts),
    )
    assert reported(found) == [
        ("", "docx"),
        ("Sheet1.xlsx", "xlsx"),
        ("oleObject1.pptx", "pptx"),
        ("oleObject2.pdf", "pdf"),
        ("oleObject3.doc", "doc"),
        ("note.txt", "txt"),
    ]
    assert isinstance(found[-1], ReadDocument)
    assert found[-1].text == "The tern rests."
    for name, source in (("b.pptx", office.pptx()), ("c.xlsx", office.xlsx())):
        folder = {"b.pptx": "ppt", "c.xlsx": "xl"}[name]
        found = opened(
            tmp_path, name, with_parts(source, {f"{folder}/embeddings/x.docx": office.docx()})
        )
        assert reported(found) == [("", ending_of(name)[1:]), ("x.docx", "docx")]


def test_objects_that_are_not_read_are_listed_once(tmp_path: Path) -> None:
    equation = compound_file({"\x01CompObj": bytes(28), "Native": b"x"})
    names = b'<Relationships><Relationship Target="../embeddings/Sheet1.xlsx"/></Relationships>'
    parts = {
        "word/embeddings/oleObject1.bin": equation,
        "word/embeddings/oleObject2.bin": equation,
        "word/embeddings/oleObject3.bin": office.locked_package(),
        "word/embeddings/oleObject4.bin": compound_file({"\x01Ole10Native": b"\0\0\0\0\2\0cut"}),
        "word/charts/_rels/chart1.xml.rels": names,
        "word/embeddings/Sheet1.xlsx": office.xlsx(),
    }
    found = opened(
        tmp_path,
        "a.docx",
        with_parts(office.docx(), parts),
    )
    assert reported(found)[1:] == [
        ("oleObject3.bin", "encrypted"),
        ("oleObject1.bin and 2 more", "unsupported"),
        ("Sheet1.xlsx", "unsupported"),
    ]


def test_the_limits_hold_for_files_inside_documents(tmp_path: Path) -> None:
    content = with_attachments(PDF, {f"{number}.txt": b"The gull." for number in range(3)})
    found = opened(
        tmp_path,
        "a.pdf",
        content,
        FileLimits(members=2),
    )
    assert [kind for _, kind in reported(found)] == [
        "pdf",
        "txt",
        "txt",
        "too large",
    ]
    found = opened(
        tmp_path,
        "b.pdf",
        content,
        FileLimits(member=8),
    )
    assert reported(found)[1:] == [(f"{number}.txt", "too large") for number in range(3)]
    deep = PDF
    for _ in range(LIMITS.depth + 1):
        deep = with_attachments(PDF, {"p.pdf": deep})
    found = opened(tmp_path, "c.pdf", deep)
    assert len(found) == 1 + LIMITS.depth + 1
    assert reported(found)[-1] == ("/".join(["p.pdf"] * 7), "unsupported")


def test_a_fault_in_looking_for_files_is_listed_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_content: bytes) -> Iterator[Member]:
        yield Member("a.txt", b"The gull.")
        raise IndexError

    monkeypatch.setattr(opening, "find_embedded_files", faulty)
    content = with_parts(office.docx(), {"word/embeddings/a.bin": b"x"})
    assert reported(
        opened(tmp_path, "a.zip", office.zipped({"a.docx": content, "b.txt": "The tern."}))
    ) == [
        ("a.docx", "docx"),
        ("a.docx/a.txt", "txt"),
        ("a.docx/files inside", "crashed"),
        ("b.txt", "txt"),
    ]


def test_the_text_of_a_document_is_reported_before_its_files_are_sought(tmp_path: Path) -> None:
    for name, content, first in (
        ("a.pdf", with_attachments(PDF, {"a.txt": b"The gull."}), []),
        ("a.docx", with_parts(office.docx(), {"word/embeddings/a.txt": b"The gull."}), [""]),
    ):
        begun: list[str] = []
        (tmp_path / name).write_bytes(content)
        for found in read_everything(tmp_path / name, ending_of(name)[1:], begin=begun.append):
            assert begun == {"": [], "a.txt": [*first, "a.txt"]}[found.member]


def test_the_reading_process_distinguishes_files_of_documents(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(
        with_attachments(PDF, {"a.txt": b"The gull.", "b.docx": office.docx()})
    )
    pool = Pool(1, Limits(2**30, 30))
    try:
        outcome = pool.read(tmp_path / "a.pdf", "pdf")
    finally:
        pool.close()
    assert sorted(document.member for document in outcome.documents) == ["", "a.txt", "b.docx"]
    assert (outcome.left_out, outcome.reason) == ([], "")
