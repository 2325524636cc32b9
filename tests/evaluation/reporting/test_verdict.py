"""The verdict of a report: on which queries it rests, what it says of adaptation, and that its figures are those of the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fixtures.shown_numbers import numbers

from engine.core.messages.report import EVIDENCE
from engine.core.messages.report import KINDS as NAMES
from engine.evaluation.reporting.verdict import verdict_of

KINDS = {"judged": 60, "document": 81, "synthetic": 144}


def gap(value: float, low: float, high: float, verdict: str) -> dict[str, Any]:
    figures = {"value": value, "low": low, "high": high, "verdict": verdict}
    return figures | {"p_better": 0.9, "p_value": 0.01, "needed": None}


def query_set(kind: str, change: dict[str, Any], made: int) -> dict[str, Any]:
    first = 20 * list(KINDS).index(kind)  # so that no figure comes twice
    values = {"bm25": 11.0, "base": 12.0, "adapted": 13.0, "in_use": 14.0, "weighted_base": 15.0, "weighted_adapted": 16.0,
              "weighted_in_use": 17.0}  # fmt: skip
    systems = {name: {"ndcg@10": {"value": first + value, "low": 0.0, "high": 99.0}} for name, value in values.items()}
    pairs = {"weighted_in_use − weighted_base": {"ndcg@10": change}}
    differences = {"in_use": {"ndcg@10": gap(2, 1, 3, "better")}}
    table = {"base": "base", "queries": KINDS[kind], "left_out": 0, "systems": systems, "differences": differences,
             "pairs": pairs, "synthetic": made}  # fmt: skip
    return {"name": kind, "kind": kind, "comparison": table}


def report(
    in_use: str = "adapted", rung: str | None = "judged", shown: str | None = None, change: dict[str, Any] | None = None,
    outcome: str = "in use", kinds: tuple[str, ...] = tuple(KINDS), made: int = 0, mode: str = "hybrid",
) -> dict[str, Any]:  # fmt: skip
    """`shown`: the rung that candidates were measured on where none decided."""
    given = change or gap(2, 1, 3, "better")
    sets = [query_set(kind, given, KINDS[kind] if kind == "synthetic" else made) for kind in kinds]
    row = {"name": "adapted", "semantic": gap(1, 0, 2, "better"), "default": given, "p": 0.01, "risk": 0.0}
    candidates = [{**row, "outcome": outcome}] if rung or shown else []
    decision = {"chosen": in_use, "rung": rung, "queries": 60, "candidates": candidates, "judged_needed": 248, "judged_points": 4.0,
                "ladder": [{"rung": "judged"}], "measured_on": rung or shown}  # fmt: skip
    return {"selection": {"in_use": in_use, "reason": "Nothing was trained.", "decision": decision}, "query_sets": sets,
            "fusion": {"method": "weighted"}, "settings": {"search": {"mode": mode}}, "advice": ""}  # fmt: skip


UNSURE = gap(0.4, -1, 2, "no difference shown")
WORSE = gap(-3, -5, -1, "worse")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [(None, "better"), (UNSURE, "as good"), (WORSE, "worse"), (gap(-1, -2, -0.1, "no difference shown"), "worse")],
)  # fmt: skip
def test_what_is_in_use_is_compared_with_what_was(change: dict[str, Any] | None, outcome: str) -> None:
    found = verdict_of(report(change=change))
    assert (found.outcome, found.kind, found.queries) == (outcome, "judged", 60)
    assert [(bar.system, bar.figure.value) for bar in found.bars] == [
        ("bm25", 11), ("weighted_base", 15), ("weighted_in_use", 17)]  # fmt: skip
    assert numbers(found.sentence) == [60, 15, 100, 17]


def test_of_semantic_search_the_encoders_own_figures_are_shown() -> None:
    assert [bar.system for bar in verdict_of(report(mode="semantic")).bars] == ["bm25", "base", "in_use"]


@pytest.mark.parametrize(
    ("parts", "kind", "count"),
    [
        ({"rung": "judged"}, "judged", 60),
        ({"rung": "document"}, "document", 81),
        ({"rung": None, "shown": "document"}, "document", 81),
        ({"rung": None}, "judged", 60),  # there was nothing to compare
    ],
)
def test_the_verdict_goes_by_the_queries_that_the_gate_went_by(parts: dict[str, Any], kind: str, count: int) -> None:
    found = verdict_of(report(**parts))
    table = next(one for one in report()["query_sets"] if one["kind"] == kind)["comparison"]["systems"]
    assert (found.kind, found.queries, numbers(found.sentence)[0]) == (kind, count, count)
    for bar in found.bars:
        assert bar.figure.value == table[bar.system]["ndcg@10"]["value"]


def test_imported_queries_that_are_too_few_have_figures() -> None:
    found = report("base", None, "imported", kinds=("synthetic",), outcome="not shown")
    found["query_sets"][0]["comparison"]["synthetic"] = 0
    verdict = verdict_of(found)
    assert (len(verdict.bars), verdict.queries, numbers(verdict.sentence)[0]) == (3, 144, 144)


@pytest.mark.parametrize(
    ("rung", "shown", "kinds", "made"),
    [("model", None, ("synthetic",), 0), (None, "extractive", ("synthetic",), 0), (None, None, ("judged",), 60)],
)
def test_synthetic_queries_have_no_figures_in_it(rung: str, shown: str, kinds: tuple[str, ...], made: int) -> None:
    found = verdict_of(report(rung=rung, shown=shown, kinds=kinds, made=made))
    assert (found.bars, numbers(found.sentence)) == ((), [KINDS["synthetic"]] if rung else [])


def test_an_adapter_that_is_not_in_use_is_shown_beside_what_is() -> None:
    sentences = set()
    for parts in ({"outcome": "not shown"}, {"outcome": "risky"}, {"outcome": "excluded", "change": WORSE},
                  {"outcome": "not shown", "rung": None, "shown": "judged"}):  # fmt: skip
        found = verdict_of(report("base", **parts))  # type: ignore[arg-type]
        assert found.outcome == "stays"
        assert [bar.system for bar in found.bars] == ["bm25", "weighted_base", "weighted_adapted"]
        assert numbers(found.sentence) == [60, 15, 100, 16]
        sentences.add(found.sentence)
    assert len(sentences) == 4


def test_a_single_query_is_named_as_one() -> None:
    given = report("base", rung=None, shown="document", outcome="not shown")
    given["query_sets"][1]["comparison"]["queries"] = 1
    assert [name in verdict_of(given).sentence for name in NAMES["document"]] == [True, False]


def test_a_loss_that_is_shown_is_called_one_whatever_the_gate_made_of_it() -> None:
    lost, risky, unsure = (
        verdict_of(report("base", outcome=outcome, change=change)).sentence
        for outcome, change in (("not shown", WORSE), ("risky", WORSE), ("not shown", UNSURE))
    )
    assert [lost == risky, lost == unsure] == [True, False]


def test_what_a_few_judged_questions_exclude_is_not_said_of_the_titles_that_decide() -> None:
    given = report("base", rung="document", outcome="excluded")
    given["selection"]["decision"]["candidates"][0]["excluded_by"] = "judged"
    sentence = verdict_of(given).sentence
    assert EVIDENCE["judged"] in sentence
    assert numbers(sentence) == [81, 35, 100, 36]


def test_what_to_do_next() -> None:
    assert numbers(verdict_of(report("base", rung="document", outcome="not shown")).to_do) == [250, 4]
    former = report("base", rung="document", outcome="not shown")
    del former["selection"]["decision"]["judged_points"]
    assert numbers(verdict_of(former).to_do) == [250, 4], "reports of before 28 November 2026 have none"
    some, none = (verdict_of(report("base", "document", kinds=kinds)).to_do for kinds in (tuple(KINDS), ("document",)))
    assert some != none, "who has judged none is not asked for more"
    assert numbers(verdict_of(report("base", outcome="not shown")).to_do) == []  # judged questions have decided
    assert numbers(verdict_of(report()).to_do) == []
    advised = {**report(), "advice": "set it"}
    assert verdict_of(advised).to_do == "set it"
    assert verdict_of(advised, "bm25").to_do == verdict_of(report()).to_do


def test_without_an_adapter_or_queries_nothing_is_claimed() -> None:
    found = verdict_of(report("base", rung=None))
    assert (found.outcome, found.in_use, numbers(found.sentence)) == (
        "not measured",
        "Nothing was trained.",
        [60, 15, 100],
    )
    assert verdict_of(report(kinds=())).bars == ()
    assert verdict_of({**report(kinds=()), "selection": None, "fusion": {}, "settings": {}}).outcome == "not measured"


def test_another_fusion_is_named_beside_the_encoder() -> None:
    decision = {"chosen": "weighted 0.3", "reference": "weighted 0.5"}
    fusion = {"method": "weighted", "reason": "Another sum.", "decision": decision}
    same = {**fusion, "decision": {**decision, "chosen": "weighted 0.5"}}
    for given in (report("base", outcome="not shown"), report("base", rung=None), report()):
        before = verdict_of(given)
        assert verdict_of({**given, "fusion": fusion}) == replace(before, in_use=f"{before.in_use} Another sum.")
        assert verdict_of({**given, "fusion": same}) == before
