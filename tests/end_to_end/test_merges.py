"""Rows of merges of base and adapted: over the whole corpus where it is small, else among the chunks next to held-out queries."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from fixtures.pipeline import engine_here

from engine.project.folder import ProjectFolder


def evaluated(project: Path, most: int) -> tuple[set[str], list[dict[str, Any]]]:
    ProjectFolder.open(project).change_settings(
        {"training.adapter_scope": "both", "evaluation.max_interpolation_chunks": most}
    )
    told = [json.loads(line) for line in engine_here("run", str(project), "--json").stdout.splitlines()]
    report = json.loads(engine_here("report", str(project), "--json").stdout)
    systems = {name for table in report["tables"].values() for name in table["systems"]}
    return systems, [one for one in told if one.get("setting") == "merges compared among"]


def test_merges_have_rows_up_to_a_size_of_the_corpus_and_it_is_told_where_they_have_none(project: Path) -> None:
    with_rows, told = evaluated(project, 4000)
    assert {"merge-0.5", "rrf_merge-0.5", "weighted_merge-0.5"} <= with_rows
    assert told == []
    without, told = evaluated(project, 5)
    assert without == {name for name in with_rows if "merge" not in name}
    assert len(told) == 1
    assert "5 (evaluation.max_interpolation_chunks)" in told[0]["reason"]
    with closing(ProjectFolder(project).store()) as store:
        assert int(told[0]["value"].removesuffix(" chunks").replace(",", "")) < store.counts()["chunks"]
