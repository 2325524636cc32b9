"""Effects of several collections pooled, and what they say of the next one: values computed by
hand.
"""

from __future__ import annotations

import math

import pytest

from engine.metrics.random_effects import (
    MIN_COLLECTIONS,
    Normal,
    predicted_effect,
    t_quantile,
    weighted_mean,
)

HEAVIER = math.tan(0.3 * math.pi) / 0.8416212
"""The 80 % quantile of Cauchy's distribution, which is t with one degree of freedom, by that of
the normal one.
"""


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 6, 10, 30])
def test_quantiles_of_t_are_those_of_scipy(degrees: int) -> None:
    from scipy import stats

    assert t_quantile(0.8, degrees) == pytest.approx(stats.t.ppf(0.8, degrees), rel=1e-12)


def test_the_tail_of_a_prediction_is_that_of_t() -> None:
    from scipy import stats

    # three collections: the normal distribution has 20 % where t with one degree of freedom has
    # them
    prediction = predicted_effect([1.0, 3.0, 5.0], [1.0, 1.0, 1.0])
    limit = 3 + math.sqrt(3 + 4 / 3) * stats.t.ppf(0.2, 1)
    assert prediction.below(limit) == pytest.approx(0.2)


def test_a_new_collection_varies_as_much_as_those_measured_do() -> None:
    # w = 1, ȳ = 3, Q = 4 + 0 + 4 = 8, τ² = (8 − 2) / (3 − 3/3) = 3; the mean's variance is 1 / (3 ·
    # 1/4) = 4/3
    prediction = predicted_effect([1.0, 3.0, 5.0], [1.0, 1.0, 1.0])
    assert prediction.mean == pytest.approx(3)
    assert prediction.deviation == pytest.approx(HEAVIER * math.sqrt(3 + 4 / 3))


def test_errors_that_differ_weigh_less_the_more_collections_vary() -> None:
    # w = (1, 1, 1/4), Σw = 9/4, ȳ = (0 + 2 + 2.5) / 2.25 = 2, Q = 4 + 0 + 64/4 = 20, Σw − Σw²/Σw =
    # 9/4 − (33/16) / (9/4) = 4/3, τ² = (20 − 2) / (4/3) = 13.5; then the weights are 1/14.5, 1/14.5
    # and 1/17.5: mean (2/14.5 + 10/17.5) / (2/14.5 + 1/17.5) = 40/11
    prediction = predicted_effect([0.0, 2.0, 10.0], [1.0, 1.0, 2.0])
    assert prediction.mean == pytest.approx(40 / 11)
    assert prediction.deviation**2 == pytest.approx(HEAVIER**2 * (13.5 + 14.5 * 17.5 / 49.5))


def test_collections_that_differ_by_chance_alone_have_a_common_effect() -> None:
    # Q = (1 + 0 + 1) / 4 = 0.5 is less than k − 1 = 2: τ² = 0, and the variance is that of the
    # mean, 1 / (3/4)
    assert predicted_effect([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], 1.0).deviation == pytest.approx(
        HEAVIER * (1 + 5 / 3) ** 0.5
    )
    prediction = predicted_effect([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
    assert (prediction.mean, prediction.deviation**2) == (
        pytest.approx(2),
        pytest.approx(HEAVIER**2 * 4 / 3),
    )


@pytest.mark.parametrize(
    ("effects", "errors"),
    [
        ([1.0, 2.0], [1.0, 1.0]),
        ([1.0, 2.0, 3.0], [1.0, 1.0]),
        ([1.0, 2.0, 3.0], [1.0, 0.0, 1.0]),
    ],
)
def test_too_few_effects_or_no_error_are_refused(effects, errors) -> None:
    assert MIN_COLLECTIONS == 3
    with pytest.raises(ValueError, match="error"):
        predicted_effect(effects, errors)


def test_a_measurement_updates_a_normal_distribution() -> None:
    # precisions 1/9 and 1/4: mean (4/9 + 1/4) / (13/36) = 25/13, variance 36/13
    posterior = Normal(4.0, 3.0).update(1.0, 2.0)
    assert (posterior.mean, posterior.deviation**2) == (
        pytest.approx(25 / 13),
        pytest.approx(36 / 13),
    )
    assert Normal(4.0, 3.0).update(1.0, 0.0) == Normal(1.0, 0.0)
    assert Normal(4.0, 0.0).update(1.0, 2.0) == Normal(4.0, 0.0)


def test_two_measurements_in_turn_are_their_mean_at_once() -> None:
    in_turn = Normal(0.0, 5.0).update(2.0, 1.0).update(4.0, 1.0)
    at_once = Normal(0.0, 5.0).update(3.0, math.sqrt(1 / 2))
    assert in_turn.mean == pytest.approx(at_once.mean)
    assert in_turn.deviation == pytest.approx(at_once.deviation)


def test_the_risk_is_the_probability_below_a_limit() -> None:
    assert Normal(2.0, 3.0).below(-1.0) == pytest.approx(0.158655, abs=1e-6)  # Φ(−1)
    assert Normal(2.0, 3.0).below(2.0) == pytest.approx(0.5)
    assert [Normal(2.0, 0.0).below(limit) for limit in (1.0, 3.0)] == [0.0, 1.0]


def test_a_weighted_mean_by_hand() -> None:
    assert weighted_mean([1.0, 4.0], [2.0, 1.0]) == pytest.approx(2)
