"""What comes into use in each search mode, chosen among rankings made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails

from engine.core.errors import EngineError, ModelError
from engine.core.systems import ADAPTED, BASE, IN_USE
from engine.encoders.choosing.shares import EQUAL, FOREIGN
from engine.evaluation import selection
from engine.evaluation.choosing.fusion import HybridFusion
from engine.evaluation.experience import Effect, Experience, Recipe, document_digests
from engine.evaluation.gate.decision import Decision, Option
from engine.evaluation.gate.sentences import OTHER_TRAINING
from engine.evaluation.judgments import Judgment
from engine.evaluation.lists.focused import FocusedSet
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rungs import PreferenceEvidence
from engine.evaluation.selection import (
    EncoderChooser,
    ProjectExperience,
    experience_for,
    explain_experience,
)
from engine.lexical.filenames import FilenameMatch
from engine.settings.load import validate
from engine.training.config import TrainingConfig

RIGHT = 1
SECOND = 1 / np.log2(3)
"""nDCG@10 of a right chunk in the second place."""
INTERPOLATED = "interpolated-0.5"


def scored(lead: float) -> list[float]:
    """Scores of four chunks from 0 to 1, of which the first, the right one, leads the second by
    so much.
    """
    if lead > 0:
        return [
            1.0,
            1 - lead,
            0.1,
            0.0,
        ]
    return [
        1 + lead,
        1.0,
        0.1,
        0.0,
    ]


def leading_from(share: float) -> list[float]:
    """Of an encoder that with more than this share of the score puts the right chunk first,
    against BM25 of "behind".
    """
    return scored(0.5 * (1 - share) / share)


def leading_up_to(share: float) -> list[float]:
    """Of an encoder that with less than this share of the score leaves the right chunk first,
    with BM25 of "ahead".
    """
    return scored(-0.5 * (1 - share) / share)


BM25 = {
    "behind": scored(-0.5),
    "ahead": scored(0.5),
    "close": scored(0.2),
}
NEVER = scored(-1.0)
ALWAYS = scored(0.5)
Queries = Sequence[tuple[str, Mapping[str, list[float]], int]]
QUERIES: Queries = [
    ("behind", {BASE: leading_from(0.45), ADAPTED: leading_from(0.55)}, 150),
    ("ahead", {BASE: leading_up_to(0.55), ADAPTED: leading_up_to(0.65)}, 150),
    ("close", {BASE: NEVER, ADAPTED: ALWAYS}, 150),
]
"""BM25, both encoders, and how many queries.

With half of the score, base has the right chunk first in two thirds of them, and with any other
share in one third. The adapted encoder has it first in all of them with 0.6, in two thirds with
other shares.
"""
GAIN = 100 * (1 - SECOND) / 3
"""Points that a third of the queries gain or lose."""


def query_set(
    kind: Any = "judged", queries: Queries = QUERIES, set_class: Any = QuerySet, **parts: Any
) -> Any:
    rows = [(bm25, encoders) for bm25, encoders, count in queries for _ in range(count)]
    judgments = [Judgment(str(row), f"q{row}", "chunk", {RIGHT: 1}) for row in range(len(rows))]
    result = set_class(
        kind, kind, judgments, [FilenameMatch(judgment.text) for judgment in judgments], **parts
    )
    scores_by_name = {"bm25": np.array([BM25[bm25] for bm25, _ in rows])}
    for name in rows[0][1]:
        scores_by_name[name] = np.array([encoders[name] for _, encoders in rows])
    for name, scores in scores_by_name.items():
        order = np.argsort(-scores, axis=1)
        result.rankings[name] = order + 1
        result.scores[name] = np.take_along_axis(
            scores,
            order,
            axis=1,
        )
        result.cross_scores[name] = np.take_along_axis(
            scores,
            result.rankings["bm25"] - 1,
            axis=1,
        )
    return result


def focused_set(queries: Queries) -> FocusedSet:
    """Questions of which every passage is judged."""
    count = sum(number for *_, number in queries)
    every = [frozenset(range(1, 5))] * count
    passages = {chunk_id: chunk_id for chunk_id in range(1, 5)}
    focused: FocusedSet = query_set(
        "focused",
        queries,
        FocusedSet,
        judged=every,
        passages=passages,
    )
    return focused


def bm25_scores(queries: QuerySet, ids: np.ndarray) -> np.ndarray:
    """BM25's scores of the chunks asked for."""
    scores = np.zeros_like(queries.scores["bm25"])
    np.put_along_axis(
        scores,
        queries.rankings["bm25"] - 1,
        queries.scores["bm25"],
        axis=1,
    )
    return np.take_along_axis(
        scores,
        ids - 1,
        axis=1,
    )


