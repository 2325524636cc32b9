"""Words and numbers that say more together, and words joined by humps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.lexical.analysis import Analyzer
from engine.lexical.impacts import query_weights
from engine.lexical.index import LexicalIndex
from engine.lexical.matches import matched_spans


@pytest.mark.parametrize(
    ("text", "sequences"),
    [
        ("Windows 10", ["=windows-10"]),
        ("Python 3.11.4", ["=python-3", "=python-3.11", "=python-3.11.4"]),
        ("node v18.16.0-rc1", ["=node-18", "=node-18.16", "=node-18.16.0"]),
        ("Fig. 3a", ["=fig-3a"]),
        ("Annex III", ["=annex-3"]),
        ("World War II", ["=war-2"]),
        ("in 2031", []),  # a stop word
        ("45 Nm, 45nm or 45 N\u00b7m", ["=45-nm", "=45-nm", "=45-nm"]),
        ("5 \u00b5m, 5\u00b5m, 5um", ["=5-um", "=5-um", "=5-um"]),
        ("12 rooms", []),
        ("5 kg, 5kg, 5 kilograms", ["=5-kg", "=5-kg", "=5-kg"]),
        ("24 Stunden", ["=24-h"]),
        ("10 k\u03a9, 10k\u03a9, 10 kOhm", ["=10-kohm", "=10-kohm", "=10-kohm"]),
        ("5 EUR or 5 euros", ["=5-eur", "=5-eur"]),
        ("March 2031", ["=2031-03"]),
        ("Maerz 2031, m\u00e4rz 2031", ["=2031-03", "=2031-03"]),
        ("03/2031 and 2031-03", ["=2031-03", "=2031-03"]),
        ("13/2031", []),
        ("5th of September", ["=-09-05"]),
        ("Dec. 5, 3. Mai", ["=-12-05", "=-05-03"]),
        ("on 17.05.2031", ["=2031-05", "=-05-17"]),
        ("14:30", ["=~14-30"]),
        ("14.30 Uhr", ["=~14-30"]),
        ("7.45h", ["=~07-45"]),
        ("2:30 pm", ["=~02-30", "=~14-30"]),
        ("12:05 a.m.", ["=~12-05", "=~00-05"]),
        ("9pm", ["=~09-00", "=~21-00"]),
        ("25:30 and 14:75, 1:2", []),
        ("50 %, 50%, 50 percent", ["=50-%", "=50-%", "=50-%"]),
        ("500 EUR", ["=500-eur"]),
        ("\u20ac500 or 500 \u20ac, $ 30", ["=500-eur", "=500-eur", "=30-usd"]),
        ("3 $50, 5 $50,000, 50$ 20", ["=50-usd", "=50-usd"]),
        ("5 \u00d812, \u00f8 12,\u03c612", ["=12-\u2300"] * 3),
        ("20 \u00b0C or 20\u2103", ["=20-\u00b0c", "=20-\u00b0c"]),
        ("12.5 %, 1.000 \u20ac, \u20ac1,000", []),
        ("5 mcg, 5\u00b5g", ["=5-ug", "=5-ug"]),
        ("\u7b2c5\u6761, \u7b2c\u4e94\u689d", ["=\u7b2c-5-\u6761", "=\u7b2c-5-\u6761"]),
        ("\u7b2c\u767e\u4e8c\u5341\u4e09\u6761", ["=\u7b2c-123-\u6761"]),
        ("Vitamin A and plan B.", ["=vitamin-a", "=plan-b"]),
        ("Annex V, Type I", ["=annex-5", "=type-1"]),
        ("sold to A. What I was A, R&D, C++", []),
        ("art. 5\u00ba, the 5\u00ba of May", ["=art-5", "=-05-05"]),
        ("14.30 and 1:50,000", []),
    ],
)
def test_sequences_of_a_text(text: str, sequences: list[str]) -> None:
    assert Analyzer("en").terms(text).sequences == sequences


def test_a_query_asks_for_the_whole_sequence_only() -> None:
    query = Analyzer("en").query_terms("python 3.11 on 17.05.2031")
    assert query.sequences == {"=python-3.11"}


TEXTS = {
    1: "The library needs Python 3.11.4 and a new cable, says the list of all parts in the box.",
    2: "Python 3.10, Python 2",
    3: "It runs on Windows 10 and on nothing else that was ever sold in this or that shop.",
    4: "Windows with 10 panes",
    5: "According to Annex III the yard is closed, and so are the gates at the other side of it.",
    6: "Annex II has 3 pages",
    7: "Delivered 14.03.2031 to the yard at the other side of the long road behind the old mill.",
    8: "2031 ducks in March",
    9: "We close on the 5th of September, if nobody in the house objects to it before that day.",
    10: "September had 5 rains",
    11: "The torque is 45 Nm at each of the bolts that hold the cover of the pump to the frame.",
    12: "Nm and 45",
    13: "The talk begins at 2:30 pm in the long room at the end of the corridor to the left.",
    14: "14 rows of 30 seats",
    15: "Uses ISO9001 as the base of what was written into the handbook of the whole company.",
    16: "ISO and 9001",
    17: "Call getUserName() or HTTPServer of the library that comes with the box from the shop.",
    18: "Ask AT&T or the R & D people in the long room at the end of the corridor to the left.",
    19: "r at d, t, d, r",
    20: "A flat of 2\u00bd rooms",
    21: "21 or 2 rooms, 5 rooms, a flat",
    22: "speed of 21km/h",
    23: "21 and 21 again",
    24: "The pump is flushed within 24 h, or the seals at the other side of it go hard.",
    25: "24 of the hours",
    26: "A load of 100 \u03a9 at the end of the long cable that comes with the box from the shop.",
    27: "Ohm asked 100",
}


@pytest.mark.parametrize("language", ["en", "none"])
@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Python 3.11", 1),
        ("Windows 10", 3),
        ("Windows10", 3),
        ("annex 3", 5),
        ("Annex III", 5),
        ("March 2031", 7),
        ("03/2031", 7),
        ("5 September", 9),
        ("Sept 5", 9),
        ("45Nm", 11),
        ("14:30", 13),
        ("2.30 p.m.", 13),
        ("ISO 9001", 15),
        ("user name", 17),
        ("http server", 17),
        ("R&D", 18),
        ("AT&T", 18),
        ("flat 2,5 rooms", 20),
        ("21 km/h", 22),
        ("24 hours", 24),
        ("100 ohm", 26),
    ],
)
def test_a_sequence_comes_before_its_parts(
    tmp_path: Path, language: str, query: str, best: int
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        TEXTS.items(),
        language,
    )
    assert index.search(query, 1)[0].tolist() == [best]
    ids = np.array(sorted(TEXTS))
    terms = index.query_terms(query, bonus=True)
    assert index.scorer().scores(terms, ids) == pytest.approx(index.scores(query, ids))
    assert matched_spans(query, TEXTS[best], index.language)


def test_a_sequence_counts_twice_in_a_short_query_only(tmp_path: Path) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        TEXTS.items(),
        "en",
    )
    rarity = float(index.vocabulary.idf(["=windows-10"])[0])
    short = "panes yard torque cable Windows 10"
    assert query_weights(index, short)["=windows-10"] == pytest.approx(2.2 * 2 * rarity)
    assert query_weights(index, f"{short} corridor")["=windows-10"] == pytest.approx(rarity)


def test_a_rare_spelling_counts_no_more_than_the_usual_one(tmp_path: Path) -> None:
    chunks = {number: f"email number{number}" for number in range(1, 9)}
    chunks[9] = "e-mail number9"
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks.items(),
        "en",
    )
    scores = dict(zip(*map(np.ndarray.tolist, index.search("email", 9)), strict=True))
    assert scores[9] == pytest.approx(index.vocabulary.idf(["email"])[0])
    assert scores[9] < scores[1] * 1.2


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("user name", "call getUserName now", ["UserName"]),
        ("http server", "an HTTPServer", ["HTTPServer"]),
        ("donald", "McDonald", []),
        ("March 2031", "due 14.03.2031", ["14.03.2031"]),
        ("pdf", "two PDFs", ["PDFs"]),
        ("pdfs", "two PDFs", ["PDFs"]),
        ("vitamin A", "Vitamin A, vitamin (A)", ["Vitamin A", "vitamin", "A"]),
        ("Ø12", "Ø 12", ["Ø 12"]),
    ],
)
def test_parts_of_a_word_with_humps_and_days_of_a_month_are_marked(
    query: str, text: str, marked: list[str]
) -> None:
    assert [text[start:end] for start, end in matched_spans(query, text)] == marked


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("2031-05-17", "本合同自2031年5月17日起生效", "2031年5月17日"),
        ("2031年5月17日", "am 17.05.2031", "17.05.2031"),
        ("May 2031", "2031년 5월 17일에", "2031년 5월 17일"),
        ("14:30", "um 14.30 Uhr", "14.30 Uhr"),
        ("צהל", 'את צה"ל כאן', 'צה"ל'),
        ("קלם कलम", "यह क़लम", "क़लम"),
    ],
)
def test_dates_and_words_of_other_scripts(
    query: str,
    text: str,
    marked: str,
) -> None:
    assert [text[start:end] for start, end in matched_spans(query, text)] == [marked]


def test_a_stop_word_before_a_letter_is_not_marked() -> None:
    text = "log B and C, many /B"
    spans = matched_spans("log B and C, many", text, "en")
    assert [text[start:end] for start, end in spans] == ["log B", "C", "many", "B"]


def test_plurals_of_acronyms_are_found_in_either_case_and_number(tmp_path: Path) -> None:
    chunks = [
        (1, "two PDFs"),
        (2, "two pdfs"),
        (3, "a PDF"),
    ]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "en",
    )
    for query, ids in (("PDFs", [1, 2]), ("pdfs", [1, 2]), ("PDF", [1, 3]), ("pdf", [1, 3])):
        assert sorted(index.search(query, 9)[0].tolist()) == ids
