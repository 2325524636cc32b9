"""Letters of symbol fonts are the symbols that they show, in every format of Word and
PowerPoint, and in web pages.
"""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.text_runs import doc, docx, read, rtf, run

from engine.corpus.formats.runs.symbols import find_symbol_font, show_symbols

PRIVATE_LE = "\uf0a3"
PRIVATE_BULLET = "\uf0b7"
PRIVATE_TICK = "\uf0fe"
SHARED = (
    Path(__file__).resolve().parents[5] / "shared" / "data" / "faults" / "02-symbol-fonts" / "docs"
)


def symbol(font: str, code: str) -> str:
    return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'


@pytest.mark.parametrize(
    ("font", "letters", "shown"),
    [
        ("Symbol", "W m a D", "Ω μ α Δ"),
        ("Symbol", "\uf057\uf06d\uf0a3\uf0b3\uf0b9\uf0b4\uf0ae\uf0b0\uf0b7\uf0d6", "Ωμ≤≥≠×→°•√"),
        ("Wingdings", "\uf0fe\uf0a8\uf0fd\uf0fc\uf0fb\uf0e0\uf028\uf0a7", "☑☐☒✔✘→☎▪"),
        ("Wingdings", "J", "☺"),
        ("Wingdings 2", "PR", "✔☑"),
        ("Wingdings 3", "p", "▲"),
        ("Webdings", "a", "✔"),
        ("ZapfDingbats", "4l", "✔●"),
        ("Symbol", "\uf0f0", ""),  # an apple, which Unicode lacks
        ("Symbol", "→", "→"),
        ("mtextra", "K", ""),
    ],
)
def test_what_the_letters_of_a_font_show(
    font: str,
    letters: str,
    shown: str,
) -> None:
    assert show_symbols(font, letters) == shown


@pytest.mark.parametrize(
    ("name", "font"),
    [
        ("Symbol", "Symbol"),
        ("SymbolMT", "Symbol"),
        ("WINGDINGS", "Wingdings"),
        ("Wingdings-Regular", "Wingdings"),
        ("ITC Zapf Dingbats", "ZapfDingbats"),
        ("MT Extra", "mtextra"),
        ("Segoe UI Symbol", ""),
        ("Arial", ""),
    ],
)
def test_names_of_symbol_fonts(name: str, font: str) -> None:
    assert find_symbol_font(name) == font


def test_symbols_of_word(tmp_path: Path) -> None:
    body = (
        f"<w:p>{run('220 k')}{symbol('Symbol', 'F057')}{run(', 25 ')}{symbol('Symbol', '6D')}{run('m, load ')}"  # noqa: E501
        f"{run(PRIVATE_LE, 'Symbol')}{run(' 800 kg ')}{run('W', 'Symbol')}{symbol('Wingdings', 'F0FE')}</w:p>"  # noqa: E501
        f"<w:p>{symbol('Unknown Font', 'F041')}{run(PRIVATE_BULLET + ' bullet')}{symbol('Symbol', 'zz')}</w:p>"  # noqa: E501
    )
    assert read(tmp_path / "a.docx", docx(body)) == "220 kΩ, 25 μm, load ≤ 800 kg Ω☑\n\nbullet"


def test_a_style_may_name_the_font_and_a_paragraph_the_style(tmp_path: Path) -> None:
    styles = (
        '<w:style w:type="character" w:styleId="Greek"><w:rPr><w:rFonts'
        ' w:ascii="Symbol"/></w:rPr></w:style><w:style w:type="character"'
        ' w:styleId="Small"><w:basedOn w:val="Greek"/></w:style><w:style w:type="paragraph"'
        ' w:styleId="Ticks"><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr></w:style>'
    )
    body = (
        f"<w:p>{run('k')}{run('W', style='Small')}</w:p>"
        "<w:p><w:pPr><w:pStyle"
        f' w:val="Ticks"/></w:pPr>{run(PRIVATE_TICK)}{run("done", "Arial")}</w:p>'
    )
    assert read(tmp_path / "a.docx", docx(body, styles)) == "kΩ\n\n☑done"


def test_a_damaged_word_file_keeps_its_symbols(tmp_path: Path) -> None:
    text = read(tmp_path / "a.docx", docx(f"<w:p>{run('a < b')}{symbol('Symbol', 'F057')}</w:p>"))
    assert "Ω" in text
    assert "W" not in text


