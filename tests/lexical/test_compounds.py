"""Words and compounds that no chunk contains as typed, in languages that write compounds as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.lexical.compounds import (
    Compound,
    find_compounds,
    find_other_number,
    split_compound,
)
from engine.lexical.index import LexicalIndex

CHUNKS = {
    1: "Die Vertragslaufzeit beträgt drei Jahre.",
    2: "Die Restlaufzeit und die Vertragslaufzeit enden.",
    3: "Das Krankenhaus kündigt die Haftpflichtversicherung.",
    4: "Der Mieter zahlt. Die Kaution wird geprüft.",
    5: "Die Wohnung hat ein Bad.",
}


def build(
    tmp_path: Path,
    language: str,
    others: dict[int, str] | None = None,
) -> LexicalIndex:
    return LexicalIndex.build(
        tmp_path / "index",
        CHUNKS.items(),
        language,
        languages=others,
    )


@pytest.mark.parametrize(
    ("word", "compounds"),
    [
        ("Laufzeit", ["vertragslaufzeit", "restlaufzeit"]),
        ("Laufzeiten", ["vertragslaufzeit", "restlaufzeit"]),
        ("Versicherungen", ["haftpflichtversicher"]),
        ("Haftpflicht", ["haftpflichtversicher"]),
        ("Kaution", []),  # a chunk contains it
        ("Bad", []),
        ("haus", []),  # too short
        ("Fenster", []),
        ("2031", []),
    ],
)
def test_a_word_stands_for_the_compounds_with_it(
    tmp_path: Path, word: str, compounds: list[str]
) -> None:
    found = find_compounds(build(tmp_path, "de").vocabulary, word)
    assert [compound.term for compound in found] == compounds


@pytest.mark.parametrize(
    ("word", "text", "compound"),
    [
        # Of long words the stemmer cuts off more.
        (
            "Kündigung",
            "Die Mietvertragskündigung liegt bei.",
            Compound("mietvertragskund", "kundig"),
        ),
        ("Rechnung", "Die Schlussrechnung fehlt.", Compound("schlussrechn", "rechnung")),
        # A long part may stand between two others.
        ("Schifffahrt", "Die Donauschifffahrtsordnung gilt.", Compound("donauschiffahrtsordn")),
    ],
)
def test_stems_of_compounds_may_differ(
    tmp_path: Path, word: str, text: str, compound: Compound
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, text)],
        "de",
    )
    assert find_compounds(index.vocabulary, word) == [compound]


@pytest.mark.parametrize(
    ("word", "text", "other"),
    [
        ("Kita", "Die Kitas öffnen.", "Kitas"),
        ("Büros", "Das Büro ist leer.", "Büro"),
        ("LKWs", "Der Lkw fährt.", "LKW"),
        ("Büro", "Das Büro ist leer.", ""),
        ("Preis", "Die Pre-Release ist da.", ""),
        ("da", "Das Büro ist leer.", ""),
        ("Kita", "Der Hort öffnet.", ""),
    ],
)
def test_plurals_in_s_that_the_stemmer_keeps(
    tmp_path: Path, word: str, text: str, other: str
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, text)],
        "de",
    )
    assert find_other_number(index.vocabulary, word) == other


@pytest.mark.parametrize(
    ("word", "text", "other"),
    [
        ("PDFs", "The PDF and the PDFs", "PDF"),
        ("URLs", "The URL and the URLs", ""),  # the stemmer removes its s
        ("news", "A new house", ""),
        ("needless", "The needles fell.", ""),
    ],
)
def test_other_languages_have_other_numbers_of_acronyms_only(
    tmp_path: Path, word: str, text: str, other: str
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, text)],
        "en",
    )
    assert find_other_number(index.vocabulary, word) == other


def test_words_of_scripts_without_spaces_get_no_s(tmp_path: Path) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, "Größe S")],
        "de",
    )
    assert find_other_number(index.vocabulary, "契約") == ""


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Eisen", "Ausweis, Hinweis und Nachweis"),
        ("Akten", "Der Kontakt besteht."),
        ("Orten", "Antwort sofort"),
    ],
)
def test_a_word_with_a_short_stem_stands_for_no_compounds(
    tmp_path: Path, word: str, text: str
) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        [(1, text)],
        "de",
    )
    assert find_compounds(index.vocabulary, word) == []


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Mietkaution", ("Miet", "kaution")),  # the stem of Mieter
        ("Mieterkaution", ("Mieter", "kaution")),
        ("Wohnungsmieter", ("Wohnungs", "mieter")),
        ("Krankenhausmieter", ("Krankenhaus", "mieter")),
        ("Vertragslaufzeit", ()),
        ("Dachfenster", ()),
    ],
)
def test_a_compound_stands_for_its_parts(
    tmp_path: Path,
    word: str,
    parts: tuple[str, ...],
) -> None:
    assert split_compound(build(tmp_path, "de").vocabulary, word) == parts


def test_a_stop_word_is_no_part_of_a_compound(tmp_path: Path) -> None:
    chunks = [(1, "Wir lassen die Anlage nach der Abnahme prüfen.")]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "de",
    )
    assert index.vocabulary.contains("Nach")
    assert not index.vocabulary.has_chunks_with("Nach")
    assert split_compound(index.vocabulary, "Nachlass") == ()
    assert split_compound(index.vocabulary, "Anlagenabnahme") == ("Anlagen", "abnahme")


def test_only_languages_that_write_compounds_as_one_word_have_any(tmp_path: Path) -> None:
    english = build(tmp_path / "en", "en").vocabulary
    assert find_compounds(english, "Laufzeit") == []
    assert split_compound(english, "Mieterkaution") == ()
    mixed = build(tmp_path / "mixed", "en", {2: "de"}).vocabulary
    found = find_compounds(mixed, "Laufzeit")
    assert [compound.term for compound in found] == ["de:restlaufzeit", "de:vertragslaufzeit"]
