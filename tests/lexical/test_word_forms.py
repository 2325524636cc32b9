"""Forms of words that stemmers keep apart, in several languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.lexical.analysis import Analyzer
from engine.lexical.index import LexicalIndex
from engine.lexical.matches import matched_spans

SAME = {
    "en": [
        "colour color",
        "colours colors",
        "favourite favorite",
        "behavioural behavioral",
        "neighbourhood neighborhood",
        "centre center",
        "centred centered",
        "metres meter",
        "organise organize",
        "organisations organization",
        "analyse analyze",
        "analyses analysis",
        "catalogue catalog",
        "programmes program",
        "kilogramme kilogram",
        "licences license",
        "practising practicing",
        "grey gray",
        "tyres tires",
        "anaemia anemia",
        "paediatric pediatric",
        "orthopaedic orthopedic",
        "oedema edema",
        "foetal fetal",
        "diarrhoea diarrhea",
        "sulphate sulfate",
        "mice mouse",
        "children child",
        "knives knife",
        "matrices matrix",
        "criteria criterion",
        "spectra spectrum",
        "paid pay",
        "sold sell",
        "written write",
    ],
    "de": [
        "Fotovoltaik Photovoltaik",
        "Geographie Geografie",
        "potentiell potenziell",
        "selbständig selbstständig",
        "Schiffahrt Schifffahrt",
        "Joghurt Jogurt",
        "Thunfisch Tunfisch",
        "aufwändig aufwendig",
        "Hauptstr Hauptstraße",
        "Bankkonten Bankkonto",
        "Studien Studium",
        "Firmen Firma",
        "Mechanismen Mechanismus",
    ],
    "pt": ["informação informações", "pão pães", "animais animal", "homens homem", "hotéis hotel"],
    "es": ["luz luces", "raíz raíces", "juez jueces"],
    "fr": ["délai délais", "loi lois", "travail travaux", "employé employée", "signé signées"],
    "nl": ["stad steden", "kind kinderen"],
    "ar": ["مدرسة المدرسة", "كتاب والكتاب"],
}
PAIRS = [(language, *pair.split()) for language, pairs in SAME.items() for pair in pairs]


@pytest.mark.parametrize(("language", "one", "other"), PAIRS)
def test_both_forms_are_one_term(
    language: str,
    one: str,
    other: str,
) -> None:
    analyzer = Analyzer(language)
    assert analyzer.analyse(one) == analyzer.analyse(other) != []
    assert matched_spans(one, other, language) == [(0, len(other))]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "revise", "revision"),
        ("en", "supervise", "supervision"),
        ("en", "hour", "hours"),
        ("en", "exercise", "exercises"),
        ("de", "Initiale", "Initialen"),
    ],
)
def test_what_a_stemmer_unifies_stays_one_term(
    language: str,
    one: str,
    other: str,
) -> None:
    analyzer = Analyzer(language)
    assert analyzer.analyse(one) == analyzer.analyse(other)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "hour", "hor"),
        ("en", "genre", "gener"),
        ("en", "founded", "find"),
        ("de", "colour", "color"),
        ("none", "colour", "color"),
        ("fr", "centre", "center"),
    ],
)
def test_other_words_and_languages_are_left_alone(
    language: str,
    one: str,
    other: str,
) -> None:
    analyzer = Analyzer(language)
    assert analyzer.analyse(one) != analyzer.analyse(other)


def test_the_beginning_of_an_irregular_form_finds_its_term(tmp_path: Path) -> None:
    chunks = [(1, "Three mice were bought."), (2, "Mint is green.")]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "en",
    )
    for beginning in ("mic", "bough"):
        assert index.find_with_any(index.vocabulary.find_stems(beginning)).tolist() == [1]
