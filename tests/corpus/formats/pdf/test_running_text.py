"""Columns of running text and columns of cells, by what their lines say."""

from __future__ import annotations

import pytest

from engine.corpus.formats.pdf.running_text import are_cells, is_running_text


@pytest.mark.parametrize(
    ("lines", "is_running"),
    [
        (["The pelican boards", "the ferry at dawn", "and leaves the", "harbour."], True),
        (["Die Miete ist zu", "zahlen. Kommt der", "Mieter in Verzug,", "kann der"], True),
        (["Der Schaden an den", "Toren und Kra\x02", "Nen des Hafens und", "Kai"], True),
        (["鹈鹕在黎明时登上渡", "轮并在中午之前离开", "港口它带着所有岛屿", "的邮件"], True),
        (["Ada Quay", "Bo Mole", "Cy Pier", "Di Dock"], False),
        (["12.5 m", "9 m", "14 m", "7 m"], False),
        (["crane", "pump", "winch", "rope"], False),
        (["The pelican boards", "the ferry at dawn", "and leaves."], False),
        ([], False),
    ],
)
def test_running_text_goes_on_from_line_to_line(lines: list[str], is_running: bool) -> None:
    assert is_running_text(lines) is is_running


NAMES = ["Ada Quay", "Bo Mole", "Cy Pier", "Di Dock"]
TOWNS = ["Hamburg", "Bergen", "Genoa", "Lisbon"]
PROSE = ["The pelican boards", "the ferry at dawn", "and leaves the", "harbour before"]


@pytest.mark.parametrize(
    ("columns", "is_table"),
    [
        ([NAMES, ["Age", "41", "37", "29"]], True),
        (
            [["2029", "1,200", "88", "3"], ["2030", "1,300", "92", "4"], ["2031", "1", "2", "5"]],
            True,
        ),
        ([["2029", "1,200", "88", "3"], ["2030", "1,300", "92", "4"]], False),
        ([NAMES, TOWNS], True),
        ([NAMES, NAMES], False),
        ([PROSE, ["1", "2", "3", "4"]], False),
        ([["anchor, 12", "bale, 14", "berth, 3"], ["mast", "net", "quay"]], False),
        ([NAMES, ["Town"]], False),
        ([], False),
    ],
)
def test_cells_have_figures_or_differ_in_words(columns: list[list[str]], is_table: bool) -> None:
    assert are_cells(columns) is is_table
