"""The fusion and the encoder that come into use, chosen among rankings made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.core.systems import ADAPTED, BASE
from engine.evaluation.evaluating import Choosing
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, FusionChoice, HybridFusion
from engine.lexical.filenames import FilenameMatch
from engine.settings.load import validate

RIGHT, WRONG, THIRD, LAST = 1, 2, 3, 4
SECOND = 1 / np.log2(3)  # nDCG@10 of a right chunk in the second place
BM25 = {"clear": [1.0, 0.4, 0.2, 0.0], "close": [1.0, 0.96, 0.2, 0.0]}
"""Scores of the four chunks by BM25, which puts the right one first, by far or narrowly."""
ENCODERS = {"helps": [0.9, 1.0, 0.2, 0.0], "doubts": [0.0, 0.3, 1.0, 0.2], "errs": [0.0, 1.0, 0.2, 0.1]}
"""By an encoder, which puts the wrong one above the right one."""
SYSTEMS = ("bm25", BASE, ADAPTED)
KINDS = [  # BM25, base and adapted encoder, and how many queries
    ("clear", "errs", "helps", 300),  # with equal weights the adapted encoder alone finds the right chunk first
    ("close", "doubts", "errs", 150),  # with little of the encoder base alone does
    ("clear", "errs", "errs", 150),  # with little of either encoder
]


def asked(search: dict[str, Any]) -> Choosing:
    """Among base and an adapted encoder, on 600 judged questions of these kinds."""
    rows = [kind[:3] for kind in KINDS for _ in range(kind[3])]
    judgments = [Judgment(str(row), f"q{row}", "chunk", {RIGHT: 1}) for row in range(len(rows))]
    one = QuerySet("judged queries", "judged", judgments, [FilenameMatch(each.text) for each in judgments])
    given = {name: np.array([(BM25 | ENCODERS)[row[place]] for row in rows]) for place, name in enumerate(SYSTEMS)}
    for name, scores in given.items():
        order = np.argsort(-scores, axis=1)
        one.rankings[name], one.scores[name] = order + 1, np.take_along_axis(scores, order, axis=1)
        one.beside[name] = np.take_along_axis(scores, one.rankings["bm25"] - 1, axis=1)
    settings = validate({"search": search, "evaluation": {"bootstrap_samples": 500}})
    fuser = HybridFusion(settings, lambda _, ids: np.take_along_axis(given["bm25"], ids - 1, axis=1))
    return Choosing(settings, [one], fuser, lambda ids: ids)


def test_the_encoder_is_compared_with_the_fusion_that_comes_into_use() -> None:
    choosing = asked({})
    fusion = choosing.fusion(EQUAL)
    assert (fusion.method, fusion.weight) == ("weighted", 0.1)
    found = choosing.encoder([ADAPTED], fusion)
    # with a tenth of the encoder, base has every right chunk first, and the adapted encoder 150 of 600 second
    assert found.candidates[0].default.value == pytest.approx(100 * (SECOND - 1) / 4)
    assert (found.chosen, found.rung, found.candidates[0].outcome) == (BASE, "judged", "risky")
    # with equal weights, which nobody gets, it would be better
    assert choosing.encoder([ADAPTED], FusionChoice("weighted", EQUAL, "")).chosen == ADAPTED


def test_where_semantic_search_is_the_default_fusion_has_no_part_in_it() -> None:
    choosing = asked({"mode": "semantic"})
    fusion = choosing.fusion(EQUAL)
    assert (fusion.method, fusion.weight) == ("weighted", EQUAL)
    found = choosing.encoder([ADAPTED], fusion)
    # of 300 queries in 600 the right chunk comes second in place of last
    assert found.candidates[0].default.value == pytest.approx(100 * (SECOND - 1 / np.log2(5)) / 2)
    assert found.chosen == ADAPTED