def test_symbols_of_powerpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.pptx())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    runs = (
        "<a:t>Send</a:t></a:r>"
        '<a:r><a:rPr><a:sym typeface="Wingdings"/></a:rPr><a:t>à</a:t></a:r>'
        '<a:r><a:rPr><a:latin typeface="Symbol"/></a:rPr><a:t>W</a:t></a:r>'
        '<a:r><a:rPr><a:sym typeface="Wingdings"/></a:rPr><a:t>déjà</a:t></a:r>'
        "<a:r><a:t>\uf041end</a:t></a:r>"
    )
    slide = (
        files["ppt/slides/slide1.xml"]
        .decode()
        .replace("<a:t>The pelican boards at dawn.</a:t></a:r>", runs)
    )
    text = read(tmp_path / "a.pptx", office.zipped({**files, "ppt/slides/slide1.xml": slide}))
    assert "Send→Ωdéjàend" in text


def test_symbols_of_open_document(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(office.odt())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    style = (
        "<office:automatic-styles><style:style"
        ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" style:name="T1"'
        ' style:family="text"><style:text-properties'
        ' style:font-name="Wingdings"/></style:style></office:automatic-styles><office:body>'
    )
    content = files["content.xml"].decode().replace("<office:body>", style)
    content = content.replace(
        "The pelican", 'The <text:span text:style-name="T1">\uf0fe</text:span> pelican'
    )
    text = read(tmp_path / "a.odt", office.zipped({**files, "content.xml": content}))
    assert "The ☑ pelican boards" in text


def test_symbols_of_web_pages(tmp_path: Path) -> None:
    page = (
        '<p>k<font face="Symbol">W</font> <span style="font-family:Wingdings">J</span> <span'
        " style='font-family:Symbol'>a<span style='font:7.0pt \"Times New"
        ' Roman"\'>a</span></span> <span style="font-family: Arial, Symbol">a</span></p>'
    )
    assert read(tmp_path / "a.html", page.encode()) == "kΩ ☺ αa a"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"220 k{\f1 W}, 25 {\f1 m}m", "220 kΩ, 25 μm"),
        (rb"load {\f1\'a3} 800 kg", "load ≤ 800 kg"),
        (rb"load {\f1\u-3933 ?} 800 kg", "load ≤ 800 kg"),
        (rb"load {\f1\u61603\'3f} 800 kg", "load ≤ 800 kg"),
        (rb"{\uc0\f1\u-3933 } 800 kg", "≤ 800 kg"),
        (rb"box {\f2\'fe} done", "box ☑ done"),
        (rb"k\f1 W\f0  W\f1 W\plain W", "kΩ WΩW"),
        (rb"nobody says which \u61603 ?font", "nobody says which font"),
    ],
)
def test_symbols_of_rtf(
    tmp_path: Path,
    written: bytes,
    text: str,
) -> None:
    assert read(tmp_path / "a.rtf", rtf(written)) == text


IN_SYMBOL = struct.pack("<HH", 0x4A4F, 0)
IN_WINGDINGS = struct.pack("<HH", 0x4A4F, 1)
OHM = struct.pack(
    "<HHH",
    0x6A09,
    0,
    0xF057,
)
DEGREE = struct.pack(
    "<HHH",
    0x6A09,
    0,
    0xF0B0,
)
ALARM = struct.pack("<HHH", 0x6A09, 1, 0xF025)  # beyond 16 bits


@pytest.mark.parametrize("width", [1, 2])
def test_symbols_of_word_97(tmp_path: Path, width: int) -> None:
    runs = [
        (5, 6, OHM),
        (9, 10, DEGREE),
        (12, 13, ALARM),
        (17, 18, IN_SYMBOL),
    ]
    text = read(
        tmp_path / "a.doc", doc("220 k(, 9( ((, 2 mm.\rThe heron moors at noon.\r", runs, width)
    )
    assert text == "220 kΩ, 9° (\U0001f56d, 2 μm.\n\nThe heron moors at noon."


def test_private_letters_of_word_97(tmp_path: Path) -> None:
    text = read(tmp_path / "a.doc", doc("box \uf0fe done \uf0fe.\r", [(4, 5, IN_WINGDINGS)]))
    assert text == "box ☑ done ."


@pytest.mark.shared
def test_example_files(tmp_path: Path) -> None:
    texts = {path.name: read(tmp_path / path.name, path.read_bytes()) for path in SHARED.iterdir()}
    assert (
        texts["sentence.docx"] == "The shunt has 220 kΩ and the filter passes 25 μm. Load ≤ 800 kg."
    )
    assert (
        texts["rtfsym.rtf"]
        == "Shunt 220 kΩ and filter 25 μm, load ≤ 800 kg, pua ≤ end, box ☑ done."
    )
    for name in ("sym.docx", "wing.docx"):
        lines = [
            line for line in texts[name].split("\n") if " want " in line and "lt_plain" not in line
        ]
        assert len(lines) == (17 if name == "sym.docx" else 7)
        for line in lines:
            wanted = line.partition(" want ")[2][0]
            assert line.partition(" got ")[2] == f"[{wanted}] pua [{wanted}]"
