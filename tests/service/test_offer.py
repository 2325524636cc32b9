"""What an adaptation could show: the evidence that there is, and how much of it would be enough."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.shown_numbers import numbers

from engine.core.errors import NotBuiltError
from engine.core.events import RunEstimated
from engine.core.messages.offer import AdaptationOffer, TeacherCost
from engine.core.messages.report import KINDS
from engine.corpus.text.document_queries import document_queries
from engine.evaluation.rungs import CERTIFYING
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.queries.from_documents import find_untrained
from engine.runs.estimate import Forecast
from engine.service import offer
from engine.service.offer import adaptation_offer

OFFER = AdaptationOffer(
    {},
    (),
    "document",
    12,
    197,
    4.0,
    197,
    ("judge", "encoder"),
)


def test_the_evidence_is_counted_and_what_it_takes_is_estimated(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimated = RunEstimated(
        chunks=5,
        seconds={"train": 60.0},
        unknown=["evaluate"],
    )
    stage_lists: list[list[str]] = []

    def estimate(_snapshot: object, stages: list[str]) -> Forecast:
        stage_lists.append(stages)
        return Forecast(estimated, {})

    monkeypatch.setattr(offer, "estimate", estimate)
    proposal = adaptation_offer(project)
    with closing(project.store()) as store:
        assert store.artifact(QueriesInfo) is not None
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        written = find_untrained(
            snapshot,
            store.chunks(),
            document_queries(store),
        )
        judged = store.counts()["judged_queries"]
        titles = {query.text for query in written}
    assert (proposal.seconds, proposal.unknown) == ({"train": 60.0}, ("evaluate",))
    assert "rank" not in stage_lists[0]  # is done
    assert stage_lists[0][-3:] == ["train", "evaluate", "embed"]
    # k = ((1.960 + 0.842) / 0.04)² = 4906; N = k (0.2² + 1/N) where N = 98.1 + √(98.1² + k) = 218.7
    assert (proposal.needed, proposal.judged_needed) == (219, 219)
    assert len(titles) == len(written)  # else those of one text would be measured together
    assert proposal.queries == max(len(written), judged)
    assert not proposal.measured
    assert not proposal.provable
    assert proposal.helps[:2] == ("language-model", "judge")


@pytest.mark.parametrize(
    ("counts", "rung", "possible"),
    [
        ((60, 70, 0, 0), "judged", False),
        ((60, 81, 0, 0), "document", True),
        ((19, 81, 0, 0), "document", True),
        ((1, 11, 0, 0), "document", False),
        ((60, 219, 0, 0), "document", True),
        ((0, 70, 5, 0), "document", False),
        ((0, 0, 71, 0), "model", True),
        ((0, 0, 0, 71), "imported", True),
        ((0, 0, 0, 0), "judged", False),
    ],
)
def test_the_evidence_is_that_which_the_report_goes_by(
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    counts: tuple[int, ...],
    rung: str,
    possible: bool,
) -> None:
    expected = dict(zip(CERTIFYING, counts, strict=True))
    monkeypatch.setattr(
        offer,
        "expected_evidence",
        lambda *_: expected,
    )
    proposal = adaptation_offer(project, timed=False)
    assert (proposal.rung, proposal.queries, proposal.possible) == (rung, expected[rung], possible)
    assert ("language-model" in proposal.helps) == (not any(counts[2:]))


def test_every_kind_of_queries_that_may_decide_is_named(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are asked by the gate: from 71 on, down to the first with enough of them."""
    counts = {
        "judged": 130,
        "document": 70,
        "model": 0,
        "imported": 318,
    }
    monkeypatch.setattr(
        offer,
        "expected_evidence",
        lambda *_: counts,
    )
    found = adaptation_offer(project, timed=False)
    assert [(kind.rung, kind.queries) for kind in found.evidence] == [
        ("judged", 130),
        ("imported", 318),
    ]
    assert (found.judged, found.flattery) == (130, 0.0)
    assert not found.provable, "130 questions show 5.2 points; imported queries flatter by more"
    assert numbers(found.judged_show) == [130, 5, 220, 4], "4 · √(219 / 130) = 5.2"
    counts["judged"] = 219
    (decisive,) = adaptation_offer(project, timed=False).evidence
    assert decisive.rung == "judged", "what is below the last word is not asked"


def test_enough_evidence_can_prove_a_gain() -> None:
    assert not OFFER.provable
    assert replace(OFFER, queries=197).provable
    assert numbers(OFFER.judged_show) == [71, 7, 200, 4], (
        "4 · √(197 / 71) = 6.7; fewer decide nothing"
    )
    assert numbers(replace(OFFER, judged=100).judged_show) == [100, 6, 200, 4], (
        "4 · √(197 / 100) = 5.6"
    )
    assert numbers(replace(OFFER, judged_needed=71).judged_show) == [71, 4]
    assert OFFER.judged_show != replace(OFFER, measured=True).judged_show
    assert [len(list(variant.lines())) for variant in (OFFER, replace(OFFER, helps=()))] == [6, 3]
    assert [*replace(OFFER, counted=False).lines()][1] != [*OFFER.lines()][1]
    idle, *rest = replace(OFFER, up_to_date=True).lines()
    assert idle != next(OFFER.lines())
    assert rest == [*OFFER.lines()][1:]


