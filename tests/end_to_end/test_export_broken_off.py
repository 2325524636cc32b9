"""An export that is broken off is absent or complete."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.errors import error_of
from fixtures.optional import needs, needs_pyarrow
from fixtures.pipeline import engine_here, environment
from fixtures.preloaded import KILLING

from engine.core.errors import ResourceError
from engine.core.messages.project import Exported
from engine.export.folder import known_exports
from engine.export.take import export_project
from engine.project.folder import ProjectFolder


def leftovers(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.name != "ballast")


@pytest.mark.parametrize(
    ("kind", "free"),
    [
        ("model", 40_000),
        ("adapter", 4_096),
        ("chunks", 40_000),
        ("vectors", 40_000),
        ("beir", 40_000),
        pytest.param("parquet", 40_000, marks=needs_pyarrow),
        pytest.param("qdrant", 40_000, marks=needs("qdrant_client")),
        pytest.param("lancedb", 40_000, marks=needs("lancedb")),
        ("opensearch", 40_000),
        ("onnx", 40_000),
    ],
)
def test_a_full_disk_leaves_nothing(
    project: Path, small_disk: Path, disk_filler: Any, kind: str, free: int
) -> None:
    folder = ProjectFolder.open(project)
    disk_filler(small_disk, free)
    with pytest.raises(ResourceError) as caught:
        export_project(
            folder,
            small_disk / "taken",
            [kind],
        )
    assert caught.value.to_do
    assert ".rs" not in caught.value.why  # a library's own source
    assert leftovers(small_disk) == []
    assert known_exports(folder) == []
    (small_disk / "ballast").unlink()
    # these never do
    if kind not in ("qdrant", "opensearch"):
        fits = kind
    else:
        fits = "chunks"
    assert isinstance(export_project(folder, small_disk / "taken", [fits]), Exported)


def broken_off(
    project: Path, target: Path, kinds: str, point: str, by: str
) -> subprocess.CompletedProcess[str]:
    """`engine export` that gets a signal at a chosen point, whatever the tests' own process has
    been told to ignore.
    """
    path = os.pathsep.join([KILLING, environment()["PYTHONPATH"]])
    variables = {
        "PYTHONPATH": path,
        "KILL_STAGE": "export",
        "KILL_POINT": point,
        "KILL_SIGNAL": by,
    }
    return subprocess.run(
        [sys.executable, "-m", "engine", "export", str(project), str(target), "--only", kinds],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        preexec_fn=lambda: [
            signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)
        ],
    )


@pytest.mark.posix(reason="signals at a chosen point")
@pytest.mark.parametrize("point", ["before-rename", "renamed"])
def test_a_killed_export_is_absent_or_complete(
    project: Path,
    tmp_path: Path,
    point: str,
) -> None:
    target = tmp_path / "away" / "taken"
    target.parent.mkdir()
    completed = broken_off(
        project,
        target,
        "chunks,adapter",
        point,
        "SIGKILL",
    )
    assert completed.returncode == -signal.SIGKILL, completed.stderr
    folder = ProjectFolder.open(project)
    assert len(known_exports(folder)) == 1  # a purge can name it
    if point == "renamed":
        check_complete(target)
        target = target.with_name("second")
    else:
        assert leftovers(target.parent) != ["taken"]
        assert not target.exists()
    export_project(folder, target, ["chunks"])
    if point == "renamed":
        complete = ["second", "taken"]
    else:
        complete = ["taken"]
    assert leftovers(target.parent) == complete
    assert sorted(Path(export["folder"]).name for export in known_exports(folder)) == complete


def check_complete(target: Path) -> None:
    listed = json.loads((target / "manifest.json").read_text("utf-8"))["files"]
    assert listed
    for name, entry in listed.items():
        assert hashlib.sha256((target / name).read_bytes()).hexdigest() == entry["sha256"]


@pytest.mark.posix(reason="signals at a chosen point")
@pytest.mark.parametrize("by", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_takes_away_what_an_export_has_begun(
    project: Path, tmp_path: Path, by: str
) -> None:
    """Also the end of the terminal: what it has written so far is text of the documents."""
    target = tmp_path / "away" / "taken"
    target.parent.mkdir()
    completed = broken_off(
        project,
        target,
        "chunks",
        "before-rename",
        by,
    )
    assert completed.returncode == 130, completed.stderr
    assert leftovers(target.parent) == []
    assert known_exports(ProjectFolder.open(project)) == []


@pytest.mark.slow
@needs_pyarrow
@pytest.mark.parametrize(
    "moment",
    [
        "adapter/adapter_model.safetensors",
        "*/model.safetensors",
        "*-onnx",
        "vectors/vectors.npy",
        "parquet/*.parquet",
        "chunks.jsonl",
        "beir/chunks/corpus.jsonl",
        "README.md",
        "manifest.json",
    ],
)
def test_an_export_that_is_killed_at_any_moment_leaves_nothing_half(
    project: Path, tmp_path: Path, moment: str
) -> None:
    target = tmp_path / "away" / "taken"
    target.parent.mkdir()
    command = [
        sys.executable,
        "-m",
        "engine",
        "export",
        str(project),
        str(target),
        "--only",
        "all",
    ]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        while child.poll() is None and not list(
            target.parent.glob(f".taken.*.part/export/{moment}")
        ):
            time.sleep(0.005)
        if child.poll() is None:
            of_it = psutil.Process(child.pid).children(recursive=True)
        else:
            of_it = []
        child.kill()
    _, alive = psutil.wait_procs(of_it, timeout=60)
    assert not alive  # nobody writes on
    if target.exists():
        check_complete(target)
    folder = ProjectFolder.open(project)
    exported = export_project(
        folder,
        target.with_name("second"),
        ["chunks"],
    )
    check_complete(exported.folder)
    assert leftovers(target.parent) == sorted({"second", *(["taken"] if target.exists() else [])})


def test_the_command_prints_where_it_is_and_what_holds_text(project: Path, tmp_path: Path) -> None:
    completed = engine_here(
        "export", str(project), str(tmp_path / "taken"), "--only", "adapter,chunks"
    )
    assert completed.stdout == f"{tmp_path / 'taken'}\n"
    assert "chunks" in completed.stderr
    other = engine_here(
        "export", str(project), str(tmp_path / "second"), "--only", "adapter", "--json"
    )
    assert json.loads(other.stdout)["kinds"] == ["adapter"]
    assert "chunks" not in other.stderr
    code, error = error_of(
        "export",
        str(project),
        str(tmp_path / "taken"),
    )
    assert (code, error["code"]) == (2, "target-exists")
