"""Parts of office files beside their text: charts, drawings, comments, notes, headers and
footers, masters, formulas, boxes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office
from fixtures.read_files import TITLED, changed, only, opened, with_parts

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


DRAWN = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


@pytest.mark.parametrize("emptied", [True, False])
def test_the_text_of_a_chart_a_drawing_or_embedded_html_is_found(
    tmp_path: Path, emptied: bool
) -> None:
    drawing = f"<x {DRAWN}><a:p><a:r><a:t>The ter</a:t></a:r><a:r><a:t>n.</a:t></a:r></a:p></x>"
    chart = (
        '<c:x xmlns:c="urn:c"><c:pt><c:v>Wharves</c:v></c:pt><c:pt><c:v>4.2999999999999998</c:v></c:pt>'  # noqa: E501
        "<c:pt><c:v>Wharves</c:v></c:pt></c:x>"
    )
    waterfall = (
        '<cx:chartSpace xmlns:cx="urn:cx" xmlns:a="urn:a"><cx:pt idx="0">Wharves</cx:pt>'
        "<cx:tx><cx:v>Dues</cx:v></cx:tx><a:p><a:r><a:t>Income</a:t></a:r></a:p></cx:chartSpace>"
    )
    for name, source, part, content, text in (
        ("e.pptx", office.pptx(), "ppt/charts/chartEx1.xml", waterfall, "Wharves\nDues\nIncome"),
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
        if root in ("comments", "endnotes"):
            inner = f'<w:{root[:-1]} w:id="2">{inner}</w:{root[:-1]}>'
        else:
            inner = inner
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
        f'<Relationship Id="{part}" Type="{office.OFFICE}/{kind}" Target="{part}.xml"/>'
        for part, kind in kinds.items()
    )
    shown = "".join(
        f'<w:{kind}Reference w:type="{type}" r:id="{part}" xmlns:r="{office.OFFICE}"/>'
        for part, kind, type in (
            ("header1", "header", "default"),
            ("header2", "header", "first"),
            ("footer1", "footer", "default"),
        )
    )
    source = changed(
        office.docx(),
        "word/_rels/document.xml.rels",
        "</Relationships>",
        f"{related}</Relationships>",
    )
    source = changed(
        source, "word/document.xml", "</w:body>", f"<w:sectPr>{shown}</w:sectPr></w:body>"
    )
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
        '<headerFooter><oddHeader>&amp;L&amp;"-,Bold"&amp;12KYC &amp;&amp; file&amp;CFor terns'
        " &amp;D&amp;RDraft</oddHeader><oddFooter>&amp;KFF0000Page &amp;P of"
        " &amp;N&amp;R&amp;F</oddFooter></headerFooter></worksheet>"
    )
    source = changed(
        office.xlsx(),
        "xl/worksheets/sheet2.xml",
        "</worksheet>",
        margins,
    )
    assert only(opened(tmp_path, "a.xlsx", source)).text.endswith(
        "The heron\n\nKYC & file\nFor terns\nDraft"
    )


def test_what_stands_on_the_master_of_slides_is_found(tmp_path: Path) -> None:
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for short, name in (
            ("style", "style"),
            ("text", "text"),
            ("draw", "drawing"),
            ("presentation", "presentation"),
        )
    )
    styles = (
        f'<x {names}><style:master-page style:name="Used"><draw:frame><text:p>Port'
        ' authority</text:p></draw:frame><draw:frame presentation:placeholder="true"><text:p>Click'
        " here</text:p></draw:frame><draw:frame><text:p><text:page-number>1</text:page-number></text:p></draw:frame><presentation:notes><text:p>Notes</text:p></presentation:notes></style:master-page><style:master-page"  # noqa: E501
        ' style:name="Other"><text:p>Unused</text:p></style:master-page></x>'
    )
    source = changed(
        office.odp(),
        "content.xml",
        'draw:name="Pilots"',
        'draw:name="Pilots" draw:master-page-name="Used"',
    )
    found = only(opened(tmp_path, "a.odp", with_parts(source, {"styles.xml": styles})))
    assert "Port authority" in found.text
    assert [page.name for page in found.pages] == ["slide 1", "slide 2"]
    plain = only(opened(tmp_path, "a.odp", office.odp()))
    assert only(opened(tmp_path, "a.odp", with_parts(office.odp(), {"styles.xml": "<x"}))) == plain


def test_the_numbers_of_a_sheet_come_once_where_a_chart_shows_them(tmp_path: Path) -> None:
    reported = "3.141592653589793"
    chart = (
        '<c:x xmlns:c="urn:c"><c:tx><c:strCache><c:pt><c:v>Wharves</c:v></c:pt></c:strCache></c:tx><c:val><c:numCache>'  # noqa: E501
        f"<c:pt><c:v>{reported}</c:v></c:pt></c:numCache></c:val></c:x>"
    )
    parts = {"xl/charts/chart1.xml": chart}
    row = f'<row r="9"><c r="A9"><v>{reported}</v></c></row>'
    end = "</sheetData>"
    source = changed(
        with_parts(office.xlsx(), parts),
        "xl/worksheets/sheet1.xml",
        end,
        row + end,
    )
    document = only(opened(tmp_path, "a.xlsx", source))
    assert document.text.count("3.14159") == 1
    assert document.text[document.pages[-1].start :] == "Wharves"


def test_a_paragraph_with_a_formula_is_reported_once(tmp_path: Path) -> None:
    formula = (
        "<m:oMath"
        ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>E=mc</m:t></m:r><m:sSup>'
        "<m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
    )
    old = "The heron moors at noon."
    begin = '<w:r><w:t xml:space="preserve">'
    end = "</w:t></w:r>"
    new = f"{old} Where {end}{formula}{begin} holds for terns."
    text = only(
        opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, new))
    ).text
    assert "E=mcx^2" in text
    assert [text.count(words) for words in (old, "E=mc", "holds for terns", "beside")] == [
        1,
        1,
        1,
        0,
    ]


def test_what_a_speaker_notes_on_a_slide_is_read_with_it(tmp_path: Path) -> None:
    names = 'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"'
    frame = (
        "<draw:frame><draw:text-box><text:p>Mention the tern.</text:p></draw:text-box></draw:frame>"
    )
    old = "</draw:page><draw:page"
    notes = f"<presentation:notes {names}>{frame}</presentation:notes>{old}"
    document = only(opened(tmp_path, "a.odp", changed(office.odp(), "content.xml", old, notes)))
    assert "The pelican boards at dawn.\n\nNotes:\nMention the tern.\n\nMoorings" in document.text
    assert [heading.title for heading in document.headings] == ["Pilots", "Moorings"]


def test_text_that_is_boxed_inside_a_paragraph_is_found(tmp_path: Path) -> None:
    box = (
        '<w:pict><v:textpath xmlns:v="urn:schemas-microsoft-com:vml" string="Wordy tern"/></w:pict>'
    )
    old = "<w:t>The heron moors at noon.</w:t>"
    text = only(
        opened(tmp_path, "a.docx", changed(office.docx(), "word/document.xml", old, old + box))
    ).text
    assert text.endswith("The heron moors at noon.Wordy tern")
    note = (
        "<office:annotation><dc:creator>Ada</dc:creator><text:p>The"
        " tern?</text:p></office:annotation>"
    )
    for name, source in (("a.odt", office.odt()),):
        old = "pelican"
        found = only(
            opened(tmp_path, name, changed(source, "content.xml", old, f"{old}{note}"))
        ).text
        assert found.count("The tern?") == 1, (name, found)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("docm", "ms-word.document.macroEnabled"),
        ("dotx", "openxmlformats-officedocument.wordprocessingml.template"),
        ("dotm", "ms-word.template.macroEnabledTemplate"),
        ("pptm", "ms-powerpoint.presentation.macroEnabled"),
        ("ppsx", "openxmlformats-officedocument.presentationml.slideshow"),
        ("ppsm", "ms-powerpoint.slideshow.macroEnabled"),
        ("potx", "openxmlformats-officedocument.presentationml.template"),
        ("potm", "ms-powerpoint.template.macroEnabled"),
        ("xlsm", "ms-excel.sheet.macroEnabled"),
        ("xltx", "openxmlformats-officedocument.spreadsheetml.template"),
        ("xltm", "ms-excel.template.macroEnabled"),
    ],
)
def test_files_with_macros_and_templates_are_read_as_the_others(
    tmp_path: Path, ending: str, kind: str
) -> None:
    plain = {"d": "docx", "p": "pptx", "x": "xlsx"}[ending[0]]
    of_old = {
        "d": "wordprocessingml.document",
        "p": "presentationml.presentation",
        "x": "spreadsheetml.sheet",
    }[ending[0]]
    source = TITLED[f"a.{plain}"]
    other = changed(
        source,
        "[Content_Types].xml",
        f"openxmlformats-officedocument.{of_old}.main",
        f"{kind}.main",
    )
    document = only(opened(tmp_path, f"a.{ending}", other))
    assert document.text == only(opened(tmp_path, f"a.{plain}", source)).text
    assert (document.format, document.title) == (plain, "Harbour plan")


def test_words_of_which_a_part_is_formatted_stay_whole_on_slides(tmp_path: Path) -> None:
    runs = (
        "The p</a:t></a:r><a:r><a:rPr"
        ' b="1"/><a:t>eli</a:t></a:r><a:r><a:rPr><a:solidFill><a:srgbClr'
        ' val="FF0000"/></a:solidFill></a:rPr><a:t>can'
        " PHX</a:t></a:r>\n<a:r>\n<a:rPr/>\n<a:t>-121</a:t></a:r><a:br/><a:r><a:t>boards"
    )
    source = changed(
        office.pptx(),
        "ppt/slides/slide1.xml",
        "The pelican boards",
        runs,
    )
    text = only(opened(tmp_path, "a.pptx", source)).text
    assert text.split("\n\n")[1].split() == ["The", "pelican", "PHX-121", "boards", "at", "dawn."]
    assert text.count("PHX") == 1


@pytest.mark.parametrize("inside", [True, False])
def test_words_between_which_a_page_ends_are_two(tmp_path: Path, inside: bool) -> None:
    if inside:
        ends = '<w:br w:type="page"/>'
    else:
        ends = '</w:r><w:r><w:br w:type="page" w:clear="all"/></w:r><w:r>'
    old = "<w:t>The pelican boards at dawn.</w:t>"
    source = changed(
        office.docx(), "word/document.xml", old, f"<w:t>The pelican</w:t>{ends}<w:t>boards.</w:t>"
    )
    found = only(opened(tmp_path, "a.docx", source))
    assert found.text.split("\n\n")[1:3] == ["The pelican", "boards."]
    assert [page.number for page in found.pages] == list(range(1, len(found.pages) + 1))


def test_terms_and_tables_of_a_book_are_read(tmp_path: Path) -> None:
    reported = (
        '<dl class="x"><dt>Pelican</dt><dd><p>A <b>large</b> bird</p></dd></dl>'
        "<table><tr><th>Berth</th><th>Depth</th></tr>"
        "<tr><td>North</td><td>12</td></tr></table>"
    )
    source = changed(
        office.epub(),
        "a.xhtml",
        "<p>The pelican boards at dawn.</p>",
        reported,
    )
    text = only(opened(tmp_path, "a.epub", source)).text
    assert text.split("\n\n")[1:3] == [
        "Pelican: A large bird",
        "Berth | Depth\nBerth: North | Depth: 12",
    ]


def test_captions_in_a_book_are_read_and_furigana_do_not_split_words(tmp_path: Path) -> None:
    reported = (
        '<figure class="a"><img src="x.png" alt=""/><figcaption>Fig. 3: a <b>jib</b></figcaption>'
        "</figure><table>\n<caption>Loads of the jib</caption><tr><td>Pipe</td><td>40 kg</td></tr>"
        "</table><p><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp></ruby>京</p>"
    )
    source = changed(
        office.epub(),
        "a.xhtml",
        "<p>The pelican boards at dawn.</p>",
        reported,
    )
    text = only(opened(tmp_path, "a.epub", source)).text
    assert text.split("\n\n")[1:5] == ["Fig. 3: a jib", "Loads of the jib", "Pipe | 40 kg", "東京"]


def test_fractions_are_divided_and_furigana_keep_the_characters_below_them(tmp_path: Path) -> None:
    fraction = (
        '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:f><m:num>'
        "<m:r><m:t>load</m:t></m:r></m:num><m:den><m:r><m:t>area</m:t></m:r></m:den></m:f></m:oMath>"
    )
    ruby = (
        "<w:r><w:rPr><w:b/></w:rPr><w:ruby><w:rubyPr/><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt>"
        "<w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    )
    old = "The heron moors at noon."
    new = f"{old}</w:t></w:r>{fraction}{ruby}<w:r><w:t>港"
    source = changed(
        office.docx(),
        "word/document.xml",
        old,
        new,
    )
    assert only(opened(tmp_path, "a.docx", source)).text.endswith(f"{old}load/area東京港")


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        (
            "a.fodt",
            "<office:text><text:p>The <text:span>peli</text:span>can.</text:p></office:text>",
            "The pelican.\n\nContract",
        ),
        (
            "a.fods",
            '<office:spreadsheet><table:table table:name="Dues"><table:table-row><table:table-cell'
            ' office:value-type="float" office:value="12.5"><text:p>12.50 €</text:p>'
            "</table:table-cell></table:table-row></table:table></office:spreadsheet>",
            "Dues\n\n12.50 €",
        ),
        (
            "a.fodp",
            "<office:presentation><draw:page><draw:g><draw:custom-shape><text:p>Tern</text:p>"
            "</draw:custom-shape></draw:g></draw:page></office:presentation>",
            "Tern\n\nContract",
        ),
        ("b.odt", "<office:text><text:p>Renamed.</text:p></office:text>", "Renamed.\n\nContract"),
    ],
)
def test_opendocument_in_a_single_file_is_read(
    tmp_path: Path, name: str, body: str, text: str
) -> None:
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"'
        for name, kind in {
            "office": "office",
            "text": "text",
            "table": "table",
            "draw": "drawing",
            "style": "style",
            "meta": "meta",
        }.items()
    )
    meta = '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">Harbour plan</dc:title>'
    header = "<style:header><text:p>Contract</text:p></style:header>"
    content = (
        f'<?xml version="1.0"?>\n<office:document {names}><office:meta>{meta}</office:meta>'
        f"<office:master-styles><style:master-page>{header}</style:master-page>"
        f"</office:master-styles><office:body>{body}</office:body></office:document>"
    )
    for encoding in ("utf-8", "utf-8-sig"):
        document = only(opened(tmp_path, name, content.encode(encoding)))
        assert (document.title, document.text) == ("Harbour plan", text)
