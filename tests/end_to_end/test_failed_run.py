"""A run that failed while nobody looked: why is in the project's status. What can be seen before it begins ends it at once."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.pipeline import engine_here

from engine.project import ProjectFolder


def test_unusable_sentence_pairs_end_a_run_before_it_begins_and_status_says_so(project: Path) -> None:
    (project / "pairs.csv").write_text("one,other,1\n")
    ProjectFolder.open(project).change_settings({"evaluation.sentence_pairs": "pairs.csv"})
    done = engine_here("run", str(project), "--force", "--json", check=False)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["event"] for one in events] == ["run_started", "stage_failed", "run_finished"]
    assert done.returncode != 0
    told = engine_here("status", str(project)).stdout
    assert "The last run failed. The sentence pairs in" in told
    assert "It holds 1 pairs, and 10 with different scores are needed. Name a .jsonl" in told
    ProjectFolder.open(project).change_settings({"evaluation.sentence_pairs": ""})
    engine_here("run", str(project), "--only", "ingest")
    assert "failed" not in engine_here("status", str(project)).stdout
