"""`engine encoders compare`: the encoder that is shown to be better is taken, where somebody says
so.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from fixtures.pipeline import engine_here

from engine.core.figures import Difference, FigureTable, Interval, Verdict
from engine.core.messages.encoders import (
    EncoderComparison,
    EncoderResult,
    EncoderTrial,
    TrialFigures,
)
from engine.evaluation.choosing import encoders
from engine.project.folder import ProjectFolder

FIGURES = TrialFigures(
    (0.5,),
    (0.5,),
    (0.5,),
    (1,),
)
FIGURE = {"hybrid": Interval(50.0, 40.0, 60.0)}


def result(name: str) -> EncoderResult:
    changes = {"model": f"/models/{name}"} if name else {}
    trial = EncoderTrial(
        name or "own",
        {"judged": FIGURES},
        10.0,
        0.01,
        10**8,
        384,
        changes,
    )
    return EncoderResult(name, trial)


def gap(value: float, verdict: Verdict) -> dict[str, Difference]:
    return {"hybrid": Difference(value, value - 1, value + 1, 0.99, verdict, 0.01)}


def comparison(**verdicts: tuple[float, Verdict]) -> EncoderComparison:
    differences = {name: gap(*verdict) for name, verdict in verdicts.items()}
    systems = dict.fromkeys(("", *verdicts), FIGURE)
    table = FigureTable(
        "",
        100,
        0,
        systems,
        differences,
    )
    results = tuple(result(name) for name in ("", *verdicts))
    return EncoderComparison(results, "judged", None, table)


BETTER = comparison(
    small=(2.0, "better"),
    large=(4.0, "better"),
    other=(9.0, "proves nothing"),
)


@pytest.mark.parametrize(
    ("found", "better"),
    [
        (BETTER, "large"),
        (comparison(small=(3.0, "no difference shown")), None),
        (comparison(small=(-3.0, "worse")), None),
        (replace(BETTER, needed=400), None),
        (replace(BETTER, table=None), None),
    ],
)
def test_the_better_one_is_proved_by_a_paired_interval(
    found: EncoderComparison, better: str | None
) -> None:
    assert (found.better and found.better.named) == better


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    monkeypatch.setattr(
        encoders,
        "compare_encoders",
        lambda *_: BETTER,
    )
    return ProjectFolder.create(
        tmp_path / "project", {"encoder": {"query_prompt": "q: "}, "corpus": {"paths": ["x"]}}
    )


def compare(project: ProjectFolder, *options: str) -> str:
    engine_here(
        "encoders",
        "compare",
        str(project.path),
        "small",
        "large",
        *options,
    )
    return project.settings().encoder.model


def test_with_an_option_it_is_taken_at_once(project: ProjectFolder) -> None:
    before = project.settings().encoder.model
    assert compare(project) == before, "nobody was asked"
    assert compare(project, "--json") == before
    assert compare(project, "--take", "--json") == "/models/large"


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_one_key_takes_it(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr(
        sys.stdin,
        "isatty",
        lambda: True,
    )
    before = project.settings().encoder.model
    assert compare(project) == ("/models/large" if answer else before)
    (question,) = asked
    assert "large" in question


def test_without_proof_no_candidate_is_chosen(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = comparison(small=(3.0, "no difference shown"))
    monkeypatch.setattr(
        encoders,
        "compare_encoders",
        lambda *_: nothing,
    )
    before = project.settings().encoder.model
    assert compare(project, "--take") == before
