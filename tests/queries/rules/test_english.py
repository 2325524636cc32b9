"""English: questions, claims, verbs, everyday words."""

from __future__ import annotations

import random

import pytest
from fixtures.records import build_chunk

from engine.queries.rules.claims import (
    claim_query,
    clean,
    shorten,
    without_lead,
    without_loose_end,
    without_tail,
)
from engine.queries.rules.extractive import generate
from engine.queries.rules.generalisation import generalise
from engine.queries.rules.keywords import nameable_phrases
from engine.queries.rules.phrases import find_phrases, find_verb
from engine.queries.rules.salience import salient_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import correct_articles, paraphrase
from engine.queries.rules.tokens import tokenize
from engine.queries.rules.vocabulary import ENGLISH

SEEN = (
    "the",
    "pump",
    "valve",
    "company",
    "board",
    "heat",
    "report",
    "old",
    "engineers",
    "erase",
    "pressure",
    "vessel",
)
TABLE = TermStatistics(
    1000,
    dict.fromkeys(SEEN, 20),
    lower_case=frozenset(SEEN),
    capitalised=frozenset({"acme", "turo"}),
    people=frozenset({"moses"}),
)


def questions_about(text: str) -> set[str]:
    """Return the questions about a text over many seeds."""
    chunk = build_chunk(text, 1)
    texts = set[str]()
    for seed in range(200):
        queries = generate(
            [chunk], {}, kinds=("question",), per_chunk=1, seed=seed, statistics=TABLE
        )
        texts.update(query.text for query in queries)
    return texts


def test_questions_are_templates_with_two_phrases_and_their_articles() -> None:
    expected = set[str]()
    for template in ENGLISH.questions:
        expected.add(template.format("Turo", "an oil filter"))
        expected.add(template.format("Turo", "a filter"))
    assert len(expected) == 16
    assert questions_about("Turo introduced an oil filter.") == expected


def test_a_sentence_begins_in_lower_case_inside_a_question() -> None:
    questions = questions_about("Pressure vessels leaked near Turo.")
    assert any("pressure vessels" in text for text in questions)
    assert not any("Pressure" in text for text in questions)


def test_names_and_terms_of_several_words_are_asked_about_before_single_words() -> None:
    text = "The gear of the Orion reached a boundary layer, 12 bar and torque near Acme"
    phrases = find_phrases(
        text,
        tokenize(text),
        TABLE,
        ENGLISH,
    )
    assert "gear" in {phrase.text for phrase in phrases}
    nameable = [phrase.text for phrase in nameable_phrases(phrases)]
    assert nameable == ["Orion", "boundary layer", "Acme"]


def test_a_participle_alone_is_no_thing_to_ask_about() -> None:
    text = "Written to Acme, asking for a gear"
    phrases = find_phrases(
        text,
        tokenize(text),
        TABLE,
        ENGLISH,
    )
    assert [phrase.text for phrase in phrases] == ["Written", "Acme", "asking", "gear"]
    assert [phrase.text for phrase in nameable_phrases(phrases)] == ["Acme", "gear"]


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("The company announced a pump", "announced"),
        ("Two tests depend on the oil", "depend"),
        ("The valve carries the load", "carries"),
        ("Acme chose the pump", "chose"),
        ("The high speed of the rotor", None),
        ("The test results in the report", None),
        ("A rise of the price", None),
        ("Acme is making the pump", "is"),
        ("A note from Acme saying that", "saying"),
    ],
)
def test_verbs(text, verb) -> None:
    tokens = tokenize(text)
    place = find_verb(tokens)
    assert (None if place is None else tokens[place].text) == verb


def test_speed_is_no_past() -> None:
    text = "the wind tunnel speed of the model"
    phrases = find_phrases(
        text,
        tokenize(text),
        TABLE,
        ENGLISH,
    )
    assert [phrase.text for phrase in phrases] == ["wind tunnel speed", "model"]


