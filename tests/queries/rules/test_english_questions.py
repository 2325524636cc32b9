"""English: verb forms, clauses, questions, claims, everyday words."""

from __future__ import annotations

import random

import pytest

from engine.queries.rules.claims import (
    claim_query,
    clean,
    without_lead,
    without_loose_end,
    without_tail,
)
from engine.queries.rules.clauses import parse_clause
from engine.queries.rules.english import questions, shorten
from engine.queries.rules.generalisation import generalise
from engine.queries.rules.noun_phrases import first_noun_phrase, what_word, who_word
from engine.queries.rules.salience import salient_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import agree, inflect_phrase, paraphrase
from engine.queries.rules.verbs import VerbForm, gerund, inflect, third_person, verb_form
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


def asked(sentence: str, asks: str) -> set[str]:
    """All the questions of one sort over several random orders."""
    clause = parse_clause(clean(sentence, ENGLISH), TABLE)
    assert clause is not None
    found = (
        question for seed in range(20) for question in questions(clause, TABLE, random.Random(seed))
    )
    return {question.text for question in found if question.asks == asks}


def test_inflections() -> None:
    assert [third_person(verb) for verb in ("announce", "carry", "watch", "have")] == [
        "announces",
        "carries",
        "watches",
        "has",
    ]
    assert [gerund(verb) for verb in ("make", "drop", "lie", "see", "buy")] == [
        "making",
        "dropping",
        "lying",
        "seeing",
        "buying",
    ]
    assert [
        inflect("take", form) for form in ("base", "third", "past", "participle", "gerund")
    ] == [
        "take",
        "takes",
        "took",
        "taken",
        "taking",
    ]
    assert inflect("stop", "past") == "stopped"
    assert inflect_phrase("turn down", "past") == "turned down"


@pytest.mark.parametrize(
    ("word", "reading"),
    [
        ("announced", VerbForm("announce", "past")),
        ("carries", VerbForm("carry", "third")),
        ("taken", VerbForm("take", "participle")),
        ("criticised", VerbForm("criticise", "past")),
        ("cut", VerbForm("cut", "past")),
        ("table", None),
    ],
)
def test_verb_readings(word, reading) -> None:
    assert verb_form(word) == reading


def test_a_plain_past_sentence_is_taken_apart() -> None:
    clause = parse_clause("On Monday, the company announced a new pump for the plant", TABLE)
    assert clause is not None
    assert (
        clause.lead,
        clause.subject,
        clause.auxiliary,
        clause.verb,
        clause.rest,
        clause.statement,
    ) == (
        "on Monday",
        "the company",
        "did",
        "announce",
        "a new pump for the plant",
        "announced",
    )


def test_an_apposition_is_cut_out_of_the_subject() -> None:
    clause = parse_clause("Acme, maker of valves, has opened a plant", TABLE)
    assert clause is not None
    assert (clause.subject, clause.insertion, clause.auxiliary, clause.verb, clause.rest) == (
        "Acme",
        "maker of valves",
        "has",
        "",
        "opened a plant",
    )


def test_a_negation_is_kept() -> None:
    clause = parse_clause("The valve cannot open under load", TABLE)
    assert clause is not None
    assert (clause.subject, clause.auxiliary, clause.rest) == (
        "the valve",
        "can",
        "not open under load",
    )


def test_an_unknown_regular_past_has_its_base_from_the_corpus() -> None:
    clause = parse_clause("Acme erased its tapes", TABLE)
    assert clause is not None
    assert clause.verb == "erase"


@pytest.mark.parametrize(
    "text",
    [
        "It is a new pump",
        "use such information only as agreed",
        "They opened a plant",
        "Is the pump on?",
        "the deals of the week",
        "which was sold",
        "There is a pump in the hall",
        "neither side has won a game",
    ],
)
def test_sentences_without_a_clear_subject_are_left(text) -> None:
    assert parse_clause(text, TABLE) is None


def test_when() -> None:
    assert "When did Turo introduce a payment option?" in asked(
        "Turo introduced a payment option in March 2023.", "date"
    )


def test_why_and_how_and_under_what_conditions() -> None:
    assert asked("The board rejected the offer because the price was low.", "reason") == {
        "Why did the board reject the offer?"
    }
    assert asked("The pump saves energy by storing heat in a vessel.", "manner") == {
        "How does the pump save energy?"
    }
    assert asked("The company may end the contract if the fee is late.", "condition") == {
        "Under what conditions may the company end the contract?"
    }


