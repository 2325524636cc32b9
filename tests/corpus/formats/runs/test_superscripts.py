"""Superscripts are characters of their own, so that they hide no word and make no other number."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.text_runs import doc, docx, read, rtf, run

from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.runs.superscripts import write_superscript

SHARED = (
    Path(__file__).resolve().parents[5]
    / "shared"
    / "data"
    / "faults"
    / "03-footnote-marks"
    / "docs"
)


@pytest.mark.parametrize(
    ("before", "raised", "shown"),
    [
        ("warranty", "1", "¹"),
        ("warranty", "12)", "¹²⁾"),
        ("warranty", "1, 2", "¹, ²"),
        ("warranty", "*", "*"),
        ("warranty", "a", "ᵃ"),
        ("warranty", "(b)", "⁽ᵇ⁾"),
        ("warranty", " 1 ", " ¹ "),
        ("warranty", "note", " note"),
        ("warranty", "[3]", "[3]"),
        ("10", "-6", "⁻⁶"),
        ("m", "2", "²"),
        ("1", "st", "st"),
        ("M", "me", "me"),
        ("XVIII", "e", "e"),
        ("Excel", "TM", "™"),
        ("", "12 May", "12 May"),
        ("x", " ", " "),
    ],
)
def test_what_a_raised_text_is_written_as(
    before: str,
    raised: str,
    shown: str,
) -> None:
    assert write_superscript(raised, before) == shown


def raised(text: str) -> str:
    return f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{text}</w:t></w:r>'


def test_superscripts_of_word(tmp_path: Path) -> None:
    body = f"<w:p>{run('The sure')}{run('ty')}{raised('1')}{run(' covers 10')}{raised('6')}{run(' on the 1')}{raised('st')}</w:p>"  # noqa: E501
    assert read(tmp_path / "a.docx", docx(body)) == "The surety¹ covers 10⁶ on the 1st"


def test_a_style_may_raise_text(tmp_path: Path) -> None:
    styles = (
        '<w:style w:type="character" w:styleId="Mark"><w:rPr><w:vertAlign'
        ' w:val="superscript"/></w:rPr></w:style>'
    )
    body = f"<w:p>{run('surety')}{run('2', style='Mark')}</w:p>"
    assert read(tmp_path / "a.docx", docx(body, styles)) == "surety²"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ('<w:position w:val="6"/>', "surety¹"),
        ('<w:vertAlign w:val="baseline"/><w:position w:val="10"/>', "surety¹"),
        ('<w:position w:val="-6"/>', "surety1"),
        ('<w:position w:val="2"/>', "surety1"),
        ('<w:vertAlign w:val="subscript"/><w:position w:val="6"/>', "surety1"),
    ],
)
def test_a_position_may_raise_text(
    tmp_path: Path,
    properties: str,
    text: str,
) -> None:
    body = f"<w:p>{run('surety')}<w:r><w:rPr>{properties}</w:rPr><w:t>1</w:t></w:r></w:p>"
    assert read(tmp_path / "a.docx", docx(body)) == text


@pytest.mark.parametrize(
    ("style", "text"), [("Mark", "surety²"), ("Derived", "surety²"), ("Level", "surety2")]
)
def test_a_style_may_raise_text_by_its_position(
    tmp_path: Path,
    style: str,
    text: str,
) -> None:
    lifted = '<w:rPr><w:position w:val="8"/></w:rPr>'
    level = '<w:rPr><w:position w:val="0"/></w:rPr>'
    based = '<w:basedOn w:val="Mark"/>'
    styles = "".join(
        f'<w:style w:type="character" w:styleId="{name}">{content}</w:style>'
        for name, content in (("Mark", lifted), ("Derived", based), ("Level", based + level))
    )
    body = f"<w:p>{run('surety')}{run('2', style=style)}</w:p>"
    assert read(tmp_path / "a.docx", docx(body, styles)) == text


RAISED = struct.pack("<HB", 0x2A48, 1)
LOWERED = struct.pack("<HB", 0x2A48, 2)
LIFTED = struct.pack("<Hh", 0x4845, 6)


@pytest.mark.parametrize("width", [1, 2])
def test_superscripts_of_word_97(tmp_path: Path, width: int) -> None:
    text = "surety1 10-6 H2O bond5 Mme box\r"
    runs = [
        (6, 7, RAISED),
        (10, 12, RAISED),
        (14, 15, LOWERED),
        (21, 22, LIFTED),
        (24, 26, RAISED),
    ]
    assert read(tmp_path / "a.doc", doc(text, runs, width)) == "surety¹ 10⁻⁶ H2O bond⁵ Mme box"


def test_superscripts_of_cells(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.xlsx())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    runs = (
        "<is><r><t>South berth</t></r>"
        '<r><rPr><vertAlign val="superscript"/><sz val="8"/></rPr><t>1)</t></r>'
        '<r><t xml:space="preserve"> 10</t></r>'
        '<r><rPr><vertAlign val="superscript"/></rPr><t>6</t></r></is>'
    )
    name = "xl/worksheets/sheet1.xml"
    sheet = files[name].decode().replace("<is><t>South pelican</t></is>", runs)
    text = read(tmp_path / "a.xlsx", office.zipped({**files, name: sheet}))
    assert "South berth¹⁾ 10⁶" in text


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ('baseline="30000"', "pelican¹ boards"),
        ('baseline="30%"', "pelican¹ boards"),
        ('baseline="-25%"', "pelican1 boards"),
        ('baseline="0%"', "pelican1 boards"),
    ],
)
def test_superscripts_of_powerpoint(
    tmp_path: Path,
    properties: str,
    text: str,
) -> None:
    with zipfile.ZipFile(io.BytesIO(office.pptx())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    runs = (
        f"pelican</a:t></a:r><a:r><a:rPr {properties}/><a:t>1</a:t></a:r><a:r><a:t> boards at"
        " dawn.</a:t></a:r>"
    )
    slide = (
        files["ppt/slides/slide1.xml"].decode().replace("pelican boards at dawn.</a:t></a:r>", runs)
    )
    assert text in read(
        tmp_path / "a.pptx", office.zipped({**files, "ppt/slides/slide1.xml": slide})
    )


@pytest.mark.parametrize(
    "mark",
    [
        "<sup>1</sup>",
        # Pandoc leaves raising the mark to the style sheet.
        '<a href="#n" epub:type="noteref">1</a>',
        '<a role="doc-noteref" href="#n">1</a>',
        '<sup class="x"><a href="#n" role="doc-noteref">1</a></sup>',
    ],
)
def test_superscripts_of_epub(tmp_path: Path, mark: str) -> None:
    with zipfile.ZipFile(io.BytesIO(office.epub())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    changed = {
        name: content.replace(b"The pelican", f"Über <b>peli</b>can{mark}".encode())
        for name, content in files.items()
    }
    assert "Über pelican¹ boards" in read(tmp_path / "a.epub", office.zipped(changed))


ODF_STYLE = 'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'


def with_raised_span(
    source: bytes, position: str, span: str = "1", *, in_styles: str = ""
) -> bytes:
    """An OpenDocument file with a span after `pelican` whose style has a position.

    The style `T1` is in the content, or based on one in `styles.xml`, which then is the one with
    the position.
    """
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    own = f'<style:text-properties style:text-position="{position}"/>'
    parent = ""
    if in_styles:
        style = f'<style:style style:name="{in_styles}">{own}</style:style>'
        files["styles.xml"] = f"<styles {ODF_STYLE}>{style}</styles>"
        parent = f' style:parent-style-name="{in_styles}"'
        own = ""
    style = (
        f'<office:automatic-styles><style:style {ODF_STYLE} style:name="T1" style:family="text"'
        f"{parent}>{own}</style:style></office:automatic-styles><office:body>"
    )
    body = files["content.xml"]
    assert isinstance(body, bytes)
    content = body.decode().replace("<office:body>", style)
    content = content.replace(
        "pelican", f'pelican<text:span text:style-name="T1">{span}</text:span>'
    )
    return office.zipped({**files, "content.xml": content})


@pytest.mark.parametrize(
    ("position", "text"),
    [
        ("super 58%", "The pelican¹ boards"),
        ("33% 58%", "The pelican¹ boards"),
        ("33%", "The pelican¹ boards"),
        ("-33% 58%", "The pelican1 boards"),
        ("sub 58%", "The pelican1 boards"),
        ("0% 100%", "The pelican1 boards"),
    ],
)
def test_superscripts_of_open_document(
    tmp_path: Path,
    position: str,
    text: str,
) -> None:
    assert text in read(tmp_path / "a.odt", with_raised_span(office.odt(), position))


@pytest.mark.parametrize(
    "span", ["<text:span>1</text:span>", '<text:a text:style-name="Link">1</text:a>']
)
def test_raised_text_may_be_in_a_span_within(tmp_path: Path, span: str) -> None:
    content = with_raised_span(
        office.odt(),
        "super 58%",
        span,
    )
    assert "The pelican¹ boards" in read(tmp_path / "a.odt", content)


def test_a_named_style_of_open_document_may_raise_text(tmp_path: Path) -> None:
    content = with_raised_span(
        office.odt(),
        "super 58%",
        in_styles="Mark",
    )
    assert "The pelican¹ boards" in read(tmp_path / "a.odt", content)


def test_superscripts_of_open_sheets_and_slides(tmp_path: Path) -> None:
    sheet = with_raised_span(office.ods(), "super 58%")
    slides = with_raised_span(office.odp(), "super 58%")
    assert "South pelican¹" in read(tmp_path / "a.ods", sheet)
    assert "The pelican¹ boards" in read(tmp_path / "a.odp", slides)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("Quay<text:tab/>side", "Quay side"),
        ("Quay<text:s/>side", "Quay side"),
        ('Quay <text:s text:c="3"/>side', "Quay side"),
        ("Quay<text:s></text:s>side", "Quay side"),
        ("Quay<text:line-break/>side", "Quay side"),
        ("Quay<text:span><text:tab/></text:span>side", "Quay side"),
        ("Quay</text:p><text:p>side", "Quay side"),
        ("Quay<text:span>side</text:span>", "Quayside"),
    ],
)
@pytest.mark.parametrize("name", ["a.ods", "a.odt", "a.odp"])
def test_blanks_of_open_document_part_words(
    tmp_path: Path, name: str, written: str, text: str
) -> None:
    source = {"a.ods": office.ods, "a.odt": office.odt, "a.odp": office.odp}[name]()
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    body = files["content.xml"]
    assert isinstance(body, bytes)
    content = body.decode().replace("The heron", written)
    shown = read(tmp_path / name, office.zipped({**files, "content.xml": content}))
    assert text in " ".join(shown.split())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("surety<sup>1</sup> and H<sub>2</sub>O", "surety¹ and H2O"),
        ("surety<sup><a href='#1'>1</a></sup>", "surety¹"),
        ("loan<span style='vertical-align: super'>2)</span>", "loan²⁾"),
        ("loan<span style='vertical-align:4px'>2</span>", "loan²"),
        ("loan<span style='vertical-align:0.4em;font-size:70%'>2</span>", "loan²"),
        ("loan<font style='VERTICAL-ALIGN: SUPER' size=1>2</font>", "loan²"),
        ("loan<span class='small mark'>2</span>", "loan²"),
        ("loan<span class='note'>2</span>", "loan2"),
        ("loan<span style='vertical-align:-4px'>2</span>", "loan2"),
        ("<table><tr><td style='vertical-align:text-top'>1</td></tr></table>", "1"),
        ("10<sup>-6</sup> on the 1<sup>st</sup>", "10⁻⁶ on the 1st"),
        ("<table><tr><td>Price<sup>1</sup></td><td>9</td></tr></table>", "Price¹ | 9"),
    ],
)
def test_superscripts_of_web_pages(
    tmp_path: Path,
    page: str,
    text: str,
) -> None:
    style = "<style>@media print {.mark{vertical-align:super}} .note{color:red}</style>"
    assert read(tmp_path / "a.html", f"{style}<p>{page}</p>".encode()) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"surety{\super 1} covers", "surety¹ covers"),
        (rb"surety\super 12\nosupersub  covers", "surety¹² covers"),
        (rb"surety{\up6 2)} covers", "surety²⁾ covers"),
        (rb"H{\sub 2}O on the 1{\super st}", "H2O on the 1st"),
    ],
)
def test_superscripts_of_rtf(
    tmp_path: Path,
    written: bytes,
    text: str,
) -> None:
    assert read(tmp_path / "a.rtf", rtf(written)) == text


def pdf(drawn: str) -> str:
    content = office.pdf("The pelican.").replace(b"(The pelican.) Tj", drawn.encode())
    length = content.index(b"endstream") - content.index(b"stream\n") - len("stream\n\n")
    path = Path("a.pdf")
    (document,) = everything_in_bytes(content.replace(b"/Length 47", b"/Length %d" % length), path)
    return document.text


def everything_in_bytes(content: bytes, path: Path) -> list[ReadDocument]:
    from engine.corpus.formats.pdf import READER

    return [found for found in READER.read(path, content) if isinstance(found, ReadDocument)]


def test_superscripts_of_pdf() -> None:
    drawn = (
        "(The surety) Tj /F1 7 Tf 4 Ts (1) Tj /F1 12 Tf 0 Ts ( covers ) Tj (10) Tj /F1 7 Tf 4 Ts"
        " (6) Tj /F1 12 Tf 0 Ts ( cells and the log) Tj (2) Tj ( of H) Tj /F1 7 Tf -2 Ts (2) Tj /F1"
        " 12 Tf 0 Ts (O.) Tj"
    )
    assert pdf(drawn) == "The surety¹ covers 10⁶ cells and the log2 of H2O."


def test_a_mark_before_its_word() -> None:
    drawn = "/F1 7 Tf 4 Ts (1) Tj /F1 12 Tf 0 Ts (Department of ) Tj (Physics) Tj"
    assert pdf(drawn) == "¹Department of Physics"


@pytest.mark.shared
def test_example_files() -> None:
    texts: dict[str, str] = {}
    for path in SHARED.iterdir():
        (document,) = read_everything(
            path, {".txt": "txt", ".md": "md"}.get(path.suffix, path.suffix[1:])
        )
        assert isinstance(document, ReadDocument)
        texts[path.name] = document.text
    assert texts["sup.html"] == "The surety¹ covers the bearings² and the H2O valves."
    assert texts["supdocx.docx"] == "The collateral¹ covers the flywheel²⁾ and the sprocket* parts."
    assert "The termination¹ clause and the indemnity¹² clause apply." in texts["superscript.pdf"]
