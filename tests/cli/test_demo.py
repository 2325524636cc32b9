"""What `engine demo` shows of an adaptation: a question that it answers and the encoder before
it does not.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from engine.cli import demo
from engine.cli.demo import find_telling_change, show_change
from engine.core.figures import FigureTable
from engine.core.messages.report import Change, Changes, FoundHit, QuerySetKind, QuerySetReport

RIGHT = (FoundHit(1, False, "Minutes", "No answer."), FoundHit(2, True, "POL-03", "The answer."))
WRONG = (FoundHit(1, False, "Mail [/x]", "Nothing of it."),)


def change(
    text: str,
    before: float,
    after: float,
    hits: tuple[FoundHit, ...] = RIGHT,
) -> Change:
    return Change(
        text,
        text,
        before,
        after,
        WRONG,
        hits,
    )


def query_set(kind: QuerySetKind, *better: Change) -> QuerySetReport:
    return QuerySetReport(
        kind,
        kind,
        FigureTable("base", 130, 0, {}, {}),
        Changes(better),
    )


def chosen(monkeypatch: pytest.MonkeyPatch, *sets: QuerySetReport) -> str | None:
    monkeypatch.setattr(
        demo,
        "read_report",
        lambda folder: {"folder": folder},
    )
    monkeypatch.setattr(
        demo,
        "query_sets_of",
        lambda report: sets,
    )
    report: Any = SimpleNamespace(folder=Path("reports/a"))
    found = find_telling_change(report)
    return found.text if found is not None else None


def test_the_best_answered_of_the_measuring_questions_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = query_set("judged", change("judged", 0.0, 100.0))
    measuring = query_set(
        "measuring",
        change("found before", 30.0, 100.0),
        change("low", 0.0, 40.0),
        change("high", 0.0, 63.0),
    )
    assert chosen(monkeypatch, judged, measuring) == "high"
    assert chosen(monkeypatch, judged, query_set("measuring")) == "judged"


def test_without_newly_answered_queries_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch) is None
    assert chosen(monkeypatch, query_set("judged", change("found before", 30.0, 100.0))) is None
    assert (
        chosen(monkeypatch, query_set("judged", change("beyond what is shown", 0.0, 30.0, WRONG)))
        is None
    )
    assert chosen(monkeypatch, query_set("synthetic", change("made", 0.0, 100.0))) is None, (
        "made from the documents"
    )


@pytest.mark.parametrize(("width", "side_by_side"), [(80, False), (120, True)])
def test_both_lists_are_shown_side_by_side_if_they_fit(width: int, *, side_by_side: bool) -> None:
    out = io.StringIO()
    show_change(
        change("who", 0.0, 63.0),
        "Now in use",
        Console(file=out, width=width),
    )
    lines = out.getvalue().splitlines()
    assert (
        any("Before adaptation" in line and "Now in use" in line for line in lines) == side_by_side
    )
    (right,) = (line for line in lines if "✓" in line)
    assert "✓ 2. POL-03" in right
    assert "Mail [/x]" in out.getvalue(), "titles are no markup"
    assert all(len(line) <= width for line in lines)
