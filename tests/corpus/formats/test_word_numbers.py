"""Numbers that Word counts stand before headings, clauses and list items."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.word_numbers import write_numbers

OFFICE = Path(__file__).resolve().parents[4] / "shared" / "data" / "office"
NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def level(
    at: int,
    text: str,
    figures: str = "decimal",
    *,
    start: int = 1,
    more: str = "",
) -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt'
        f' w:val="{figures}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbering(*lists: str, nums: str = "") -> str:
    reported = "".join(
        f'<w:abstractNum w:abstractNumId="{at}">{one}</w:abstractNum>'
        for at, one in enumerate(lists)
    )
    named = nums or "".join(
        f'<w:num w:numId="{at + 1}"><w:abstractNumId w:val="{at}"/></w:num>'
        for at in range(len(lists))
    )
    return f"<w:numbering {NAMESPACE}>{reported}{named}</w:numbering>"


CLAUSES = level(0, "%1.") + level(1, "%1.%2") + level(2, "(%3)", "lowerLetter")


def paragraph(
    text: str,
    at: int | None = None,
    number: int = 1,
    style: str = "",
) -> str:
    if at is None:
        named = ""
    else:
        named = f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>'
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    if named or styled:
        properties = f"<w:pPr>{styled}{named}</w:pPr>"
    else:
        properties = ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(
    body: str,
    lists: str,
    styles: str = "",
) -> bytes:
    with zipfile.ZipFile(io.BytesIO(office.docx())) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    files["word/document.xml"] = f"<w:document {NAMESPACE}><w:body>{body}</w:body></w:document>"
    files["word/numbering.xml"] = lists
    if styles:
        files["word/styles.xml"] = f"<w:styles {NAMESPACE}>{styles}</w:styles>"
    return office.zipped(files)


def read(
    tmp_path: Path,
    *paragraphs: str,
    lists: str,
    styles: str = "",
) -> ReadDocument:
    (tmp_path / "a.docx").write_bytes(docx("".join(paragraphs), lists, styles))
    (document,) = read_everything(tmp_path / "a.docx", "docx")
    assert isinstance(document, ReadDocument)
    return document


def numbered(content: bytes) -> bytes | None:
    """The document's part with numbers; None where it has none."""
    package = zipfile.ZipFile(io.BytesIO(content))
    part = package.read("word/document.xml")
    changed = write_numbers(part, package)
    return None if changed == part else changed


def reported(
    tmp_path: Path,
    *paragraphs: str,
    lists: str,
) -> list[str]:
    return read(tmp_path, *paragraphs, lists=lists).text.split("\n\n")


def test_clauses_are_reported_with_their_numbers(tmp_path: Path) -> None:
    body = [
        paragraph("Term", 0),
        paragraph("It begins.", 1),
        paragraph("It ends.", 1),
        paragraph("at noon", 2),
        paragraph("at dawn", 2),
        paragraph("Between"),
        paragraph("Notice", 0),
        paragraph("By mail.", 1),
        paragraph("to Ada", 2),
    ]
    assert reported(tmp_path, *body, lists=numbering(CLAUSES)) == [
        "1. Term",
        "1.1 It begins.",
        "1.2 It ends.",
        "(a) at noon",
        "(b) at dawn",
        "Between",
        "2. Notice",
        "2.1 By mail.",
        "(a) to Ada",
    ]


def test_parts_that_word_for_the_web_has_saved_again_are_found(tmp_path: Path) -> None:
    symbol = '<w:p><w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r></w:p>'
    content = docx(
        paragraph("Term", 0) + symbol,
        numbering(CLAUSES),
        "",
    )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    renamed = {}
    for name, part in files.items():
        for stem in ("document", "numbering", "styles"):
            part = part.replace(f"{stem}.xml".encode(), f"{stem}2.xml".encode())
            name = name.replace(f"{stem}.xml", f"{stem}2.xml")
        renamed[name] = part
    (tmp_path / "a.docx").write_bytes(office.zipped(renamed))
    (document,) = read_everything(tmp_path / "a.docx", "docx")
    assert isinstance(document, ReadDocument)
    assert document.text == "1. Term\n\n☑"