def test_counts_and_amounts_are_asked_for() -> None:
    assert asked("Acme opened 12 plants in Spain.", "count") == {
        "How many plants did Acme open in Spain?"
    }
    assert asked("The company lost $450 million on the deal.", "amount") == {
        "How much did the company lose on the deal?"
    }
    assert asked("The pump has 12 blades of steel.", "count") == {
        "How many blades does the pump have of steel?"
    }


def test_the_object_is_asked_for_and_left_out() -> None:
    assert asked("Turo has introduced a payment option for drivers.", "object") == {
        "What has Turo introduced for drivers?"
    }


def test_the_subject_is_asked_for_and_left_out() -> None:
    assert asked("Barr Moses founded a data company in Boston.", "subject") == {
        "Who founded a data company in Boston?"
    }


def test_definition_and_speech() -> None:
    assert asked("A valve is a device that controls flow.", "definition") == {"What is a valve?"}
    assert asked("Acme said that the new pump would fail in winter.", "speech") == {
        "What did Acme say about the new pump?"
    }


def test_modal_sentences_ask_for_leave() -> None:
    assert "Must the company keep the report secret?" in asked(
        "The company shall keep the report secret.", "polar"
    )


def test_events_become_nouns() -> None:
    found = asked("Turo introduced a payment option.", "event")
    assert "What is the impact of Turo introducing a payment option?" in found
    assert "What led Turo to introduce a payment option?" in found


def test_noun_phrase_ends_at_prepositions_verbs_and_marks() -> None:
    assert first_noun_phrase("a payment option for drivers") == "a payment option"
    assert first_noun_phrase("the price of gold in March") == "the price of gold"
    assert first_noun_phrase("the new pump would fail") == "the new pump"
    assert first_noun_phrase("it again") == ""


def test_question_words() -> None:
    nobody: frozenset[str] = frozenset()
    assert who_word("Taylor Swift", nobody) == "who"
    assert who_word("Petersen", frozenset({"petersen"})) == "who"
    assert who_word("Acme", nobody, "the chief executive of Foo") == "who"
    assert who_word("the old pump", nobody) == "which pump"
    assert who_word("Acme", nobody) == "what"
    assert what_word("new safety rules", random.Random(0)) in {"what rules", "which rules", "what"}


def test_long_rests_are_cut_before_a_preposition() -> None:
    text = "one two three four five six seven eight nine ten in twelve of fourteen fifteen sixteen"
    assert shorten(text, 12) == "one two three four five six seven eight nine ten"
    assert shorten("short enough", 12) == "short enough"


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


def test_claims_keep_subject_and_verb_and_leave_vague_ones() -> None:
    def claims(text: str) -> set[str | None]:
        found = salient_sentences(text, TABLE, ENGLISH)
        return {claim_query(found[0], ENGLISH, TABLE, random.Random(seed)) for seed in range(30)}

    made = claims("However, Acme opened a plant in Spain (its third), which makes valves.")
    assert "Acme opened a plant in Spain" in made
    assert not any(
        "third" in text or "However" in text or "valves" in text for text in made if text
    )
    assert claims("They opened a plant in Northern Spain.") == {None}
    assert claims("Who opened the turbine plant in Northern Spain?") == {None}


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
    text = paraphrase("Why was the lawsuit rejected?", TABLE, random.Random(1), share=1.0)
    assert text == "Why was the legal case turned down?"
    assert (
        paraphrase("The Company Study Group", TABLE, random.Random(1), share=1.0)
        == "The Company Study Group"
    )


def test_abbreviations_of_the_corpus_are_exchanged() -> None:
    table = TermStatistics(10, {}, long_forms={"FCC": "Federal Communications Commission"})
    made = {
        paraphrase("rules of the FCC", table, random.Random(seed), share=0.0) for seed in range(20)
    }
    assert made == {"rules of the FCC", "rules of the Federal Communications Commission"}
    back = {
        paraphrase("the Federal Communications Commission", table, random.Random(s), share=0.0)
        for s in range(20)
    }
    assert "the FCC" in back


def test_articles_agree() -> None:
    assert (
        agree("a example and an proposal, an hour, series A of")
        == "an example and a proposal, an hour, series A of"
    )
