"""The contract of every format: what any reader of it must find. The files are written by hand (fixtures/office.py)."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.shown_numbers import numbers

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, UnreadableFileError
from engine.corpus.formats.opening import everything_in
from engine.corpus.scan.formats import FORMATS, ending_of

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


def test_of_several_titles_of_a_book_the_first_is_its_own(tmp_path: Path) -> None:
    first = "<dc:title>Harbour plan</dc:title>"
    book = changed(office.epub(), "book.opf", first, f'{first}<dc:title id="t2">A guide for pilots</dc:title>')
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
    assert only(opened(tmp_path, name, bytes(content))) == only(opened(tmp_path, name, UNTITLED[name]))


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.pdf", "a.eml", "a.mhtml"])
def test_dates_are_the_documents_own(tmp_path: Path, name: str) -> None:
    assert only(opened(tmp_path, name, {**TITLED, **MAILS}[name])).created == CREATED


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("a.docx", "page 2"), ("a.pdf", "page 2"), ("a.pptx", "slide 2"), ("a.ppt", "slide 2"), ("a.odp", "slide 2"),
        ("a.xlsx", "sheet Pilots"), ("a.xls", "sheet Pilots"), ("a.ods", "sheet Pilots"),
    ],
)  # fmt: skip
def test_pages_slides_and_sheets_begin_where_they_do(tmp_path: Path, name: str, second: str) -> None:
    document = only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name]))
    assert [page.name for page in document.pages][1:] == [second]
    start = document.pages[1].start
    assert "pelican" in document.text[:start]
    assert "heron" in document.text[start:]
    assert "pelican" not in document.text[start:]


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.epub", "a.pptx", "a.ppt", "a.odp"])
def test_headings_are_found(tmp_path: Path, name: str) -> None:
    titles = [heading.title for heading in only(opened(tmp_path, name, {**TITLED, **UNTITLED}[name])).headings]
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
def test_pages_that_are_pictures_are_reported_beside_those_that_are_read(tmp_path: Path, stamp: str) -> None:
    document, left = opened(tmp_path, "a.pdf", office.pdf("The pelican.", "", "", "The heron.", "", stamp=stamp))
    assert isinstance(document, ReadDocument)
    assert isinstance(left, LeftOut)
    assert document.text.split("\n\n") == list(filter(None, ["The pelican.", stamp, stamp, "The heron.", stamp]))
    assert (left.member, left.state, left.kind) == ("pages 2-3, 5", "quarantined", "needs OCR")
    assert numbers(left.reason) == [3, 5]


def test_words_that_a_line_end_parts_are_put_together(tmp_path: Path) -> None:
    from engine.corpus.text.hyphens import put_together, unwrapped

    lines = [unwrapped("the har-\nbour and\nNorth-\nSouth  \n"), unwrapped("12-\n13"), unwrapped("soft\u00ad\nly")]
    assert put_together(lines) == ["the harbour\nand\nNorth-\nSouth", "12-\n13", "softly\n"]
    document = only(
        opened(tmp_path, "a.pdf", office.pdf("The har-", "bour and North-", "South of berth 12-", "13-", "x."))
    )
    assert document.text == "The harbour\n\nand North-\n\nSouth of berth 12-\n\n13-\n\nx."
    assert [document.text[page.start :][:3] for page in document.pages] == ["The", "and", "Sou", "13-", "x."]


def test_hyphens_that_end_a_line_go_where_they_part_a_word_and_stay_where_they_are_its_own(tmp_path: Path) -> None:
    lines = (
        "The har-", "bour is a state-of-the-", "art site. Pilots are well-", "known; the half-day trip by USB-",
        "stick ends a half-", "day later, by e-", "mail of COVID-", "19, on the Berg-", "und Talbahn, and in North-",
        "South berths of a narrow inter-", "na-", "tional co-", "operation, of long-",
        "term plans (long plans of a term), and through cooperation.",
    )  # fmt: skip
    more = ("Of the art, the tri-", "umph, a mother-in-", "law, a brig-", "and like any brigand.")
    document = only(opened(tmp_path, "a.pdf", office.pdf("\n".join(lines), "\n".join(more))))
    assert " ".join(document.text.split()) == (
        "The harbour is a state-of-the-art site. Pilots are well-known; the half-day trip by USB-stick ends a half-day later, "
        "by e-mail of COVID-19, on the Berg- und Talbahn, and in North-South berths of a narrow international cooperation, of "
        "long-term plans (long plans of a term), and through cooperation. Of the art, the triumph, a mother-in-law, a brigand "
        "like any brigand."
    )


def test_what_looks_like_a_table_in_a_pdf_comes_once_and_on_its_page(tmp_path: Path) -> None:
    lines = (
        "Contract 4711 between Pelican Ltd and Heron Inc\nBody beta of the agreement stands here.\nSomething else.\n2"
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
        ("a.doc", office.WORDML, "unsupported"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_has_the_kind_of_its_reason(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    with pytest.raises(UnreadableFileError) as error:
        opened(tmp_path, name, content)
    assert error.value.kind == kind
    assert error.value.why


def test_of_an_old_file_it_is_not_claimed_that_it_holds_no_text(tmp_path: Path) -> None:
    with unreadable("empty") as old:
        opened(tmp_path, "a.doc", office.doc("\r\r"))
    with unreadable("empty") as new:
        opened(tmp_path, "a.odp", changed(office.odp(), "content.xml", "draw:page", "draw:none"))
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
    assert [(item.member, item.text.strip()) for item in found if isinstance(item, ReadDocument)] == [
        ("note.txt", "One."), ("note (2).txt", "Two."), ("note (3).txt", "Three."), ("a/note.txt", "One."),
        ("a/note (2).txt", "Two."),
    ]  # fmt: skip


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
        ("b.txt", b"%PDF-1.4 is how a PDF begins. The pelican clause."),
        ("c.txt", b"{\\rtf is how RTF begins. The pelican clause."),
        ("d.txt", b"{\\rtf1 is how RTF begins. The pelican clause."),
        ("e.html", b"<p>%PDF-1.7 and the pelican clause</p>"),
        ("f.csv", b"mark;format\n%PDF-;PDF of the pelican\n"),
    ],
)
def test_a_text_about_another_format_is_a_text(tmp_path: Path, name: str, content: bytes) -> None:
    document = only(opened(tmp_path, name, content))
    assert document.format == ending_of(name)[1:]
    assert "pelican" in document.text
    assert "PDF" in document.text or "rtf" in document.text


def test_what_other_programs_write_under_the_names_of_office_files_is_read(tmp_path: Path) -> None:
    table = "Berth\tDepth\nNorth pelican\t12 m\n"
    for name, content, format in (
        ("a.xls", table.encode(), "csv"), ("b.xls", table.encode("utf-16"), "csv"), ("c.doc", office.MHTML, "eml"),
    ):  # fmt: skip
        document = only(opened(tmp_path, name, content))
        assert (document.format, "pelican" in document.text) == (format, True), name


def changed(source: bytes, part: str, old: str, new: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files = {item: archive.read(item) for item in archive.namelist()}
    assert old.encode() in files[part]
    return office.zipped({**files, part: files[part].replace(old.encode(), new.encode())})


def test_old_word_files_are_read_as_they_are_printed(tmp_path: Path) -> None:
    text = "Non\x1ebreaking terns\r" + "The gull waits.\r" * 300 + "a soft\x1fhyphen, a half\x1eday.\r"
    wide = only(opened(tmp_path, "a.doc", office.doc(text))).text
    assert wide.startswith("Non-breaking terns")
    assert wide.endswith("a softhyphen, a half-day.")
    fields = "See \x13 REF \x13 PAGE \x14x\x15 \\h \x14page 3\x15, \x13 PAGE \x15or the rest.\rThe end.\r"
    assert only(opened(tmp_path, "c.doc", office.doc(fields))).text == "See page 3, or the rest.\n\nThe end."
    between = "\u1e61\u6100"  # the second byte of one letter and the first of the next look like such a hyphen
    assert only(opened(tmp_path, "b.doc", office.doc(f"{between}\x1e.\r"))).text == f"{between}-."


def test_numbers_in_sheets_are_reported_as_they_are_shown(tmp_path: Path) -> None:
    shown = [  # what the file holds, how it is formatted, what a reader sees
        ("0.15", "0%", "15%"), ("0.1536", "0.0%;[Red]-0.0%", "15.4%"), ("-0.07", "0.00%", "-7.00%"),
        ("1.5", "[h]:mm:ss", "36:00:00"), ("45292", "yyyy-mm-dd;@", "2024-01-01"), ("0.5208333333333333", "h:mm", "12:30:00"),
        ("45292.75", "dd.mm.yyyy hh:mm", "2024-01-01 18:00:00"), ("1234.5", "General", "1234.5"), ("0", "h:mm", "00:00:00"),
        ("0.0625", "[mm]:ss", "01:30:00"),
    ]  # fmt: skip
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    formats = "".join(
        f'<numFmt numFmtId="{200 + at}" formatCode="{code.replace(chr(34), "&quot;")}"/>'
        for at, (_, code, _) in enumerate(shown)
    )
    cells = "".join(f'<xf numFmtId="{200 + at}"/>' for at in range(len(shown)))
    styles = f'<styleSheet xmlns="{main}"><numFmts>{formats}</numFmts><cellXfs>{cells}<xf numFmtId="9"/></cellXfs></styleSheet>'
    values = [(number, str(at)) for at, (number, _, _) in enumerate(shown)] + [("0.2", str(len(shown)))]
    rows = "".join(
        f'<row r="{at}"><c r="A{at}" t="inlineStr"><is><t>v{at}</t></is></c><c r="B{at}" s="{style}"><f>1*A1</f>'
        f"<v>{number}</v></c></row>"
        for at, (number, style) in enumerate(values, 1)
    )
    text_cell = '<row r="99"><c r="A99" s="0" t="str"><v>0.3</v></c></row>'
    sheet = f'<worksheet xmlns="{main}"><sheetData>{rows}{text_cell}</sheetData></worksheet>'
    relation = f'<Relationship Id="r9" Type="{office.OFFICE}/styles" Target="styles.xml"/></Relationships>'
    book = with_parts(office.xlsx(), {"xl/worksheets/sheet1.xml": sheet, "xl/styles.xml": styles})
    book = changed(book, "xl/_rels/workbook.xml.rels", "</Relationships>", relation)
    text = only(opened(tmp_path, "a.xlsx", book)).text.partition("\n\nPilots")[0]
    reported = [f"v{at} | {seen}" for at, (_, _, seen) in enumerate(shown, 1)]
    assert text.split("\n")[2:] == [*reported, "v11 | 20%", "0.3"]
    from_1904 = changed(book, "xl/workbook.xml", "<sheets>", '<workbookPr date1904="1"/><sheets>')
    assert "v6 | 12:30:00\nv7 | 2028-01-02 18:00:00\n" in only(opened(tmp_path, "b.xlsx", from_1904)).text


@pytest.mark.parametrize(
    ("cell", "reported"),
    [
        ('"date" office:date-value="1960-01-01T00:01:39.99936"', "1960-01-01 00:01:39"),
        ('"date" office:date-value="2026-12-31T23:59:59.6"', "2026-12-31 23:59:59"),
        ('"date" office:date-value="2026-03-05T14:30:00"', "2026-03-05 14:30:00"),
        ('"date" office:date-value="2026-03-05"', "2026-03-05"),
        ('"time" office:time-value="PT14H30M00S"', "14:30:00"),
        ('"time" office:time-value="PT00H00M09.00288S"', "00:00:09"),
        ('"time" office:time-value="PT36H59M59.7S"', "36:59:59"),
    ],
)
def test_days_and_times_of_opendocument_sheets_are_reported_to_the_second(
    tmp_path: Path, cell: str, reported: str
) -> None:
    old = '<table:table-cell office:value-type="string"><text:p>9 m</text:p>'
    new = f'<table:table-cell office:value-type={cell} calcext:value-type="any"><text:p>as shown</text:p>'
    text = only(opened(tmp_path, "a.ods", changed(office.ods(), "content.xml", old, new))).text
    assert f"Berth: South pelican | Depth: {reported}\n" in text + "\n"


def test_tabs_and_hyphens_that_are_elements_part_and_join_words(tmp_path: Path) -> None:
    pieces = (
        "<w:t>Phone</w:t><w:tab/><w:t>tern</w:t><w:noBreakHyphen/><w:t>gull</w:t><w:cr/><w:t>har</w:t><w:softHyphen/>"
        '<w:t>bour</w:t><w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/><w:t> eider</w:t>'
        '<w:sym w:font="Symbol" w:char="03B1"/><w:t>-plan</w:t>'
    )
    old = "<w:t>The heron moors at noon.</w:t>"
    text = only(opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, pieces))).text
    assert text.endswith("Phone\ttern-gull\nharbour eider\u03b1-plan")
    spans = (
        'Phone<text:tab/>tern <text:s text:c="2"/>gull <text:span text:style-name="T1">eider<text:tab/>plover <text:s/>and'
        "<text:line-break/>curlew</text:span><text:soft-page-break/> <text:a>avo<text:span>cet</text:span>s</text:a>"
    )
    old = "The heron moors at noon."
    text = only(opened(tmp_path, "a.odt", changed(office.odt(), "content.xml", old, spans))).text
    assert text.endswith("Phone\ttern gull eider\tplover and\ncurlew avocets")
    source = office.RTF.replace(b"at noon", rb"a long\_term\~berth \\_ at noon")
    assert r"a long-term berth \_ at noon" in only(opened(tmp_path, "a.rtf", source)).text


def test_a_tag_ends_where_it_does_and_not_in_its_attributes(tmp_path: Path) -> None:
    link = '<text:a xmlns:xlink="x" xlink:href="http://pier/?a=1>2" text:name=\'b>"c\'>pelican</text:a> now'
    document = only(opened(tmp_path, "a.odt", changed(office.odt(), "content.xml", "pelican", link)))
    assert "The pelican now boards at dawn." in document.text


def test_a_chapter_with_entities_of_html_is_read_as_the_others_are(tmp_path: Path) -> None:
    source = changed(office.epub(), "a.xhtml", "The pelican boards", "The na&iuml;ve&nbsp;pelican &mdash; R&amp;D")
    text = only(opened(tmp_path, "a.epub", source)).text
    assert text.startswith("Pilots\n\nThe na\u00efve\u00a0pelican \u2014 R&D")


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.pptx", "a.xlsx", "a.epub"])
def test_signs_that_xml_writes_in_another_way_are_read(tmp_path: Path, name: str) -> None:
    parts = {
        "a.docx": "word/document.xml", "a.odt": "content.xml", "a.pptx": "ppt/slides/slide1.xml", "a.epub": "a.xhtml",
        "a.xlsx": "xl/worksheets/sheet1.xml",
    }  # fmt: skip
    pelican = "South pelican" if name == "a.xlsx" else "The pelican boards at dawn."
    reported = "R&amp;D, caf&#233;, &quot;x&#x2019;s&quot; &lt;b&gt; A&#65;"
    document = only(opened(tmp_path, name, changed(TITLED[name], parts[name], pelican, f"{reported} pelican")))
    assert 'R&D, caf\u00e9, "x\u2019s" <b> AA pelican' in document.text


WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
DRAWN = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def with_parts(source: bytes, parts: dict[str, str], *, emptied: bool = False) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files = {item: archive.read(item) for item in archive.namelist()}
    for part in ("word/document.xml", "xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml"):
        if part in files and emptied:
            files[part] = re.sub(rb"<w:t>[^<]*</w:t>|<t>[^<]*</t>|<v>[^<]*</v>", b"", files[part])
    return office.zipped({**files, **parts})


@pytest.mark.parametrize("emptied", [True, False])
def test_the_text_of_a_chart_a_drawing_or_embedded_html_is_found(tmp_path: Path, emptied: bool) -> None:
    drawing = f"<x {DRAWN}><a:p><a:r><a:t>The ter</a:t></a:r><a:r><a:t>n.</a:t></a:r></a:p></x>"
    chart = (
        '<c:x xmlns:c="urn:c"><c:pt><c:v>Wharves</c:v></c:pt><c:pt><c:v>4.2999999999999998</c:v></c:pt>'
        "<c:pt><c:v>Wharves</c:v></c:pt></c:x>"
    )
    for name, source, part, content, text in (
        ("a.xlsx", office.xlsx(), "xl/drawings/drawing1.xml", drawing, "The tern."),
        ("b.docx", office.docx(), "word/charts/chart1.xml", chart, "Wharves\n4.3"),
        ("c.docx", office.docx(), "word/afchunk.htm", "<p>The gull.</p>", "The gull."),
        ("d.pptx", office.pptx(), "ppt/diagrams/data1.xml", drawing, "The tern."),
    ):
        found = only(opened(tmp_path, name, with_parts(source, {part: content}, emptied=emptied)))
        assert found.text.endswith(text), (name, found)
        assert found.text.count(text) == 1
        beside = [page.name for page in found.pages if found.text[page.start :] == text]
        assert beside == ["beside the text"] or not found.pages, name


def test_comments_notes_headers_and_footers_of_a_word_file_are_found_once(tmp_path: Path) -> None:
    def part(root: str, *paragraphs: str) -> str:
        inner = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
        inner = f'<w:{root[:-1]} w:id="2">{inner}</w:{root[:-1]}>' if root in ("comments", "endnotes") else inner
        return f"<w:{root} {WORD}>{inner}</w:{root}>"

    parts = {
        "word/comments.xml": part("comments", "Is this so?"),
        "word/header1.xml": part("hdr", "Contract 4711"),
        "word/header2.xml": part("hdr", "Contract 4711"),
        "word/footer1.xml": part("ftr", "The heron moors"),
        "word/endnotes.xml": part("endnotes", "Of terns."),
    }
    kinds = {
        "comments": "comments",
        "header1": "header",
        "header2": "header",
        "footer1": "footer",
        "endnotes": "endnotes",
    }
    related = "".join(
        f'<Relationship Id="{part}" Type="{office.OFFICE}/{kind}" Target="{part}.xml"/>' for part, kind in kinds.items()
    )
    shown = "".join(
        f'<w:{kind}Reference w:type="{type}" r:id="{part}" xmlns:r="{office.OFFICE}"/>'
        for part, kind, type in (
            ("header1", "header", "default"),
            ("header2", "header", "first"),
            ("footer1", "footer", "default"),
        )
    )
    source = changed(office.docx(), "word/_rels/document.xml.rels", "</Relationships>", f"{related}</Relationships>")
    source = changed(source, "word/document.xml", "</w:body>", f"<w:sectPr>{shown}</w:sectPr></w:body>")
    text = only(opened(tmp_path, "a.docx", with_parts(source, parts))).text
    for words in (
        "Of terns.",
        "Is this so?",
        "Contract 4711",
        "The heron moors at noon.",
        "The pelican boards at dawn.",
    ):
        assert text.count(words) == 1


def test_headers_and_footers_of_a_sheet_are_found_without_their_fields(tmp_path: Path) -> None:
    margins = (
        '<headerFooter><oddHeader>&amp;L&amp;"-,Bold"&amp;12KYC &amp;&amp; file&amp;CFor terns &amp;D&amp;RDraft'
        "</oddHeader><oddFooter>&amp;KFF0000Page &amp;P of &amp;N&amp;R&amp;F</oddFooter></headerFooter></worksheet>"
    )
    source = changed(office.xlsx(), "xl/worksheets/sheet2.xml", "</worksheet>", margins)
    assert only(opened(tmp_path, "a.xlsx", source)).text.endswith("The heron\n\nKYC & file\nFor terns\nDraft")


def test_what_stands_on_the_master_of_slides_is_found(tmp_path: Path) -> None:
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for short, name in (("style", "style"), ("text", "text"), ("draw", "drawing"), ("presentation", "presentation"))
    )
    styles = (
        f'<x {names}><style:master-page style:name="Used"><draw:frame><text:p>Port authority</text:p></draw:frame>'
        '<draw:frame presentation:placeholder="true"><text:p>Click here</text:p></draw:frame><draw:frame><text:p>'
        "<text:page-number>1</text:page-number></text:p></draw:frame><presentation:notes><text:p>Notes</text:p>"
        '</presentation:notes></style:master-page><style:master-page style:name="Other"><text:p>Unused</text:p>'
        "</style:master-page></x>"
    )
    source = changed(
        office.odp(), "content.xml", 'draw:name="Pilots"', 'draw:name="Pilots" draw:master-page-name="Used"'
    )
    found = only(opened(tmp_path, "a.odp", with_parts(source, {"styles.xml": styles})))
    assert "Port authority" in found.text
    assert [page.name for page in found.pages] == ["slide 1", "slide 2"]
    plain = only(opened(tmp_path, "a.odp", office.odp()))
    assert only(opened(tmp_path, "a.odp", with_parts(office.odp(), {"styles.xml": "<x"}))) == plain


def test_the_numbers_of_a_sheet_come_once_where_a_chart_shows_them(tmp_path: Path) -> None:
    reported = "3.141592653589793"
    chart = (
        '<c:x xmlns:c="urn:c"><c:tx><c:strCache><c:pt><c:v>Wharves</c:v></c:pt></c:strCache></c:tx><c:val><c:numCache>'
        f"<c:pt><c:v>{reported}</c:v></c:pt></c:numCache></c:val></c:x>"
    )
    parts = {"xl/charts/chart1.xml": chart}
    row, end = f'<row r="9"><c r="A9"><v>{reported}</v></c></row>', "</sheetData>"
    source = changed(with_parts(office.xlsx(), parts), "xl/worksheets/sheet1.xml", end, row + end)
    document = only(opened(tmp_path, "a.xlsx", source))
    assert reported in document.text
    assert document.text[document.pages[-1].start :] == "Wharves"


def test_a_paragraph_with_a_formula_is_reported_once(tmp_path: Path) -> None:
    formula = (
        '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>E=mc</m:t></m:r><m:sSup>'
        "<m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
    )
    old, begin, end = "The heron moors at noon.", '<w:r><w:t xml:space="preserve">', "</w:t></w:r>"
    new = f"{old} Where {end}{formula}{begin} holds for terns."
    text = only(opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, new))).text
    assert "E=mcx2" in text
    assert [text.count(words) for words in (old, "E=mc", "holds for terns", "beside")] == [1, 1, 1, 0]


def test_what_a_speaker_notes_on_a_slide_is_read_with_it(tmp_path: Path) -> None:
    names = 'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"'
    frame = "<draw:frame><draw:text-box><text:p>Mention the tern.</text:p></draw:text-box></draw:frame>"
    old = "</draw:page><draw:page"
    notes = f"<presentation:notes {names}>{frame}</presentation:notes>{old}"
    document = only(opened(tmp_path, "a.odp", changed(office.odp(), "content.xml", old, notes)))
    assert "The pelican boards at dawn.\n\nNotes:\nMention the tern.\n\nMoorings" in document.text
    assert [heading.title for heading in document.headings] == ["Pilots", "Moorings"]


def test_text_that_is_boxed_inside_a_paragraph_is_found(tmp_path: Path) -> None:
    box = '<w:pict><v:textpath xmlns:v="urn:schemas-microsoft-com:vml" string="Wordy tern"/></w:pict>'
    old = "<w:t>The heron moors at noon.</w:t>"
    text = only(opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, old + box))).text
    assert text.endswith("The heron moors at noon.Wordy tern")
    note = "<office:annotation><dc:creator>Ada</dc:creator><text:p>The tern?</text:p></office:annotation>"
    for name, source in (("a.odt", office.odt()),):
        old = "pelican"
        found = only(opened(tmp_path, name, changed(source, "content.xml", old, f"{old}{note}"))).text
        assert found.count("The tern?") == 1, (name, found)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("docm", "ms-word.document.macroEnabled"), ("dotx", "openxmlformats-officedocument.wordprocessingml.template"),
        ("dotm", "ms-word.template.macroEnabledTemplate"), ("pptm", "ms-powerpoint.presentation.macroEnabled"),
        ("ppsx", "openxmlformats-officedocument.presentationml.slideshow"), ("ppsm", "ms-powerpoint.slideshow.macroEnabled"),
        ("potx", "openxmlformats-officedocument.presentationml.template"), ("potm", "ms-powerpoint.template.macroEnabled"),
        ("xlsm", "ms-excel.sheet.macroEnabled"), ("xltx", "openxmlformats-officedocument.spreadsheetml.template"),
        ("xltm", "ms-excel.template.macroEnabled"),
    ],
)  # fmt: skip
def test_files_with_macros_and_templates_are_read_as_the_others(tmp_path: Path, ending: str, kind: str) -> None:
    plain = {"d": "docx", "p": "pptx", "x": "xlsx"}[ending[0]]
    of_old = {"d": "wordprocessingml.document", "p": "presentationml.presentation", "x": "spreadsheetml.sheet"}[
        ending[0]
    ]
    source = TITLED[f"a.{plain}"]
    other = changed(source, "[Content_Types].xml", f"openxmlformats-officedocument.{of_old}.main", f"{kind}.main")
    document = only(opened(tmp_path, f"a.{ending}", other))
    assert document.text == only(opened(tmp_path, f"a.{plain}", source)).text
    assert (document.format, document.title) == (plain, "Harbour plan")


def test_words_of_which_a_part_is_formatted_stay_whole_on_slides(tmp_path: Path) -> None:
    runs = (
        'The p</a:t></a:r><a:r><a:rPr b="1"/><a:t>eli</a:t></a:r><a:r><a:rPr><a:solidFill><a:srgbClr val="FF0000"/></a:solidFill>'
        "</a:rPr><a:t>can PHX</a:t></a:r>\n<a:r>\n<a:rPr/>\n<a:t>-121</a:t></a:r><a:br/><a:r><a:t>boards"
    )
    source = changed(office.pptx(), "ppt/slides/slide1.xml", "The pelican boards", runs)
    text = only(opened(tmp_path, "a.pptx", source)).text
    assert text.split("\n\n")[1].split() == ["The", "pelican", "PHX-121", "boards", "at", "dawn."]
    assert text.count("PHX") == 1


@pytest.mark.parametrize("inside", [True, False])
def test_words_between_which_a_page_ends_are_two(tmp_path: Path, inside: bool) -> None:
    ends = '<w:br w:type="page"/>' if inside else '</w:r><w:r><w:br w:type="page" w:clear="all"/></w:r><w:r>'
    old = "<w:t>The pelican boards at dawn.</w:t>"
    source = changed(office.docx(), "word/document.xml", old, f"<w:t>The pelican</w:t>{ends}<w:t>boards.</w:t>")
    found = only(opened(tmp_path, "a.docx", source))
    assert found.text.split("\n\n")[1:3] == ["The pelican", "boards."]
    assert [page.number for page in found.pages] == list(range(1, len(found.pages) + 1))


def test_terms_and_tables_of_a_book_are_read(tmp_path: Path) -> None:
    reported = (
        '<dl class="x"><dt>Pelican</dt><dd><p>A <b>large</b> bird</p></dd></dl>'
        "<table><tr><th>Berth</th><th>Depth</th></tr>"
        "<tr><td>North</td><td>12</td></tr></table>"
    )
    source = changed(office.epub(), "a.xhtml", "<p>The pelican boards at dawn.</p>", reported)
    text = only(opened(tmp_path, "a.epub", source)).text
    assert text.split("\n\n")[1:3] == [
        "Pelican: A large bird",
        "Berth | Depth\nBerth: North | Depth: 12",
    ]
