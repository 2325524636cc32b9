"""The library as README.md shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import ROOT, copy_documents, environment

from engine import Project
from engine.core.errors import NotBuiltError, UsageError
from engine.search.filters import SearchFilter


def test_the_example_of_the_readme(tiny_model: Path, tmp_path: Path) -> None:
    """As written, but for the places, and a model and a corpus small enough for a test."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, flags=re.S)
    copy_documents(tmp_path / "documents", ("incidents",), 5)
    small = f'{{"preset": "quick", "steps": 2}}, encoder={{"model": {str(tiny_model)!r}}}, evaluation={{"bootstrap_samples": 100}}'
    for written, replaced in {
        '"/tmp/handbook"': repr(str(tmp_path / "handbook")),
        '"assets/sample/documents"': repr(str(tmp_path / "documents")),
        '{"preset": "quick"}': small,
    }.items():
        assert code.count(written) == 1, f"README.md no longer says {written}"
        code = code.replace(written, replaced)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("RunStarted(")
    hits = [line for line in lines if re.match(r"[123] \S+", line)]
    assert len(hits) == 3
    assert all("'semantic'" in hit or "'bm25'" in hit for hit in hits)
    assert len(lines[-1].split()) > 1  # the report's reason
    assert done.stderr == ""


def test_an_opened_project_searches_and_reports(finished: Path) -> None:
    project = Project.open(finished)
    found = project.search("freezer door left open", mode="bm25", top=3, where=SearchFilter(paths=("incidents/**",)))
    assert [hit.rank for hit in found.hits] == [1, 2, 3]
    assert all(hit.path.startswith("incidents/") for hit in found.hits)
    assert {stage.state for stage in project.status()} == {"done"}
    assert project.counts()["judged_queries"] == 60
    assert project.skipped() == {}
    assert project.report().served.name in project.report().reason
    project.close()
    project.close()


def test_errors_are_typed(tmp_path: Path) -> None:
    with fails(UsageError, "project-missing"):
        Project.open(tmp_path / "nowhere")
    project = Project.create(tmp_path / "made", [tmp_path])
    with fails(NotBuiltError, "not-built", stage="index"):
        project.search("x", mode="bm25")
    with pytest.raises(NotBuiltError) as caught:
        project.report()
    assert "evaluate" in str(caught.value)
    with fails(UsageError, "stage-unknown", "'bake'"):
        project.run(["bake"])
    project.close()
