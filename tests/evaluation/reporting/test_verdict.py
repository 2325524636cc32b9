"""The verdict of a report: what it says of each search mode, on which queries it rests, and that
its figures are those of the tables.
"""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.shown_numbers import numbers

from engine.core.messages.report import ReportVerdict
from engine.evaluation.reporting.verdict import deciding_rung, gates_of, own_systems_of, verdict_of

KINDS = {
    "judged": 60,
    "document": 81,
    "synthetic": 144,
    "measuring": 130,
}
BEFORE = ("judged", "document", "synthetic")
"""Those without questions that only measure."""
SYSTEMS = {
    "bm25": 11.0,
    "base": 12.0,
    "adapted": 13.0,
    "in_use": 14.0,
    "weighted_base": 15.0,
    "weighted_adapted": 16.0,
    "weighted_in_use": 17.0,
}


def gap(value: float) -> dict[str, Any]:
    figures = {
        "value": value,
        "low": value - 1,
        "high": value + 1,
        "verdict": "better",
    }
    return figures | {"p_better": 0.9, "p_value": 0.01, "needed": None}


def query_set(kind: str, synthetic: int) -> dict[str, Any]:
    first = 20 * list(KINDS).index(kind)  # so that no figure comes twice
    systems = {
        name: {"ndcg@10": {"value": first + value, "low": 0.0, "high": 99.0}}
        for name, value in SYSTEMS.items()
    }
    pairs = {
        f"weighted_{name} − weighted_base": {"ndcg@10": gap(value)}
        for name, value in (("in_use", 2), ("adapted", 1))
    }
    differences = {name: {"ndcg@10": gap(value)} for name, value in (("in_use", 4), ("adapted", 3))}
    table = {
        "base": "base",
        "queries": KINDS[kind],
        "left_out": 0,
        "systems": systems,
        "differences": differences,
        "pairs": pairs,
        "synthetic": synthetic,
    }
    return {
        "name": kind,
        "kind": kind,
        "comparison": table,
    }


def chosen(
    mode: str,
    standing: str = "proved",
    rung: str | None = "judged",
    measured: str | None = None,
    needed: int | None = 248,
    ladder: tuple[str, ...] = ("judged",),
) -> dict[str, Any]:
    """What is in use in a mode; `measured`: the rung that candidates were measured on where none
    decided.
    """
    encoder = "base" if standing == "base" else "adapted"
    share = 0.6 if mode == "hybrid" else None
    row = {
        "name": "adapted",
        "encoder": "adapted",
        "share": share,
        "difference": gap(2),
        "p": 0.01,
        "outcome": "not shown" if standing == "base" else standing,
    }
    decision = {
        "mode": mode,
        "chosen": encoder,
        "reference": "base",
        "standing": standing,
        "rung": rung,
        "queries": 60,
        "candidates": [row] if rung or measured else [],
        "ladder": [{"rung": name} for name in ladder],
        "judged_needed": needed,
        "judged_points": 4.0,
        "measured_on": rung or measured,
    }
    return {
        "encoder": encoder,
        "weight": 1.0,
        "standing": standing,
        "reason": f"{mode} because.",
        "share": share,
        "system": encoder,
        "decision": decision,
    }


def report(
    semantic: dict[str, Any] | None = None,
    hybrid: dict[str, Any] | None = None,
    kinds: tuple[str, ...] = BEFORE,
    synthetic: int = 0,
    mode: str = "hybrid",
    **parts: Any,
) -> dict[str, Any]:
    sets = [query_set(kind, KINDS[kind] if kind == "synthetic" else synthetic) for kind in kinds]
    selection = {"semantic": semantic or chosen("semantic"), "hybrid": hybrid or chosen("hybrid")}
    return {
        "selection": selection,
        "query_sets": sets,
        "fusion": {"method": "weighted"},
        "settings": {"search": {"mode": mode}},
        "advice": "",
        **parts,
    }


def systems(verdict: ReportVerdict) -> dict[str, list[str]]:
    return {mode.mode: [bar.system for bar in mode.bars] for mode in verdict.modes}


def test_each_mode_has_its_sentence_and_its_figures() -> None:
    verdict = verdict_of(report())
    assert [mode.mode for mode in verdict.modes] == ["hybrid", "semantic"]
    assert verdict.default == verdict.modes[0]
    assert systems(verdict) == {
        "hybrid": ["bm25", "weighted_base", "weighted_in_use"],
        "semantic": ["bm25", "base", "in_use"],
    }
    for mode_verdict in verdict.modes:
        assert (mode_verdict.outcome, mode_verdict.encoder, mode_verdict.sentence) == (
            "proved",
            "adapted",
            f"{mode_verdict.mode} because.",
        )
        assert (mode_verdict.kind, mode_verdict.queries) == ("judged", 60)
        assert [bar.figure.value for bar in mode_verdict.bars] == [
            SYSTEMS[bar.system] for bar in mode_verdict.bars
        ]
    assert [mode.difference and mode.difference.value for mode in verdict.modes] == [2, 4]