def choice_of(
    *sets: QuerySet,
    search: Mapping[str, Any] | None = None,
    use_judged: bool = True,
    reference: float | None = EQUAL,
    **parts: Any,
) -> EncoderChooser:
    evaluation = {"bootstrap_samples": 600, "use_judged": use_judged}
    settings = validate({"search": dict(search or {}), "evaluation": evaluation})
    fuser = HybridFusion(settings, bm25_scores)
    return EncoderChooser(
        settings,
        sets,
        fuser,
        lambda ids: ids,
        reference,
        **parts,
    )


def names(decision: Decision) -> list[str]:
    return [candidate.name for candidate in decision.candidates]


def measured(decision: Decision) -> dict[str, float]:
    """Candidate → its difference to the reference, of those that were measured."""
    return {
        candidate.name: candidate.difference.value
        for candidate in decision.candidates
        if candidate.difference
    }


def measured_experience(
    semantic: float = 4.0, hybrid: Mapping[float, float] | None = None, **parts: Any
) -> ProjectExperience:
    """Gains of the adapted encoder on three collections that hardly differ."""
    effects = []
    for number, name in enumerate(("anemones", "bridges", "canals")):
        away = number - 1.0
        effects.append(
            Effect(name, "extractive", ADAPTED, "semantic", None, 0, semantic + away, 0.5)
        )
        for share, points in (hybrid or {}).items():
            effects.append(
                Effect(name, "extractive", ADAPTED, "hybrid", share, 0, points + 0.1 * away, 0.1)
            )
    return ProjectExperience(
        Experience(effects=effects),
        "extractive",
        **parts,
    )


SHARES = {
    0.4: -0.5,
    0.5: 0.5,
    0.6: 2.0,
    0.7: 1.0,
}


def test_share_and_encoder_of_hybrid_search_are_chosen_together() -> None:
    choice = choice_of(query_set()).select([ADAPTED])
    decision = choice.hybrid.decision
    assert names(decision) == [
        "base 0.4",
        "base 0.6",
        "base 0.7",
        "adapted 0.5",
        "adapted 0.4",
        "adapted 0.6",
        "adapted 0.7",
    ]
    expected = {
        "adapted 0.6": GAIN,
        "base 0.4": -GAIN,
        "base 0.6": -GAIN,
        "base 0.7": -GAIN,
    }
    expected |= {f"adapted {share}": 0.0 for share in (0.4, 0.5, 0.7)}
    assert measured(decision) == pytest.approx(expected)
    assert (decision.reference, decision.chosen, decision.rung) == (
        "base 0.5",
        "adapted 0.6",
        "judged",
    )
    assert (choice.hybrid.encoder, choice.hybrid.weight, choice.hybrid.share) == (ADAPTED, 1.0, 0.6)
    assert (choice.hybrid.standing, choice.hybrid.system) == ("proved", ADAPTED)
    assert {
        candidate.name for candidate in decision.candidates if candidate.outcome == "excluded"
    } == {
        "base 0.4",
        "base 0.6",
        "base 0.7",
    }


def test_semantic_search_has_a_decision_of_its_own() -> None:
    choice = choice_of(query_set()).select([ADAPTED]).semantic
    # alone, base has the right chunk third in the last third of the queries, with nDCG 1/2, and the
    # adapted encoder first
    assert measured(choice.decision) == pytest.approx({ADAPTED: 100 * 0.5 / 3})
    assert (choice.decision.mode, choice.encoder, choice.share, choice.standing) == (
        "semantic",
        ADAPTED,
        None,
        "proved",
    )


