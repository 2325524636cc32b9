"""Superscripts are characters of their own, so that they hide no word and make no other number."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.text_runs import docx, read, rtf, run

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
def test_what_a_raised_text_is_written_as(before: str, raised: str, shown: str) -> None:
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


def test_superscripts_of_powerpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.pptx())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    runs = (
        'pelican</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r><a:r><a:t> boards at'
        " dawn.</a:t></a:r>"
    )
    slide = (
        files["ppt/slides/slide1.xml"].decode().replace("pelican boards at dawn.</a:t></a:r>", runs)
    )
    assert "pelican¹ boards" in read(
        tmp_path / "a.pptx", office.zipped({**files, "ppt/slides/slide1.xml": slide})
    )


def test_superscripts_of_epub(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.epub())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    changed = {
        name: content.replace(b"The pelican", "Über <b>peli</b>can<sup>1</sup>".encode())
        for name, content in files.items()
    }
    assert "Über pelican¹ boards" in read(tmp_path / "a.epub", office.zipped(changed))


def test_superscripts_of_open_document(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.odt())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    style = (
        "<office:automatic-styles><style:style"
        ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" style:name="T1"'
        ' style:family="text"><style:text-properties style:text-position="super'
        ' 58%"/></style:style></office:automatic-styles><office:body>'
    )
    content = files["content.xml"].decode().replace("<office:body>", style)
    content = content.replace(
        "The pelican", 'The pelican<text:span text:style-name="T1">1</text:span>'
    )
    assert "The pelican¹ boards" in read(
        tmp_path / "a.odt", office.zipped({**files, "content.xml": content})
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("surety<sup>1</sup> and H<sub>2</sub>O", "surety¹ and H2O"),
        ("surety<sup><a href='#1'>1</a></sup>", "surety¹"),
        ("loan<span style='vertical-align: super'>2)</span>", "loan²⁾"),
        ("10<sup>-6</sup> on the 1<sup>st</sup>", "10⁻⁶ on the 1st"),
        ("<table><tr><td>Price<sup>1</sup></td><td>9</td></tr></table>", "Price¹ | 9"),
    ],
)
def test_superscripts_of_web_pages(tmp_path: Path, page: str, text: str) -> None:
    assert read(tmp_path / "a.html", f"<p>{page}</p>".encode()) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"surety{\super 1} covers", "surety¹ covers"),
        (rb"surety\super 12\nosupersub  covers", "surety¹² covers"),
        (rb"surety{\up6 2)} covers", "surety²⁾ covers"),
        (rb"H{\sub 2}O on the 1{\super st}", "H2O on the 1st"),
    ],
)
def test_superscripts_of_rtf(tmp_path: Path, written: bytes, text: str) -> None:
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
def test_the_files_of_users(tmp_path: Path) -> None:
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