def test_the_default_mode_comes_first() -> None:
    assert [mode.mode for mode in verdict_of(report(mode="semantic")).modes] == [
        "semantic",
        "hybrid",
    ]
    assert [mode.mode for mode in verdict_of(report(mode="bm25")).modes] == ["hybrid", "semantic"]
    assert [mode.mode for mode in verdict_of(report(settings={})).modes] == ["hybrid", "semantic"]
    assert [mode.mode for mode in verdict_of(report(), "semantic").modes] == [
        "semantic",
        "hybrid",
    ], "it is another now"


def test_the_outcome_is_of_one_mode() -> None:
    verdict = verdict_of(
        report(chosen("semantic", "expected", "document"), chosen("hybrid", "base"))
    )
    outcomes = {mode.mode: mode.outcome for mode in verdict.modes}
    assert outcomes == {"semantic": "expected", "hybrid": "stays"}
    assert [mode.kind for mode in verdict.modes] == ["judged", "document"]
    assert systems(verdict)["hybrid"] == ["bm25", "weighted_base", "weighted_adapted"]
    hybrid, semantic = verdict.modes
    assert hybrid.difference is not None
    assert semantic.difference is not None
    assert (hybrid.difference.value, semantic.difference.value) == (
        1,
        4,
    ), "of what would have been, and of what is in use"


@pytest.mark.parametrize(
    ("rung", "measured", "kind", "count"),
    [
        ("judged", None, "judged", 60),
        ("preferred", None, "judged", 60),
        ("document", None, "document", 81),
        (None, "document", "document", 81),
        (None, None, "judged", 60),  # there was nothing to compare
    ],
)
def test_the_verdict_goes_by_the_queries_that_the_gate_went_by(
    rung: str | None, measured: str | None, kind: str, count: int
) -> None:
    hybrid, _ = verdict_of(report(hybrid=chosen("hybrid", rung=rung, measured=measured))).modes
    assert (hybrid.kind, hybrid.queries) == (kind, count)
    table = next(part for part in report()["query_sets"] if part["kind"] == kind)["comparison"][
        "systems"
    ]
    for bar in hybrid.bars:
        assert bar.figure.value == table[bar.system]["ndcg@10"]["value"]


def test_questions_that_only_measure_are_shown_whatever_decided() -> None:
    verdict = verdict_of(report(hybrid=chosen("hybrid", rung="document"), kinds=tuple(KINDS)))
    assert {(mode.kind, mode.queries) for mode in verdict.modes} == {("measuring", 130)}
    assert [
        [numbers(mode.format_difference)[0], numbers(mode.format_difference)[-1]]
        for mode in verdict.modes
    ] == [
        [2, 130],
        [4, 130],
    ]


def test_imported_queries_that_are_too_few_have_figures() -> None:
    data = report(hybrid=chosen("hybrid", "base", None, "imported"), kinds=("synthetic",))
    data["query_sets"][0]["comparison"]["synthetic"] = 0
    hybrid, _ = verdict_of(data).modes
    assert (len(hybrid.bars), hybrid.queries) == (3, 144)


@pytest.mark.parametrize(
    ("rung", "measured", "kinds", "synthetic"),
    [
        ("model", None, ("synthetic",), 0),
        (None, "extractive", ("synthetic",), 0),
        (None, None, ("judged",), 60),
    ],
)
def test_synthetic_queries_have_no_figures_in_it(
    rung: str | None, measured: str | None, kinds: tuple[str, ...], synthetic: int
) -> None:
    verdict = verdict_of(
        report(hybrid=chosen("hybrid", "base", rung, measured), kinds=kinds, synthetic=synthetic)
    )
    assert systems(verdict)["hybrid"] == []


def test_what_to_do_next_is_in_the_order_of_effort() -> None:
    undecided = {
        mode: chosen(mode, "base", None, "document", ladder=("document",))
        for mode in ("semantic", "hybrid")
    }
    to_do = verdict_of(report(**undecided), project="own").to_do
    assert len(to_do) == 4
    assert "engine models" in to_do[0]
    assert "--lists" in to_do[1]
    assert "--query" in to_do[2]
    assert numbers(to_do[2]) == [250, 4]
    assert all("own" in step for step in to_do[1:])
    written = {
        mode: chosen(mode, "base", None, "model", ladder=("model",))
        for mode in ("semantic", "hybrid")
    }
    assert verdict_of(report(**written), project="own").to_do == to_do[1:], (
        "a language model has written queries"
    )


