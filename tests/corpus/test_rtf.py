"""RTF: code pages of fonts, and what stands beside the text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.rtf import in_code_pages, shown_lines

FONTS = (
    rb"{\fonttbl{\f0\fswiss\fcharset0\fprq2{\*\panose 020b}Arial;}{\f1\fnil\fcharset238 Arial CE;}{\f2\fcharset204 Arial Cyr;}"
    rb"{\f3\fcharset128 Mincho;}{\f4\fcharset2 Symbol;}{\f5\fcharset136 Ming;}}"
)


def rtf(body: bytes, *, head: bytes = rb"\ansi\ansicpg1252\deff0") -> bytes:
    return rb"{\rtf1" + head + FONTS + rb"{\info{\author Ada}}" + body + b"}"


def read(tmp_path: Path, body: bytes, *, head: bytes = rb"\ansi\ansicpg1252\deff0") -> str:
    (tmp_path / "a.rtf").write_bytes(rtf(body, head=head))
    (document,) = everything_in(tmp_path / "a.rtf", "rtf")
    assert isinstance(document, ReadDocument)
    return document.text


def lines(body: bytes) -> list[tuple[str, str]]:
    return [(part, line) for part, line in shown_lines(rtf(body)) if line]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"\f1 \'c8l\'e1nek t\'fddne", "Článek týdne"),
        (rb"\f2 \'d3\'e2\'e0\'e6\'e0\'e5\'ec\'fb\'e9 \f0 caf\'e9", "Уважаемый café"),
        (rb"{\f1\'e8}\'e8{\f2{\b\'e8}}", "čèи"),
        (rb"\f1\'e8\plain\'e8", "čè"),
        (rb"\f3\'95\'5c\'8e\'a6 \'83A\'83" + b"\r\n" + rb"\'42", "表示 アィ"),
        (rb"\f3\'95\\ \'83\{", "表 ボ"),
        (rb"\f5\'a4\'a4\'a4\'e5 abc", "中文 abc"),
        (rb"\f1\u269\'e8 \uc2\u269\'e8\'e8\'e8 \uc0\u269\'e8", "č čč čč"),
        (rb"\f1\uc0\'e8\'e8 \uc2\'e8 \{\'e8\}", "čč č {č}"),
        (rb"\f1\'e8\f0 \'e8 {\header\f1\pard \'e8aj\par}", "čè\n\nčaj"),
        (rb"\f4\'b7 \f0 point", "· point"),
    ],
)
def test_bytes_are_read_in_the_code_page_of_their_font(tmp_path: Path, body: bytes, text: str) -> None:
    assert " ".join(read(tmp_path, body).split(" ")).replace("  ", " ") == text


def test_the_font_that_a_file_begins_with_has_its_code_page(tmp_path: Path) -> None:
    assert read(tmp_path, rb"\'e8aj", head=rb"\ansi\ansicpg1252\deff1") == "čaj"
    assert read(tmp_path, rb"\f1\'e8aj", head=rb"\ansi\ansicpg1250\deff0") == "čaj"


@pytest.mark.parametrize(
    "content",
    [
        rtf(rb"\f0\'e8 and \'e9"),
        rtf(rb"\f1 plain text, \u269? alone"),
        rtf(rb"\f3\'89"),  # half a character
        rtf(rb"\f1{\*\bkmkstart \'e8}{\pict \'e8}", head=rb"\ansi"),
        rb"{\rtf1\f1\'e8}",
    ],
)
def test_what_needs_no_other_code_page_stays_as_it_is(content: bytes) -> None:
    assert in_code_pages(content) == content


def test_comments_and_text_boxes_are_read(tmp_path: Path) -> None:
    comment = rb"{\*\atnid AQ}{\*\atnauthor Ada}\chatn{\*\annotation{\*\atnref 1}{\*\atndate 1}\pard\plain Own dawn.}"
    box = (
        rb"{\shp{\*\shpinst\shpleft1{\sp{\sn txflTextFlow}{\sv 0}}{\shptxt\pard A heron in a box.\par}}"
        rb"{\shprslt{\*\do{\dptxbxtext\pard A heron in a box.\par}}}}"
    )
    text = read(tmp_path, rb"The dawn is our own." + comment + box + rb" It ends.\par")
    assert text == "The dawn is our own. It ends.\n\nA heron in a box.\nOwn dawn."


def test_cells_that_run_into_each_other_are_distinguished(tmp_path: Path) -> None:
    body = rb"\trowd\cellx9\pard\intbl Station\cell\row\trowd\cellx9\pard\intbl Phone\cell\row\pard{\b End}"
    assert {"Station", "Phone", "End"} <= set(read(tmp_path, body).replace("|", " ").split())


def test_what_is_hidden_deleted_or_shown_elsewhere_is_not_reported_again() -> None:
    body = (
        rb"{\header no}{\footerf no}{\listtext 1.\tab}Item {\v hidden}{\deleted gone}{\v a\v0 seen}{\v b\plain too}"
        rb"{\*\unknown no}{\field{\*\fldinst HYPERLINK x}{\fldrslt link}}{\mmathPr no}"
    )
    assert lines(body) == [("", "Item seentoolink")]


def test_every_kind_of_character_is_read() -> None:
    body = rb"\f0\fs20 Caf\'e9 \u8364? \u-10240?\u-8398?\par {\b Two} \{words\}\~here\emdash{\pict\bin4 }{\x}so\par}"
    assert lines(body) == [("", "Caf\u00e9 \u20ac \U00010332"), ("", "Two {words}\u00a0here\u2014so")]
    assert lines(rb"{\*\data\bin7 }{\\'e8}seen") == [("", "seen")]
    assert list(shown_lines(b"{\\rtf1 " + b"{" * 5000 + b"deep" + b"}" * 4990)) == [("", "deep"), ("comments", "")]


@pytest.mark.parametrize(
    "piece",
    [
        rb"{\*{a",
        rb"{\f1",
        rb"\'e8",
        rb"\u-1?",
        rb"{\*{{{\bin",
        rb"{\*\shpinst{\shptxt a",
        rb"\'e8a",
        rb"{\*{{{{{a}",
        b"\\",
        rb"\f1 ",
    ],
)
def test_work_grows_with_the_length_of_a_file(piece: bytes) -> None:
    counts = []
    for times in (500, 2000):
        called = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal called
            called += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            list(shown_lines(in_code_pages(rtf(rb"\f1\'e8 " + piece * times))))
        finally:
            sys.setprofile(before)
        counts.append(called)
    assert counts[1] < 5 * counts[0]


@given(
    st.lists(
        st.sampled_from(
            [
                *rb"\{}'*aue8 1".split(),
                b"\\",
                b"{",
                b"}",
                b"\\'",
                b"\\*",
                b"\\u",
                b"\\f1",
                b"\\f3",
                b"\\bin",
                b"8",
                b"\xe9",
                b"\\uc",
            ]
        )
    )
)
def test_whatever_follows_what_nothing_is_raised(pieces: list[bytes]) -> None:
    content = rtf(rb"\f1\'e8 seen " + b"".join(pieces))
    assert any("seen" in line for _, line in shown_lines(in_code_pages(content)))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (rb"{\rtf1\mac Caf\'8e\par}", "Café"),
        (rb"{\rtf1\ansi\ansicpg10000 Caf\'8e\par}", "Café"),
        (rb"{\rtf1\pc Caf\'82 {\f1\'82}\par}", "Café é"),
        (rb"{\rtf1\pca\'b5\par}", "Á"),
        (rb"{\rtf1\ansi\ansicpg65001 Caf\'c3\'a9\par}", "Café"),
        (rb"{\rtf1\ansi\ansicpg932 \'93\'fa\'96\'7b \'95\'5c\par}", "日本 表"),
        ("{\\rtf1\\ansi Café\\par}".encode(), "Café"),
        ("{\\rtf1\\ansi Café\\par}".encode("cp1252"), "Café"),
        ("{\\rtf1\\ansi\\ansicpg1251 Привет\\par}".encode("cp1251"), "Привет"),
    ],
)
def test_a_file_is_read_in_its_own_code_page_and_bytes_as_they_are(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "a.rtf").write_bytes(content)
    (document,) = everything_in(tmp_path / "a.rtf", "rtf")
    assert isinstance(document, ReadDocument)
    assert document.text == text
