"""Parts of files that cannot be read: each has its line in the ledger, and no library's words
for it are text.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import changed, only, opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut


def with_part(
    source: bytes,
    part: str,
    content: bytes | None,
) -> bytes:
    """A package in which a part is another, or is missing."""
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    return office.zipped(
        {name: one for name, one in {**parts, part: content}.items() if one is not None}
    )


def with_a_changed_byte(source: bytes, part: str) -> bytes:
    """A package of which a part was changed where it is packed."""
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        member = archive.getinfo(part)
    at = member.header_offset + 30 + len(part) + member.compress_size // 2
    return source[:at] + bytes([source[at] ^ 0x55]) + source[at + 1 :]


def broken(source: bytes, part: str) -> Iterator[bytes]:
    """A package without a part, with half of it, and with one that was changed."""
    yield with_part(source, part, None)
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        content = archive.read(part)
    yield with_part(
        source,
        part,
        content[: len(content) // 2],
    )
    yield with_a_changed_byte(source, part)


@pytest.mark.parametrize(
    ("name", "source", "part", "lost", "kept"),
    [
        ("a.xlsx", office.xlsx(), "xl/worksheets/sheet1.xml", "sheet Berths", "heron"),
        ("a.pptx", office.pptx(), "ppt/slides/slide1.xml", "slide 1", "heron"),
        ("a.epub", office.epub(), "a.xhtml", "a.xhtml", "heron"),
    ],
)
def test_a_sheet_a_slide_or_a_chapter_that_is_lost_is_listed(
    tmp_path: Path, name: str, source: bytes, part: str, lost: str, kept: str
) -> None:
    for content in broken(source, part):
        document, left = opened(tmp_path, name, content)
        assert isinstance(document, ReadDocument)
        assert kept in document.text
        assert "pelican" not in document.text
        assert part not in document.text
        assert "[" not in document.text
        assert isinstance(left, LeftOut)
        assert (left.member, left.state, left.kind) == (lost, "quarantined", "damaged")


def test_where_all_parts_are_lost_the_reason_is_that_of_the_first(tmp_path: Path) -> None:
    source = with_part(
        with_part(office.epub(), "a.xhtml", None),
        "b.xhtml",
        None,
    )
    with unreadable("damaged"):
        opened(tmp_path, "a.epub", source)


def test_chapters_that_rights_management_locks_are_not_called_damaged(tmp_path: Path) -> None:
    def listed(*chapters: str) -> bytes:
        named = "".join(
            "<e:EncryptedData><e:CipherData><e:CipherReference"
            f' URI="{name}"/></e:CipherData></e:EncryptedData>'
            for name in chapters
        )
        return (
            '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"'
            f' xmlns:e="http://www.w3.org/2001/04/xmlenc#">{named}</encryption>'.encode()
        )

    document, left = opened(
        tmp_path, "a.epub", with_part(office.epub(), "META-INF/encryption.xml", listed("a.xhtml"))
    )
    assert isinstance(document, ReadDocument)
    assert isinstance(left, LeftOut)
    assert left.kind == "encrypted"
    with unreadable("encrypted"):
        opened(
            tmp_path,
            "b.epub",
            with_part(office.epub(), "META-INF/encryption.xml", listed("a.xhtml", "b.xhtml")),
        )


@pytest.mark.parametrize(
    ("name", "source", "part"),
    [
        ("a.docx", office.docx(), "word/comments.xml"),
        ("a.docx", office.docx(), "word/charts/chart1.xml"),
        ("a.xlsx", office.xlsx(), "xl/comments1.xml"),
        ("a.pptx", office.pptx(), "ppt/notesSlides/notesSlide1.xml"),
    ],
)
def test_comments_notes_and_charts_that_do_not_unpack_are_listed(
    tmp_path: Path, name: str, source: bytes, part: str
) -> None:
    whole = with_part(source, part, b"<x>The tern rests on the pier.</x>")
    document, left = opened(
        tmp_path,
        name,
        with_a_changed_byte(whole, part),
    )
    assert isinstance(document, ReadDocument)
    assert "pelican" in document.text
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == (part, "damaged")


def test_tables_inside_too_many_others_are_listed(tmp_path: Path) -> None:
    table = "<w:tbl><w:tr><w:tc>"
    end = "<w:p/></w:tc></w:tr></w:tbl>"
    deep = table * 150 + "<w:p><w:r><w:t>heron</w:t></w:r></w:p>" + end * 150 + "</w:body>"
    found = opened(
        tmp_path, "a.docx", changed(office.docx(), "word/document.xml", "</w:body>", deep)
    )
    document, left = found
    assert isinstance(document, ReadDocument)
    assert "100" not in document.text
    assert isinstance(left, LeftOut)
    assert (left.state, left.kind) == ("quarantined", "too large")


def test_a_text_box_inside_too_many_others_is_listed(tmp_path: Path) -> None:
    box = (
        "<w:p><w:r><w:pict><v:shape"
        ' xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox><w:txbxContent>'
    )
    end = "</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
    deep = box * 30 + "<w:p><w:r><w:t>heron</w:t></w:r></w:p>" + end * 30 + "</w:body>"
    document, left = opened(
        tmp_path, "a.docx", changed(office.docx(), "word/document.xml", "</w:body>", deep)
    )
    assert isinstance(document, ReadDocument)
    assert "[" not in document.text
    assert isinstance(left, LeftOut)
    assert left.kind == "too large"


def test_a_spreadsheet_without_the_list_of_its_parts_is_read(tmp_path: Path) -> None:
    whole, without = (
        opened(tmp_path, "a.ods", content)
        for content in (office.ods(), with_part(office.ods(), "META-INF/manifest.xml", None))
    )
    assert whole == without


def test_a_spreadsheet_that_says_the_same_again_and_again_is_no_bomb(tmp_path: Path) -> None:
    cell = (
        '<table:table-cell office:value-type="string"><text:p>The tern'
        " rests.</text:p></table:table-cell>"
    )
    row = f"<table:table-row>{cell * 10}</table:table-row>"
    source = changed(
        office.ods(),
        "content.xml",
        '<table:table table:name="Pilots">',
        '<table:table table:name="Pilots">' + row * 11_000,
    )
    document = only(opened(tmp_path, "a.ods", source))
    assert document.text.count("The tern rests.") == 110_000
    assert "heron" in document.text


@pytest.mark.parametrize("name", ["afchunk.mht", "merged.txt"])
def test_what_word_merges_when_it_opens_a_file_is_a_file_inside(tmp_path: Path, name: str) -> None:
    if name.endswith("txt"):
        content = b"The tern rests on the pier."
    else:
        content = office.eml(text="The tern rests on the pier.")
    _, inside = opened(
        tmp_path,
        "a.docx",
        with_part(office.docx(), f"word/{name}", content),
    )
    assert isinstance(inside, ReadDocument)
    assert (inside.member, "tern" in inside.text) == (name, True)


def test_a_pdf_with_a_slip_in_its_first_line_is_read(tmp_path: Path) -> None:
    content = office.pdf("The pelican boards at dawn.")
    assert content.startswith(b"%PDF-1.")
    assert (
        "pelican"
        in only(opened(tmp_path, "a.pdf", content.replace(b"%PDF-1.", b"%PDF.1.", 1))).text
    )


def test_an_archive_that_is_named_as_another_file_is_read_as_one(tmp_path: Path) -> None:
    (found,) = opened(
        tmp_path,
        "a.pdf",
        office.zipped({"a.txt": "The tern."}),
    )
    assert (found.member, getattr(found, "text", "")) == ("a.txt", "The tern.")
