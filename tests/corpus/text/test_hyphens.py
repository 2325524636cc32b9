"""Line ends that are made to take long."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.text.hyphens import BREAK, join_split_words, mark_line_ends, mark_split_words

LONG = 30_000


@pytest.mark.parametrize(
    "go",
    [
        lambda: join_split_words([f"b{BREAK}c " + "a" * LONG]),
        lambda: join_split_words([f"b{BREAK}c " + "a-" * LONG]),
        lambda: mark_line_ends("ab\x02cd \x02" * LONG),
        lambda: mark_split_words("1-\n" * 10 * LONG),
        lambda: mark_split_words("1" * LONG + "," + "1,111" * LONG + "-\n1"),
        lambda: mark_split_words(("a" + " " * LONG + "1.1") * 9 + "\n2031"),
    ],
)
def test_long_words_take_no_long_time(go: Callable[[], object]) -> None:
    started = time.process_time()
    go()
    assert time.process_time() - started < 5


def test_a_word_of_several_parts() -> None:
    page = f"up{BREAK}to-the{BREAK}minute state-of{BREAK}art a{BREAK}b{BREAK}cd-e\u2010fgh{BREAK}ij"
    assert join_split_words([page]) == ["upto-theminute state-ofart a-b-cd-e\u2010fghij"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        # de
        (f"die Kunden{BREAK}und Lieferantendaten", "die Kunden- und Lieferantendaten"),
        (f"der Sach{BREAK}oder Personenschäden", "der Sach- oder Personenschäden"),
        (f"die Haupt{BREAK}bzw. Nebenkosten", "die Haupt- bzw. Nebenkosten"),
        (f"der Plan für die Sonn{BREAK}u. Feiertage", "der Plan für die Sonn- u. Feiertage"),
        (f"KUNDEN{BREAK}UND LIEFERANTEN", "KUNDEN- UND LIEFERANTEN"),
        (f"die zwei{BREAK}bis dreimal und", "die zwei- bis dreimal und"),
        (f"die Frau{BREAK}en der Kür{BREAK}bis und", "die Frauen der Kürbis und"),
        (f"der Hund und der H{BREAK}und kam", "der Hund und der Hund kam"),
        (f"der 12{BREAK}und 24-monatige", "der 12- und 24-monatige"),
        # en
        (f"the pre{BREAK}and post-audit work", "the pre- and post-audit work"),
        (f"the short{BREAK}or long-term leases", "the short- or long-term leases"),
        (f"the mid{BREAK}to late-stage repairs", "the mid- to late-stage repairs"),
        (
            f"the sail{BREAK}or went in{BREAK}to the har{BREAK}bour",
            "the sailor went into the harbour",
        ),
        (
            f"the seg{BREAK}ments, thou{BREAK}sand, hus{BREAK}band",
            "the segments, thousand, husband",
        ),
        # nl
        (f"de vracht{BREAK}en verzendkosten voor het", "de vracht- en verzendkosten voor het"),
        (f"de in{BREAK}of uitvoer van het", "de in- of uitvoer van het"),
        # fr
        (f"les phases pré{BREAK}et postopératoires", "les phases pré- et postopératoires"),
        (f"the pock{BREAK}et of the coat", "the pocket of the coat"),
        # es
        (f"la pre{BREAK}y posventa de los", "la pre- y posventa de los"),
        (f"los micro{BREAK}o macrodatos de la", "los micro- o macrodatos de la"),
        # pl, cs
        (
            f"fundusze eko{BREAK}i biotechnologiczne są dla firm w tym",
            "fundusze eko- i biotechnologiczne są dla firm w tym",
        ),
        (
            f"smlouvy dvou{BREAK}nebo tříleté jsou pro firmy",
            "smlouvy dvou- nebo tříleté jsou pro firmy",
        ),
        (f"die Innen{BREAK}wie Außenwände der", "die Innen- wie Außenwände der"),
        # sv, da, it
        (f"det är in{BREAK}och utförsel", "det är in- och utförsel"),
        (f"det er ind{BREAK}og udførsel af", "det er ind- og udførsel af"),
        (f"il pre{BREAK}e postvendita della", "il pre- e postvendita della"),
        (f"de groei{BREAK}en de stoel van het", "de groeien de stoel van het"),
        (f"det är lång{BREAK}samt arbete och", "det är långsamt arbete och"),
        (f"die insge{BREAK}samt 12 Fälle der", "die insgesamt 12 Fälle der"),
        (f"les travaux infi{BREAK}ni dans une", "les travaux infini dans une"),
        (f"the mi{BREAK}nor damage of", "the minor damage of"),
        (f"bel{BREAK}és külföldi az és hogy", "bel- és külföldi az és hogy"),
        (f"авто{BREAK}и мотоспорт в на для", "авто- и мотоспорт в на для"),
        (f"авто{BREAK}або мотоспорт", "авто- або мотоспорт"),
        # texts too short to tell their language
        (f"przed{BREAK}i popołudniowe", "przed- i popołudniowe"),
        (f"jedno{BREAK}albo dwudniowe", "jedno- albo dwudniowe"),
        (f"jedno{BREAK}či vícedenní", "jedno- či vícedenní"),
        (f"macro{BREAK}o microeconomia", "macro- o microeconomia"),
        (f"pré{BREAK}e pós-venda", "pré- e pós-venda"),
        (f"in{BREAK}en uitvoer", "in- en uitvoer"),
        (f"voor{BREAK}of nadelen", "voor- of nadelen"),
        (f"ind{BREAK}og udførsel", "ind- og udførsel"),
        (f"macro{BREAK}ou microéconomie", "macro- ou microéconomie"),
        (f"two{BREAK}or three-year terms", "two- or three-year terms"),
        (f"Kunden{BREAK}u. Lieferantendaten", "Kunden- u. Lieferantendaten"),
        (f"boek{BREAK}en tafels", "boeken tafels"),
        (f"Vitamin{BREAK}E Mangel", "Vitamin-E Mangel"),
    ],
)
def test_a_hyphen_that_stands_for_a_word_that_follows(lines: str, text: str) -> None:
    assert join_split_words([lines]) == [text]


def test_a_hyphen_before_a_blank_line_is_not_suspended() -> None:
    assert join_split_words([f"die Kunden{BREAK}und"]) == ["die Kundenund"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("article 4711-08-\n15 and more", "article 4711-08-15\nand more"),
        ("drawing 2030/\n00045, of", "drawing 2030/00045,\nof"),
        ("type KL-4400/\nB here", "type KL-4400/B\nhere"),
        ("until 31.12.\n2031, then", "until 31.12.2031,\nthen"),
        ("pages 10-\n20\nof the annex", "pages 10-20\nof the annex"),
        ("price 49,-\n12 pieces", "price 49,-\n12 pieces"),
        ("in the year 12.\n2031 came", "in the year 12.\n2031 came"),
        ("and/\nor", "and/\nor"),
        ("number 12 -\n13", "number 12 -\n13"),
        ("table 5-\n\n6", "table 5-\n\n6"),
        ("article 4711-\n08-\n15\nof ten", "article 4711-08-15\nof ten"),
        ("done by 3.1.\n2031", "done by 3.1.2031"),
        ("day 17.05.31-\n18.05.31", "day 17.05.31-18.05.31"),
    ],
)
def test_numbers_and_codes_that_a_line_end_splits_are_whole(lines: str, text: str) -> None:
    assert mark_split_words(lines) == text


@pytest.mark.parametrize(
    "lines",
    [
        "4400 | Miete | 1.250,00-\n4711 | Strom | 80,00-",
        "4400 | KL-4400/\nB | 12",
        "1.250,00-\n3.400,00",
        "1,250.00-\n3,400.00",
        "due 31.12.\n4711 | Strom",
        "due 31.12.\n4711 pieces",
        "3.1.\n2031 figures",
        "2030/\nerledigt",
        "2030/\nErledigt",
    ],
)
def test_rows_and_headings_do_not_run_into_each_other(lines: str) -> None:
    assert mark_split_words(lines) == lines


SHARED = (
    Path(__file__).resolve().parents[4]
    / "shared"
    / "data"
    / "faults"
    / "05-suspended-hyphen"
    / "docs"
)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("de_und.pdf", ("Kunden- und Lieferantendaten", "Ein- und Ausfuhr")),
        ("de_oder.pdf", ("Sach- oder Personenschäden", "Haupt- bzw. Nebenkosten")),
        ("en_and.pdf", ("pre- and post-audit", "short- or long-term", "mid- to late-stage")),
        ("nl_en.pdf", ("vracht- en verzendkosten",)),
    ],
)
def test_example_files(name: str, parts: tuple[str, ...]) -> None:
    (document,) = read_everything(SHARED / name, "pdf")
    assert isinstance(document, ReadDocument)
    assert [part for part in parts if part not in document.text] == []


@pytest.mark.parametrize(
    ("pages", "joined"),
    [
        (["Die Instand-", "haltung der Anlage"], ["Die Instandhaltung", "der Anlage"]),
        (["Die Instand-", "", "haltung."], ["Die Instandhaltung.", "", ""]),
        (["the self-", "service desk, self-service"], ["the self-service", "desk, self-service"]),
        (["der US-", "amerikanische Kran"], ["der US-amerikanische", "Kran"]),
        (["die Kunden-", "und Lieferantendaten"], ["die Kunden-", "und Lieferantendaten"]),
        (["der Punkt -", "haltung"], ["der Punkt -", "haltung"]),
        (["Die Instand-", "Haltung"], ["Die Instand-", "Haltung"]),
        (["eins-", "zwei-", "drei"], ["einszwei-", "", "drei"]),
    ],
)
def test_a_word_that_two_pages_share_stands_on_the_first(
    pages: list[str], joined: list[str]
) -> None:
    assert join_split_words(pages)[: len(joined)] == joined


@pytest.mark.parametrize(
    ("page", "marked"),
    [
        ("Die Instand\x02Seite 1 von 4", "Die Instand-\nSeite 1 von 4"),
        ("Die Instand\x021", "Die Instand-\n1"),
        ("the main\x02page 3 of 9", "the main-\npage 3 of 9"),
        ("Die Instand\x02Kranbau GmbH\nSeite 1", "Die Instand-\nKranbau GmbH\nSeite 1"),
        ("Die Instand\x02haltung", f"Die Instand{BREAK}haltung"),
        ("Nord\x02Süd-Bahn\neins\nzwei", f"Nord{BREAK}Süd-Bahn\neins\nzwei"),
        ("4711-\x0215", f"4711-{BREAK}15"),
        ("of North\x02South.", f"of North{BREAK}South."),
    ],
)
def test_a_footer_is_no_rest_of_a_word(page: str, marked: str) -> None:
    assert mark_line_ends(page) == marked