def test_headings_have_the_numbers_of_their_styles(tmp_path: Path) -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading'
        ' 1"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr><w:outlineLvl'
        ' w:val="0"/></w:pPr></w:style><w:style w:type="paragraph" w:styleId="Heading2"><w:name'
        ' w:val="heading 2"/><w:basedOn w:val="Heading1"/><w:pPr><w:numPr><w:ilvl'
        ' w:val="1"/></w:numPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
    )
    body = [
        paragraph("Scope", style="Heading1"),
        paragraph("Ports", style="Heading2"),
        paragraph("Text."),
        paragraph("Piers", style="Heading2"),
        paragraph("Unnumbered", 0, 0, style="Heading1"),
        paragraph("Fees", style="Heading1"),
    ]
    document = read(
        tmp_path,
        *body,
        lists=numbering(CLAUSES),
        styles=styles,
    )
    assert [heading.title for heading in document.headings] == [
        "1. Scope",
        "1.1 Ports",
        "1.2 Piers",
        "Unnumbered",
        "2. Fees",
    ]


@pytest.mark.parametrize(
    ("figures", "numbers"),
    [
        ("decimalZero", ["09", "10"]),
        ("upperRoman", ["IX", "X"]),
        ("lowerRoman", ["ix", "x"]),
        ("upperLetter", ["I", "J"]),
        ("lowerLetter", ["i", "j"]),
        ("ideographDigital", ["9", "10"]),
    ],
)
def test_figures_of_every_kind(
    tmp_path: Path,
    figures: str,
    numbers: list[str],
) -> None:
    lists = numbering(level(0, "%1)", figures, start=9))
    assert reported(tmp_path, paragraph("a", 0), paragraph("b", 0), lists=lists) == [
        f"{numbers[0]}) a",
        f"{numbers[1]}) b",
    ]


def test_letters_are_doubled_after_z(tmp_path: Path) -> None:
    lists = numbering(level(0, "%1", "lowerLetter", start=26))
    assert reported(tmp_path, *(paragraph("x", 0) for _ in range(3)), lists=lists) == [
        "z x",
        "aa x",
        "bb x",
    ]


def test_legal_numbers_are_decimal_and_levels_restart_where_they_are_to(tmp_path: Path) -> None:
    lists = numbering(
        level(0, "%1", "upperRoman")
        + level(1, "%1.%2", more="<w:isLgl/>")
        + level(2, "%3", more='<w:lvlRestart w:val="1"/>')
    )
    body = [
        paragraph("a", 0),
        paragraph("b", 1),
        paragraph("c", 2),
        paragraph("d", 1),
        paragraph("e", 2),
        paragraph("f", 0),
        paragraph("g", 2),
    ]
    assert reported(tmp_path, *body, lists=lists) == [
        "I a",
        "1.1 b",
        "1 c",
        "1.2 d",
        "2 e",
        "II f",
        "1 g",
    ]


def test_lists_that_share_a_definition_continue_unless_a_start_is_given(
    tmp_path: Path,
) -> None:
    anew = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    other = f'<w:lvlOverride w:ilvl="0">{level(0, "Art. %1", "upperRoman")}</w:lvlOverride>'
    nums = "".join(
        f'<w:num w:numId="{at}"><w:abstractNumId w:val="0"/>{more}</w:num>'
        for at, more in enumerate(("", "", anew, other), 1)
    )
    body = [
        paragraph("a", 0, 1),
        paragraph("b", 0, 2),
        paragraph("c", 0, 3),
        paragraph("d", 0, 3),
        paragraph("e", 0, 4),
    ]
    assert reported(tmp_path, *body, lists=numbering(level(0, "%1."), nums=nums)) == [
        "1. a",
        "2. b",
        "7. c",
        "8. d",
        "Art. IX e",
    ]


def test_bullets_stay_as_they_are_reported(tmp_path: Path) -> None:
    bullets = numbering(level(0, "\u2022", "bullet"))
    content = docx(paragraph("a", 0) + paragraph("b", 0), bullets)
    assert numbered(content) is None
    both = numbering(level(0, "\u2022", "bullet") + level(1, "%2."))
    assert reported(tmp_path, paragraph("a", 0), paragraph("b", 1), lists=both) == ["- a", "1. b"]


