"""Nothing connects: the product works where there is no network at all. And what it writes is private."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.pipeline import copy_documents, environment


@pytest.fixture(scope="module")
def no_network() -> list[str]:
    """The words before a command that is to run without any network, not even a loopback."""
    command = ["unshare", "-n"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare command here")
    if done.returncode:
        pytest.skip(f"a network namespace cannot be made: {done.stderr.strip()}")
    return command


def test_a_whole_run_and_every_search_mode_without_network(
    no_network: list[str], make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(tmp_path / "offline", training={"steps": 2, "eval_every": 2}, queries={"max_queries": 100})
    copy_documents(project / "documents", ("policies",), 3)
    engine = [*no_network, sys.executable, "-m", "engine"]
    run = subprocess.run(
        [*engine, "run", str(project)], capture_output=True, text=True, env=environment(), check=False, timeout=240
    )
    assert run.returncode == 0, run.stderr
    assert any(line.startswith("✓ train ") for line in run.stderr.splitlines())
    requests = [
        {"jsonrpc": "2.0", "id": mode, "method": "search", "params": {"query": "who signs", "mode": mode}}
        for mode in ("bm25", "semantic", "hybrid")
    ]
    served = subprocess.run(
        [*engine, "serve", str(project), "--stdio"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True, text=True, env=environment(), check=True, timeout=120,
    )  # fmt: skip
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, served.stdout.splitlines())}
    assert set(answers) == {"bm25", "semantic", "hybrid"}
    assert all(answer["hits"] and not answer["notes"] for answer in answers.values())


def test_what_a_run_writes_is_private(finished: Path) -> None:
    written = [path for path in finished.rglob("*") if "documents" not in path.relative_to(finished).parts]
    assert len(written) > 20
    assert stat.S_IMODE(finished.stat().st_mode) == 0o700
    modes = {str(path.relative_to(finished)): stat.S_IMODE(path.stat().st_mode) for path in written}
    wrong = {
        name: oct(mode) for name, mode in modes.items() if mode != (0o700 if (finished / name).is_dir() else 0o600)
    }
    assert not wrong
