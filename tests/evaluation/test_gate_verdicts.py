"""Sentences about what the gate decided: which figures and which evidence they name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, GateRow
from engine.core.systems import system_of
from engine.evaluation.gate import Decision, RungResult, verdict


def gap(value: float) -> Difference:
    return Difference(value, value - 1, value + 1, 0.9, "no difference shown", 0.2)


ADAPTED = GateRow("adapted", gap(3.25), gap(0.75), 0.012, 0.05, "in use")
LADDER = (RungResult("judged", 30, 120), RungResult("document", 208, 144), RungResult("extractive", 600, 90))
IN_USE = Decision("adapted", "base", "document", 208, (ADAPTED,), LADDER, 75)


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"[-+]?\d+(?:\.\d+)?", text)]


def test_what_comes_into_use_is_named_with_its_evidence_and_figures() -> None:
    text = verdict(IN_USE, "The base encoder", "hybrid")
    assert EVIDENCE["document"] in text
    assert system_of("adapted").what[1:] in text
    assert numbers(text) == [208, 3.2, 95, 2.2, 4.2, 0.8, 95, -0.2, 1.8, 0.012]


def test_in_semantic_mode_there_is_one_figure() -> None:
    same = replace(IN_USE, candidates=(replace(ADAPTED, default=ADAPTED.semantic),))
    assert numbers(verdict(same, "The base encoder", "semantic")) == [208, 3.2, 95, 2.2, 4.2, 0.012]


@pytest.mark.parametrize(("outcome", "more"), [("not shown", [0.2]), ("risky", [31, 0.3]), ("excluded", [])])
def test_what_stays_out_is_named_with_the_reason(outcome: str, more: list[float]) -> None:
    risk = 0.31 if outcome == "risky" else 0.05
    left = replace(ADAPTED, outcome=outcome, risk=risk, excluded_by="judged" if outcome == "excluded" else None)  # type: ignore[arg-type]
    text = verdict(replace(IN_USE, chosen="base", candidates=(left,)), "The base encoder", "hybrid")
    assert text.startswith("The base encoder")
    figures = [3.2, 95, 2.2, 4.2, 0.8, 95, -0.2, 1.8, 0.012, *more]
    assert numbers(text) == [208, *figures, 75, 4], "75 judged questions would show a gain of 4 points"
    judged = verdict(replace(IN_USE, chosen="base", rung="judged", candidates=(left,)), "The base encoder", "hybrid")
    assert numbers(judged) == [208, *figures], "there is no better evidence"
    assert (EVIDENCE["judged"] in text.partition("(")[0]) == (outcome == "excluded")


def test_missing_evidence_is_counted_rung_by_rung_without_extractive_queries() -> None:
    few = replace(IN_USE, chosen="base", rung=None, ladder=(LADDER[0], replace(LADDER[1], queries=99), LADDER[2]))
    assert numbers(verdict(few, "The base encoder", "hybrid")) == [4, 75, 30, 150, 99], (
        "judged questions have one number"
    )
    assert numbers(verdict(replace(few, ladder=LADDER[1:]), "The base encoder", "hybrid")) == [4, 75, 150, 208]
    assert numbers(verdict(replace(few, ladder=LADDER[2:]), "The base encoder", "hybrid")) == [4, 75]


def test_questions_about_too_few_documents_are_said_to_be() -> None:
    few = replace(IN_USE, chosen="base", rung=None, ladder=(RungResult("judged", 80, 96, 5),))
    assert numbers(verdict(few, "The base encoder", "hybrid")) == [4, 75, 80, 5, 6]


def test_of_fusions_that_have_the_encoder_in_common_hybrid_search_alone_is_told() -> None:
    same = replace(ADAPTED, semantic=Difference(0, 0, 0, 0.5, "no difference shown", 1))
    assert numbers(verdict(replace(IN_USE, candidates=(same,)), "The sum", "hybrid")) == [
        208,
        0.8,
        95,
        -0.2,
        1.8,
        0.012,
    ]


def test_without_candidates_nothing_is_measured() -> None:
    assert numbers(verdict(Decision("base", "base", None, 0), "The base encoder", "hybrid")) == []


def test_the_candidates_may_have_names_of_their_own() -> None:
    assert verdict(IN_USE, "Cosines", "hybrid", lambda name: f"way {name}").startswith("Way adapted")
