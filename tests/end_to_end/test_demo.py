"""`engine demo` as `make demo` runs it, with a model and a training that take seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fixtures.pipeline import SAMPLE, engine_here

from engine.api import Project
from engine.cli.demo import find_telling_change
from engine.core import events
from engine.project.stage import ORDER

MOST_LINES = 55  # of 60; the others are those of make (tests/test_makefile.py)
BESIDE = 15  # lines of a question with both lists side by side, where there is one that tells


def test_the_demo_is_short_and_shows_no_automatic_choice(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(
        tmp_path / "sample",
        corpus={"paths": [str(SAMPLE / "documents")], "chunk_tokens": 256},
        queries={"max_queries": 100},
        training={"steps": 2, "eval_every": 2},
    )
    completed = engine_here(
        "demo",
        "--project",
        str(project),
    )
    (log,) = project.glob("runs/*/events.jsonl")
    reported = [event for event, _ in events.read(log)]
    choices = [event for event in reported if isinstance(event, events.Choice)]
    lines = (completed.stderr + completed.stdout).splitlines()
    tells = "(semantic search)" in completed.stdout
    assert len(lines) <= MOST_LINES + BESIDE * tells
    assert choices
    assert not [
        choice
        for choice in choices
        if any(f"{choice.setting}: {choice.value} — {choice.reason}" in line for line in lines)
    ]
    done_with = [
        event.stage
        for event in reported
        if isinstance(event, events.StageFinished | events.StageSkipped)
    ]
    assert [line.split()[1] for line in lines if line.startswith("✓")] == done_with
    assert {*done_with} == {*ORDER}
    assert str(project) in completed.stdout
    report = Project.open(project).report()
    measured = report.tables["measuring"]
    printed = " ".join(completed.stdout.split())
    assert [row.mode for row in report.verdict.modes] == ["hybrid", "semantic"]
    for mode in report.verdict.modes:
        assert mode.sentence in printed
        assert (mode.kind, mode.queries) == ("measuring", measured.queries)
        assert [bar.figure for bar in mode.bars] == [
            measured.systems[bar.system]["ndcg@10"] for bar in mode.bars
        ]
        assert mode.format_difference in printed
    change = find_telling_change(report)
    assert (change is not None) == ("(semantic search)" in printed)
    assert change is None or change.text in printed
