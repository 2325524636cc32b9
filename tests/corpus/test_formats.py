"""The contract of every format: what any reader of it must find. The files are written by hand (fixtures/office.py)."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from fixtures import office

from engine.corpus.formats import FORMATS, ending_of
from engine.corpus.opening import everything_in
from engine.corpus.readers import LeftOut, ReadDocument, UnreadableFileError

CREATED = 1930367167.0  # 2031-03-04 05:06:07 UTC
PDF = office.pdf("The pelican boards at dawn.", "The heron moors at noon.")
TITLED = {
    "a.docx": office.docx(), "a.pptx": office.pptx(), "a.xlsx": office.xlsx(), "a.odt": office.odt(),
    "a.odp": office.odp(), "a.epub": office.epub(), "a.rtf": office.RTF, "a.pdf": PDF, "a.msg": office.msg(),
}  # fmt: skip
UNTITLED = {
    "a.doc": office.doc(), "a.ppt": office.ppt(), "a.xls": office.xls(), "a.ods": office.ods(), "a.csv": office.CSV,
    "a.jsonl": office.JSONL,
}  # fmt: skip
MAILS = {"a.eml": office.eml(), "a.mhtml": office.MHTML}


def opened(tmp_path: Path, name: str, content: bytes) -> list[ReadDocument | LeftOut]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(everything_in(path, FORMATS[ending_of(name)]))


def only(found: list[ReadDocument | LeftOut]) -> ReadDocument:
    (document,) = found
    assert isinstance(document, ReadDocument)
    return document


@pytest.mark.parametrize("name", [*TITLED, *UNTITLED, *MAILS])
def test_the_text_of_every_format_is_found(tmp_path: Path, name: str) -> None:
    document = only(opened(tmp_path, name, {**TITLED, **UNTITLED, **MAILS}[name]))
    assert "pelican" in document.text
    assert ("heron" in document.text) == (name not in ("a.msg", "a.eml", "a.mhtml", "a.csv"))
    assert "\r" not in document.text
    for heading in document.headings:
        assert document.text[heading.start :].startswith(heading.title)
    assert [page.number for page in document.pages] == list(range(1, len(document.pages) + 1))


@pytest.mark.parametrize("name", TITLED)
def test_titles_and_authors_are_the_documents_own(tmp_path: Path, name: str) -> None:
    document = only(opened(tmp_path, name, TITLED[name]))
    assert (document.title, document.author) == ("Harbour plan", "Ada Quay")


@pytest.mark.parametrize("name", UNTITLED)
def test_a_document_without_a_title_is_called_as_its_file(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, UNTITLED[name])).title == "A"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.pdf", "a.eml", "a.mhtml"])
def test_dates_are_the_documents_own(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, {**TITLED, **MAILS}[name])).created == CREATED


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("a.docx", "page 2"), ("a.pdf", "page 2"), ("a.pptx", "slide 2"), ("a.odp", "slide 2"), ("a.xlsx", "sheet Pilots"),
        ("a.xls", "sheet Pilots"), ("a.ods", "sheet Pilots"),
    ],
)  # fmt: skip
def test_pages_slides_and_sheets_begin_where_they_do(tmp_path: Path, name: str, second: str) -> None:
    document = only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name]))
    assert [page.name for page in document.pages][1:] == [second]
    start = document.pages[1].start
    assert "pelican" in document.text[:start]
    assert "heron" in document.text[start:]
    assert "pelican" not in document.text[start:]


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.epub", "a.pptx", "a.odp"])
def test_headings_are_found(tmp_path: Path, name: str) -> None:
    titles = [heading.title for heading in only(opened(tmp_path, name, TITLED[name])).headings]
    assert titles == ["Pilots", "Moorings"]


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.xls", "a.ods", "a.csv"])
def test_a_tables_rows_carry_the_names_of_its_columns(tmp_path: Path, name: str) -> None:
    text = only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name])).text
    berth = "North" if name == "a.docx" else "South pelican"
    assert "Berth | Depth\nBerth: " in text
    assert f"Berth: {berth} | Depth: " in text


def test_pages_without_text_in_between_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.pdf", office.pdf("The pelican.", "", "The heron.")))
    assert [(page.number, document.text[page.start :][:9]) for page in document.pages] == [
        (1, "The pelic"),
        (3, "The heron"),
    ]


def test_words_that_a_line_end_parts_are_put_together(tmp_path: Path) -> None:
    from engine.corpus.structure import unwrapped

    assert unwrapped("the har-\nbour and\nNorth-\nSouth  \n") == "the harbour\nand\nNorth-\nSouth"
    assert unwrapped("12-\n13") == "12-\n13"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.pdf", office.locked_pdf(), "encrypted"),
        ("a.docx", office.locked_package(), "encrypted"),
        ("a.xlsx", office.locked_package(), "encrypted"),
        ("a.doc", office.doc(locked=True), "encrypted"),
        ("a.xls", office.xls(locked=True), "encrypted"),
        ("a.ppt", office.ppt(locked=True), "encrypted"),
        ("a.odt", office.odt(locked=True), "encrypted"),
        ("a.pdf", office.pdf("", ""), "needs OCR"),
        ("a.pdf", b"%PDF-1.4\nnothing", "damaged"),
        ("a.pdf", b"a plain text", "damaged"),
        ("a.docx", office.docx()[:700], "damaged"),
        ("a.docx", b"a plain text", "damaged"),
        ("a.docx", office.zipped({"a.txt": "x"}), "damaged"),
        ("a.doc", office.doc()[:600], "damaged"),
        ("a.xlsx", b"", "empty"),
        ("a.json", b"{not json", "damaged"),
        ("a.json", b"null", "empty"),
        ("a.zip", office.zipped({}), "empty"),
        ("a.mbox", b"no mail begins here", "damaged"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_truly_why(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    with pytest.raises(UnreadableFileError) as error:
        opened(tmp_path, name, content)
    assert error.value.kind == kind
    assert error.value.why


def test_a_file_is_read_as_what_it_is_whatever_its_name_says(tmp_path: Path) -> None:
    for name, content, format in (
        ("a.doc", office.docx(), "docx"),
        ("b.doc", office.RTF, "rtf"),
        ("c.xls", office.xlsx(), "xlsx"),
        ("d.doc", b"<html><body>The pelican boards.</body></html>", "html"),
        ("e.txt", PDF, "pdf"),
        ("f.docx", office.doc(), "doc"),
    ):
        document = only(opened(tmp_path, name, content))
        assert (document.format, "pelican" in document.text) == (format, True), name


def test_attachments_and_members_are_documents_of_their_own(tmp_path: Path) -> None:
    inner = office.eml({"plan.docx": office.docx(), "photo.png": b"\x89PNG"})
    found = opened(tmp_path, "a.zip", office.zipped({"mail/one.eml": inner, "b.txt": "The tern rests."}))
    read = {item.member: item.format for item in found if isinstance(item, ReadDocument)}
    assert read == {"mail/one.eml": "eml", "mail/one.eml/plan.docx": "docx", "b.txt": "txt"}
    (left,) = [item for item in found if isinstance(item, LeftOut)]
    assert (left.member, left.state, left.kind) == ("mail/one.eml/photo.png", "skipped", "needs OCR")
    outlook = opened(tmp_path, "a.msg", office.msg({"plan.pdf": PDF}))
    assert [(item.member, item.format) for item in outlook if isinstance(item, ReadDocument)] == [
        ("", "msg"),
        ("plan.pdf", "pdf"),
    ]
    box = opened(tmp_path, "a.mbox", office.mbox(office.eml(text="One."), office.eml({"a.txt": b"Two."})))
    assert [item.member for item in box] == ["0001.eml", "0002.eml", "0002.eml/a.txt"]


def test_one_bad_member_leaves_the_others(tmp_path: Path) -> None:
    files = {
        "a.txt": "The tern.",
        "b.docx": office.docx()[:500],
        "c.pdf": office.locked_pdf(),
        "d.xyz": "?",
        "e.txt": "x",
    }
    found = opened(tmp_path, "a.zip", office.zipped(files))
    assert [item.member for item in found] == list(files)
    assert [item.kind for item in found if isinstance(item, LeftOut)] == ["damaged", "encrypted", "unsupported"]


def test_attachments_of_one_name_are_told_apart(tmp_path: Path) -> None:
    from email.message import EmailMessage

    mail = EmailMessage()
    mail.set_content("Two of them.")
    for text in ("One.", "Two."):
        mail.add_attachment(text, filename="note.txt")
    found = opened(tmp_path, "a.eml", mail.as_bytes())
    assert [item.member for item in found] == ["", "note.txt", "note.txt (2)"]


def with_part(source: bytes, name: str, content: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files = {item: archive.read(item) for item in archive.namelist()}
    for part in ("word/document.xml", "xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml"):
        if part in files:
            files[part] = re.sub(rb"<w:t>[^<]*</w:t>|<t>[^<]*</t>|<v>[^<]*</v>", b"", files[part])
    return office.zipped({**files, name: content})


def test_what_only_a_chart_or_a_drawing_or_embedded_html_says_is_found(tmp_path: Path) -> None:
    main = "http://schemas.openxmlformats.org/drawingml/2006/main"
    drawing = f'<x xmlns:a="{main}"><a:p><a:r><a:t>The pel</a:t></a:r><a:r><a:t>ican.</a:t></a:r></a:p></x>'
    chart = '<c:x xmlns:c="urn:c"><c:pt><c:v>Berths</c:v></c:pt><c:pt><c:v>12</c:v></c:pt><c:pt><c:v>Berths</c:v></c:pt></c:x>'
    for name, content, text in (
        ("a.xlsx", with_part(office.xlsx(), "xl/drawings/drawing1.xml", drawing), "The pelican."),
        ("b.docx", with_part(office.docx(), "word/charts/chart1.xml", chart), "Berths\n12"),
        ("c.docx", with_part(office.docx(), "word/afchunk.htm", "<p>The heron.</p>"), "The heron."),
    ):
        found = only(opened(tmp_path, name, content)).text
        assert text in found, (name, found)


def test_rtf_is_read_without_its_tables_and_with_every_kind_of_character() -> None:
    from engine.corpus.second_look import rtf_text

    source = (
        rb"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0 Arial;}}{\*\generator x;}{\info{\title no}}{\header no}\f0\fs20"
        rb" Caf\'e9 \u8364? \u-10240?\u-8398?\par {\b Two} \{words\}\~here\emdash{\pict\bin4 }{\x}so\par}"
    )
    assert rtf_text(source) == "Caf\u00e9 \u20ac \U00010332\n\nTwo {words}\u00a0here\u2014so\n\n"
    assert rtf_text(b"{\\rtf1 " + b"{" * 5000 + b"deep" + b"}" * 4990) == "deep"
