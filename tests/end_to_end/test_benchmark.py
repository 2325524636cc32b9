"""`engine benchmark`: what a kept project may be used for again, and how a measurement is
stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of, fails
from fixtures.pipeline import SAMPLE, SETTINGS, WAIT_SECONDS, environment
from fixtures.tiny_model import encoder_settings

from engine.core.errors import UsageError
from engine.lab.benchmark import benchmark
from engine.project.folder import ProjectFolder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of some of the sample's documents, each with one query."""
    folder = tmp_path_factory.mktemp("beir") / "data"
    (folder / "qrels").mkdir(parents=True)
    texts = [
        path.read_text() for path in sorted((SAMPLE / "documents" / "incidents").iterdir())[:8]
    ]
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    queries = [{"_id": f"q{n}", "text": text[:60]} for n, text in enumerate(texts)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = "".join(f"q{n}\td{n}\t1\n" for n in range(len(texts)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def small(model: Path) -> dict[str, dict[str, Any]]:
    settings = {
        name: dict(SETTINGS[name]) for name in ("queries", "ranking", "training", "evaluation")
    }
    settings["training"].update(steps=2, seed=1)
    settings["encoder"] = encoder_settings(model)
    return settings


def write_queries(path: Path, *texts: str) -> Path:
    path.write_text(
        "".join(json.dumps({"query": text, "evidence": "freezer"}) + "\n" for text in texts)
    )
    return path


@pytest.fixture(scope="module")
def kept_project(
    dataset: Path,
    tiny_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A project as a benchmark makes it, its stages not run: that it may be used again is
    decided before them.
    """
    place = tmp_path_factory.mktemp("kept") / "project"
    with pytest.raises(StoppedError):
        benchmark(
            dataset,
            settings=small(tiny_model),
            keep=place,
            on_event=stop,
        )
    return place


class StoppedError(Exception):
    """Ends a benchmark at its first event."""


def stop(_event: object) -> None:
    raise StoppedError


def test_the_same_measurement_may_use_a_kept_project(
    kept_project: Path, dataset: Path, tiny_model: Path
) -> None:
    with pytest.raises(StoppedError):
        benchmark(
            dataset,
            settings=small(tiny_model),
            keep=kept_project,
            on_event=stop,
        )


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("training", "preset", "paper"),
        ("training", "seed", 2),
        ("encoder", "model", None),
        ("queries", "per_chunk", 1),
        ("queries", "max_queries", None),
    ],
)
def test_other_settings_are_refused(
    kept_project: Path, dataset: Path, tiny_model: Path, section: str, key: str, value: object
) -> None:
    changed = small(tiny_model)
    changed[section][key] = value
    if value is None:
        del changed[section][key]
    with fails(UsageError, "folder-taken") as caught:
        benchmark(
            dataset,
            settings=changed,
            keep=kept_project,
            on_event=stop,
        )
    assert f"{section}.{key}" in caught.value.why


def test_another_data_set_and_other_queries_are_refused(
    kept_project: Path, dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(dataset, tmp_path / "other"))
    with fails(UsageError, "folder-taken") as caught:
        benchmark(
            other,
            settings=small(tiny_model),
            keep=kept_project,
            on_event=stop,
        )
    assert "corpus.paths" in caught.value.why
    first = write_queries(
        tmp_path / "a.jsonl",
        "a",
        "b",
    )
    second = write_queries(
        tmp_path / "b.jsonl",
        "a",
        "c",
    )
    with pytest.raises(UsageError) as caught:
        benchmark(
            dataset, queries=first, settings=small(tiny_model), keep=kept_project, on_event=stop
        )
    assert "queries.backend" in caught.value.why
    place = tmp_path / "imported"
    for _ in range(2):
        with pytest.raises(StoppedError):
            benchmark(
                dataset,
                queries=first,
                settings=small(tiny_model),
                keep=place,
                on_event=stop,
            )
    with fails(UsageError, "folder-taken"):
        benchmark(
            dataset,
            queries=second,
            settings=small(tiny_model),
            keep=place,
            on_event=stop,
        )
    assert len(list((place / "imports").glob("queries-*.jsonl"))) == 1
    with pytest.raises(UsageError):
        benchmark(
            dataset,
            settings=small(tiny_model),
            keep=place,
            on_event=stop,
        )


def test_the_command_refuses_another_preset_seed_or_model(
    kept_project: Path, dataset: Path
) -> None:
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "engine",
            "benchmark",
            str(dataset),
            "--keep",
            str(kept_project),
            "--seed",
            "7",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert all(
        key in completed.stderr for key in ("training.seed", "training.preset", "encoder.model")
    )


@pytest.mark.posix(reason="Windows has no signals to one process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_benchmark_and_removes_its_folder(
    dataset: Path, tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "engine",
            "benchmark",
            str(dataset),
            "--model",
            str(tiny_model),
            "--preset",
            "paper",
        ],
        env={**environment(), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while not (records := list(tmp_path.glob("*/project/runs/*/stage.json"))):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = json.loads(records[0].read_text())["pid"]
    run.send_signal(number)
    _, messages = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 130, messages
    assert "Stopping" in messages
    assert "Traceback" not in messages
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not list(tmp_path.glob("bmembed-*"))


def test_a_temporary_project_is_removed_when_the_measurement_fails(
    dataset: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tempfile,
        "tempdir",
        str(tmp_path),
    )
    with pytest.raises(StoppedError):
        benchmark(
            dataset,
            settings=small(tiny_model),
            on_event=stop,
        )
    assert not list(tmp_path.iterdir())


def test_a_benchmark_can_be_stopped_by_its_caller(
    dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    from engine.core.errors import CancelledError

    with pytest.raises(CancelledError) as caught:
        benchmark(
            dataset, settings=small(tiny_model), keep=tmp_path / "kept", should_stop=lambda: True
        )
    assert caught.value.command == "benchmark"
    (record,) = ProjectFolder.open(tmp_path / "kept").path.glob("runs/*/run.json")
    assert json.loads(record.read_text())["state"] == "cancelled"


@pytest.mark.parametrize(
    ("change", "code", "values"),
    [
        (
            "training.stps=2",
            "settings-unknown-key",
            ("--set training.stps=2", "'training.stps'", "'training.steps'"),
        ),
        ("training.steps", "settings-no-value", ("training.steps=VALUE",)),
    ],
)
def test_the_command_refuses_an_invalid_setting(
    dataset: Path, change: str, code: str, values: tuple[str, ...]
) -> None:
    status, error = error_of(
        "benchmark",
        str(dataset),
        "--set",
        change,
    )
    assert (status, error["code"]) == (2, code)
    assert all(
        value in "\n".join((error["what"], error["why"], error["to_do"])) for value in values
    )
