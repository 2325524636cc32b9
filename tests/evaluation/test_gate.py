"""What comes into use: only what evidence shows to be better, never what is likely to make search worse."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from engine.core.messages.offer import MIN_TO_DECIDE
from engine.evaluation.evidence import DIFFERENCE, Evidence, Measured, RungName, queries_to_decide
from engine.evaluation.gate import MAX_RISK, Decision, decide

RNG = np.random.default_rng(11)
BASE = RNG.random(400) * 0.5
NOISE = RNG.normal(0, 0.1, 400)
NOISE -= NOISE.mean()

Gains = Mapping[str, tuple[object, object]]


def evidence(rung: RungName, gains: Gains, queries: int = 400, clusters: np.ndarray | None = None) -> Evidence:
    """Candidate → what semantic and default search gain over base, per query."""
    base = np.resize(BASE, queries)
    systems = {"base": Measured(base, base)}
    for name, (semantic, default) in gains.items():
        systems[name] = Measured(base + np.asarray(semantic), base + np.asarray(default))
    return Evidence(rung, systems, clusters)


def chosen(*ladder: Evidence, candidates: tuple[str, ...] = ("adapted",)) -> Decision:
    return decide(ladder, "base", candidates, samples=1_000)


def outcomes(decision: Decision) -> list[str]:
    return [one.outcome for one in decision.candidates]


def test_a_gain_of_semantic_search_comes_into_use_where_hybrid_search_loses_nothing():
    found = chosen(evidence("document", {"adapted": (0.04 + NOISE, NOISE / 4)}))
    assert (found.chosen, found.rung, found.queries, outcomes(found)) == ("adapted", "document", 400, ["in use"])
    (adapted,) = found.candidates
    assert adapted.semantic.value == pytest.approx(4.0)
    assert adapted.default.value == pytest.approx(0.0, abs=1e-9)
    assert adapted.p == pytest.approx(1 / 1_001)


def test_a_gain_of_hybrid_search_alone_suffices():
    assert chosen(evidence("document", {"adapted": (NOISE, 0.03 + NOISE)})).chosen == "adapted"


def test_noise_changes_nothing():
    found = chosen(evidence("document", {"adapted": (NOISE + 0.001, NOISE)}))
    assert (found.chosen, outcomes(found)) == ("base", ["not shown"])
    assert found.candidates[0].p > 0.05


def test_a_gain_that_the_tables_do_not_call_one_stays_out():
    lead = 1.85 * NOISE.std() / 400**0.5  # between the one-sided and the two-sided 5 %, of one difference
    found = chosen(evidence("document", {"adapted": (lead + NOISE, lead + NOISE)}))
    assert found.candidates[0].p < 0.05 < found.candidates[0].semantic.p_value
    assert (found.rung, outcomes(found)) == ("document", ["not shown"])


def test_a_gain_that_puts_the_default_mode_at_risk_stays_out():
    risky = chosen(evidence("document", {"adapted": (0.05 + NOISE, NOISE - 0.002)}))
    (adapted,) = risky.candidates
    # the standard error is 0.5 points: P(mean < −0.3) = P(z < −0.2) = 42 %
    assert adapted.risk == pytest.approx(0.42, abs=0.04)
    assert (risky.chosen, adapted.outcome) == ("base", "risky")
    safe = chosen(evidence("document", {"adapted": (0.05 + NOISE, NOISE + 0.002)}))
    assert safe.candidates[0].risk == pytest.approx(0.16, abs=0.04)
    assert safe.candidates[0].risk < MAX_RISK
    assert safe.chosen == "adapted"


def test_the_highest_rung_with_enough_queries_decides():
    lost, gained = {"adapted": (NOISE, NOISE)}, {"adapted": (0.05 + NOISE, 0.02 + NOISE)}
    assert chosen(evidence("judged", lost), evidence("document", gained)).chosen == "base"
    few = {"adapted": (NOISE[:30], NOISE[:30])}
    found = chosen(evidence("judged", few, 30), evidence("document", gained), evidence("extractive", gained))
    assert (found.chosen, found.rung) == ("adapted", "document")
    assert [(one.rung, one.queries) for one in found.ladder] == [("judged", 30), ("document", 400), ("extractive", 400)]
    # k = (2.8 / 0.04)² = 4906; N = k (0.1² + 1/N) where N = 24.5 + √(24.5² + k) = 98.7
    assert found.ladder[1].needed == pytest.approx(99, abs=5)


def test_one_judged_question_replaces_no_other_evidence():
    one, titles = {"adapted": (NOISE[:1], NOISE[:1])}, {"adapted": (0.05 + NOISE[:40], 0.02 + NOISE[:40])}
    found = chosen(evidence("judged", one, 1), evidence("document", titles, 40))
    assert (found.rung, found.measured_on, found.queries) == (None, "document", 40)
    assert found.ladder[0].needed == 219
    before = chosen(evidence("document", titles, 40))
    assert (before.candidates, before.judged_needed) == (found.candidates, found.judged_needed)
    few = {"adapted": (NOISE[:11], NOISE[:11])}
    assert chosen(evidence("judged", one, 1), evidence("document", few, 11)).judged_needed == 219


def test_extractive_queries_certify_nothing():
    found = chosen(evidence("extractive", {"adapted": (0.2 + NOISE, 0.2 + NOISE)}))
    assert (found.chosen, found.rung, outcomes(found)) == ("base", None, ["not shown"])
    assert found.candidates[0].semantic.verdict == "proves nothing"
    assert found.judged_needed == pytest.approx(118, abs=5)  # k = (2.8 / 0.035)² = 6408: N = 32 + √(32² + k) = 118.3


def test_a_few_judged_questions_exclude_what_they_show_to_be_worse():
    judged = {"adapted": (np.full(12, -0.1), np.full(12, -0.1)), "interpolated": (np.zeros(12), np.zeros(12))}
    titles = {"adapted": (0.08 + NOISE, 0.05 + NOISE), "interpolated": (0.04 + NOISE / 2, 0.02 + NOISE / 2)}
    found = chosen(evidence("judged", judged, 12), evidence("document", titles), candidates=("interpolated", "adapted"))
    assert (found.chosen, outcomes(found)) == ("interpolated", ["in use", "excluded"])
    assert found.candidates[1].excluded_by == "judged"
    five = {name: (gains[0][:5], gains[1][:5]) for name, gains in judged.items()}
    free = chosen(evidence("judged", five, 5), evidence("document", titles), candidates=("interpolated", "adapted"))
    assert free.chosen == "adapted"  # five queries cannot show anything


def test_within_one_standard_error_the_candidate_nearest_to_base_is_taken():
    gains = {"interpolated": (0.04 + NOISE, 0.028 + NOISE[::-1]), "adapted": (0.05 + NOISE, 0.03 + NOISE)}
    lead = NOISE - NOISE[::-1]
    error = lead.std() / np.sqrt(len(lead))
    assert error > 0.002
    found = chosen(evidence("document", gains), candidates=("interpolated", "adapted"))
    assert outcomes(found) == ["in use", "admitted"]
    apart = {**gains, "adapted": (0.05 + NOISE, 0.028 + 2 * error + NOISE)}
    assert chosen(evidence("document", apart), candidates=("interpolated", "adapted")).chosen == "adapted"


def test_nothing_to_compare_keeps_the_reference():
    for found in (chosen(), chosen(evidence("document", {}), candidates=())):
        assert (found.chosen, found.rung, found.candidates) == ("base", None, ())


def test_misfits_are_refused():
    with pytest.raises(KeyError):
        chosen(evidence("document", {"other": (NOISE, NOISE)}))
    with pytest.raises(ValueError, match="broadcast"):
        chosen(Evidence("document", {"base": Measured(BASE, BASE), "adapted": Measured(BASE[:9], BASE[:9])}))
    with pytest.raises(ValueError, match="NaN"):
        chosen(evidence("document", {"adapted": (NOISE * np.nan, NOISE)}))


def simulated(
    rng: np.random.Generator, gain: float, queries: int, rung: RungName = "document", share: float = 0.3,
    documents: int = 0, correlation: float = 0.1, default_gain: float | None = None,
) -> Evidence:  # fmt: skip
    """An adapter and its interpolation on ranks that move at random: a `share` of the queries win or lose much, others nothing; of
    so many `documents`, whose queries' gains have an intra-document `correlation`."""
    discounts = np.append(1 / np.log2(np.arange(2, 12)), 0.0)

    clusters = np.arange(queries) % documents if documents else None

    def changed() -> np.ndarray:
        moved = rng.random(queries) < share
        found = np.where(moved, rng.choice(discounts, queries) - rng.choice(discounts, queries), 0.0)
        if clusters is None:
            return found
        of_documents = rng.normal(0, found.std() * np.sqrt(correlation / (1 - correlation)), documents)
        return found + of_documents[clusters]

    semantic = changed()
    default = 0.4 * semantic + 0.4 * changed()
    halved = 0.5 * semantic + 0.2 * changed()
    lead = gain if default_gain is None else default_gain
    return evidence(
        rung,
        {
            "interpolated": (halved + gain / 2, 0.4 * halved + 0.2 * changed() + lead / 2),
            "adapted": (semantic + gain, default + lead),
        },
        queries,
        clusters,
    )