def test_what_experience_may_bring_into_use_and_what_a_second_index_takes_are_said() -> None:
    plain = [*OFFER.lines()]
    expects = [*replace(OFFER, expects=True).lines()]
    assert [line in plain for line in expects] == [True, True, False, True, True, True], (
        "the outlook is another"
    )
    proved = replace(OFFER, queries=197)
    assert [*replace(proved, expects=True).lines()] == [*proved.lines()], "a proof is possible"
    (more,) = [line for line in replace(OFFER, index_megabytes=1_234).lines() if line not in plain]
    assert numbers(more) == [1_234]


def test_queries_that_flatter_prove_no_gain_that_they_may_pretend(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {
        "judged": 0,
        "document": 30,
        "model": 300,
        "imported": 0,
    }
    monkeypatch.setattr(
        offer,
        "expected_evidence",
        lambda *_: counts,
    )
    proposal = adaptation_offer(project, timed=False)
    assert (proposal.rung, proposal.queries >= proposal.needed, proposal.provable) == (
        "model",
        True,
        False,
    )
    assert proposal.flattery == pytest.approx(1.96 * 5.04, abs=0.01)  # assets/experience.json
    assert numbers([*proposal.lines()][1]) == [300, 10, 100]
    project.change_settings({"evaluation.gate": "strict"})
    strict = adaptation_offer(project, timed=False)
    assert strict.flattery == pytest.approx(1.96 * 4.5, abs=0.01)
    assert [*strict.lines()][2] != [*proposal.lines()][2]
    titles = {**counts, "document": 300}
    monkeypatch.setattr(
        offer,
        "expected_evidence",
        lambda *_: titles,
    )
    assert adaptation_offer(project, timed=False).provable


def test_experience_holds_for_the_encoder_and_recipe_it_was_measured_with(
    project: ProjectFolder, tiny_model: Path
) -> None:
    def expects(changes: dict[str, object]) -> bool:
        before = project.settings().model_dump()
        project.change_settings(changes)
        expectation = adaptation_offer(project, timed=False).expects
        section, _, key = next(iter(changes)).partition(".")
        project.change_settings({f"{section}.{key}": before[section][key]})
        return expectation

    assert adaptation_offer(project, timed=False).expects
    for changes in (
        {"encoder.model": str(tiny_model)},
        {"training.learning_rate": 2e-5},
        {"training.weights": "all"},
        {"evaluation.gate": "strict"},
    ):
        assert not expects(changes), changes


@pytest.mark.parametrize("rung", KINDS)
def test_one_is_named_as_one(rung: str) -> None:
    for count in (1, 2):
        line = [*replace(OFFER, rung=rung, queries=count).lines()][1]
        assert [f"{count} {name}." in line for name in KINDS[rung]] == [count == 1, count == 2]


def test_an_offer_needs_documents_that_were_read(tmp_path: Path) -> None:
    unread = ProjectFolder.create(tmp_path / "unread", {})
    with pytest.raises(NotBuiltError) as error:
        adaptation_offer(unread)
    assert error.value.stage == "ingest"


def test_a_reranker_that_could_teach_is_offered_with_its_hours() -> None:
    cost = TeacherCost("ettin", 8500, 0.5)
    offered = replace(
        OFFER,
        helps=("teacher",),
        teacher=cost,
    )
    *_, line = offered.lines()
    assert all(part in line for part in ("ettin", "8,500", "5 hours", "training.cross_encoder"))
    chosen = replace(OFFER, teacher=replace(cost, chosen=True))
    assert len([*chosen.lines()]) == len([*OFFER.lines()]) + 1
    assert "5 hours" in [*chosen.lines()][1]
    current = replace(chosen, up_to_date=True)
    assert [*current.lines()] == [*replace(OFFER, up_to_date=True).lines()]


@pytest.mark.parametrize("chosen", [True, False])
def test_the_teacher_is_measured_only_where_time_is_asked_for(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, chosen: bool
) -> None:
    cost = TeacherCost(
        "ettin",
        85,
        17.0,
        chosen,
    )
    monkeypatch.setattr(
        offer,
        "estimate",
        lambda *_: None,
    )
    monkeypatch.setattr(
        offer,
        "estimate_teacher",
        lambda _: cost,
    )
    proposal = adaptation_offer(project)
    assert proposal.teacher == cost
    assert ("teacher" in proposal.helps) == (not chosen)
    assert adaptation_offer(project, timed=False).teacher is None