def test_deleted_paragraphs_are_not_counted_and_reformatted_ones_only_once(
    tmp_path: Path,
) -> None:
    before = '<w:pPr><w:numPr><w:ilvl w:val="2"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    changed = f'<w:pPrChange w:id="1" w:author="A">{before}</w:pPrChange>'
    gone = '<w:rPr><w:del w:id="2" w:author="A"/></w:rPr>'
    body = [
        paragraph("Term", 0).replace("</w:pPr>", changed + "</w:pPr>"),
        paragraph("", 0).replace("</w:pPr>", gone + "</w:pPr>"),
        paragraph("Notice", 0),
    ]
    assert reported(tmp_path, *body, lists=numbering(CLAUSES)) == ["1. Term", "2. Notice"]


def test_lists_of_a_list_style_count_as_the_style_does(tmp_path: Path) -> None:
    lists = numbering(
        '<w:numStyleLink w:val="Clauses"/>', '<w:styleLink w:val="Clauses"/>' + CLAUSES
    )
    assert reported(tmp_path, paragraph("Term", 0), paragraph("It begins.", 1), lists=lists) == [
        "1. Term",
        "1.1 It begins.",
    ]


def test_a_style_without_a_level_is_of_the_level_that_names_it(tmp_path: Path) -> None:
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/>'
        '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        for name in ("Title1", "Clause2", "Other")
    )
    lists = numbering(level(0, "%1.") + level(1, "%1.%2", more='<w:pStyle w:val="Clause2"/>'))
    body = [
        paragraph("Term", style="Title1"),
        paragraph("It begins.", style="Clause2"),
        paragraph("Notice", style="Other"),
    ]
    assert read(tmp_path, *body, lists=lists, styles=styles).text.split("\n\n") == [
        "1. Term",
        "1.1 It begins.",
        "2. Notice",
    ]


@pytest.mark.parametrize(
    "lists",
    [
        "<w:numbering",
        f"<w:numbering {NAMESPACE}/>",
        numbering(level(12, "%1") + level(0, "%1")),
        numbering(level(1, "%1.%9")),
        numbering(level(0, "%1", start=99999999)),
        numbering(nums='<w:num w:numId="1"/>'),
    ],
)
def test_lists_that_are_damaged_cost_no_text(tmp_path: Path, lists: str) -> None:
    text = read(
        tmp_path,
        paragraph("The pelican.", 0),
        paragraph("The heron.", 8),
        paragraph("The tern.", 1, 99),
        lists=lists,
    ).text
    for word in ("pelican", "heron", "tern"):
        assert word in text


def test_properties_that_never_end_take_no_long_time() -> None:
    content = docx("<w:p><w:pPr><w:numPr>" * 50_000, numbering(CLAUSES))
    assert numbered(content) is None


def test_many_styles_take_no_long_time() -> None:
    body = "".join(paragraph("x", style=f"S{number}") for number in range(50_000))
    sheet = (
        '<w:style w:styleId="T"><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        + "<w:x/>" * 200_000
    )
    content = docx(
        body,
        numbering(CLAUSES),
        sheet,
    )
    assert numbered(content) is None


@pytest.mark.shared
@pytest.mark.skipif(not OFFICE.is_dir(), reason="the shared data sets are missing")
def test_real_lists_are_reported_as_their_paragraphs_say() -> None:
    """The paragraphs of this file say what number Word shows before them; `1st` counts as 1."""
    document = next(
        iter(read_everything(OFFICE / "tika" / "testWORD_override_list_numbering.docx", "docx"))
    )
    assert isinstance(document, ReadDocument)
    lines = [
        line.split() for line in document.text.split("\n") if line and not line.startswith("Test")
    ]
    differ = [words for words in lines if len(words) != 2 or words[0] != words[1]]
    assert (len(lines), len(differ)) == (44, 14)
    assert all(re.search(r"\d(?:st|nd|rd|th)", words[1]) or words[0] == "-" for words in differ)
