"""Nothing connects: the product works where there is no network at all.

And what it writes is private.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from fixtures.pipeline import ROOT, copy_documents, environment, import_path
from fixtures.project_files import mode


@pytest.fixture(scope="module")
def no_network() -> list[str]:
    """The words before a command that is to run without any network, not even a loopback.

    None where that cannot be had.
    """
    command = ["unshare", "-n"]
    try:
        completed = subprocess.run(
            [*command, "true"],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return []
    return command if completed.returncode == 0 else []


@pytest.mark.warm
@pytest.mark.timeout(900)
def test_the_example_of_the_library_page_and_every_search_mode_without_network(
    no_network: list[str], tiny_model: Path, tmp_path: Path
) -> None:
    """As written, but for the places, a model and a corpus small enough for a test, and stages
    in one process.
    """
    project = tmp_path / "handbook"
    completed = subprocess.run(
        [*no_network, sys.executable, "-c", example(project, tmp_path / "documents", tiny_model)],
        cwd=ROOT,
        env={**environment(), "PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert completed.returncode == 0, completed.stderr
    lines = completed.stdout.splitlines()
    assert lines[0].startswith("RunStarted(")
    assert any(line.startswith("StageFinished(stage='train'") for line in lines)
    hits = [line for line in lines if re.match(r"[123] \S+", line)]
    assert len(hits) == 3
    assert all("'semantic'" in hit or "'bm25'" in hit for hit in hits)
    assert len(lines[-1].split()) > 1  # the report's reason
    # ONNX Runtime writes it where Windows' libraries for graphics are missing, as under Wine.
    assert completed.stderr.replace("Failed to create DXGI factory.\n", "") == ""
    if not no_network:
        pytest.skip("a network namespace cannot be made: the example ran where there is a network")
    requests = [
        {
            "jsonrpc": "2.0",
            "id": mode,
            "method": "search",
            "params": {"query": "who signs", "mode": mode},
        }
        for mode in ("bm25", "semantic", "hybrid")
    ]
    served = subprocess.run(
        [*no_network, sys.executable, "-m", "engine", "serve", str(project), "--stdio"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
        timeout=120,
    )
    answers = {
        answer["id"]: answer["result"] for answer in map(json.loads, served.stdout.splitlines())
    }
    assert set(answers) == {"bm25", "semantic", "hybrid"}
    assert all(answer["hits"] and not answer["notes"] for answer in answers.values())
    assert {ranker for hit in answers["hybrid"]["hits"] for ranker in hit["rankers"]} == {
        "bm25",
        "semantic",
    }


def example(
    project: Path,
    documents: Path,
    model: Path,
) -> str:
    """The code of docs/LIBRARY.md's example with places, a model and settings of the test's own."""
    page = (ROOT / "docs" / "LIBRARY.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"```python\n(.*?)```",
        page,
        flags=re.S,
    )
    copy_documents(documents, ("incidents",), 5)
    small = (
        f'{{"preset": "quick", "steps": 2}}, encoder={{"model": {str(model)!r}}},'
        ' evaluation={"bootstrap_samples": 100}'
    )
    for written, replaced in {
        '"/tmp/handbook"': repr(str(project)),
        '"assets/sample/documents"': repr(str(documents)),
        '{"preset": "quick"}': small,
    }.items():
        assert code.count(written) == 1, f"docs/LIBRARY.md no longer says {written}"
        code = code.replace(written, replaced)
    return (
        "from fixtures.pipeline import stages_in_this_process\nwith"
        f" stages_in_this_process():\n{indent(code, '    ')}"
    )


def test_what_a_run_writes_is_private(finished: Path) -> None:
    written = [
        path for path in finished.rglob("*") if "documents" not in path.relative_to(finished).parts
    ]
    assert len(written) > 20
    assert mode(finished) == 0o700
    modes = {str(path.relative_to(finished)): mode(path) for path in written}
    wrong = {
        name: oct(mode)
        for name, mode in modes.items()
        if mode != (0o700 if (finished / name).is_dir() else 0o600)
    }
    assert not wrong
