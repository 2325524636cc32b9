"""Sentences about what the gate decided: which figures and which evidence they name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, Expectation, GateRow
from engine.evaluation.gate.decision import Decision, RungResult
from engine.evaluation.gate.rules import USEFUL_GAIN
from engine.evaluation.gate.sentences import (
    NUMBERS,
    OTHER_TRAINING,
    SUBJECTS,
    explain_decision,
    label_of_encoder,
    label_of_row,
    why_kept,
    why_not_enough,
)
from engine.evaluation.rungs import PreferenceEvidence

GAP = Difference(
    3.25,
    2.25,
    4.25,
    0.9,
    "no difference shown",
    0.2,
)
ROW = GateRow(
    "adapted",
    "adapted",
    None,
    GAP,
    0.012,
    "proved",
    in_use=True,
)
LADDER = (
    RungResult("judged", 30, 120),
    RungResult("document", 208, 144),
    RungResult("extractive", 600, 90),
)
PROVED = Decision(
    "semantic",
    "adapted",
    "base",
    "proved",
    "document",
    208,
    (ROW,),
    LADDER,
    75,
    measured_on="document",
)
EXPECTATION = Expectation(
    3.5,
    -0.5,
    7.5,
    0.04,
    collections=6,
    helped=5,
    average=4.0,
)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])[-+]?\d+(?:\.\d+)?", text)]


def base_decision(row: GateRow, **parts: object) -> Decision:
    """What the gate decided of a candidate that does not come into use."""
    row = replace(row, in_use=False)
    return replace(PROVED, chosen="base", standing="base", candidates=(row,), **parts)  # type: ignore[arg-type]


def expected(
    row: GateRow = ROW, expectation: Expectation = EXPECTATION, **parts: object
) -> Decision:
    """What comes into use by experience."""
    row = replace(
        row,
        outcome="expected",
        expectation=expectation,
    )
    return replace(PROVED, standing="expected", rung=None, candidates=(row,), **parts)  # type: ignore[arg-type]


def test_what_is_proved_is_named_with_its_evidence_and_figures() -> None:
    text = explain_decision(PROVED)
    assert text.startswith(SUBJECTS["semantic"])
    assert EVIDENCE["document"] in text
    assert label_of_encoder("adapted") in text
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2]


@pytest.mark.parametrize(("losses", "expected"), [(6, [40, 30, 6, 4]), (10, [40, 30, 10])])
def test_what_preferences_prove_is_told_by_their_counts_and_not_by_what_queries_measured(
    losses: int, expected: list[int]
) -> None:
    preferences = PreferenceEvidence(
        40,
        50.0,
        0.1,
        30,
        losses,
    )
    decision = replace(
        PROVED,
        rung="preferred",
        measured_on="judged",
        preferences=preferences,
    )
    text = explain_decision(decision)
    assert EVIDENCE["preferred"] in text
    assert numbers(text) == expected


def test_hybrid_search_names_its_share() -> None:
    row = replace(
        ROW,
        name="adapted 0.6",
        share=0.6,
    )
    text = explain_decision(replace(PROVED, mode="hybrid", chosen="adapted 0.6", candidates=(row,)))
    assert text.startswith(SUBJECTS["hybrid"])
    assert numbers(text) == [60, 40, 208, 3.2, 95, 2.2, 4.2]


def test_what_is_expected_is_said_to_be_with_the_collections_it_helped_on() -> None:
    text = explain_decision(expected())
    assert "five of six" in text
    assert "not yet proved" in text
    assert numbers(text) == [4.0, 208, 3.2, 95, 2.2, 4.2]
    assert why_not_enough("document", 208) in text, "its interval lies above 0"
    few = explain_decision(expected(queries=70))
    assert numbers(few) == [4.0, 70, 3.2, 95, 2.2, 4.2, 71]
    unclear = replace(ROW, difference=replace(GAP, low=-2.25))
    assert why_not_enough("document", 208) not in explain_decision(expected(unclear))
    assert numbers(explain_decision(expected(measured_on=None, queries=0))) == [4.0]
    assert numbers(explain_decision(expected(replace(ROW, difference=None)))) == [4.0]
    assert numbers(explain_decision(expected(measured_on="extractive"))) == [4.0], (
        "extractive queries flatter"
    )


def test_experience_with_another_encoder_is_called_so() -> None:
    widened = explain_decision(expected(expectation=replace(EXPECTATION, widened=True)))
    assert len(widened) > len(explain_decision(expected()))
    assert numbers(widened) == numbers(explain_decision(expected()))


def test_small_numbers_of_collections_are_words() -> None:
    many = replace(
        EXPECTATION,
        collections=13,
        helped=12,
        average=-0.25,
    )
    text = explain_decision(expected(expectation=many))
    assert f"{NUMBERS[12]} of 13" in text
    assert numbers(text)[:2] == [13, -0.2]


def test_what_is_not_shown_stays_out_with_its_figures() -> None:
    text = explain_decision(base_decision(replace(ROW, outcome="not shown")))
    assert text.startswith(SUBJECTS["semantic"])
    assert label_of_encoder("base") in text
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2]


def test_what_is_foreseen_to_be_a_risk_stays_out_with_the_risk() -> None:
    row = replace(
        ROW,
        outcome="not shown",
        expectation=replace(EXPECTATION, risk=0.311),
    )
    assert numbers(explain_decision(base_decision(row))) == [208, 3.2, 95, 2.2, 4.2, 0.3, 31]


def test_what_helped_on_half_of_the_collections_or_promises_little_is_said_to() -> None:
    half = replace(
        EXPECTATION,
        collections=4,
        helped=2,
    )
    text = explain_decision(base_decision(replace(ROW, outcome="not shown", expectation=half)))
    assert f"{NUMBERS[2]} of {NUMBERS[4]}" in text
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2]
    small = replace(EXPECTATION, mean=0.46)
    text = explain_decision(base_decision(replace(ROW, outcome="not shown", expectation=small)))
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2, USEFUL_GAIN]
    lost = replace(EXPECTATION, average=-0.2)
    text = explain_decision(base_decision(replace(ROW, outcome="not shown", expectation=lost)))
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2]
    assert len(text) > len(explain_decision(base_decision(replace(ROW, outcome="not shown"))))


@pytest.mark.parametrize("encoder", ["adapted", "base"])
def test_a_gain_that_experience_foresees_is_no_reason_against_it(encoder: str) -> None:
    """Another share of base is no adaptation; an adapted one is kept out by other evidence."""
    row = replace(
        ROW,
        encoder=encoder,
        outcome="not shown",
    )
    foreseen = replace(row, expectation=EXPECTATION)
    assert explain_decision(base_decision(foreseen)) == explain_decision(base_decision(row))


def test_experience_of_another_encoder_is_said_to_be_where_base_stays() -> None:
    risky = replace(EXPECTATION, risk=0.31)
    row = replace(
        ROW,
        outcome="not shown",
        expectation=replace(risky, widened=True),
    )
    assert OTHER_TRAINING in explain_decision(base_decision(row))
    same = replace(
        ROW,
        outcome="not shown",
        expectation=risky,
    )
    assert OTHER_TRAINING not in explain_decision(base_decision(same))


def test_other_candidates_that_did_worse_are_named_with_their_evidence() -> None:
    best = replace(
        ROW,
        outcome="not shown",
        in_use=False,
    )
    worse = replace(
        ROW,
        encoder="interpolated-0.5",
        outcome="excluded",
        excluded_by="document",
        difference=replace(GAP, value=1.0),
        in_use=False,
    )
    share = replace(
        worse,
        encoder="base",
        share=0.6,
        excluded_by="judged",
    )
    decision = replace(
        base_decision(best), rung="model", measured_on="model", candidates=(best, worse, share)
    )
    text = explain_decision(decision)
    assert text.endswith(f"{label_of_row(worse)} did worse on {EVIDENCE['document']}.")
    alone = replace(decision, candidates=(best, share))
    assert EVIDENCE["judged"] not in explain_decision(alone), "another share is no adaptation"


@pytest.mark.parametrize("rung", ["judged", "preferred", "document"])
def test_what_is_excluded_names_the_evidence_that_shows_harm(rung) -> None:
    text = explain_decision(base_decision(replace(ROW, outcome="excluded", excluded_by=rung)))
    assert EVIDENCE[rung] in text
    assert numbers(text) == []


def test_the_best_measured_of_several_candidates_is_named() -> None:
    other = replace(
        ROW, name="interpolated-0.5", encoder="interpolated-0.5", difference=replace(GAP, value=5.0)
    )
    unmeasured = replace(
        ROW,
        name="unmeasured",
        difference=None,
    )
    rows = tuple(
        replace(row, outcome="not shown", in_use=False) for row in (ROW, other, unmeasured)
    )
    decision = replace(
        PROVED,
        chosen="base",
        standing="base",
        candidates=rows,
    )
    assert label_of_encoder("interpolated-0.5") in why_kept(decision)
    assert numbers(why_kept(decision))[1] == 5.0


def test_missing_evidence_is_counted_rung_by_rung_without_extractive_queries() -> None:
    few = base_decision(
        replace(ROW, outcome="not shown"),
        rung=None,
        ladder=(LADDER[0], replace(LADDER[1], queries=99), LADDER[2]),
    )
    assert numbers(why_kept(few)) == [4, 75, 30, 150, 99], "judged questions have one number"
    assert numbers(why_kept(replace(few, ladder=LADDER[1:]))) == [4, 75, 150, 208]
    assert numbers(why_kept(replace(few, ladder=LADDER[2:]))) == [4, 75]
    assert EVIDENCE["extractive"] in why_kept(replace(few, ladder=LADDER[2:]))
    flattering = (LADDER[1], RungResult("model", 90, 530))
    assert numbers(why_kept(replace(few, ladder=flattering))) == [4, 75, 150, 208], (
        "more of them would prove no such gain"
    )


def test_questions_about_too_few_documents_are_said_to_be() -> None:
    few = base_decision(
        replace(ROW, outcome="not shown"), rung=None, ladder=(RungResult("judged", 80, 96, 5),)
    )
    assert numbers(why_kept(few)) == [4, 75, 80, 5, 6]


def test_without_candidates_nothing_is_measured() -> None:
    assert numbers(explain_decision(Decision("semantic", "base", "base", "base", None, 0))) == []


def test_candidates_and_reference_may_have_names_of_their_own() -> None:
    text = explain_decision(
        PROVED, "its order without the reranker", label=lambda row: f"way {row.name}"
    )
    assert text.startswith("Semantic search uses way adapted")
    still = explain_decision(
        base_decision(replace(ROW, outcome="not shown")), "its order without the reranker"
    )
    assert "its order without the reranker" in still


def test_labels_of_encoders() -> None:
    assert len({label_of_encoder(name) for name in ("base", "adapted", "interpolated-0.5")}) == 3
    assert label_of_encoder("interpolated-0.25") == label_of_encoder("interpolated-0.5")
    assert label_of_row(replace(ROW, share=0.7)).startswith(label_of_encoder("adapted"))
    assert numbers(label_of_row(replace(ROW, share=0.7))) == [70, 30]


def test_a_gain_above_0_that_proves_nothing_is_explained() -> None:
    row = replace(
        ROW,
        in_use=False,
        outcome="not shown",
        difference=Difference(2.2, 0.5, 4.2, 0.99, "better", 0.02),
    )
    parts = {
        "chosen": "base",
        "standing": "base",
        "candidates": (row,),
        "queries": 234,
    }
    flattering = replace(
        PROVED,
        rung="imported",
        measured_on="imported",
        **parts,
    )
    assert why_kept(flattering).endswith(why_not_enough("imported", 234))
    many = replace(
        PROVED,
        rung="judged",
        measured_on="judged",
        **parts,
    )
    assert why_kept(many).endswith(why_not_enough("judged", 234))
    chance = replace(row, difference=Difference(2.2, -0.5, 4.2, 0.9, "no difference shown", 0.2))
    assert why_not_enough("judged", 234) not in why_kept(replace(many, candidates=(chance,)))
