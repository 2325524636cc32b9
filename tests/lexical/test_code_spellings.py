"""Codes that chunks write otherwise than the query."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.lexical.index import LexicalIndex

TEXTS = {
    1: "ISBN-10 0-8044-2957-X",
    2: "Upgrade Python 3.11.4 soon",
    3: "Call (415) 555-0199 now",
    4: "Failed with 0x80070005",
    5: "Gateway 10.0.12.254/24",
    6: "RE-2031/00815",
    7: "550e8400-e29b-41d4-a716-446655440000",
    8: "It costs 12.5",
    9: "on 17.05.2031, see \u00a7 12",
}


@pytest.mark.parametrize(
    ("code", "spellings"),
    [
        ("080442957X", ["0-8044-2957-x"]),
        ("v3.11.4", ["3.11.4"]),
        ("3.11", ["3.11.4"]),
        ("5550199", ["4155550199.0"]),
        ("80070005", ["0-x-80070005"]),
        ("10.0.12", ["10.0.12.254/24"]),
        ("RE203100815", ["re-2031/00815"]),
        ("550E8400E29B41D4A716446655440000", ["550-e-8400-e-29-b-41-d-4-a-716-446655440000"]),
        ("1.25", []),
        ("1.1.1", []),
        ("PHX-121", []),
    ],
)
def test_codes_with_other_marks_and_longer_codes(
    tmp_path: Path, code: str, spellings: list[str]
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        TEXTS.items(),
        "en",
    )
    assert index.vocabulary.find_code_spellings(code) == spellings


def test_a_code_as_a_word_and_a_number(tmp_path: Path) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, "KW 42")],
        "de",
    )
    assert index.vocabulary.has_sequence("KW42")
    assert not index.vocabulary.has_sequence("KW43")