def test_the_number_of_pairs_is_accounted_for() -> None:
    few: Queries = [(bm25, encoders, 3) for bm25, encoders, _ in QUERIES]
    decision = choice_of(query_set(queries=few)).decide_hybrid([ADAPTED])
    p = {candidate.name: candidate.p for candidate in decision.candidates}
    # Three queries of nine gain with "adapted 0.6", others change nothing. All 2⁹ tosses are tried:
    # of one pair alone, one in 2³ reaches t. "base 0.4" has three queries that lose, "base 0.6" and
    # "base 0.7" three others, and the other pairs of the adapted encoder those, and the ones that
    # gain: t = √3 is reached where one of the three threes agrees.
    assert p["adapted 0.6"] == pytest.approx(1 - (7 / 8) ** 3)


def test_only_judged_questions_weigh_one_share_against_another() -> None:
    choice = choice_of(query_set("document")).select([ADAPTED])
    assert measured(choice.hybrid.decision) == pytest.approx({"adapted 0.5": 0.0})
    assert (choice.hybrid.encoder, choice.hybrid.share, choice.hybrid.standing) == (
        BASE,
        EQUAL,
        "base",
    )
    assert (choice.semantic.encoder, choice.semantic.decision.rung) == (ADAPTED, "document")
    assert (choice.hybrid.system, choice.semantic.system) == (BASE, ADAPTED)


def test_other_queries_compare_an_encoder_with_the_share_that_experience_says() -> None:
    choice = choice_of(query_set("document"), experience=measured_experience(hybrid=SHARES)).select(
        [ADAPTED]
    )
    assert measured(choice.hybrid.decision) == pytest.approx({"adapted 0.6": GAIN})
    assert (choice.hybrid.encoder, choice.hybrid.share, choice.hybrid.standing) == (
        ADAPTED,
        0.6,
        "proved",
    )


def test_without_evidence_the_pair_that_suited_public_collections_is_expected() -> None:
    choice = choice_of(experience=measured_experience(hybrid=SHARES)).select([ADAPTED])
    assert (choice.semantic.encoder, choice.semantic.standing) == (ADAPTED, "expected")
    assert (choice.hybrid.encoder, choice.hybrid.share, choice.hybrid.standing) == (
        ADAPTED,
        0.6,
        "expected",
    )
    outcomes = {
        candidate.name: candidate.outcome for candidate in choice.hybrid.decision.candidates
    }
    assert outcomes == {
        **dict.fromkeys(("base 0.4", "base 0.6", "base 0.7"), "not shown"),
        **dict.fromkeys(("adapted 0.4", "adapted 0.5", "adapted 0.7"), "not shown"),
        "adapted 0.6": "expected",
    }


def test_no_share_that_nothing_measured_takes_the_place_of_the_usual_one() -> None:
    # Experience also expects gains of 0.5 and 0.7, of which titles and headings say nothing.
    shares = {
        0.5: 1.5,
        0.6: 2.5,
        0.7: 1.5,
    }
    late = leading_up_to(0.55)  # with 0.6 of the score the right chunk is second
    titles = query_set(
        "document", [("ahead", {BASE: ALWAYS, INTERPOLATED: ALWAYS, ADAPTED: late}, 50)]
    )
    decision = choice_of(titles, experience=measured_experience(hybrid=shares)).decide_hybrid(
        [INTERPOLATED, ADAPTED]
    )
    assert measured(decision) == pytest.approx(
        {"interpolated-0.5 0.5": 0.0, "adapted 0.6": -100 * (1 - SECOND)}
    )
    assert (decision.chosen, outcomes(decision)["adapted 0.6"]) == ("base 0.5", "excluded")


@pytest.mark.parametrize(
    ("count", "expected"),
    [(19, ["adapted 0.6"]), (20, ["adapted 0.5", "adapted 0.6", "adapted 0.7"])],
)
def test_other_shares_are_expected_if_judged_questions_measure_them(count, expected) -> None:
    shares = {
        0.5: 1.5,
        0.6: 2.5,
        0.7: 1.5,
    }
    judged = query_set(queries=[("ahead", {BASE: ALWAYS, ADAPTED: ALWAYS}, count)])
    decision = choice_of(judged, experience=measured_experience(hybrid=shares)).decide_hybrid(
        [ADAPTED]
    )
    assert [
        name for name, outcome in outcomes(decision).items() if outcome == "expected"
    ] == expected


def test_without_evidence_or_experience_base_stays() -> None:
    choice = choice_of().select([ADAPTED])
    for mode, mode_choice in choice.by_mode.items():
        assert (
            mode_choice.encoder,
            mode_choice.weight,
            mode_choice.standing,
            mode_choice.decision.mode,
        ) == (
            BASE,
            0.0,
            "base",
            mode,
        )
    assert choice.hybrid.share == EQUAL


