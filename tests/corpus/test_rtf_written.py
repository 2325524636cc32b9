"""RTF in words that its reader knows: breaks, signs, numbers of lists, characters in two halves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.rtf_written import as_read

HEAD = rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset2 Symbol;}}"
OF_WORD = rb"\pard\plain\ltrpar \rtlch\fcs1 \af0 \ltrch\fcs0 \insrsid77 \hich\af0\dbch\af31505\loch\f0 "


def read(tmp_path: Path, body: bytes) -> str:
    (tmp_path / "a.rtf").write_bytes(HEAD + body + b"}")
    (document,) = everything_in(tmp_path / "a.rtf", "rtf")
    assert isinstance(document, ReadDocument)
    return document.text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"The {\b P}elican{\i 's} {\b 12}\'b0C {\b 1}.5 PHX{\b -12}1", "The Pelican's 12°C 1.5 PHX-121"),
        (rb"{\b Bo}\u108?d {\b Bold} it {\b is}, {\i all}", "Bold Bold it is, all"),
        (rb"Paths{\b \\}end", "Paths\\ end"),
    ],
)
def test_words_of_which_a_part_is_formatted_stay_whole(tmp_path: Path, body: bytes, text: str) -> None:
    assert read(tmp_path, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"One\page Two\par Three\sect\sectd Four\column Five", "One\n\nTwo\n\nThree\n\nFour\n\nFive"),
        (rb"One\softline Two", "One\n\nTwo"),
        (rb"1\~kg PHX\_121 a\enspace b\emspace c\qmspace d", "1 kg PHX-121 a b c d"),
        (rb"C:\\page\\_x \\~ \pagebb", "C:\\page\\_x \\~"),
    ],
)
def test_breaks_and_signs_that_are_words_are_read(tmp_path: Path, body: bytes, text: str) -> None:
    assert read(tmp_path, body) == text


@pytest.mark.parametrize(
    ("listed", "reported"),
    [
        (rb"{\listtext" + OF_WORD + rb"7.3\tab}", "7.3 "),
        (rb"{{\listtext" + OF_WORD + b"7.3\\tab}}\\pard \\ltrpar\\ql\\ls1\\itap0 {\r\n\\rtlch\\fcs1 {", "7.3 "),
        (rb"{\listtext 7.\tab}\ilvl0 {\*\hyphen2\hyphlead2}\ls1\li720{\rtlch \loch" + b"\n", "7. "),
        (rb"{\listtext 2.\tab}{\field{\*\fldinst X}{\fldrslt See}} ", "2. See "),
        (rb"{\listtext 2.\tab}\u8364?", "2. €"),
        (rb"{\listtext 2.\tab}\'e9", "2. é"),
        (rb"{\listtext 1.\tab}\par{\listtext 2.\tab}", "2. "),
        (rb"{\listtext\pard\plain 1.\tab}", "1. "),
        (rb"{\pntext\f0 (a)\tab}", "(a) "),
        (rb"{\*\pntext iv)\tab}", "iv) "),
        (rb"{\listtext\pard Article I\tab}", "Article I "),
    ],
)
def test_numbers_of_lists_stand_before_their_paragraphs(tmp_path: Path, listed: bytes, reported: str) -> None:
    assert read(tmp_path, rb"Terms\par\pard" + listed + rb"Notice by mail\par") == f"Terms\n\n{reported}Notice by mail"


@pytest.mark.parametrize("bullet", [rb"{\pntext\f1\'b7\tab}", rb"{\listtext\f2 o\tab}", rb"{\listtext\f1\'a7\tab}"])
def test_bullets_are_reported_beside_numbers_and_left_alone_without_any(tmp_path: Path, bullet: bytes) -> None:
    numbered = rb"{\listtext 1.\tab}\pard\ilvl0\ls1 By mail\par"
    bulleted = bullet + rb"\pard\ilvl0\ls2 By hand\par"
    assert as_read(bulleted) == bulleted
    assert read(tmp_path, numbered + bulleted + rb"\pard End\par") == "1. By mail\n\n- By hand\n\nEnd"


def test_a_number_in_a_table_leaves_the_row_whole(tmp_path: Path) -> None:
    row = rb"\trowd\cellx900\cellx1800\intbl {\listtext" + OF_WORD + rb"1.\tab}Pump\cell 12\cell\row"
    assert (
        read(tmp_path, rb"\trowd\cellx900\cellx1800\intbl Part\cell Count\cell\row" + row)
        == "Part | Count\nPart: 1. Pump | Count: 12"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"ok \u-10179?\u-8704? done", "ok 😀 done"),
        (rb"ok \u55357 \'3f\u56832\'3f done", "ok 😀 done"),
        (rb"\uc0 ok \u-10179\u-8704 done", "ok 😀done"),
        (rb"\uc1 \u-10174 ?\u-8274 ?", "𠮮"),
        (rb"lone \u-10179? done \u-4? x", "lone done \ufffc x"),
        (rb"{\upr{M?ller}{\*\ud{M\u-10179?\u-8704?ller}}} said", "M😀ller said"),
    ],
)
def test_characters_in_two_halves_are_whole(tmp_path: Path, body: bytes, text: str) -> None:
    assert read(tmp_path, body) == text


def test_bytes_that_look_like_words_stay_as_they_are() -> None:
    content = HEAD + rb"{\pict\bin6 \page }\page x}"
    assert as_read(content) == content


@pytest.mark.parametrize("piece", [rb"{\listtext ", rb"{\upr{", rb"\u-10179", rb"{\listtext a}", rb"\~\page", b"}x"])
def test_work_grows_with_the_length_of_a_file(piece: bytes) -> None:
    def spent(times: int) -> float:
        started = time.process_time()
        as_read(piece * times)
        return time.process_time() - started

    spent(10)
    assert spent(40_000) < 200 * max(spent(4_000), 0.001)
