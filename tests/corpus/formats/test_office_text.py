"""The text of office files as it is shown: numbers, dates, tabs, hyphens, signs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office
from fixtures.read_files import TITLED, changed, only, opened, with_parts


def test_old_word_files_are_read_as_they_are_printed(tmp_path: Path) -> None:
    text = (
        "Non\x1ebreaking terns\r" + "The gull waits.\r" * 300 + "a soft\x1fhyphen, a half\x1eday.\r"
    )
    wide = only(opened(tmp_path, "a.doc", office.doc(text))).text
    assert wide.startswith("Non-breaking terns")
    assert wide.endswith("a softhyphen, a half-day.")
    fields = (
        "See \x13 REF \x13 PAGE \x14x\x15 \\h \x14page 3\x15, \x13 PAGE \x15or the rest.\rThe"
        " end.\r"
    )
    assert (
        only(opened(tmp_path, "c.doc", office.doc(fields))).text
        == "See page 3, or the rest.\n\nThe end."
    )
    between = (  # the second byte of one letter and the first of the next look like such a hyphen
        "\u1e61\u6100"
    )
    assert only(opened(tmp_path, "b.doc", office.doc(f"{between}\x1e.\r"))).text == f"{between}-."


def test_numbers_in_sheets_are_reported_as_they_are_shown(tmp_path: Path) -> None:
    shown = [  # what the file holds, how it is formatted, what a reader sees
        ("0.15", "0%", "15%"),
        ("0.1536", "0.0%;[Red]-0.0%", "15.4%"),
        ("-0.07", "0.00%", "-7.00%"),
        ("1.5", "[h]:mm:ss", "36:00:00"),
        ("45292", "yyyy-mm-dd;@", "2024-01-01"),
        ("0.5208333333333333", "h:mm", "12:30"),
        ("45292.75", "dd.mm.yyyy hh:mm", "01.01.2024 18:00"),
        ("1234.5", "General", "1234.5"),
        ("0", "h:mm", "0:00"),
        ("0.0625", "[mm]:ss", "90:00"),
    ]
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    formats = "".join(
        f'<numFmt numFmtId="{200 + at}" formatCode="{code.replace(chr(34), "&quot;")}"/>'
        for at, (_, code, _) in enumerate(shown)
    )
    cells = "".join(f'<xf numFmtId="{200 + at}"/>' for at in range(len(shown)))
    styles = (
        f'<styleSheet xmlns="{main}"><numFmts>{formats}</numFmts><cellXfs>{cells}<xf'
        ' numFmtId="9"/></cellXfs></styleSheet>'
    )
    values = [(number, str(at)) for at, (number, _, _) in enumerate(shown)] + [
        ("0.2", str(len(shown)))
    ]
    rows = "".join(
        f'<row r="{at}"><c r="A{at}" t="inlineStr"><is><t>v{at}</t></is></c><c r="B{at}"'
        f' s="{style}"><f>1*A1</f><v>{number}</v></c></row>'
        for at, (number, style) in enumerate(values, 1)
    )
    text_cell = '<row r="99"><c r="A99" s="0" t="str"><v>0.3</v></c></row>'
    sheet = f'<worksheet xmlns="{main}"><sheetData>{rows}{text_cell}</sheetData></worksheet>'
    relation = (
        f'<Relationship Id="r9" Type="{office.OFFICE}/styles" Target="styles.xml"/></Relationships>'
    )
    book = with_parts(office.xlsx(), {"xl/worksheets/sheet1.xml": sheet, "xl/styles.xml": styles})
    book = changed(
        book,
        "xl/_rels/workbook.xml.rels",
        "</Relationships>",
        relation,
    )
    text = only(opened(tmp_path, "a.xlsx", book)).text.partition("\n\nPilots")[0]
    reported = [f"v{at} | {seen}" for at, (_, _, seen) in enumerate(shown, 1)]
    assert text.split("\n")[2:] == [*reported, "v11 | 20%", "0.3"]
    from_1904 = changed(
        book,
        "xl/workbook.xml",
        "<sheets>",
        '<workbookPr date1904="1"/><sheets>',
    )
    assert "v6 | 12:30\nv7 | 02.01.2028 18:00\n" in only(opened(tmp_path, "b.xlsx", from_1904)).text


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
def test_days_and_times_of_opendocument_sheets_that_show_no_text_are_reported_to_the_second(
    tmp_path: Path, cell: str, reported: str
) -> None:
    old = '<table:table-cell office:value-type="string"><text:p>9 m</text:p>'
    new = f'<table:table-cell office:value-type={cell} calcext:value-type="any">'
    text = only(opened(tmp_path, "a.ods", changed(office.ods(), "content.xml", old, new))).text
    assert f"Berth: South pelican | Depth: {reported}\n" in text + "\n"


def test_tabs_and_hyphens_that_are_elements_part_and_join_words(tmp_path: Path) -> None:
    pieces = (
        "<w:t>Phone</w:t><w:tab/><w:t>tern</w:t><w:noBreakHyphen/><w:t>gull</w:t><w:cr/><w:t>har</w:t><w:softHyphen/><w:t>bour</w:t><w:ptab"
        ' w:relativeTo="margin" w:alignment="right" w:leader="none"/><w:t> eider</w:t><w:sym'
        ' w:font="Symbol" w:char="03B1"/><w:t>-plan</w:t>'
    )
    old = "<w:t>The heron moors at noon.</w:t>"
    text = only(
        opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, pieces))
    ).text
    assert text.endswith("Phone\ttern-gull\nharbour\t eider\u03b1-plan")
    spans = (
        'Phone<text:tab/>tern <text:s text:c="2"/>gull <text:span'
        ' text:style-name="T1">eider<text:tab/>plover'
        " <text:s/>and<text:line-break/>curlew</text:span><text:soft-page-break/>"
        " <text:a>avo<text:span>cet</text:span>s</text:a>"
    )
    old = "The heron moors at noon."
    text = only(opened(tmp_path, "a.odt", changed(office.odt(), "content.xml", old, spans))).text
    assert text.endswith("Phone\ttern gull eider\tplover and\ncurlew avocets")
    source = office.RTF.replace(b"at noon", rb"a long\_term\~berth \\_ at noon")
    assert r"a long-term berth \_ at noon" in only(opened(tmp_path, "a.rtf", source)).text


@pytest.mark.parametrize("end", ["?", r"\'3f", "??"])
def test_signs_of_two_halves_in_rtf(tmp_path: Path, end: str) -> None:
    pair = rf"\u-10179{end}\u-8704{end}"
    body = (
        rf"{{\rtf1\uc{len(end) if chr(39) not in end else 1}"
        rf" x\u8364{end}{pair}\u55357{end}\u56832{end}\u8364{end}{pair} y}}"
    )
    assert "x€😀😀€😀 y" in only(opened(tmp_path, "a.rtf", body.encode())).text


@pytest.mark.parametrize(
    ("page", "written", "title"),
    [
        ("1251", r"\'cc\'e5\'f2\'ee\'e4 2", "Метод 2"),
        ("1252", r"Pr\'fcfbericht", "Prüfbericht"),
        ("1252", r"\u1052\'3f\u1086?x \u-10179?\u-8704?", "Моx 😀"),
        ("99999", r"Pr\'fcfung", "Prüfung"),
        ("1252", r"odd \u55357? end", "odd \ufffd end"),
    ],
)
def test_title_and_author_of_rtf_are_shown_in_letters(
    tmp_path: Path, page: str, written: str, title: str
) -> None:
    source = (
        rf"{{\rtf1\ansi\ansicpg{page}{{\info{{\title {written}}}{{\author {written}}}}}The pelican"
        r" boards. }"
    )
    document = only(opened(tmp_path, "a.rtf", source.encode()))
    assert document.author == title
    if "\ufffd" not in title:  # then the file's name is better
        assert document.title == title


def test_a_tag_ends_where_it_does_and_not_in_its_attributes(tmp_path: Path) -> None:
    link = (
        '<text:a xmlns:xlink="x" xlink:href="http://pier/?a=1>2"'
        " text:name='b>\"c'>pelican</text:a> now"
    )
    document = only(
        opened(tmp_path, "a.odt", changed(office.odt(), "content.xml", "pelican", link))
    )
    assert "The pelican now boards at dawn." in document.text


def test_a_chapter_with_entities_of_html_is_read_as_the_others_are(tmp_path: Path) -> None:
    source = changed(
        office.epub(),
        "a.xhtml",
        "The pelican boards",
        "The na&iuml;ve&nbsp;pelican &mdash; R&amp;D",
    )
    text = only(opened(tmp_path, "a.epub", source)).text
    assert text.startswith("Pilots\n\nThe na\u00efve\u00a0pelican \u2014 R&D")


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.pptx", "a.xlsx", "a.epub"])
def test_signs_that_xml_writes_in_another_way_are_read(tmp_path: Path, name: str) -> None:
    parts = {
        "a.docx": "word/document.xml",
        "a.odt": "content.xml",
        "a.pptx": "ppt/slides/slide1.xml",
        "a.epub": "a.xhtml",
        "a.xlsx": "xl/worksheets/sheet1.xml",
    }
    if name == "a.xlsx":
        pelican = "South pelican"
    else:
        pelican = "The pelican boards at dawn."
    reported = "R&amp;D, caf&#233;, &quot;x&#x2019;s&quot; &lt;b&gt; A&#65;"
    document = only(
        opened(tmp_path, name, changed(TITLED[name], parts[name], pelican, f"{reported} pelican"))
    )
    assert 'R&D, caf\u00e9, "x\u2019s" <b> AA pelican' in document.text


@pytest.mark.parametrize("nested", [False, True])
def test_text_boxes_in_a_paragraph_are_read_once_behind_it(tmp_path: Path, nested: bool) -> None:
    """As LibreOffice writes captions."""
    drawing = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    inner = "<text:p>Figure 1: a mole</text:p><text:p>by Ada</text:p>"
    box = f"<draw:frame {drawing}><draw:text-box>{inner}</draw:text-box></draw:frame>"
    if nested:
        box = (
            f"<draw:frame {drawing}><draw:text-box><text:p>{box}</text:p></draw:text-box>"
            "</draw:frame>"
        )
    content = changed(
        office.odt(),
        "content.xml",
        "The pelican",
        f"The {box}pelican",
    )
    text = only(opened(tmp_path, "a.odt", content)).text
    paragraphs = [part for part in text.split("\n\n") if part]
    assert paragraphs[1:4] == ["The pelican boards at dawn.", "Figure 1: a mole", "by Ada"]
    assert (text.count("mole"), text.count("Ada")) == (1, 1)


def test_furigana_are_no_part_of_the_word_below_them(tmp_path: Path) -> None:
    ruby = (
        "<text:ruby><text:ruby-base>東</text:ruby-base>"
        '<text:ruby-text text:style-name="R">とう</text:ruby-text></text:ruby>京'
    )
    content = changed(
        office.odt(),
        "content.xml",
        "The pelican",
        f"{ruby} pelican",
    )
    assert "東京 pelican" in only(opened(tmp_path, "a.odt", content)).text


def test_several_text_boxes_in_a_paragraph_keep_their_order(tmp_path: Path) -> None:
    drawing = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'

    def box(*paragraphs: str) -> str:
        inner = "".join(f"<text:p>{paragraph}</text:p>" for paragraph in paragraphs)
        return f"<draw:frame {drawing}><draw:text-box>{inner}</draw:text-box></draw:frame>"

    boxes = box("Figure 1", "by Ada" + box("in 2031")) + box("Figure 2", "by Bo") + box("Figure 3")
    content = changed(
        office.odt(),
        "content.xml",
        "The pelican",
        f"The {boxes}pelican",
    )
    text = only(opened(tmp_path, "a.odt", content)).text
    paragraphs = [part for part in text.split("\n\n") if part]
    assert paragraphs[1:8] == [
        "The pelican boards at dawn.",
        "Figure 1",
        "by Ada",
        "in 2031",
        "Figure 2",
        "by Bo",
        "Figure 3",
    ]


@pytest.mark.parametrize("shape", ["custom-shape", "rect", "connector", "caption"])
def test_text_of_shapes_on_a_slide_is_read(tmp_path: Path, shape: str) -> None:
    drawing = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    drawn = f"<draw:{shape} {drawing}><text:p>A <text:span>tern</text:span></text:p></draw:{shape}>"
    drawn += f"<draw:g {drawing}>{drawn.replace('tern', 'gull')}</draw:g>"
    empty = f"<draw:{shape} {drawing}><text:p/></draw:{shape}>"
    source = changed(
        office.odp(),
        "content.xml",
        "</draw:page>",
        f"{drawn}{empty}</draw:page>",
    )
    text = only(opened(tmp_path, "a.odp", source)).text
    assert (text.count("A tern"), text.count("A gull")) == (2, 2)


def test_shapes_in_a_paragraph_do_not_run_together(tmp_path: Path) -> None:
    drawing = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    shapes = "".join(
        f"<draw:custom-shape {drawing}><text:p>{bird}</text:p></draw:custom-shape>"
        for bird in ("tern", "gull")
    )
    source = changed(
        office.odt(),
        "content.xml",
        "The pelican",
        f"The {shapes}pelican",
    )
    paragraphs = only(opened(tmp_path, "a.odt", source)).text.split("\n\n")
    assert paragraphs[1:4] == ["The pelican boards at dawn.", "tern", "gull"]


def test_a_drawing_is_read_as_a_slide(tmp_path: Path) -> None:
    source = changed(
        office.odp(),
        "content.xml",
        "office:presentation",
        "office:drawing",
    )
    source = changed(
        source,
        "mimetype",
        "presentation",
        "graphics",
    )
    document = only(opened(tmp_path, "a.odg", source))
    assert "The pelican boards at dawn." in document.text
    assert document.format == "odp"


def test_an_alignment_tab_parts_words(tmp_path: Path) -> None:
    """As Word puts one between the author and the page number of a footer."""
    tab = '</w:t><w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/><w:t>'
    source = changed(
        office.docx(),
        "word/document.xml",
        "The pelican",
        f"The{tab}pelican",
    )
    assert "The\tpelican boards" in only(opened(tmp_path, "a.docx", source)).text