def test_judged_questions_that_show_harm_win_over_experience() -> None:
    worse: Queries = [("close", {BASE: ALWAYS, ADAPTED: NEVER}, 12)]
    choice = choice_of(
        query_set(queries=worse), experience=measured_experience(8.0, SHARES)
    ).select([ADAPTED])
    assert (choice.semantic.encoder, choice.semantic.decision.candidates[0].excluded_by) == (
        BASE,
        "judged",
    )
    assert choice.hybrid.encoder == BASE
    unasked = choice_of(
        query_set(queries=worse), experience=measured_experience(8.0, SHARES), use_judged=False
    ).select([ADAPTED])
    assert (unasked.semantic.encoder, unasked.hybrid.encoder) == (ADAPTED, ADAPTED)


def test_judged_questions_that_a_generator_made_decide_nothing() -> None:
    choice = choice_of(query_set(generated=True)).select([ADAPTED])
    assert [
        (mode_choice.encoder, mode_choice.decision.rung) for mode_choice in choice.by_mode.values()
    ] == [(BASE, None)] * 2


def test_a_foreign_encoder_has_a_small_share_of_which_experience_says_nothing() -> None:
    chooser = choice_of(
        query_set("document"), reference=FOREIGN, experience=measured_experience(hybrid=SHARES)
    )
    decision = chooser.decide_hybrid([ADAPTED])
    assert decision.reference == "base 0.1"
    assert names(decision)[:4] == ["base 0.2", "base 0.3", "base 0.4", "base 0.5"]
    assert names(decision)[4:] == [f"adapted {share}" for share in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert list(measured(decision)) == ["adapted 0.1"]
    assert {row.expectation for row in decision.candidates} == {None}
    assert chooser.decide_semantic([ADAPTED]).candidates[0].expectation is not None, (
        "of semantic search it holds"
    )


@pytest.mark.parametrize(
    ("search", "share", "name"),
    [({"fusion": "weighted", "weight": 0.7}, 0.7, "0.7"), ({"fusion": "rrf"}, None, "rrf")],
)
def test_a_fusion_that_is_set_is_not_varied(search, share, name) -> None:
    choice = choice_of(
        query_set(), search=search, reference=share, experience=measured_experience(hybrid=SHARES)
    ).select([ADAPTED])
    assert names(choice.hybrid.decision) == [f"adapted {name}"]
    assert choice.hybrid.share == share
    assert choice.hybrid.decision.candidates[0].expectation is None


def test_without_an_adapter_judged_questions_may_still_choose_the_share() -> None:
    late: Queries = [("behind", {BASE: leading_from(0.55)}, 150)]
    choice = choice_of(query_set(queries=late)).select([], "Nothing was trained.")
    assert (choice.hybrid.encoder, choice.hybrid.share, choice.hybrid.standing) == (
        BASE,
        0.6,
        "proved",
    )
    assert choice.hybrid.system == IN_USE, "base has rows of its own, with half of the score"
    assert (choice.semantic.encoder, choice.semantic.system) == (BASE, BASE)
    assert {mode_choice.reason for mode_choice in choice.by_mode.values()} == {
        "Nothing was trained."
    }


def test_an_interpolation_has_its_weight() -> None:
    rows: Queries = [("close", {BASE: NEVER, INTERPOLATED: ALWAYS, ADAPTED: ALWAYS}, 150)]
    choice = choice_of(query_set(queries=rows)).select([INTERPOLATED, ADAPTED])
    for mode_choice in choice.by_mode.values():
        assert (mode_choice.encoder, mode_choice.weight, mode_choice.system) == (
            INTERPOLATED,
            0.5,
            IN_USE,
        ), "as good, and nearer to base"
    assert choice.hybrid.share == EQUAL


def encoders(
    base: list[float], interpolated: list[float], adapted: list[float], count: int
) -> Queries:
    return [("close", {BASE: base, INTERPOLATED: interpolated, ADAPTED: adapted}, count)]


def outcomes(decision: Decision) -> dict[str, str]:
    return {candidate.name: candidate.outcome for candidate in decision.candidates}


def test_questions_judged_only_where_two_lists_differ_count_too() -> None:
    full = query_set(queries=encoders(NEVER, NEVER, NEVER, 100))
    gained = choice_of(full, focused=focused_set(encoders(NEVER, NEVER, ALWAYS, 200)))
    decision = gained.decide_semantic([INTERPOLATED, ADAPTED])
    assert (decision.chosen, decision.standing, decision.rung, decision.queries) == (
        ADAPTED,
        "proved",
        "judged",
        300,
    )
    assert decision.row is not None
    assert decision.row.difference is not None
    assert decision.row.difference.value == pytest.approx(100 * (1 - 0.5) * 200 / 300), (
        "NEVER: the right chunk is third"
    )
    lost = choice_of(
        full,
        focused=focused_set(encoders(ALWAYS, ALWAYS, NEVER, 200)),
        experience=measured_experience(),
    )
    decision = lost.decide_semantic([INTERPOLATED, ADAPTED])
    assert (decision.chosen, outcomes(decision)[ADAPTED]) == (BASE, "excluded")


def test_questions_about_one_candidate_take_nothing_from_what_judged_ones_say_of_another() -> None:
    full = query_set(queries=encoders(ALWAYS, NEVER, ALWAYS, 100))
    about_adapted = focused_set(encoders(NEVER, NEVER, ALWAYS, 1))
    decision = choice_of(full, focused=about_adapted).decide_semantic([INTERPOLATED, ADAPTED])
    assert outcomes(decision) == {INTERPOLATED: "excluded", ADAPTED: "not shown"}
    assert [(rung.rung, rung.queries) for rung in decision.ladder] == [("judged", 101)]


def test_preferences_are_of_one_mode_and_one_pair() -> None:
    better = {"adapted 0.6": PreferenceEvidence(40, 50.0, 0.1)}
    choice = choice_of(preferences={"hybrid": better}).select([ADAPTED])
    assert (choice.hybrid.encoder, choice.hybrid.share, choice.hybrid.decision.rung) == (
        ADAPTED,
        0.6,
        "preferred",
    )
    assert choice.semantic.encoder == BASE


def test_what_is_foreseen_holds_for_the_pairs_that_were_measured() -> None:
    experience = measured_experience(hybrid=SHARES)
    prior_knowledge = experience.find_priors(
        "hybrid", [Option("adapted 0.6", ADAPTED, 0.6), Option("base 0.6", BASE, 0.6)]
    )
    assert list(prior_knowledge.priors) == ["adapted 0.6"]
    errors = {"document": {"semantic": 1.5}, "model": {"hybrid": 0.5}}
    two = ProjectExperience(Experience(rung_errors=errors), "extractive")
    assert two.find_priors("hybrid", []).rung_errors == {"model": 0.5}


HASHES = {
    name: [f"{name[0]}{number:063d}" for number in range(40)]
    for name in ("abbeys", "bridges", "canals", "dunes")
}
RECIPE = Recipe("mixed", "adapter", "both")


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experience with four collections, and a project that was adapted in the same way."""
    effects = [
        Effect(name, "extractive", ADAPTED, "semantic", None, 0, 4.0, 1.0) for name in HASHES
    ]
    documents = {name: frozenset(document_digests(hashes)) for name, hashes in HASHES.items()}
    experience = Experience(
        "m",
        {"extractive": RECIPE},
        effects,
        documents,
    )
    config = TrainingConfig(
        objective="mixed",
        weights="adapter",
        steps=60,
        queries_per_step=32,
    )
    monkeypatch.setattr(
        selection,
        "load_experience",
        lambda: experience,
    )
    monkeypatch.setattr(
        selection,
        "backend_of_queries",
        lambda _snapshot: "extractive",
    )
    monkeypatch.setattr("engine.training.recipe.resolve_config", lambda _snapshot: config)
    monkeypatch.setattr("engine.encoders.for_project.model_fingerprint", lambda _snapshot: "m")


def project_experience(
    settings: Mapping[str, Any] | None = None, hashes: Sequence[str] = (), scope: str = "both"
) -> Any:
    documents = [SimpleNamespace(content_hash=content_hash) for content_hash in hashes]
    store = SimpleNamespace(documents=lambda: documents)
    snapshot: Any = SimpleNamespace(settings=validate(dict(settings or {})), store=store)
    return experience_for(snapshot, scope)


@pytest.mark.usefixtures("shipped")
def test_a_project_is_foreseen_by_other_collections_alone() -> None:
    for hashes, collections in (((), 4), (HASHES["dunes"], 3)):
        prior = project_experience(hashes=hashes).experience.prior(
            "extractive", ADAPTED, "semantic", None
        )
        assert prior.collections == collections
    both = project_experience(hashes=HASHES["dunes"] + HASHES["canals"])
    assert both.experience.prior("extractive", ADAPTED, "semantic", None) is None


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("settings", "scope"),
    [
        ({"evaluation": {"gate": "strict"}}, "both"),
        ({"encoder": {"small_model": "small"}}, "both"),
        ({}, "queries"),
    ],
    ids=["strict", "small model", "another recipe"],
)
def test_strict_gates_and_other_methods_use_no_experience(settings, scope) -> None:
    assert project_experience() is not None
    assert project_experience(settings, scope=scope) is None


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("numbers", "widened"),
    [
        ({}, False),
        ({"steps": 40, "queries_per_step": 24}, False),
        ({"learning_rate": 2e-5}, True),
        ({"learning_rate": 0.05}, True),
        ({"steps": 5_000}, True),
        ({"steps": 5}, True),
    ],
)
def test_the_prior_of_much_longer_or_shorter_training_is_wider(
    monkeypatch, numbers, widened
) -> None:
    config = TrainingConfig(
        **{"objective": "mixed", "steps": 60, "queries_per_step": 32, **numbers}
    )
    monkeypatch.setattr("engine.training.recipe.resolve_config", lambda _snapshot: config)
    assert project_experience().widened == widened


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("settings", "scope", "value"),
    [
        ({}, "both", "4 public collections"),
        ({"evaluation": {"gate": "strict"}}, "both", "not used"),
        ({}, "queries", "none"),
    ],
)
def test_the_report_says_whether_experience_counts(settings, scope, value) -> None:
    explanation = explain_experience(
        validate(settings), project_experience(settings, scope=scope), 0.5
    )
    assert explanation[0] == value
    assert explanation[1]


@pytest.mark.usefixtures("shipped")
def test_the_report_says_that_experience_is_widened() -> None:
    experience = project_experience(hashes=HASHES["dunes"])
    name, why = explain_experience(
        validate({}),
        replace(experience, widened=True),
        0.5,
    )
    assert name == "3 public collections, widened"
    assert OTHER_TRAINING in why


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("share", [None, 0.1])
def test_the_report_says_where_experience_is_of_semantic_search_alone(share) -> None:
    experience = project_experience()
    assert explain_experience(validate({}), experience, share) != explain_experience(
        validate({}), experience, 0.5
    )
    foreseen = measured_experience(hybrid={EQUAL: 4.0})
    assert choice_of(experience=foreseen).decide_hybrid([ADAPTED]).standing == "expected"
    decision = choice_of(experience=foreseen, reference=share).decide_hybrid([ADAPTED])
    assert (decision.standing, decision.candidates) == ("base", ())


@pytest.mark.usefixtures("shipped")
def test_queries_of_another_kind_have_the_experience_of_theirs(monkeypatch) -> None:
    monkeypatch.setattr(
        selection,
        "backend_of_queries",
        lambda _snapshot: "gguf",
    )
    assert project_experience() is None, "nothing was measured with queries of a language model"


@pytest.mark.usefixtures("shipped")
def test_the_prior_of_another_encoder_is_wider(monkeypatch) -> None:
    assert not project_experience().widened
    monkeypatch.setattr(
        "engine.encoders.for_project.model_fingerprint", lambda _snapshot: "another"
    )
    assert project_experience().widened


@pytest.mark.usefixtures("shipped")
def test_an_installation_without_experience_foresees_nothing(monkeypatch) -> None:
    def missing() -> Experience:
        raise EngineError("The file is missing.", code="asset-missing")

    monkeypatch.setattr(selection, "load_experience", missing)
    assert project_experience() is None


@pytest.mark.usefixtures("shipped")
def test_an_encoder_that_cannot_be_read_is_an_error(monkeypatch) -> None:
    """It is no reason to demand proof without a word."""

    def missing(_snapshot: object) -> str:
        raise ModelError("The model is gone.", code="model-missing")

    monkeypatch.setattr("engine.encoders.for_project.model_fingerprint", missing)
    with fails(ModelError, "model-missing"):
        project_experience()
