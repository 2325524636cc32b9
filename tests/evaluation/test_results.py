"""What an evaluation reports: which sets of queries prove nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.report_example import selection_of

from engine.core.messages.report import Standing
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.results import proves_nothing
from engine.evaluation.rungs import RungName
from engine.evaluation.selection import Selection

SEMANTIC = selection_of(np.linspace(0.0, 0.5, 60))["semantic"]


def decided_by(rung: RungName, standing: Standing) -> Selection:
    """A rung has the last word in semantic search, and another one in hybrid search."""
    semantic = replace(
        SEMANTIC,
        standing=standing,
        decision=replace(SEMANTIC.decision, rung=rung),
    )
    hybrid = replace(
        SEMANTIC, standing="base", decision=replace(SEMANTIC.decision, rung="document")
    )
    return Selection(semantic, hybrid)


@pytest.mark.parametrize("rung", ["model", "imported"])
def test_queries_that_may_flatter_prove_something_only_where_the_gate_says_so(
    rung: RungName,
) -> None:
    queries = QuerySet(
        "held-out",
        "synthetic",
        [],
        [],
        made=rung,
    )
    assert not proves_nothing(queries, decided_by(rung, "proved"))
    assert proves_nothing(queries, decided_by(rung, "expected")), "they had the last word alone"
    assert proves_nothing(queries, decided_by(rung, "base"))
    assert proves_nothing(queries, decided_by("judged", "proved"))


def test_other_queries_flatter_only_if_they_are_extractive() -> None:
    base = decided_by("judged", "base")
    assert not proves_nothing(QuerySet("titles", "document", [], []), base)
    assert not proves_nothing(QuerySet("judged", "judged", [], []), base)
    assert proves_nothing(QuerySet("held-out", "synthetic", [], [], made="extractive"), base)
