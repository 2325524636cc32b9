"""`engine doctor --proof` runs the sample without sockets and writes what was opened, tried and
refused.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from fixtures.pipeline import ROOT, engine_here


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_page_says_what_was_run_opened_and_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(
        "CI", raising=False
    )  # with it some libraries send nothing that they would send elsewhere
    page = tmp_path / "proof.html"
    completed = engine_here(
        "doctor", "--proof", str(page), "--model", str(tiny_model), "--json", check=False
    )
    if completed.returncode == 6:
        pytest.skip("this kernel refuses the filter")
    assert completed.returncode == 0, completed.stderr
    proof = json.loads(page.with_suffix(".json").read_text())
    assert json.loads(completed.stdout) == proof
    assert [step["command"].split()[1] for step in proof["steps"]] == [
        "run",
        "search",
        "adapt",
        "search",
    ]
    assert {socket["family"] for step in proof["steps"] for socket in step["sockets"]} <= {
        "AF_UNIX"
    }
    assert [socket["family"] for socket in proof["refused"]] == ["AF_INET", "AF_INET6"] * 2
    places = {place["name"]: place for place in proof["places"]}
    documents = {
        str(path) for path in (ROOT / "assets/sample/documents").rglob("*") if path.is_file()
    }
    assert set(places["the sample's documents"]["read"]) == documents
    assert places["the sample's documents"]["written"] == []
    assert any(path.endswith("model.safetensors") for path in places["the model"]["read"])
    assert not [
        path for place in proof["places"] for path in place["written"] if "Microsoft" in path
    ]
    assert any("project.db" in path for path in places["the proof's own project"]["written"])
    weights = tiny_model / "model.safetensors"
    assert proof["hashes"][str(weights)] == hashlib.sha256(weights.read_bytes()).hexdigest()
    listed = "find engine bmembed_tui -name '*.py' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    code = subprocess.run(
        ["sh", "-c", listed], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert code.split()[0] == proof["code"]
    assert str(weights) in page.read_text()
    again = engine_here(
        "doctor",
        "--proof",
        str(page),
        "--json",
        check=False,
    )
    assert json.loads(again.stderr.splitlines()[-1])["code"] == "target-exists"
