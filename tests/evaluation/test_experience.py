"""What public collections say of a new one: which of them count, and for what."""

from __future__ import annotations

import hashlib
import math

import pytest

from engine.evaluation.experience import (
    DIGITS,
    SAMPLED,
    Effect,
    Experience,
    Recipe,
    document_digests,
    parse_experience,
)

HASHES = {
    name: [hashlib.sha256(f"{name} {number}".encode()).hexdigest() for number in range(100)]
    for name in ("anemones", "bridges", "canals", "dunes")
}
DIGESTS = {name: frozenset(document_digests(hashes)) for name, hashes in HASHES.items()}


def effect(
    collection: str,
    points: float,
    seed: int = 0,
    **more: object,
) -> Effect:
    """Of the adapted encoder in semantic search, by queries of a model, with a standard error of
    1.
    """
    parts = {
        "queries": "model-written",
        "encoder": "adapted",
        "mode": "semantic",
        "share": None,
        "error": 1.0,
        **more,
    }
    return Effect(collection=collection, seed=seed, points=points, **parts)  # type: ignore[arg-type]


def experience(*effects: Effect) -> Experience:
    return Experience(effects=effects, documents=DIGESTS)


THREE = experience(
    effect("anemones", 1.0),
    effect("bridges", 3.0),
    effect("canals", 5.0),
)


def mean_without(history: Experience) -> float | None:
    prior = history.prior(
        "model-written",
        "adapted",
        "semantic",
        None,
    )
    return None if prior is None else prior.effect.mean


def test_a_prior_pools_all_collections() -> None:
    prior = THREE.prior(
        "model-written",
        "adapted",
        "semantic",
        None,
    )
    assert prior is not None
    # as by hand in tests/metrics/test_random_effects.py: τ² = 3, variance 3 + 4/3
    assert (prior.effect.mean, prior.effect.deviation**2) == (
        pytest.approx(3),
        pytest.approx(1.6354**2 * 13 / 3, rel=1e-4),
    )
    assert (prior.collections, prior.helped, prior.average, prior.widened) == (
        3,
        3,
        pytest.approx(3),
        False,
    )


def test_collections_where_it_did_not_help_are_counted() -> None:
    history = experience(
        effect("anemones", -0.5),
        effect("bridges", 0.0),
        effect("canals", 5.0),
    )
    prior = history.prior(
        "model-written",
        "adapted",
        "semantic",
        None,
    )
    assert prior is not None
    assert (prior.collections, prior.helped, prior.average) == (3, 1, pytest.approx(1.5))


def test_the_prior_of_another_encoder_is_wider() -> None:
    prior = THREE.prior(
        "model-written",
        "adapted",
        "semantic",
        None,
        widened=True,
    )
    assert prior is not None
    assert (prior.effect.mean, prior.widened) == (pytest.approx(3), True)
    assert prior.effect.deviation == pytest.approx(
        2 * math.sqrt(3**2 + 1.6354**2 * 13 / 3), rel=1e-4
    )
    assert prior.effect.below(-0.3) > 0.2, (
        "too much for the gate, without evidence of the project's own"
    )


@pytest.mark.parametrize(
    ("queries", "encoder", "mode", "share"),
    [
        ("extractive", "adapted", "semantic", None),
        ("model-written", "interpolated-0.5", "semantic", None),
        ("model-written", "adapted", "hybrid", None),
        ("model-written", "adapted", "hybrid", 0.5),
    ],
)
def test_effects_of_something_else_say_nothing(queries, encoder, mode, share) -> None:
    assert THREE.prior(queries, encoder, mode, share) is None


def test_fewer_than_three_collections_give_no_prior() -> None:
    two = experience(
        *THREE.effects[:2], effect("bridges", 4.0, seed=1), effect("bridges", 2.0, seed=2)
    )
    assert mean_without(two) is None


def test_seeds_of_a_collection_count_as_one_measurement() -> None:
    seeds = [effect("canals", 4.0, seed=1), effect("canals", 6.0, seed=2)]
    history = experience(*THREE.effects[:2], *seeds)
    assert history.prior("model-written", "adapted", "semantic", None) == THREE.prior(
        "model-written", "adapted", "semantic", None
    )


def test_errors_of_seeds_are_averaged_and_not_shrunk() -> None:
    seeds = [effect("canals", 5.0, seed=1, error=0.5), effect("canals", 5.0, seed=2, error=1.5)]
    history = experience(*THREE.effects[:2], *seeds)
    assert mean_without(history) == pytest.approx(3)


