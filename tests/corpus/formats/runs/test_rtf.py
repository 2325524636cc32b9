"""Groups and escapes within a word of RTF do not part it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.read_files import only, opened
from fixtures.text_runs import read, rtf

from engine.corpus.formats.runs.rtf import rewrite

SHARED = (
    Path(__file__).resolve().parents[5] / "shared" / "data" / "faults" / "14-rtf-mid-word" / "docs"
)
RIGHT = {
    "a_word_runs.rtf": "The interlock switch and the Kranführer of site PX-4411. Contract ends.",
    "b_toggle.rtf": "The interlock switch, defective.",
    "c_umlaut_uni.rtf": "The Brücke and Brücke and Straße.",
    "d_punct.rtf": '(sic) and "quoted", Note: 1st floor H2O 25%.',
    "e_bookmark.rtf": "The contractual duty, spellcheck.",
    "f_link.rtf": "Mail a@b.example, see 12a.",
}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"Inter{\b lock}ing and {\i over}flow", "Interlocking and overflow"),
        (rb"Inter{\b {\i lock}}ing", "Interlocking"),
        (rb"a{\b b}\i c\i0 d {\b e} f", "abcd e f"),
        (rb"Br{\u252\'fc}cke Stra{\u223\'df}e", "Brücke Straße"),
        (rb"Br{\b\'fc}\'fccke", "Brüücke"),
        (rb"({\i sic}), {\b Note}: 25{\b %}.", "(sic), Note: 25%."),
        (rb"dash{\b es}\emdash and {\b so} on", "dashes—and so on"),
        (b"{\\b lock}\r\ning", "locking"),
        (rb"\uc2 x{\u252\'c3\'bc}y {\uc0\u937 }z", "xüy Ωz"),
        (rb"con{\*\bkmkstart b1}tract{\*\bkmkend b1}ual", "contractual"),
        (rb"one{\pard\par}two", "one\n\ntwo"),
        (rb"c:\\{\b dir}ectory \{x\}", r"c:\directory {x}"),
        (rb"a{\b b}c{\*\x d}e{\*\y{\z f}}g {\info{\title h}}i{\b j}k", "abceg ijk"),
        (rb"a{\b b}c{\*\x \{ \\}d", "abcd"),
        (rb"m{\super 2} Stra{\u223\'df}e{\*\x {\shptxt box}} z", "m² Straße z\n\nbox"),
        (
            rb'a {\field{\*\fldinst SYMBOL 254 \\f "Wingdings" \\s 12}{\fldrslt\f3\fs24}} done',
            "a ☑ done",
        ),
        (rb'220 k{\field{\*\fldinst {SYMBOL 0x57 \\f "Symbol"}}{\fldrslt {}}}, ok', "220 kΩ, ok"),
        (rb'x {\field{\*\fldinst SYMBOL 87 \\f "Symbol"}{\fldrslt W}} y', "x W y"),
        (rb"{\listtext\pard\plain\f0 7.3\tab}\ls1 Notice\par", "7.3 Notice"),
        (rb"{\pntext\f0 a)\tab}{\*\pn\pnlvlbody}Notice\par", "a) Notice"),
        (
            rb"On{\*\atnid EL}{\*\atnauthor Eva}\chatn{\*\annotation{\*\atnref 1}"
            rb"{\*\atndate 1}\pard\plain Late!}ly\par",
            "Only\n\nLate!",
        ),
        (rb"in {\deleted\revauthdel1 two }{\revised\revauth1 three }weeks", "in three weeks"),
        (rb"c:\\deleted\plain\deleted0  x\deleted y", r"c:\deleted x"),
        (rb"smile {\b x}\u-10179?\u-8704?y", "smile x\U0001f600y"),
        # Entries of an index or a table of contents are shown, unless they are hidden.
        (rb"the {\tc {Lease}} ends{\xe {\v lease}} here", "the Lease ends here"),
        (rb"one\page two\sect\sectd three\column four", "one\n\ntwo\n\nthree\n\nfour"),
        (rb"c:\\page", r"c:\page"),
    ],
)
def test_words_of_several_groups(
    tmp_path: Path,
    written: bytes,
    text: str,
) -> None:
    assert read(tmp_path / "a.rtf", rtf(written)) == text


@pytest.mark.parametrize(
    ("code_page", "charset", "text"),
    [
        (932, 128, "テスト ソフト 表示 ｶﾅ 予算"),
        (936, 134, "合同編號 開發 誠"),
        (949, 129, "계약서 똠방각하"),
        (950, 136, "契約功能 許可"),
    ],
)
def test_letters_of_two_bytes(
    tmp_path: Path,
    code_page: int,
    charset: int,
    text: str,
) -> None:
    """WordPad escapes the second byte only if it is no sign of ASCII."""
    escaped = b""
    for byte in text.encode(f"cp{code_page}"):
        if byte > 127:
            escaped += b"\\'%02x" % byte
        else:
            escaped += (b"\\" if byte in b"\\{}" else b"") + bytes([byte])
    font = b"{\\fonttbl{\\f0\\fcharset%d A;}}{\\info{\\title %b}}" % (charset, escaped)
    content = b"{\\rtf1\\ansi\\ansicpg%d%b\\f0 {\\b %b}\\par}" % (code_page, font, escaped)
    document = only(opened(tmp_path, "a.rtf", content))
    assert (document.text, document.title) == (text, text)


def test_western_letters_beside_those_of_two_bytes(tmp_path: Path) -> None:
    content = (
        rb"{\rtf1\ansi\ansicpg932{\fonttbl{\f0\fcharset128 A;}{\f1\fcharset0 B;}}"
        rb"\f1 \'e9cole \f0 \'83e\'83X\'83g\par}"
    )
    assert only(opened(tmp_path, "a.rtf", content)).text == "école テスト"


def test_japanese_letters_of_one_byte_before_those_of_two(tmp_path: Path) -> None:
    content = rb"{\rtf1\ansi\ansicpg932{\fonttbl{\f0\fcharset128 A;}}\f0 \'b6\'83e\'83X\'83g\par}"
    assert only(opened(tmp_path, "a.rtf", content)).text == "ｶテスト"


def test_a_file_without_such_groups_stays_as_it_is() -> None:
    content = rtf(rb"{\b Bold} and {\i italic} \par}{\par")
    assert rewrite(content) == content


def test_bytes_of_a_picture_stay_as_they_are() -> None:
    data = rb"{\pict\bin6 }{a\b}}x{\b y}z"
    assert rewrite(rtf(data)).count(rb"\bin6 }{a\b}") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"{\\rtf1 {\\b x}y" * 3000,
        b"}" * 5000 + b"\\pard}x",
        b"{\\rtf1\\pard\\u",
        b"\\bin9999999999 ",
    ],
)
def test_damaged_files_are_rewritten_without_an_error(content: bytes) -> None:
    assert isinstance(rewrite(content), bytes)


@pytest.mark.shared
@pytest.mark.parametrize("name", RIGHT)
def test_example_files(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / name, (SHARED / name).read_bytes()) == RIGHT[name]


@pytest.mark.parametrize("header", ["\\mac", "\\mac\\deff0", "\\mac\\ansicpg10000"])
def test_letters_of_a_macintosh_are_read(tmp_path: Path, header: str) -> None:
    content = "{\\rtf1" + header + "{\\fonttbl{\\f0 Arial;}}\\f0 Pr\\'9ffung, Gr\\'9a\\'a7e\\par}"
    assert only(opened(tmp_path, "a.rtf", content.encode())).text == "Prüfung, Größe"


def test_cells_of_no_table_lose_no_word(tmp_path: Path) -> None:
    content = rb"{\rtf1\ansi Alpha\cell Beta gamma\cell Delta\row Epsilon zeta.\par Eta\cell}"
    text = only(opened(tmp_path, "a.rtf", content)).text
    assert text.split() == ["Alpha", "Beta", "gamma", "Delta", "Epsilon", "zeta.", "Eta"]