@pytest.mark.parametrize(
    ("queries", "share", "documents"), [(120, 0.05, 0), (150, 0.1, 0), (400, 0.3, 0), (800, 0.1, 40)]
)
def test_of_adapters_that_do_nothing_at_most_one_in_twenty_comes_into_use(queries, share, documents):
    rng = np.random.default_rng(queries)
    runs = [
        decide(
            [simulated(rng, 0.0, queries, share=share, documents=documents)],
            "base",
            ("interpolated", "adapted"),
            samples=400,
            seed=seed,
        )
        for seed in range(300)
    ]
    assert sum(one.chosen != "base" for one in runs) <= 15
    assert (
        sum(one.rung == "document" for one in runs) > 250
    )  # it is the gate that keeps them out, not the lack of queries


@pytest.mark.parametrize(("queries", "share"), [(120, 0.05), (400, 0.3)])
def test_of_adapters_that_harm_none_comes_into_use(queries, share):
    rng = np.random.default_rng(queries)
    names = ("interpolated", "adapted")
    runs = [
        decide([simulated(rng, -0.03, queries, share=share)], "base", names, samples=400, seed=seed)
        for seed in range(100)
    ]
    assert all(one.chosen == "base" for one in runs)
    assert sum(one.rung == "document" for one in runs) > 90


