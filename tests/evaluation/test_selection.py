"""What comes into use: only what is shown to be better than base, never what real queries show to be worse."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.systems import candidate_name, weight_of
from engine.evaluation.selection import choose_candidate

RNG = np.random.default_rng(11)
BASE = RNG.random(200) * 0.5
NOISE = RNG.normal(0, 0.05, 200)


def test_a_clear_gain_comes_into_use_with_its_figures():
    chosen = choose_candidate({"base": BASE, "adapted": BASE + 0.1 + NOISE}, samples=2_000)
    assert (chosen.in_use, chosen.weight, chosen.queries) == ("adapted", 1.0, 200)
    gain = 100 * (0.1 + NOISE.mean())
    assert f"{gain:+.1f} points" in chosen.reason
    assert f"{100 * BASE.mean():.1f} for base" in chosen.reason
    assert [row.outcome for row in chosen.table] == ["base", "in use"]


def test_noise_serves_base_and_says_so():
    chosen = choose_candidate({"base": BASE, "adapted": BASE + NOISE - NOISE.mean() + 0.001}, samples=2_000)
    assert chosen.in_use == "base"
    assert "200 held-out queries" in chosen.reason
    assert "+0.1 points" in chosen.reason


def test_a_worse_candidate_does_not_come_into_use():
    chosen = choose_candidate({"base": BASE, "adapted": BASE - 0.1, "interpolated-0.5": BASE - 0.01}, samples=500)
    assert (chosen.in_use, [row.outcome for row in chosen.table]) == ("base", ["in use", "not ahead", "not ahead"])


def test_within_one_standard_error_the_smaller_weight_wins():
    alike = BASE + 0.1 + NOISE - NOISE.mean()
    values = {"base": BASE, "interpolated-0.25": BASE + 0.05, "interpolated-0.5": BASE + 0.0985, "adapted": alike}
    chosen = choose_candidate(values, samples=4_000)
    # The adapted encoder leads interpolated-0.5 by 0.15 points; the standard error of that lead is 5/√200 = 0.35 points.
    assert chosen.in_use == "interpolated-0.5"
    assert "0.15 points" in chosen.reason
    assert "standard error (0.3" in chosen.reason
    assert [row.outcome for row in chosen.table] == ["base", "ahead", "in use", "ahead"]


def test_beyond_one_standard_error_the_best_wins():
    values = {"base": BASE, "interpolated-0.5": BASE + 0.09 + NOISE - NOISE.mean(), "adapted": BASE + 0.1}
    assert choose_candidate(values, samples=2_000).in_use == "adapted"


def test_a_smaller_gain_that_is_shown_beats_a_larger_one_that_is_not():
    wild = np.where(np.arange(200) % 2, 0.5, -0.48)
    chosen = choose_candidate({"base": BASE, "interpolated-0.25": BASE + 0.005, "adapted": BASE + wild}, samples=2_000)
    assert chosen.in_use == "interpolated-0.25"


def test_few_queries_serve_base_whatever_they_say():
    chosen = choose_candidate({"base": np.zeros(19), "adapted": np.ones(19)})
    assert chosen.in_use == "base"
    assert "19 held-out queries" in chosen.reason
    assert "evaluation.heldout_share" in chosen.reason
    assert chosen.table[1].against_base is not None
    assert choose_candidate({"base": np.zeros(20), "adapted": np.ones(20)}).in_use == "adapted"


def test_no_queries_at_all():
    chosen = choose_candidate({"base": [], "adapted": []}, judged={"base": BASE, "adapted": BASE})
    assert (chosen.in_use, chosen.queries) == ("base", 0)
    assert chosen.table[0].figure is None


def test_real_queries_exclude_a_candidate_that_is_worse_on_them():
    values = {"base": BASE, "interpolated-0.5": BASE + 0.05, "adapted": BASE + 0.2}
    judged = {"base": BASE[:50], "interpolated-0.5": BASE[:50], "adapted": BASE[:50] - 0.1}
    chosen = choose_candidate(values, samples=1_000, judged=judged)
    assert chosen.in_use == "interpolated-0.5"
    assert "50 judged queries" in chosen.reason
    assert "10.0 points" in chosen.reason
    assert [row.outcome for row in chosen.table] == ["base", "in use", "vetoed"]
    assert choose_candidate(values, samples=1_000).in_use == "adapted"


def test_five_lost_judged_queries_of_twenty_exclude_although_the_test_shows_nothing():
    judged = {"base": np.ones(20), "adapted": np.repeat([0.0, 1.0], [5, 15])}
    chosen = choose_candidate({"base": BASE, "adapted": BASE + 0.2}, judged=judged, samples=2_000)
    assert [row.outcome for row in chosen.table] == ["in use", "vetoed"]
    against = chosen.table[1].judged_against_base
    assert against is not None
    assert against.verdict == "no difference shown"
    assert against.p_value == pytest.approx(2 / 32, abs=0.01)
    assert "20 judged queries" in chosen.reason
    assert "25.0 points" in chosen.reason
    assert f"{against.high:.1f}, p = {against.p_value:.3f})." in chosen.reason


def test_the_sentence_tells_the_p_that_decided():
    # Five better of twenty: the interval lies above 0, and Fisher's p of five that agree is 6 %.
    gain = np.repeat([0.4, 0.0], [5, 15])
    chosen = choose_candidate({"base": BASE[:20], "adapted": BASE[:20] + gain}, samples=2_000)
    against = chosen.table[1].against_base
    assert against is not None
    assert against.low > 0
    interval = f"(95 % interval {against.low:+.1f} to {against.high:+.1f}, p = {against.p_value:.3f}); about"
    assert chosen.in_use == "base"
    assert interval in chosen.reason
    gained = choose_candidate({"base": BASE, "adapted": BASE + 0.1 + NOISE}, samples=2_000)
    assert gained.reason.endswith(", p < 0.001).")


def test_a_merge_that_was_not_judged_falls_with_the_adapted_encoder():
    values = {"base": BASE, "interpolated-0.5": BASE + 0.05, "adapted": BASE + 0.2}
    chosen = choose_candidate(values, {"base": BASE, "adapted": BASE - 0.1}, samples=500)
    assert chosen.in_use == "base"
    assert [row.outcome for row in chosen.table] == ["in use", "vetoed", "vetoed"]
    assert "weight 0.5" in chosen.reason
    assert choose_candidate(values, {"base": BASE, "adapted": BASE}, samples=500).in_use == "adapted"


def test_when_all_are_excluded_base_stays_in_use():
    chosen = choose_candidate(
        {"base": BASE, "adapted": BASE + 0.2}, judged={"base": BASE, "adapted": BASE - 0.1}, samples=500
    )
    assert chosen.in_use == "base"
    assert [row.outcome for row in chosen.table] == ["in use", "vetoed"]


def test_too_few_real_queries_exclude_nobody_and_that_is_said():
    judged = {"base": BASE[:10], "adapted": BASE[:10] - 0.2}
    chosen = choose_candidate({"base": BASE, "adapted": BASE + 0.2}, judged=judged, samples=500)
    assert chosen.in_use == "adapted"
    assert "10 judged queries" in chosen.reason


def test_names_and_weights():
    assert [candidate_name(value) for value in (0, 0.25, 0.5, 1)] == [
        "base",
        "interpolated-0.25",
        "interpolated-0.5",
        "adapted",
    ]
    assert all(weight_of(candidate_name(value)) == value for value in (0, 0.1, 0.25, 1 / 8, 1))
    for name in ("best", "interpolated-2", "interpolated-x", "interpolated-0"):
        with pytest.raises(ValueError, match=r"candidate|float"):
            weight_of(name)
    with pytest.raises(ValueError, match="must lie in"):
        candidate_name(1.5)


@pytest.mark.parametrize(
    "values", [{}, {"adapted": BASE}, {"base": BASE, "adapted": BASE[:-1]}, {"base": BASE, "adapted": BASE * np.nan}]
)
def test_misfits_are_refused(values):
    with pytest.raises(ValueError, match=r"base|same queries|NaN"):
        choose_candidate(values)
