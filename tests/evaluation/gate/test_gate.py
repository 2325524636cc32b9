"""What comes into use in a search mode: what evidence proves, or experience expects, to be
better.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from engine.core.messages.offer import MIN_TO_DECIDE
from engine.evaluation.experience import Prior
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option, PriorKnowledge
from engine.evaluation.gate.rules import MAX_RISK
from engine.evaluation.rungs import MIN_TO_PROVE, Evidence, PreferenceEvidence, RungName
from engine.metrics.random_effects import Normal

RNG = np.random.default_rng(11)
BASE = RNG.random(400) * 0.5
NOISE = RNG.normal(0, 0.1, 400)
NOISE -= NOISE.mean()
REFERENCE = Option("base", "base")
ADAPTED = Option("adapted", "adapted")
INTERPOLATED = Option("interpolated", "interpolated-0.5")
BOTH = (INTERPOLATED, ADAPTED)

Gains = Mapping[str, object]


def evidence(
    rung: RungName, gains: Gains, queries: int = 400, clusters: np.ndarray | None = None
) -> Evidence:
    """Candidate → what it gains over base, per query."""
    base = np.resize(BASE, queries)
    return Evidence(
        rung,
        {"base": base, **{name: base + np.asarray(gain) for name, gain in gains.items()}},
        clusters,
    )


def chosen(
    *ladder: Evidence, candidates: tuple[Option, ...] = (ADAPTED,), **more: object
) -> Decision:
    return decide("semantic", ladder, REFERENCE, candidates, samples=1_000, **more)  # type: ignore[arg-type]


def foreseen(
    mean: float,
    deviation: float,
    name: str = "adapted",
) -> PriorKnowledge:
    return PriorKnowledge(
        {name: Prior(Normal(mean, deviation), 5, 4, mean)}, {"document": 1.0, "model": 1.0}
    )


def outcomes(decision: Decision) -> list[str]:
    return [row.outcome for row in decision.candidates]


def test_a_gain_that_a_rung_shows_is_proved() -> None:
    decision = chosen(evidence("document", {"adapted": 0.04 + NOISE}))
    assert (decision.chosen, decision.standing, decision.rung, decision.queries) == (
        "adapted",
        "proved",
        "document",
        400,
    )
    (adapted,) = decision.candidates
    assert (adapted.outcome, adapted.in_use) == ("proved", True)
    assert adapted.difference is not None
    assert adapted.difference.value == pytest.approx(4.0)
    assert adapted.p == pytest.approx(1 / 1_001)


def test_noise_changes_nothing() -> None:
    decision = chosen(evidence("document", {"adapted": NOISE + 0.001}))
    assert (decision.chosen, decision.standing, outcomes(decision)) == (
        "base",
        "base",
        ["not shown"],
    )
    assert decision.candidates[0].p > 0.05


def test_a_gain_that_the_tables_do_not_call_one_is_not_proved() -> None:
    lead = (
        1.85 * NOISE.std() / 400**0.5
    )  # between the one-sided and the two-sided 5 %, of one difference
    decision = chosen(evidence("document", {"adapted": lead + NOISE}))
    (row,) = decision.candidates
    assert row.difference is not None
    assert row.p < 0.05 < row.difference.p_value
    assert (decision.rung, outcomes(decision)) == ("document", ["not shown"])


def test_a_gain_that_one_lost_query_more_would_undo_is_not_proved() -> None:
    # 80 queries that all gain 1 point: one more at −100 leaves (80 · 1 − 100) / 81 < 0
    decision = chosen(evidence("judged", {"adapted": np.full(80, 0.01) + NOISE[:80] / 1000}, 80))
    assert decision.candidates[0].p < 0.01
    assert outcomes(decision) == ["not shown"]
    more = chosen(evidence("judged", {"adapted": np.full(80, 0.08) + NOISE[:80] / 1000}, 80))
    assert outcomes(more) == ["proved"]


def test_a_large_gain_needs_no_more_queries_than_show_it() -> None:
    """260 questions that vary by 24 points settle nothing about 4 points, and prove 6.7."""
    gains = np.resize(NOISE * 2.4, 260)
    decision = chosen(evidence("judged", {"adapted": gains - gains.mean() + 0.067}, 260))
    assert decision.ladder[0].needed > 260
    assert (decision.standing, decision.rung) == ("proved", "judged")


def test_rungs_are_asked_down_to_the_first_with_the_last_word_and_share_the_level() -> None:
    lost = {"adapted": NOISE}
    gained = {"adapted": 0.05 + NOISE}
    assert chosen(evidence("judged", lost), evidence("document", gained)).chosen == "base"
    wide = np.resize(NOISE * 3, 100)
    few = {"adapted": wide - wide.mean()}
    decision = chosen(
        evidence("judged", few, 100), evidence("document", gained), evidence("extractive", gained)
    )
    assert (decision.chosen, decision.rung) == ("adapted", "document")
    assert [(rung.rung, rung.queries) for rung in decision.ladder] == [
        ("judged", 100),
        ("document", 400),
        ("extractive", 400),
    ]


def test_rungs_that_may_prove_share_the_level() -> None:
    """Six candidates without effect make p of the seventh, 2.6 standard errors above base, about
    7 · 0.5 %.
    """
    rng = np.random.default_rng(2)
    names = [f"idle {number}" for number in range(6)]
    wide = 3 * NOISE
    gains = {name: rng.permutation(wide) for name in names} | {
        "adapted": 2.6 * wide.std() / 400**0.5 + wide
    }
    options = (*(Option(name, name) for name in names), ADAPTED)
    alone = chosen(evidence("document", gains), candidates=options)
    assert 0.025 < alone.candidates[-1].p < 0.05
    assert alone.chosen == "adapted"
    undecided = evidence(
        "judged",
        dict.fromkeys(gains, wide[:100] - wide[:100].mean()),
        100,
    )
    both = chosen(
        undecided,
        evidence("document", gains),
        candidates=options,
    )
    assert both.chosen == "base", "each of two kinds has 2.5 %"


def test_fewer_than_71_queries_prove_nothing() -> None:
    assert MIN_TO_PROVE == MIN_TO_DECIDE == 71
    few = {"adapted": np.full(70, 0.5)}
    assert chosen(evidence("judged", few, 70)).chosen == "base"
    assert chosen(evidence("judged", {"adapted": np.full(71, 0.5)}, 71)).chosen == "adapted"


def test_queries_of_a_kind_that_was_trained_on_prove_only_what_they_cannot_pretend() -> None:
    # off by 4.5 points of semantic search: 1.96 · √(4.5² + 0.56²) = 8.9
    assert outcomes(chosen(evidence("model", {"adapted": 0.08 + NOISE}))) == ["not shown"]
    assert outcomes(chosen(evidence("imported", {"adapted": 0.08 + NOISE}))) == ["not shown"]
    assert outcomes(chosen(evidence("document", {"adapted": 0.08 + NOISE}))) == ["proved"]
    assert outcomes(chosen(evidence("model", {"adapted": 0.1 + NOISE}))) == ["proved"]
    knowledge = PriorKnowledge({}, {"model": 1.0})
    assert outcomes(
        chosen(evidence("model", {"adapted": 0.08 + NOISE}), prior_knowledge=knowledge)
    ) == ["proved"]


def test_extractive_queries_prove_nothing() -> None:
    decision = chosen(evidence("extractive", {"adapted": 0.2 + NOISE}))
    assert (decision.chosen, decision.rung, outcomes(decision)) == ("base", None, ["not shown"])
    assert decision.candidates[0].difference is not None
    assert decision.candidates[0].difference.verdict == "proves nothing"
    assert decision.judged_needed == pytest.approx(
        118, abs=5
    )  # k = (2.8 / 0.035)² = 6408: N = 32 + √(32² + k) = 118.3


def test_a_candidate_that_judged_questions_show_to_be_worse_is_always_excluded() -> None:
    titles = {"adapted": 0.08 + NOISE, "interpolated": 0.04 + NOISE / 2}
    judged = {"adapted": np.full(12, -0.1), "interpolated": np.zeros(12)}
    decision = chosen(
        evidence("judged", judged, 12),
        evidence("document", titles),
        candidates=BOTH,
    )
    assert (decision.chosen, outcomes(decision)) == ("interpolated", ["proved", "excluded"])
    assert decision.candidates[1].excluded_by == "judged"
    two = {"adapted": np.full(2, -0.1)}
    expected = chosen(evidence("judged", two, 2), prior_knowledge=foreseen(5, 1))
    assert (expected.chosen, outcomes(expected)) == ("base", ["excluded"])


def test_a_few_judged_questions_about_one_document_exclude_a_worse_candidate() -> None:
    """Of one document alone, questions are resampled one by one, in the gate as in the tables."""
    worse = {"adapted": -0.1 + 0.01 * NOISE[:6]}
    decision = chosen(
        evidence("judged", worse, 6, np.zeros(6, np.int64)), prior_knowledge=foreseen(5, 1)
    )
    assert decision.candidates[0].difference is not None
    assert decision.candidates[0].difference.high < 0
    assert (decision.chosen, outcomes(decision)) == ("base", ["excluded"])
    single = {"adapted": np.full(1, -0.1)}
    assert (
        chosen(evidence("judged", single, 1), prior_knowledge=foreseen(5, 1)).chosen == "adapted"
    ), "one question says nothing"


def test_the_preferences_counted_are_those_of_the_candidate_in_use() -> None:
    preferences = {
        "adapted": PreferenceEvidence(40, 45.0, 0.1),
        "interpolated": PreferenceEvidence(90, 1.0, 1.0),
    }
    decision = chosen(preferences=preferences, candidates=BOTH)
    assert (decision.chosen, decision.preferences) == ("adapted", preferences["adapted"])


def test_a_lower_rung_excludes_what_is_expected_and_not_what_is_proved_above_it() -> None:
    gained = {"adapted": 0.05 + NOISE}
    worse = {"adapted": NOISE / 2 - 0.02}
    proved = chosen(evidence("judged", gained), evidence("document", worse))
    assert (proved.chosen, proved.standing) == ("adapted", "proved")
    decision = chosen(evidence("document", worse), prior_knowledge=foreseen(8, 1))
    assert (decision.chosen, decision.candidates[0].excluded_by) == ("base", "document")


def test_experience_brings_an_encoder_into_use_that_nothing_speaks_against() -> None:
    decision = chosen(prior_knowledge=foreseen(4, 3))
    assert (decision.chosen, decision.standing, decision.rung, decision.queries) == (
        "adapted",
        "expected",
        None,
        0,
    )
    expectation = decision.candidates[0].expectation
    assert expectation is not None
    # P(z < (−0.3 − 4) / 3) = P(z < −1.4333) = 0.0759
    assert expectation.risk == pytest.approx(0.0759, abs=1e-4)
    assert (expectation.low, expectation.high) == (
        pytest.approx(4 - 5.88, abs=1e-2),
        pytest.approx(9.88, abs=1e-2),
    )
    risky = chosen(prior_knowledge=foreseen(1, 3))  # P(z < −1.3 / 3) = 0.332
    assert risky.candidates[0].expectation is not None
    assert risky.candidates[0].expectation.risk > MAX_RISK
    assert (risky.chosen, outcomes(risky)) == ("base", ["not shown"])


def test_own_evidence_updates_what_is_expected() -> None:
    # 400 titles: −0.2 ± s; s² = 0.1² / 400 + (1/400) / 400 = (0.5² + 0.25²) points², with 1 point
    # for their kind
    decision = chosen(
        evidence("document", {"adapted": NOISE - 0.002}), prior_knowledge=foreseen(4, 3)
    )
    error = (NOISE.std(ddof=1) ** 2 * 1e4 / 400 + 1e4 / 400**2 + 1.0) ** 0.5
    weight = 1 / 9 + 1 / error**2
    mean = (4 / 9 - 0.2 / error**2) / weight
    expectation = decision.candidates[0].expectation
    assert expectation is not None
    assert expectation.mean == pytest.approx(mean, abs=1e-6)
    assert (expectation.high - expectation.low) / 2 == pytest.approx(
        1.959964 / weight**0.5, abs=1e-4
    )
    assert (decision.chosen, outcomes(decision)) == (
        "base",
        ["not shown"],
    )  # the risk is too large now
    judged = chosen(evidence("judged", {"adapted": NOISE + 0.01}), prior_knowledge=foreseen(4, 3))
    assert judged.candidates[0].expectation is not None
    deviation = (NOISE.std(ddof=1) ** 2 * 1e4 / 400 + 1e4 / 400**2) ** 0.5
    assert judged.candidates[0].expectation.mean == pytest.approx(
        (4 / 9 + 1 / deviation**2) / (1 / 9 + 1 / deviation**2), abs=1e-6
    )
    assert judged.standing == "expected"


def test_titles_do_not_update_the_prior_where_queries_of_a_model_measure_a_candidate() -> None:
    titles = evidence("document", {"adapted": NOISE - 0.002})
    model = evidence("model", {"adapted": NOISE + 0.01})
    decision = chosen(
        titles,
        model,
        prior_knowledge=foreseen(4, 3),
    )
    error = (NOISE.std(ddof=1) ** 2 * 1e4 / 400 + 1e4 / 400**2 + 1.0) ** 0.5
    mean = (4 / 9 + 1 / error**2) / (1 / 9 + 1 / error**2)
    assert decision.candidates[0].expectation is not None
    assert decision.candidates[0].expectation.mean == pytest.approx(mean, abs=1e-6)
    assert (decision.standing, decision.measured_on) == ("expected", "document")
    harm = chosen(
        evidence("document", {"adapted": NOISE - 0.03}), model, prior_knowledge=foreseen(4, 3)
    )
    assert (harm.chosen, harm.candidates[0].excluded_by) == ("base", "document")
    few = evidence(
        "model",
        {"adapted": np.zeros(19)},
        19,
    )
    alone = chosen(
        titles,
        few,
        prior_knowledge=foreseen(4, 3),
    )
    assert (
        alone.candidates[0].expectation
        == chosen(titles, prior_knowledge=foreseen(4, 3)).candidates[0].expectation
    ), "19 queries describe nothing"


def test_what_titles_prove_gives_way_to_no_candidate_that_is_only_expected() -> None:
    titles = evidence("document", {"interpolated": 0.03 + NOISE / 2, "adapted": NOISE})
    model = evidence("model", {"interpolated": NOISE, "adapted": 0.03 + NOISE})
    decision = chosen(
        titles,
        model,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    interpolated, adapted = decision.candidates
    assert interpolated.expectation is not None
    assert adapted.expectation is not None
    assert adapted.expectation.mean > interpolated.expectation.mean
    assert (decision.chosen, outcomes(decision)) == ("interpolated", ["proved", "expected"])


@pytest.mark.parametrize(("mean", "name"), [(0.49, "base"), (0.5, "adapted")])
def test_less_than_half_a_point_is_not_worth_an_expected_change(mean: float, name: str) -> None:
    decision = chosen(prior_knowledge=foreseen(mean, 0.5))  # P(z < −0.79 / 0.5) = 0.057
    assert decision.candidates[0].expectation is not None
    assert decision.candidates[0].expectation.risk < MAX_RISK
    assert decision.chosen == name


def test_of_expected_candidates_the_one_with_the_largest_expected_gain_is_chosen() -> None:
    priors = {
        "adapted": Prior(Normal(3.2, 2), 5, 5, 3.2),
        "interpolated": Prior(Normal(3.1, 1), 5, 5, 3.1),
    }
    decision = chosen(candidates=BOTH, prior_knowledge=PriorKnowledge(priors, {}))
    assert (decision.chosen, outcomes(decision)) == ("adapted", ["expected", "expected"])
    priors = {**priors, "interpolated": Prior(Normal(3.3, 1), 5, 5, 3.3)}
    decision = chosen(candidates=BOTH, prior_knowledge=PriorKnowledge(priors, {}))
    assert (decision.chosen, outcomes(decision)) == ("interpolated", ["expected", "expected"])
    measured = {"adapted": NOISE, "interpolated": 0.03 + NOISE}
    decision = chosen(
        evidence("judged", measured), candidates=BOTH, prior_knowledge=PriorKnowledge(priors, {})
    )
    assert (decision.chosen, decision.standing) == ("interpolated", "proved")


def test_preferences_prove_and_exclude() -> None:
    better = {"adapted": PreferenceEvidence(40, 25.0, 0.1)}
    decision = chosen(preferences=better)
    assert (decision.chosen, decision.standing, decision.rung) == ("adapted", "proved", "preferred")
    assert (decision.measured_on, decision.queries) == (None, 0), "preferences measure no candidate"
    sure = {"adapted": PreferenceEvidence(40, 45.0, 0.1)}
    decision = chosen(evidence("document", {"adapted": NOISE}), preferences=sure)
    assert (decision.rung, decision.measured_on, decision.queries) == ("preferred", "document", 400)
    beside = chosen(evidence("document", {"adapted": NOISE}), preferences=better)
    assert beside.chosen == "base", (
        "two kinds of evidence were asked: 1 / wealth has to be at most 2.5 %"
    )
    worse = {"adapted": PreferenceEvidence(40, 0.1, 25.0)}
    decision = chosen(evidence("document", {"adapted": 0.05 + NOISE}), preferences=worse)
    assert (decision.chosen, decision.candidates[0].excluded_by) == ("base", "preferred")


def test_if_people_prefer_the_reference_experience_chooses_no_adapted_candidate() -> None:
    worse = {"adapted": PreferenceEvidence(40, 0.1, 25.0)}
    decision = chosen(
        preferences=worse,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert (decision.chosen, outcomes(decision)) == ("base", ["not shown", "excluded"])
    unclear = {"adapted": PreferenceEvidence(40, 1.0, 1.0)}
    decision = chosen(
        preferences=unclear,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert outcomes(decision) == ["expected", "expected"]
    measured = evidence("judged", {"adapted": NOISE / 2 - 0.02})
    decision = chosen(
        measured,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert (decision.chosen, outcomes(decision)) == ("base", ["not shown", "excluded"])
    measured = evidence("judged", {"adapted": NOISE / 2 - 0.02, "interpolated": NOISE})
    decision = chosen(
        measured,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert outcomes(decision) == ["expected", "excluded"], "that one was measured itself"


def test_the_wealth_that_proves_the_contender_allows_for_everything_that_is_asked() -> None:
    assert chosen(prior_knowledge=foreseen(4, 3)).wealth_needed == 20.0
    titles = evidence("document", {"adapted": NOISE})
    assert chosen(titles).wealth_needed == 40.0, "titles may prove something, too"
    other = {"interpolated": PreferenceEvidence(40, 1.0, 1.0)}
    decision = chosen(
        titles,
        preferences=other,
        prior_knowledge=foreseen(4, 3),
        candidates=BOTH,
    )
    assert decision.contender is not None
    assert (decision.contender.name, decision.wealth_needed) == ("adapted", 80.0)
    needed = chosen(titles, preferences={"adapted": PreferenceEvidence(40, 40.0, 0.1)})
    assert (needed.chosen, needed.wealth_needed) == ("adapted", 40.0)
    flattering = {"adapted": PreferenceEvidence(0, 1.0, 0.1)}
    gained = evidence("document", {"adapted": 0.05 + NOISE})
    assert chosen(gained, preferences=flattering).wealth_needed == 40.0


def test_what_people_prefer_gives_way_to_nothing_that_is_only_expected() -> None:
    better = {"adapted": PreferenceEvidence(40, 25.0, 0.1)}
    priors = {
        "adapted": Prior(Normal(2, 1), 5, 5, 2.0),
        "interpolated": Prior(Normal(3, 1), 5, 5, 3.0),
    }
    decision = chosen(
        preferences=better, candidates=BOTH, prior_knowledge=PriorKnowledge(priors, {})
    )
    assert outcomes(decision) == ["expected", "proved"]
    assert (decision.chosen, decision.standing) == ("adapted", "proved")
    # titles that measured both may say that the other one is better still
    titles = evidence("document", {"adapted": 0.05 + NOISE, "interpolated": 0.08 + NOISE})
    both = {"adapted": PreferenceEvidence(40, 50.0, 0.1)}
    decision = chosen(
        titles, preferences=both, candidates=BOTH, prior_knowledge=PriorKnowledge(priors, {})
    )
    assert outcomes(decision) == ["proved", "proved"]
    assert decision.chosen == "interpolated"


def test_many_questions_about_one_candidate_outweigh_a_few_about_the_others() -> None:
    few = evidence(
        "judged",
        {"interpolated": NOISE[:3] * 0},
        3,
    )
    many = evidence(
        "judged",
        {"adapted": NOISE[:60] / 2 - 0.03},
        60,
    )
    decision = chosen(
        few,
        many,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert (decision.chosen, outcomes(decision)) == ("base", ["not shown", "excluded"])
    enough = evidence(
        "judged",
        {"interpolated": NOISE[:60]},
        60,
    )
    decision = chosen(
        enough,
        many,
        candidates=BOTH,
        prior_knowledge=foreseen_of_both(),
    )
    assert outcomes(decision) == ["expected", "excluded"], "as many questions measured that one"


def test_experience_that_helped_on_few_collections_brings_nothing_into_use() -> None:
    helped_on_two_of_five = PriorKnowledge({"adapted": Prior(Normal(4, 1), 5, 2, 4.0)}, {})
    assert outcomes(chosen(prior_knowledge=helped_on_two_of_five)) == ["not shown"]
    gain = evidence("document", {"adapted": 0.01 + NOISE})
    lost_on_average = PriorKnowledge({"adapted": Prior(Normal(-0.1, 1), 5, 3, -0.1)}, {})
    decision = chosen(gain, prior_knowledge=lost_on_average)
    assert decision.candidates[0].expectation is not None
    assert decision.candidates[0].expectation.mean > 0
    assert outcomes(decision) == ["not shown"], "what own evidence alone promises is to be proved"


def test_experience_brings_no_other_share_of_base_into_use() -> None:
    share = Option("base 0.6", "base", 0.6)
    prior = PriorKnowledge({share.name: Prior(Normal(4, 1), 5, 5, 4.0)}, {})
    decision = decide(
        "hybrid",
        [],
        Option("base 0.5", "base", 0.5),
        [share],
        prior_knowledge=prior,
    )
    assert (decision.chosen, outcomes(decision)) == ("base 0.5", ["not shown"])


def test_the_more_candidates_people_compare_the_more_each_proof_takes() -> None:
    enough_for_one = PreferenceEvidence(40, 25.0, 0.1)
    alone = chosen(preferences={"adapted": enough_for_one}, candidates=BOTH)
    assert alone.chosen == "adapted"
    both = {"adapted": enough_for_one, "interpolated": PreferenceEvidence(40, 1.0, 1.0)}
    assert chosen(preferences=both, candidates=BOTH).chosen == "base"


def test_what_is_expected_is_described_by_the_highest_kind_of_evidence() -> None:
    judged = {"adapted": NOISE[:60]}
    flattering = {"adapted": 0.05 + NOISE}
    decision = chosen(
        evidence("judged", judged, 60),
        evidence("imported", flattering),
        prior_knowledge=foreseen(4, 1),
    )
    assert (decision.standing, decision.measured_on, decision.queries) == ("expected", "judged", 60)


def foreseen_of_both() -> PriorKnowledge:
    return PriorKnowledge(
        {name: Prior(Normal(4, 1), 5, 5, 4.0) for name in ("interpolated", "adapted")}, {}
    )


def test_without_experience_the_nearest_to_base_within_one_standard_error_is_chosen() -> None:
    gains = {"interpolated": 0.028 + NOISE[::-1], "adapted": 0.03 + NOISE}
    error = (NOISE - NOISE[::-1]).std() / 400**0.5
    assert error > 0.002
    decision = chosen(evidence("document", gains), candidates=BOTH)
    assert (decision.chosen, outcomes(decision)) == ("interpolated", ["proved", "proved"])
    apart = {**gains, "adapted": 0.028 + 2 * error + NOISE}
    assert chosen(evidence("document", apart), candidates=BOTH).chosen == "adapted"


def test_candidates_that_a_rung_did_not_measure_are_not_judged_by_it() -> None:
    decision = chosen(evidence("document", {"interpolated": 0.05 + NOISE}), candidates=BOTH)
    assert (decision.chosen, outcomes(decision)) == ("interpolated", ["proved", "not shown"])
    assert decision.candidates[1].difference is None


def test_nothing_to_compare_keeps_the_reference() -> None:
    for decision in (chosen(), chosen(evidence("document", {}), candidates=())):
        assert (decision.chosen, decision.rung, decision.candidates) == ("base", None, ())


def test_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        chosen(Evidence("document", {"base": BASE, "adapted": BASE[:9]}))
    with pytest.raises(ValueError, match="NaN"):
        chosen(evidence("document", {"adapted": NOISE * np.nan}))


def simulated(
    rng: np.random.Generator,
    gain: float,
    queries: int,
    rung: RungName = "document",
    share: float = 0.3,
    documents: int = 0,
    correlation: float = 0.1,
) -> Evidence:
    """An adapter and its interpolation on ranks that move at random: a `share` of the queries
    win or lose much, others nothing; of so many `documents`, whose queries' gains have an
    intra-document `correlation`.
    """
    discounts = np.append(1 / np.log2(np.arange(2, 12)), 0.0)
    if documents:
        clusters = np.arange(queries) % documents
    else:
        clusters = None

    def changed() -> np.ndarray:
        moved = rng.random(queries) < share
        differences = np.where(
            moved, rng.choice(discounts, queries) - rng.choice(discounts, queries), 0.0
        )
        if clusters is None:
            return differences
        of_documents = rng.normal(
            0, differences.std() * np.sqrt(correlation / (1 - correlation)), documents
        )
        return differences + of_documents[clusters]

    adapted = changed()
    halved = 0.5 * adapted + 0.2 * changed()
    return evidence(
        rung, {"interpolated": halved + gain / 2, "adapted": adapted + gain}, queries, clusters
    )


def runs_of(
    count: int,
    seed: int,
    *arguments: float,
    **more: object,
) -> list[Decision]:
    rng = np.random.default_rng(seed)
    return [
        decide(
            "hybrid", [simulated(rng, *arguments, **more)], REFERENCE, BOTH, samples=400, seed=run
        )  # type: ignore[arg-type]
        for run in range(count)
    ]


@pytest.mark.parametrize(
    ("queries", "share", "documents"), [(80, 0.05, 0), (150, 0.1, 0), (400, 0.3, 0), (800, 0.1, 40)]
)
def test_at_most_one_in_twenty_adapters_without_effect_is_proved(queries, share, documents) -> None:
    runs = runs_of(
        300,
        queries,
        0.0,
        queries,
        share=share,
        documents=documents,
    )
    assert sum(decision.standing == "proved" for decision in runs) <= 15


@pytest.mark.parametrize(("queries", "share"), [(120, 0.05), (400, 0.3)])
def test_no_harmful_adapter_is_proved(queries, share) -> None:
    assert all(
        decision.chosen == "base" for decision in runs_of(100, queries, -0.03, queries, share=share)
    )


def skewed(
    rng: np.random.Generator, queries: int, losing: float, loss: float, winning: float, gain: float
) -> Evidence:
    """An adapter and its interpolation of which a few queries lose much, and many gain a little."""
    place = rng.random(queries)
    gains = rng.uniform(
        0.5 * gain,
        1.5 * gain,
        queries,
    )
    moved = np.where(
        place < losing,
        -loss,
        np.where(place < losing + winning, gains, 0.0),
    )
    return evidence(
        "judged",
        {"interpolated": moved / 2, "adapted": moved},
        queries,
    )


@pytest.mark.parametrize("queries", [20, 71, 100, 200])
@pytest.mark.parametrize("loss", [0.63, 1.0])  # 0 and −1.9 points in the mean
def test_rare_losses_that_a_small_sample_lacks_let_hardly_anything_in(queries, loss) -> None:
    rng = np.random.default_rng(1)
    runs = [
        decide(
            "hybrid",
            [skewed(rng, queries, 0.05, loss, 0.5, 0.063)],
            REFERENCE,
            BOTH,
            samples=400,
            seed=seed,
        )
        for seed in range(100)
    ]
    assert sum(decision.chosen != "base" for decision in runs) <= (
        0 if queries < MIN_TO_DECIDE else 8
    )


def test_an_adapter_that_helps_comes_into_use_most_of_the_time() -> None:
    assert sum(decision.chosen != "base" for decision in runs_of(40, 3, 0.05, 400)) >= 36


def test_null_adapters_that_judged_questions_call_worse_are_never_in_use() -> None:
    """Experience expects much of them; what the questions show wins."""
    rng = np.random.default_rng(9)
    for seed in range(200):
        measured = simulated(
            rng,
            0.0,
            60,
            "judged",
        )
        decision = decide(
            "hybrid",
            [measured],
            REFERENCE,
            (ADAPTED,),
            prior_knowledge=foreseen(6, 2),
            samples=400,
            seed=seed,
        )
        gap = decision.candidates[0].difference
        assert gap is not None
        assert not (gap.harms and decision.chosen == "adapted")


@pytest.mark.parametrize("queries", [2, 6, 12])
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_few_judged_questions_seldom_exclude_an_adapter_without_effect(queries, share) -> None:
    runs = runs_of(
        300,
        queries,
        0.0,
        queries,
        share=share,
        rung="judged",
    )
    excluded = sum(decision.candidates[1].outcome == "excluded" for decision in runs)
    assert excluded <= 0.1 * len(runs)


def test_few_documents_exclude_nothing_and_judged_questions_asked_for_are_independent() -> None:
    titles = {"adapted": np.full(60, -0.1)}
    model = evidence("model", {"adapted": 0.12 + NOISE})
    three = evidence(
        "document",
        titles,
        60,
        np.arange(60) % 3,
    )
    assert chosen(three, model).chosen == "adapted"
    twelve = evidence(
        "document",
        titles,
        60,
        np.arange(60) % 12,
    )
    assert chosen(twelve, model).chosen == "base"
    effect = {"adapted": NOISE + np.repeat([0.05, -0.05], 200)}
    clustered = chosen(evidence("document", effect, clusters=np.repeat(np.arange(20), 20)))
    alone = chosen(evidence("document", effect))
    assert clustered.ladder[0].needed > 2.5 * alone.ladder[0].needed
    assert clustered.judged_needed == alone.judged_needed
    assert alone.judged_needed is not None
    judged = chosen(evidence("judged", effect, clusters=np.repeat(np.arange(20), 20)))
    assert judged.judged_needed is not None
    assert judged.ladder[0].texts == 20
    assert judged.judged_needed > 2.5 * alone.judged_needed