FOUR = experience(*THREE.effects, effect("dunes", 11.0))


@pytest.mark.parametrize(
    ("hashes", "left_out"),
    [
        ([], False),
        (HASHES["dunes"], True),
        (HASHES["dunes"] + HASHES["bridges"][:2] + ["0" * 64] * 500, True),
        (sorted(HASHES["dunes"])[:4], True),  # of 32, at least a tenth
        (sorted(HASHES["dunes"])[:3], False),
        (sorted(HASHES["dunes"])[SAMPLED:], False),
    ],
    ids=["nothing", "the same", "enlarged", "a tenth of the sample", "less", "the rest of it"],
)
def test_a_collection_that_a_project_consists_of_is_left_out(hashes, left_out) -> None:
    assert mean_without(FOUR.without(hashes)) == pytest.approx(3 if left_out else 5)


def test_a_project_of_two_collections_leaves_out_both() -> None:
    assert mean_without(FOUR.without(HASHES["dunes"] + HASHES["canals"])) is None


def test_a_collection_of_a_few_documents_is_known_by_all_of_them() -> None:
    few = Experience(
        effects=FOUR.effects,
        documents={"dunes": document_digests(HASHES["dunes"][:4]), "canals": ()},
    )
    assert mean_without(few.without(HASHES["dunes"][3:])) == pytest.approx(3)
    assert mean_without(few.without(HASHES["dunes"][4:])) == pytest.approx(5)


def test_digests_depend_on_the_contents_alone() -> None:
    digests = document_digests(HASHES["dunes"])
    assert document_digests(reversed(HASHES["dunes"] * 2)) == digests
    assert (len(digests), {len(digest) for digest in digests}) == (SAMPLED, {DIGITS})
    assert document_digests(["b" * 64, "a" * 64]) == ["a" * DIGITS, "b" * DIGITS]


def hybrid(gains: dict[float, float]) -> Experience:
    """The gain by each share, the same on three collections."""
    rows = [
        effect(name, points, mode="hybrid", share=share)
        for share, points in gains.items()
        for name in ("anemones", "bridges", "canals")
    ]
    return experience(*rows, effect("dunes", 99.0, mode="hybrid", share=0.7))


def test_the_best_share_is_that_of_the_greatest_expected_gain() -> None:
    history = hybrid({0.4: 0.5, 0.5: 1.0, 0.6: 2.0})
    assert history.best_share("model-written", "adapted", (0.4, 0.5, 0.6, 0.7)) == 0.6
    assert history.best_share("model-written", "adapted", (0.4, 0.5)) == 0.5
    assert history.best_share("model-written", "adapted", (0.7,)) is None, (
        "one collection is too few"
    )
    assert history.best_share("extractive", "adapted", (0.4, 0.5)) is None


def test_another_share_than_one_half_must_gain_more_than_collections_differ_by_chance() -> None:
    close = hybrid({0.5: 1.0, 0.6: 1.4})
    assert close.best_share("model-written", "adapted", (0.5, 0.6)) == 0.5
    clear = hybrid({0.5: 1.0, 0.6: 1.6})
    assert clear.best_share("model-written", "adapted", (0.5, 0.6)) == 0.6
    unmeasured = hybrid({0.4: 1.0, 0.6: 1.4})
    assert unmeasured.best_share("model-written", "adapted", (0.4, 0.6)) == 0.6


def test_experience_is_read_from_json() -> None:
    data = {
        "model": "m",
        "recipes": {
            "extractive": {"objective": "mixed", "weights": "adapter", "adapter_scope": "both"}
        },
        "effects": [
            {
                "collection": "dunes",
                "queries": "extractive",
                "encoder": "adapted",
                "mode": "hybrid",
                "share": 0.6,
                "seed": 2,
                "points": 1.5,
                "error": 0.25,
            }
        ],
        "documents": {"dunes": ["a", "b"]},
        "rung_errors": {"document": {"semantic": 1.5}},
    }
    parsed = parse_experience(data)
    assert parsed.recipes == {"extractive": Recipe("mixed", "adapter", "both", "cosine", "FT")}
    assert parsed.effects == [Effect("dunes", "extractive", "adapted", "hybrid", 0.6, 2, 1.5, 0.25)]
    assert (parsed.model, parsed.documents) == ("m", {"dunes": frozenset("ab")})
    assert parsed.rung_errors == {"document": {"semantic": 1.5}}