def skewed(rng: np.random.Generator, queries: int, losing: float, loss: float, winning: float, gain: float) -> Evidence:
    """An adapter and its interpolation of which a few queries lose much, and many gain a little."""
    place = rng.random(queries)
    gains = rng.uniform(0.5 * gain, 1.5 * gain, queries)
    moved = np.where(place < losing, -loss, np.where(place < losing + winning, gains, 0.0))
    return evidence("judged", {"interpolated": (moved / 2, moved / 2), "adapted": (moved, moved)}, queries)


@pytest.mark.parametrize("queries", [20, 60, 100])
@pytest.mark.parametrize("loss", [0.63, 1.0])  # 0 and −1.9 points in the mean
def test_rare_losses_that_a_small_sample_lacks_let_nothing_in(queries, loss):
    rng = np.random.default_rng(1)
    names = ("interpolated", "adapted")
    runs = [
        decide([skewed(rng, queries, 0.05, loss, 0.5, 0.063)], "base", names, samples=400, seed=seed)
        for seed in range(100)
    ]
    assert sum(one.chosen != "base" for one in runs) <= (0 if loss == 1 or queries < MIN_TO_DECIDE else 8)


def test_the_fewest_queries_that_decide():
    assert queries_to_decide(DIFFERENCE / 100, 0.0) == MIN_TO_DECIDE


def test_of_adapters_that_help_semantic_search_at_the_default_mode_s_cost_none_comes_into_use():
    rng = np.random.default_rng(5)
    names = ("interpolated", "adapted")
    runs = [decide([simulated(rng, 0.03, 400, default_gain=-0.02)], "base", names, samples=400) for _ in range(50)]
    assert all(one.chosen == "base" for one in runs)
    assert sum("risky" in outcomes(one) for one in runs) > 20  # it is the risk that keeps them out


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_as_many_judged_questions_as_are_asked_for_show_the_gain_promised(share):
    rng = np.random.default_rng(8)
    before = decide([simulated(rng, 0.0, 400, "extractive", share)], "base", ("interpolated", "adapted"), samples=100)
    count = before.judged_needed
    runs = [
        decide([simulated(rng, 0.04, count, "judged", share)], "base", ("interpolated", "adapted"), samples=200)
        for _ in range(60)
    ]
    assert sum(one.rung == "judged" and one.chosen != "base" for one in runs) >= 36


def test_an_adapter_that_helps_comes_into_use_most_of_the_time():
    rng = np.random.default_rng(3)
    runs = [
        decide([simulated(rng, 0.05, 400)], "base", ("interpolated", "adapted"), samples=400, seed=seed)
        for seed in range(40)
    ]
    assert sum(one.chosen != "base" for one in runs) >= 36


def test_few_documents_exclude_nothing_and_judged_questions_asked_for_are_independent():
    titles = {"adapted": (np.full(60, -0.1), np.full(60, -0.1))}
    model = evidence("model", {"adapted": (0.08 + NOISE, 0.05 + NOISE)})
    three = evidence("document", titles, 60, np.arange(60) % 3)
    assert chosen(three, model).chosen == "adapted"
    twelve = evidence("document", titles, 60, np.arange(60) % 12)
    assert chosen(twelve, model).chosen == "base"
    effect = {"adapted": (NOISE + np.repeat([0.05, -0.05], 200), NOISE)}
    clustered = chosen(evidence("document", effect, clusters=np.repeat(np.arange(20), 20)))
    alone = chosen(evidence("document", effect))
    assert clustered.ladder[0].needed > 2.5 * alone.ladder[0].needed
    assert clustered.judged_needed == alone.judged_needed
    judged = chosen(evidence("judged", effect, clusters=np.repeat(np.arange(20), 20)))
    assert (judged.ladder[0].texts, judged.judged_needed > 2.5 * alone.judged_needed) == (20, True)
