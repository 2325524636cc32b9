"""The contract of every format: what any reader of it must find.

The files are written by hand (fixtures/office.py).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import PDF, TITLED, changed, only, opened
from fixtures.shown_numbers import numbers

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, UnreadableFileError
from engine.corpus.scan.formats import ending_of

CREATED = 1930367167.0  # 2031-03-04 05:06:07 UTC
UNTITLED = {
    "a.doc": office.doc(),
    "a.ppt": office.ppt(),
    "a.xls": office.xls(),
    "a.ods": office.ods(),
    "a.csv": office.CSV,
    "a.jsonl": office.JSONL,
}
MAILS = {"a.eml": office.eml(), "a.mhtml": office.MHTML}


@pytest.mark.parametrize("name", [*TITLED, *UNTITLED, *MAILS])
def test_the_text_of_every_format_is_found(tmp_path: Path, name: str) -> None:
    document = only(opened(tmp_path, name, {**TITLED, **UNTITLED, **MAILS}[name]))
    assert "pelican" in document.text
    assert ("heron" in document.text) == (name not in ("a.msg", "a.eml", "a.mhtml", "a.csv"))
    assert "\r" not in document.text
    for heading in document.headings:
        assert document.text[heading.start :].startswith(heading.title)
    assert [page.number for page in document.pages] == list(range(1, len(document.pages) + 1))


@pytest.mark.parametrize(
    ("name", "format"), [("a.eml", "eml"), ("a.mhtml", "mhtml"), ("a.MHT", "mhtml")]
)
def test_a_saved_page_is_called_one_and_not_a_mail(
    tmp_path: Path,
    name: str,
    format: str,
) -> None:
    content = MAILS["a.eml" if format == "eml" else "a.mhtml"]
    assert only(opened(tmp_path, name, content)).format == format


@pytest.mark.parametrize("name", TITLED)
def test_titles_and_authors_are_the_documents_own(tmp_path: Path, name: str) -> None:
    document = only(opened(tmp_path, name, TITLED[name]))
    assert (document.title, document.author) == ("Harbour plan", "Ada Quay")


KEYWORDS = "Lease; notice period"
TAGGED = {
    name: changed(
        TITLED[name],
        "docProps/core.xml",
        "</dc:creator>",
        f"</dc:creator><cp:keywords>{KEYWORDS}</cp:keywords>",
    )
    for name in ("a.docx", "a.pptx", "a.xlsx")
} | {
    "a.odt": changed(
        TITLED["a.odt"],
        "meta.xml",
        "</dc:creator>",
        "</dc:creator><meta:keyword>Lease</meta:keyword><meta:keyword>notice period</meta:keyword>",
    ),
    "a.epub": changed(
        TITLED["a.epub"],
        "book.opf",
        "</dc:creator>",
        "</dc:creator><dc:subject>Lease</dc:subject><dc:subject>notice period</dc:subject>",
    ),
    "a.pdf": PDF.replace(b"/Author", b"/Keywords (Lease; notice period) /Author"),
}


@pytest.mark.parametrize("name", TAGGED)
def test_keywords_of_a_document_are_its_tags(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, TAGGED[name])).tags == "Lease, notice period"


@pytest.mark.parametrize(
    ("page", "codec", "title", "author"),
    [
        (-535, "utf-8", "Бюллетень", "Gábor Őri"),
        (1251, "cp1251", "Бюллетень", "Иван"),
        (1250, "cp1250", "Část", "Dvořák"),
        (1252, "cp1252", "“Pier”", "Zoë"),
        (10000, "mac_roman", "Übersicht", "José"),
        (932, "cp932", "港の計画", "ユーザー"),
        (850, "cp850", "Übersicht", "José"),
        (12345, "latin-1", "Señal", "Zoë"),
    ],
)
def test_an_old_office_file_names_the_code_page_of_its_title_and_author(
    tmp_path: Path, page: int, codec: str, title: str, author: str
) -> None:
    content = office.doc(more=office.summary(page, title.encode(codec), author.encode(codec)))
    document = only(opened(tmp_path, "a.doc", content))
    assert (document.title, document.author) == (title, author)


def test_the_first_of_several_titles_of_a_book_counts(tmp_path: Path) -> None:
    first = "<dc:title>Harbour plan</dc:title>"
    book = changed(
        office.epub(), "book.opf", first, f'{first}<dc:title id="t2">A guide for pilots</dc:title>'
    )
    document = only(opened(tmp_path, "a.epub", book))
    assert (document.title, document.author) == ("Harbour plan", "Ada Quay")
    assert [heading.title for heading in document.headings] == ["Pilots", "Moorings"]


@pytest.mark.parametrize("name", sorted(UNTITLED.keys() - {"a.ppt", "a.ods"}))
def test_a_document_without_a_title_is_called_as_its_file(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, UNTITLED[name])).title == "A"


@pytest.mark.parametrize("name", ["a.doc", "a.ppt"])
def test_sectors_that_are_used_and_not_there_do_no_harm(tmp_path: Path, name: str) -> None:
    content = bytearray(UNTITLED[name])
    table = 512 * (int.from_bytes(content[76:80], "little") + 1)
    content[table + 500 : table + 512] = b"\xfe\xff\xff\xff" * 3
    assert only(opened(tmp_path, name, bytes(content))) == only(
        opened(tmp_path, name, UNTITLED[name])
    )


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.pdf", "a.eml", "a.mhtml"])
def test_dates_are_the_documents_own(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, {**TITLED, **MAILS}[name])).created == CREATED


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("a.docx", "page 2"),
        ("a.pdf", "page 2"),
        ("a.pptx", "slide 2"),
        ("a.ppt", "slide 2"),
        ("a.odp", "slide 2"),
        ("a.xlsx", "sheet Pilots"),
        ("a.xls", "sheet Pilots"),
        ("a.ods", "sheet Pilots"),
    ],
)
def test_pages_slides_and_sheets_begin_where_they_do(
    tmp_path: Path, name: str, second: str
) -> None:
    document = only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name]))
    assert [page.name for page in document.pages][1:] == [second]
    start = document.pages[1].start
    assert "pelican" in document.text[:start]
    assert "heron" in document.text[start:]
    assert "pelican" not in document.text[start:]


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.epub", "a.pptx", "a.ppt", "a.odp"])
def test_headings_are_found(tmp_path: Path, name: str) -> None:
    titles = [
        heading.title
        for heading in only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name])).headings
    ]
    assert titles == ["Pilots", "Moorings"]


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.xls", "a.ods", "a.csv"])
def test_a_tables_rows_carry_the_names_of_its_columns(tmp_path: Path, name: str) -> None:
    text = only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name])).text
    berth = "North" if name == "a.docx" else "South pelican"
    assert "Berth | Depth\nBerth: " in text
    assert f"Berth: {berth} | Depth: " in text


def test_pages_without_text_in_between_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.pdf", office.pdf("The pelican.", "", "The heron."))[:1])
    assert [(page.number, document.text[page.start :][:9]) for page in document.pages] == [
        (1, "The pelic"),
        (3, "The heron"),
    ]


@pytest.mark.parametrize("stamp", ["", "Received 12 May"])
def test_pages_that_are_pictures_are_reported_beside_those_that_are_read(
    tmp_path: Path, stamp: str
) -> None:
    document, left = opened(
        tmp_path, "a.pdf", office.pdf("The pelican.", "", "", "The heron.", "", stamp=stamp)
    )
    assert isinstance(document, ReadDocument)
    assert isinstance(left, LeftOut)
    assert document.text.split("\n\n") == list(
        filter(None, ["The pelican.", stamp, stamp, "The heron.", stamp])
    )
    assert (left.member, left.state, left.kind) == ("pages 2-3, 5", "quarantined", "needs OCR")
    assert numbers(left.reason) == [3, 5]


def test_words_that_a_line_end_parts_are_put_together(tmp_path: Path) -> None:
    from engine.corpus.text.hyphens import join_split_words, mark_split_words

    lines = [
        mark_split_words("the har-\nbour and\nNorth-\nSouth  \n"),
        mark_split_words("12-\n13"),
        mark_split_words("soft\u00ad\nly"),
    ]
    assert join_split_words(lines) == ["the harbour\nand\nNorth-\nSouth", "12-13", "softly\n"]
    document = only(
        opened(
            tmp_path,
            "a.pdf",
            office.pdf("The har-\nbour and North-", "South of berth 12-", "13-", "x."),
        )
    )
    assert document.text == "The harbour and North-\n\nSouth of berth 12-\n\n13-\n\nx."
    assert [document.text[page.start :][:3] for page in document.pages] == [
        "The",
        "Sou",
        "13-",
        "x.",
    ]


def test_hyphens_that_end_a_line_go_where_they_part_a_word_and_stay_where_they_are_its_own(
    tmp_path: Path,
) -> None:
    lines = (
        "The har-",
        "bour is a site. The half-day trip by USB-",
        "stick ends a half-",
        "day later, by e-",
        "mail of COVID-",
        "19, and in North-",
        "South berths of a narrow inter-",
        "na-",
        "tional co-",
        "operation, of long-",
        "term plans (long plans of a term), and through cooperation.",
    )
    more = ("Of the art, the tri-", "umph, a brig-", "and like any brigand.")
    document = only(opened(tmp_path, "a.pdf", office.pdf("\n".join(lines), "\n".join(more))))
    assert (
        " ".join(document.text.split())
        == "The harbour is a site. The half-day trip by USB-stick ends a half-day later, by e-mail"
        " of COVID-19, and in North-South berths of a narrow international cooperation, of"
        " long-term plans (long plans of a term), and through cooperation. Of the art, the"
        " triumph, a brigand like any brigand."
    )


def test_what_looks_like_a_table_in_a_pdf_comes_once_and_on_its_page(tmp_path: Path) -> None:
    lines = (
        "Contract 4711 between Pelican Ltd and Heron Inc\nBody beta of the agreement stands"
        " here.\nSomething else.\n2"
    )
    document = only(opened(tmp_path, "a.pdf", office.pdf("One.", lines, "Three.")))
    assert document.text == f"One.\n\n{lines}\n\nThree."


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
        ("a.json", b"null", "empty"),
        ("a.zip", office.zipped({}), "empty"),
        ("a.mbox", b"no mail begins here", "damaged"),
    ],
)
def test_what_cannot_be_read_has_the_kind_of_its_reason(
    tmp_path: Path, name: str, content: bytes, kind: str
) -> None:
    with pytest.raises(UnreadableFileError) as error:
        opened(tmp_path, name, content)
    assert error.value.kind == kind
    assert error.value.why


def test_an_old_file_without_readable_text_is_not_called_empty(tmp_path: Path) -> None:
    with unreadable("empty") as old:
        opened(
            tmp_path,
            "a.doc",
            office.doc("\r\r"),
        )
    with unreadable("empty") as new:
        opened(
            tmp_path,
            "a.odp",
            changed(office.odp(), "content.xml", "draw:page", "draw:none"),
        )
    assert old.value.why != new.value.why


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
    found = opened(
        tmp_path, "a.zip", office.zipped({"mail/one.eml": inner, "b.txt": "The tern rests."})
    )
    read = {item.member: item.format for item in found if isinstance(item, ReadDocument)}
    assert read == {"mail/one.eml": "eml", "mail/one.eml/plan.docx": "docx", "b.txt": "txt"}
    (left,) = [item for item in found if isinstance(item, LeftOut)]
    assert (left.member, left.state, left.kind) == (
        "mail/one.eml/photo.png",
        "skipped",
        "needs OCR",
    )
    outlook = opened(
        tmp_path,
        "a.msg",
        office.msg({"plan.pdf": PDF}),
    )
    assert [(item.member, item.format) for item in outlook if isinstance(item, ReadDocument)] == [
        ("", "msg"),
        ("plan.pdf", "pdf"),
    ]
    box = opened(
        tmp_path, "a.mbox", office.mbox(office.eml(text="One."), office.eml({"a.txt": b"Two."}))
    )
    assert [item.member for item in box] == ["0001.eml", "0002.eml", "0002.eml/a.txt"]


def test_one_bad_member_leaves_the_others(tmp_path: Path) -> None:
    files = {
        "a.txt": "The tern.",
        "b.docx": office.docx()[:500],
        "c.pdf": office.locked_pdf(),
        "d.xyz": "?",
        "e.txt": "x",
    }
    found = opened(
        tmp_path,
        "a.zip",
        office.zipped(files),
    )
    assert [item.member for item in found] == list(files)
    assert [item.kind for item in found if isinstance(item, LeftOut)] == [
        "damaged",
        "encrypted",
        "unsupported",
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_attachments_of_one_name_are_distinguished_and_all_read(tmp_path: Path) -> None:
    from email.message import EmailMessage

    mail = EmailMessage()
    mail.set_content("Three of them.")
    for text in ("One.", "Two.", "Three."):
        mail.add_attachment(text, filename="note.txt")
    found = [
        *opened(tmp_path, "a.eml", mail.as_bytes())[1:],
        *opened(tmp_path, "a.zip", twice("a/note.txt", "One.", "Two.")),
    ]
    assert [
        (item.member, item.text.strip()) for item in found if isinstance(item, ReadDocument)
    ] == [
        ("note.txt", "One."),
        ("note (2).txt", "Two."),
        ("note (3).txt", "Three."),
        ("a/note.txt", "One."),
        ("a/note (2).txt", "Two."),
    ]


def twice(name: str, *contents: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for content in contents:
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def test_a_long_name_keeps_its_ending(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.zip", office.zipped({"n" * 300 + ".md": "# The pelican"})))
    assert (document.format, len(document.member), document.member[-5:]) == ("md", 200, "nn.md")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", b"# Notes\n\nA PDF file begins with %PDF-1.4. The pelican clause.\n"),
        ("c.txt", b"{\\rtf is how RTF begins. The pelican clause."),
        ("e.html", b"<p>%PDF-1.7 and the pelican clause</p>"),
        ("f.csv", b"mark;format\n%PDF-;PDF of the pelican\n"),
    ],
)
def test_a_text_about_another_format_is_a_text(
    tmp_path: Path,
    name: str,
    content: bytes,
) -> None:
    document = only(opened(tmp_path, name, content))
    assert document.format == ending_of(name)[1:]
    assert "pelican" in document.text
    assert "PDF" in document.text or "rtf" in document.text


def test_what_other_programs_write_under_the_names_of_office_files_is_read(tmp_path: Path) -> None:
    table = "Berth\tDepth\nNorth pelican\t12 m\n"
    for name, content, format in (
        ("a.xls", table.encode(), "csv"),
        ("b.xls", table.encode("utf-16"), "csv"),
        ("c.doc", office.MHTML, "mhtml"),
        ("d.doc", b"The pelican boards at dawn.", "txt"),
        ("e.xls", b"The pelican boards at dawn.", "csv"),
    ):
        document = only(opened(tmp_path, name, content))
        assert (document.format, "pelican" in document.text) == (format, True), name