def test_what_is_expected_may_still_be_proved() -> None:
    expected = chosen(
        "semantic",
        "expected",
        None,
        "document",
        needed=90,
    )
    to_do = verdict_of(report(expected, chosen("hybrid", "base", "document", needed=300))).to_do
    assert numbers(" ".join(to_do)) == [90, 4], "of the mode that needs fewer"
    assert verdict_of(report(expected)).only_unproved == "semantic"
    both = verdict_of(report(expected, chosen("hybrid", "expected", None, "document")))
    assert both.only_unproved is None
    semantic_lists = to_do[1].replace("--lists", "--lists --mode semantic")
    assert verdict_of(report(expected)).to_do == (to_do[0], semantic_lists, *to_do[2:]), (
        "hybrid search is proved"
    )


def test_no_more_judgments_are_requested_than_are_needed() -> None:
    decided = {mode: chosen(mode, "base") for mode in ("semantic", "hybrid")}
    (step,) = verdict_of(report(**decided), project="own").to_do
    assert "engine encoders compare own" in step
    half = report(decided["semantic"], chosen("hybrid", "base", "document", needed=300))
    assert numbers(" ".join(verdict_of(half).to_do)) == [300, 4]
    (proved,) = verdict_of(report()).to_do
    assert numbers(proved) == []


def test_advice_and_the_reranker_are_notes() -> None:
    advised = report(advice="set PROJECT", reranker={"reason": "It is slow."})
    assert verdict_of(advised, project="own").notes == ("set own", "It is slow.")
    assert verdict_of(advised, "bm25").notes == ("It is slow.",), "it is followed"
    assert verdict_of(report()).notes == ()


def test_without_an_adapter_or_queries_nothing_is_claimed() -> None:
    nothing = {mode: chosen(mode, "base", None) for mode in ("semantic", "hybrid")}
    verdict = verdict_of(report(**nothing))
    assert [(mode.outcome, mode.sentence) for mode in verdict.modes] == [
        ("not measured", "hybrid because."),
        ("not measured", "semantic because."),
    ]
    assert verdict.to_do == ()
    empty = verdict_of(report(**nothing, kinds=(), fusion={}, settings={}))
    assert [(mode.outcome, mode.bars, mode.difference) for mode in empty.modes] == [
        ("not measured", (), None)
    ] * 2


def test_what_experience_alone_expects_is_said_without_queries() -> None:
    selected = {
        mode: chosen(mode, "expected", None, needed=None) for mode in ("semantic", "hybrid")
    }
    for choice in selected.values():
        choice["decision"]["candidates"] = [
            {
                "name": "adapted",
                "encoder": "adapted",
                "share": None,
                "difference": None,
                "p": 1.0,
                "outcome": "expected",
                "in_use": True,
            }
        ]
    verdict = verdict_of(report(**selected, kinds=()))
    assert {mode.outcome for mode in verdict.modes} == {"expected"}
    assert numbers(" ".join(verdict.to_do)) == []
    gates = gates_of(report(**selected))
    assert [(gate.rung, gate.decided) for gate in gates.values()] == [("", False)] * 2


def test_gates_rungs_and_rows_are_by_mode() -> None:
    data = report(chosen("semantic", "proved", "document"), chosen("hybrid", "base", None))
    assert list(gates_of(data)) == ["semantic"], "nothing was compared in hybrid search"
    gate = gates_of(data)["semantic"]
    assert (gate.mode, gate.rung, gate.queries, gate.decided) == ("semantic", "document", 60, True)
    assert gate.candidates[0].difference is not None
    assert gate.candidates[0].difference.value == 2
    assert (deciding_rung(data, "semantic"), deciding_rung(data, "hybrid")) == ("document", "")
    assert own_systems_of(data) == ("adapted", "rrf_base", "weighted_base")


def test_figures_of_a_gate_are_of_the_queries_that_measured_the_candidates() -> None:
    """What is expected is measured on 60 titles, though only a model's queries are enough."""
    semantic = chosen("semantic", "expected", "model")
    semantic["decision"]["measured_on"] = "document"
    data = report(semantic)
    assert (gates_of(data)["semantic"].rung, deciding_rung(data, "semantic")) == (
        "document",
        "model",
    )
    (result,) = (row for row in verdict_of(data).modes if row.mode == "semantic")
    assert result.kind == "document"