def test_claims_are_cut_before_a_preposition_after_the_verb() -> None:
    text = "one two three is five six seven eight nine ten in twelve of fourteen by sixteen"
    assert shorten(text, 12) == "one two three is five six seven eight nine ten"
    assert (
        shorten(text, 15) == "one two three is five six seven eight nine ten in twelve of fourteen"
    )
    assert shorten(text, 8) == "one two three is five six seven eight nine ten"
    assert shorten("the pump is in the hall by the sea", 4) == "the pump is in the hall"
    assert shorten("short enough is this", 12) == "short enough is this"
    assert shorten("the pump in the hall", 12) is None


def test_cleaning() -> None:
    assert (
        clean("(b) However, the “Term” (as defined) ends – unless renewed – today.", ENGLISH)
        == "the Term ends today"
    )
    assert clean("the Bears' prayers", ENGLISH) == "the Bears' prayers"
    assert (
        without_tail("the pump stops at night, which saves energy", ENGLISH)
        == "the pump stops at night"
    )
    assert without_lead("In 2019, the pump was sold to Acme") == "the pump was sold to Acme"
    assert without_loose_end("the pump in the", ENGLISH) == "the pump"


def test_claims_have_a_verb_and_no_tail_or_vague_beginning() -> None:
    def claims(text: str) -> set[str | None]:
        sentences = salient_sentences(text, TABLE, ENGLISH)
        return {claim_query(sentences[0], ENGLISH, random.Random(seed)) for seed in range(30)}

    variants = claims("However, Acme opened a plant in Spain (its third), which makes valves.")
    assert variants == {"Acme opened a plant in Spain"}
    assert claims("They opened a plant in Northern Spain.") == {None}
    assert claims("Who opened the turbine plant in Northern Spain?") == {None}
    assert claims("A turbine plant of Acme in Northern Spain.") == {None}


def test_generalising_keeps_heads_surnames_and_codes() -> None:
    always = random.Random(0)
    assert (
        generalise("the annual turbine inspection", TABLE, ENGLISH, always, share=1.0)
        == "the inspection"
    )
    assert generalise("about Barr Moses", TABLE, ENGLISH, always, share=1.0) == "about Moses"
    assert generalise("of the X-200 unit", TABLE, ENGLISH, always, share=1.0) == "of the X-200 unit"
    assert (
        generalise("the annual turbine inspection", TABLE, ENGLISH, always, share=0.0)
        == "the annual turbine inspection"
    )


def test_synonyms_keep_the_form_and_leave_names() -> None:
    text = paraphrase(
        "Why was the lawsuit rejected?",
        TABLE,
        random.Random(1),
        share=1.0,
    )
    assert text == "Why was the legal case turned down?"
    assert (
        paraphrase("The Company Study Group", TABLE, random.Random(1), share=1.0)
        == "The Company Study Group"
    )


def test_verbs_are_replaced_in_the_same_form() -> None:
    always = random.Random(0)
    assert (
        paraphrase("It will accept the pump", TABLE, always, share=1.0)
        == "It will agree to the pump"
    )
    assert paraphrase("It may be withdrawn", TABLE, always, share=1.0) == "It may be pulled out"
    assert paraphrase("It was chosen", TABLE, always, share=1.0) in {
        "It was picked",
        "It was selected",
    }
    assert paraphrase("an accept", TABLE, always, share=1.0) == "an accept"


def test_abbreviations_of_the_corpus_are_exchanged() -> None:
    table = TermStatistics(
        10,
        {},
        long_forms={"FCC": "Federal Communications Commission"},
    )
    variants = {
        paraphrase("rules of the FCC", table, random.Random(seed), share=0.0) for seed in range(20)
    }
    assert variants == {"rules of the FCC", "rules of the Federal Communications Commission"}
    back = {
        paraphrase("the Federal Communications Commission", table, random.Random(s), share=0.0)
        for s in range(20)
    }
    assert "the FCC" in back


def test_articles_agree() -> None:
    assert (
        correct_articles("a example and an proposal, an hour, series A of")
        == "an example and a proposal, an hour, series A of"
    )
