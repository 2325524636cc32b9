"""Amounts, days, account numbers and names with marks: found by whatever spelling, and beside
nothing else.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.corpus.text.blocks import restore_text
from engine.lexical.analysis import Analyzer
from engine.lexical.code_spellings import has_longer_code
from engine.lexical.index import LexicalIndex
from engine.lexical.matches import matched_spans
from engine.lexical.numbers.figures import read_figure
from engine.lexical.words_and_codes import split_into_compounds

PLAIN = Analyzer("none")
FAULTS = Path(__file__).parents[3] / "shared" / "data" / "faults"
SAME = [
    [
        "12750",
        "12,750",
        "12.750",
        "12 750",
        "12\u00a0750",
        "12\u202f750",
        "12'750",
        "12’750",
        "12.750,00",
        "12,750.00",
        "$12,750.00",
    ],
    ["9,90", "9.90", "9.9", "9,9"],
    ["0,5", "0.50", "0.500"],
    ["1.234.567,89", "1,234,567.89", "1 234 567,89", "1'234'567.89"],
    ["127500", "1,27,500", "127.500"],
    ["DE44500105175407324931", "DE44 5001 0517 5407 3249 31", "de44 5001 0517 5407 3249 31"],
    ["GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19", "gb29-nwbk-6016-1331-9268-19"],
    [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "DE89 370 400 440 532 013 000",
        "DE89-3704-0044-0532-0130-00",
        "DE 89 37040044 0532013000",
        "DE89.3704.0044.0532.0130.00",
        "DE89 37040044 0532013000",
        "DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00",
    ],
    [
        "PL61109010140000071219812874",
        "PL61 1090 1014 0000 0712 1981 2874",
        "PL61 10901014 00000712 19812874",
    ],
    ["NL91ABNA0417164300", "NL91 ABNA 041 716 4300", "NL91-ABNA-0417-1643-00"],
    ["MT84MALT011000012345MTLCAST001S", "MT84 MALT 0110 0001 2345 MTLC AST0 01S"],
    ["NO9386011117947", "NO93 8601 11 17947", "NO93-8601-1117-947"],
    ["4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111"],
    ["9783161484100", "978-3-16-148410-0", "978 316 148 4100"],
    ["5551234567", "(555) 123-4567", "(555)123-4567", "555-123-4567", "555 123 4567"],
    ["4006381333931", "4 006381 333931", "400 6381 333931"],
    ["0301234567", "030 1234567", "030/1234567", "030 123 45 67"],
    [
        "+49 (0)40 / 123 45-67",
        "+49 40 1234567",
        "+49 (0) 40 1234567",
        "+49 (40) 1234567",
        "+49-40-1234567",
        "+49401234567",
        "0049 40 1234567",
        "004940 1234567",
        "040 1234567",
        "040 / 123 45-67",
        "040/1234567",
        "(040) 12345-67",
        "0401234567",
    ],
    ["+33 1 42 68 53 00", "01 42 68 53 00", "01.42.68.53.00", "01-42-68-53-00", "+33142685300"],
    ["+1 415 555 2671", "(415) 555-2671", "415.555.2671", "+1-415-555-2671", "4155552671"],
    ["+353 1 679 3344", "01 679 3344", "00353 1 6793344", "(01) 679 3344"],
    ["0602038-12", "0 602 038-12", "060203812"],
    ["17 May 2031", "17 May\n2031", "May 17,\n2031", "17.\nMai 2031"],
    ["DE89370400440532013000", "DE89 3704 0044\n0532 0130 00"],
    ["§ 1", "§ 1º", "§1"],
    ["1. Jänner 2031", "01.01.2031"],
    ["12.5", "12,5Nm", "Ø12,5", "ø 12.5", "12.5kg", "12,50 kg"],
    [
        "2031-05-17",
        "17.05.2031",
        "17.5.2031",
        "17.5.31",
        "17/05/2031",
        "5/17/2031",
        "2031/5/17",
        "20310517",
        "17-May-2031",
        "17-May-31",
        "17 May 2031",
        "17th of May, 2031",
        "May 17, 2031",
        "May 17th, 2031",
        "17. Mai 2031",
        "17 mai 2031",
        "17 de mayo de 2031",
        "17º de maio de 2031",
        "17.Mai 2031",
        "17 maja 2031",
        "17 мая 2031",
        "2031-05-17T08:30:00",
    ],
]
APART = [
    ("9,90", "9 90"),
    ("9,90", "19,90"),
    ("12,750", "12,705"),
    ("12750", "127500"),
    ("1.2", "1.2.3"),
    ("17.05.2031", "17.06.2031"),
    ("05-17-31", "17-05-31"),
    ("31.02.2031", "3.3.2031"),
    ("2019 2020", "20192020"),
    ("0750", "750"),
    ("C++", "C"),
    ("C#", "C"),
    ("C++", "C#"),
    (".NET", "net"),
    ("4711,12", "4711.21"),
    ("+49 40 1234567", "+49 41 1234567"),
    ("040 1234567", "040 12345678"),
    ("+44 20 79460958", "+49 20 79460959"),
    ("0.1234567", "1234567"),
]


def terms_of(text: str) -> set[str]:
    """The codes of a text, and the numbers in it that are digits alone."""
    terms = PLAIN.terms(text)
    return {*terms.codes, *(word for word in terms.words if word.isdigit() and len(word) > 3)}


def is_asked(query: str, text: str) -> bool:
    """Whether a query asks for a whole that a text holds."""
    asked = PLAIN.query_terms(query)
    digits = {number for numbers in asked.digits.values() for number in numbers}
    return not terms_of(text).isdisjoint({*asked.codes, *digits})


@pytest.mark.parametrize("spellings", SAME, ids=[spellings[0] for spellings in SAME])
def test_every_spelling_asks_for_every_other(spellings: list[str]) -> None:
    for query in spellings:
        assert [text for text in spellings if not is_asked(query, f"so {text}.")] == []


@pytest.mark.parametrize(("one", "other"), APART)
def test_other_figures_are_not_asked_for(one: str, other: str) -> None:
    wholes = {*PLAIN.query_terms(one).codes} & {*PLAIN.query_terms(other).codes}
    assert not wholes
    assert PLAIN.analyse(one) != PLAIN.analyse(other)


@pytest.mark.parametrize(
    ("compound", "codes", "digits"),
    [
        ("12,750", ("12750.0", "12.75"), ("12750",)),
        ("12.750,5", ("12750.5",), ()),
        ("0,750", ("0.75",), ()),
        ("12 750", ("12750.0",), ("12750",)),
        ("1200", ("1200.0",), ("1200",)),
        ("0012345678", ("0012345678.0", "12345678.0"), ("0012345678", "12345678")),
        (
            "0049 40 1234567",
            ("0049401234567.0", "401234567.0"),
            ("0049401234567", "401234567"),
        ),
        ("120", None, None),
        ("05/06/2031", ("2031-06-05", "2031-05-06"), ()),
        ("30.02.2031", ("30.02.2031", "30022031.0"), ("30022031",)),
        ("192.168.0.1", ("192.168.0.1", "19216801.0"), ("19216801",)),
        ("1999-2004", None, None),
        ("2.3.1", None, None),
        ("word", None, None),
        ("12 pages 13", None, None),
    ],
)
def test_a_figure_has_a_code_for_each_reading(
    compound: str, codes: tuple[str, ...] | None, digits: tuple[str, ...]
) -> None:
    figure = read_figure(compound)
    assert (None if figure is None else figure.codes) == codes
    assert figure is None or figure.digits == digits


@pytest.mark.parametrize(
    ("text", "compounds"),
    [
        ("9,90 Euro", ["9,90", "Euro"]),
        ("1,2,3,4", ["1", "2", "3", "4"]),
        ("on 3.5, 4 and", ["on", "3.5", "4", "and"]),
        ("Version 12, 2031", ["Version", "12", "2031"]),
        ("2 rooms 35", ["2", "rooms", "35"]),
        ("12,5-fach", ["12", "5-fach"]),
        (
            "PL61 1090 1014 0000 0712 1981 2874 from",
            ["PL61 1090 1014 0000 0712 1981 2874", "from"],
        ),
        ("DE89 370 400 440 532 013 000 12 cm", ["DE89 370 400 440 532 013 000", "12", "cm"]),
        ("no12 of the cases x", ["no12", "of", "the", "cases", "x"]),
        ("no 12 34567890123 x", ["no", "12", "34567890123", "x"]),
        ("pay 12.750,- now", ["pay", "12.750", "now"]),
        ("ab12 word text here", ["ab12", "word", "text", "here"]),
        ("C++, C# or .NET", ["C++", "C#", "or", ".NET"]),
        ("C/C++ a+++ order# f#x", ["C/C++", "a", "order", "f", "x"]),
        ("example.net", ["example.net"]),
        ("Am 17. Mai 2031 um", ["Am", "17. Mai 2031", "um"]),
        ("9,90,", ["9,90"]),
        ("IBAN DE44 5001 0517 5407 3249 31.", ["IBAN", "DE44 5001 0517 5407 3249 31"]),
        ("A-1.2", ["A-1.2"]),
        ("call (555) 123-4567", ["call", "555) 123-4567"]),
        ("in (2019) 12 pages", ["in", "2019", "12", "pages"]),
    ],
)
def test_figures_are_whole_and_all_else_is_as_before(text: str, compounds: list[str]) -> None:
    assert list(split_into_compounds(text, any_case=True)) == compounds
    assert list(split_into_compounds(text.lower())) == [compound.lower() for compound in compounds]


def test_names_with_marks_are_words() -> None:
    assert PLAIN.analyse("C++ and C#, F#; notepad++") == ["c++", "and", "c#", "f#", "notepad++"]
    assert PLAIN.analyse(".NET, ASP.NET, dotnet") == [
        "net",
        "dotnet",
        "asp",
        "net",
        "dotnet",
        "dotnet",
    ]


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("12750", "12.750,00 or $12,750.00 or 12 750", ["12.750,00", "12,750.00", "12 750"]),
        ("9,90", "9.90, 9 or 19,90", ["9.90", "9", "90"]),
        ("12,750", "12750 and 750", ["12750", "750"]),
        ("2031-05-17", "Am 17. Mai 2031", ["17. Mai 2031"]),
        ("C++", "C and C++", ["C++"]),
        (
            "DE44500105175407324931",
            "IBAN DE44 5001 0517 5407 3249 31.",
            ["DE44 5001 0517 5407 3249 31"],
        ),
        (".net", "the .NET", [".NET"]),
        ("rooms", "2 rooms 35", ["rooms"]),
        ("PHX-121", "12 phx121 45", ["phx121"]),
    ],
)
def test_figures_are_marked_as_a_whole(
    query: str,
    text: str,
    marked: list[str],
) -> None:
    assert [text[start:end] for start, end in matched_spans(query, text)] == marked


def search(
    folder: Path,
    texts: dict[str, str],
    query: str,
    language: str = "en",
) -> list[str]:
    names = list(texts)
    index = LexicalIndex.build(
        folder / "index",
        enumerate(texts.values()),
        language,
    )
    return [names[key] for key in index.search(query, len(names))[0].tolist()]


def test_a_passage_with_the_amount_comes_before_those_with_its_parts(tmp_path: Path) -> None:
    texts = {
        "parts": "9 pages show 90 items; item 9 costs 90, item 90 costs 9",
        "more parts": "rates 9 and 90, 9 and 90, 9 and 90",
        "other": "19,90 for glass",
        "dot": "9.90 for paint",
        "comma": "The amount of 9,90 is due by Friday at noon, says the bill",
    }
    found = search(tmp_path, texts, "9,90")
    assert {*found[:2]} == {"dot", "comma"}
    assert "other" not in found[:4]


@pytest.mark.parametrize("query", ["12750", "12,750", "12.750,00", "12 750"])
def test_an_amount_is_found_in_any_spelling(tmp_path: Path, query: str) -> None:
    texts = {
        "plain": "Budget 12750 was approved",
        "german": "12.750,00 Euro laut Vertrag",
        "english": "the bond of $12,750.00",
        "parts": "12 pages for 750 people, 12 of 750",
        "none": "no number",
    }
    assert {*search(tmp_path, texts, query)[:3]} == {"plain", "german", "english"}


@pytest.mark.parametrize(
    ("text", "query", "code"),
    [
        ("Staffel 0 – 5 000 Stück", "5000", "5000.0"),
        ("Plus +12 750 EUR", "12750", "12750.0"),
        ("03 – 05 June 2031", "2031-06-05", "2031-06-05"),
        ("Workshop 09:00 – 17 May 2031", "2031-05-17", "2031-05-17"),
        ("Miete 0 – 250 000 EUR", "250000", "250000.0"),
    ],
)
def test_amounts_and_days_in_what_looks_like_a_telephone_number_are_found(
    tmp_path: Path, text: str, query: str, code: str
) -> None:
    texts = {"figure": text, "none": "no number is written here"}
    assert code in PLAIN.terms(text).codes
    assert search(tmp_path, texts, query) == ["figure"]
    assert matched_spans(query, text)


def test_passages_are_required_to_hold_a_number_in_any_spelling(tmp_path: Path) -> None:
    texts = [
        "Budget 12750 was approved",
        "12.750,00 Euro",
        "12 pages for 750 people",
        "Vertrag 17.05.2031",
        "May 17, 2031",
    ]
    index = LexicalIndex.build(
        tmp_path / "index", enumerate(texts), "en", languages={1: "de", 3: "de"}
    )
    held = {query: index.find_with_words(query) for query in ("12,750", "12750", "2031-05-17")}
    assert {query: sorted(ids.tolist()) for query, ids in held.items() if ids is not None} == {
        "12,750": [0, 1],
        "12750": [0, 1],
        "2031-05-17": [3, 4],
    }
    assert not any(map(len, index.find_with_codes("1,200")))
    assert [
        sorted(holders.tolist()) for holders in index.find_with_codes("12,750 on 17/5/2031")
    ] == [
        [0, 1],
        [3, 4],
    ]
    assert index.find_codes("in 2031") == []


def test_a_code_inside_a_longer_one_is_known(tmp_path: Path) -> None:
    index = LexicalIndex.build(
        tmp_path / "index", [(0, "order INV-2031-0042/B"), (1, "phx 121")], "en"
    )
    assert index.find_with_parts("INV-2031").tolist() == [0]
    assert has_longer_code(index.analyzer, "INV-2031", "order INV-2031-0042/B")
    assert has_longer_code(index.analyzer, "0042/B", "order INV-2031-0042/B")
    assert not has_longer_code(index.analyzer, "INV-203", "order INV-2031-0042/B")
    assert has_longer_code(index.analyzer, "20310412", "IMG_20310412_Scan")
    assert not has_longer_code(index.analyzer, "20310412", "IMG_203104127_Scan")
    assert index.find_with_parts("PHX-121").tolist() == [1]
    assert not has_longer_code(index.analyzer, "PHX-121", "phx 121")
    assert index.find_with_parts("words alone").tolist() == []


@pytest.mark.shared
@pytest.mark.skipif(not FAULTS.is_dir(), reason="the shared data sets are missing")
def test_real_amounts_are_found(tmp_path: Path) -> None:
    texts = {
        path.name: path.read_text() for path in sorted((FAULTS / "10-amounts" / "docs").iterdir())
    }
    assert search(tmp_path / "a", texts, "9,90")[0] == "r1.txt"
    assert {*search(tmp_path / "b", texts, "12750")} == {"big1.txt", "big2.txt", "big3.txt"}


@pytest.mark.parametrize("language", ["en", "none", "de"])
@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("email", {1, 2}),
        ("e-mail", {1, 2}),
        ("E-Mails", {1, 2}),
        ("USA", {3}),
        ("U.S.A.", {3}),
        ("UNESCO", {16}),
        ("2:45 pm", {17}),
        ("Datenschutzgrundverordnung", {4}),
        ("75 kW", {5, 6}),
        ("75kW", {5, 6}),
        ("DE123456789", {7}),
        ("DE 123 456 789", {7}),
        ("2.3.1", {8}),
        ("12.04.2031", {9}),
        ("1920 × 1080", {10}),
        ("Köln", {11}),
        ("Koelnmesse", {11}),
        ("OBrien", {13}),
        ("O\u2019Brien", {13}),
        ("avion", {14}),
        ("l'avion", {14}),
        ("میخواهم", {15}),
        ("می\u200cخواهم", {15}),
    ],
)
def test_what_is_written_in_two_ways_is_found_in_both(
    tmp_path: Path, query: str, texts: set[int], language: str
) -> None:
    chunks = {
        1: "The e-mail of Monday.",
        2: "An email came.",
        3: "Made in the U.S.A. and sold.",
        4: "Die Datenschutz-Grundverordnung gilt.",
        5: "A motor of 75kW here.",
        6: "A motor of 75 kW here.",
        7: "USt-IdNr. DE 123 456 789",
        8: "Upgrade to v2.3.1 tomorrow",
        9: "Protokoll_20310412_final",
        10: "screen 1920x1080 wide",
        11: "Die Köln-Messe beginnt.",
        12: "nothing else is here, to be found by no word of theirs",
        13: "Signed by O'Brien himself",
        14: "Il prend l’avion pour Rome",
        15: "می\u200cخواهم",
        16: "A site of U.N.E.S.C.O. since May",
        17: "We met at 2:45pm there",
    }
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks.items(),
        language,
    )
    found = index.search(query, 17)[0].tolist()
    if language == "none" and query == "E-Mails":
        texts = {1}
    best = set(found[: len(texts)])
    assert best == texts
    ids = np.arange(1, 18)
    scores = index.scores(query, ids)
    assert index.scorer().scores(index.query_terms(query, bonus=True), ids) == pytest.approx(scores)
    spans = matched_spans(
        query,
        chunks[found[0]],
        language,
    )
    assert spans


@pytest.mark.parametrize("language", ["en", "none", "de"])
@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("§ 12", {1, 2}),
        ("§12", {1, 2}),
        ("§\u00a012", {1, 2}),
        ("§§ 12", {1, 2}),
        ("§ 12a", {3}),
        ("Email", {5}),
        ("E-Mail-Verkehr", {5}),
        ("Ubahn", {6}),
        ("Mitarbeiterinnen", {7, 8}),
        ("Mitarbeiter*innen", {7, 8}),
        ("Kolleginnen", {7}),
        ("Lehrerin", {8}),
        ("2.3.1", {9}),
        ("v2.3.1", {9}),
        ("us", {10}),
        ("Wartungsvertrag", {12}),
        ("Vertrag", {12}),
        ("Wartungs-\nvertrag", {12}),
        ("Kunden", {13}),
    ],
)
def test_signs_between_words_join_or_part_them(
    tmp_path: Path, query: str, texts: set[int], language: str
) -> None:
    chunks = {
        1: "Nach § 12 Abs. 3 gilt",
        2: "vgl. §§12, 13 dort",
        3: "siehe § 12a dort",
        4: "12 Monate, 12 Jahre, 12.3",
        5: "Der E-Mail-Verkehr ruht",
        6: "An der U-Bahn-Station",
        7: "Mitarbeiter*innen und Kolleg:innen",
        8: "Mitarbeiter/-innen, Lehrer:in genannt",
        9: "Version v2.3.1-beta ist da",
        10: "The us army",
        11: "The U.S.A. won",
        12: "Der Wartungs-\n  vertrag endet",
        13: "Kunden-\nund Lieferantendaten",
    }
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks.items(),
        language,
    )
    found = index.search(query, 13)[0].tolist()
    assert set(found[: len(texts)]) == texts
    spans = matched_spans(
        query,
        chunks[found[0]],
        language,
    )
    assert spans
    if query == "Wartungsvertrag":
        assert spans == [(4, 23)]


@pytest.mark.parametrize("language", ["en", "none", "de"])
def test_a_spaced_out_word_is_found(tmp_path: Path, language: str) -> None:
    texts = {
        "a": "Muster AG\nR E C H N U N G\nNr. 17",
        "b": "A L L G E M E I N E  B E D I N G U N G E N",
        "c": "the points a b c of d",
    }
    texts = {key: restore_text(text) for key, text in texts.items()}
    assert search(tmp_path / "1", texts, "Rechnung", language) == ["a"]
    assert search(tmp_path / "2", texts, "Bedingungen", language) == ["b"]
    assert search(tmp_path / "3", texts, "abc", language) == []


@pytest.mark.parametrize(
    ("query", "text", "other"),
    [
        ("3.4.31", "am 3.4.2031 um 8 Uhr in der langen Halle am Hafen", "FY31"),
        ("3/4/2031", "am 3. April 2031 in der langen Halle am Hafen", "2031 2031"),
        ("§ 12", "Es gilt § 12 des Gesetzes in der Fassung von gestern", "12 12 12"),
    ],
)
def test_a_day_or_a_section_counts_more_than_its_last_number(
    tmp_path: Path, query: str, text: str, other: str
) -> None:
    texts = {
        "other": other,
        "right": text,
        "none": "words alone",
        "more": "and no more of them",
    }
    assert search(tmp_path, texts, query)[0] == "right"
