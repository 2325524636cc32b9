"""`engine benchmark`: what a kept project may be used for again, and how a measurement is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of, fails
from fixtures.pipeline import SAMPLE, SETTINGS, engine, environment

from engine.core.errors import StageError, UsageError
from engine.experiments.benchmark import Measurement, benchmark
from engine.experiments.recipes import RECIPES, recipes_of
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import RankingsInfo
from engine.project.store.artifacts import Artifact


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of some of the sample's documents, each with one query."""
    folder = tmp_path_factory.mktemp("beir") / "data"
    (folder / "qrels").mkdir(parents=True)
    texts = [path.read_text() for path in sorted((SAMPLE / "documents" / "incidents").iterdir())[:8]]
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    queries = [{"_id": f"q{n}", "text": text[:60]} for n, text in enumerate(texts)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = "".join(f"q{n}\td{n}\t1\n" for n in range(len(texts)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def small(model: Path) -> dict[str, dict[str, Any]]:
    settings = {name: dict(SETTINGS[name]) for name in ("queries", "ranking", "training", "evaluation")}
    settings["training"].update(steps=2, seed=1)
    settings["encoder"] = {"model": str(model), "device": "cpu", "dtype": "float32"}
    return settings


def write_queries(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"query": text, "evidence": "freezer"}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def kept(dataset: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as a benchmark makes it, its stages not run: that it may be used again is decided before them."""
    place = tmp_path_factory.mktemp("kept") / "project"
    with pytest.raises(StoppedError):
        benchmark(dataset, settings=small(tiny_model), keep=place, on_event=stop)
    return place


class StoppedError(Exception):
    """Ends a benchmark at its first event."""


def stop(_event: object) -> None:
    raise StoppedError


def test_the_same_measurement_may_use_a_kept_project(kept: Path, dataset: Path, tiny_model: Path) -> None:
    with pytest.raises(StoppedError):
        benchmark(dataset, settings=small(tiny_model), keep=kept, on_event=stop)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("training", "preset", "paper"), ("training", "seed", 2), ("encoder", "model", None), ("queries", "per_chunk", 1)],
)
def test_other_settings_are_refused(
    kept: Path, dataset: Path, tiny_model: Path, section: str, key: str, value: object
) -> None:
    asked = small(tiny_model)
    asked[section][key] = value
    if value is None:
        del asked[section][key]
    with fails(UsageError, "folder-taken") as caught:
        benchmark(dataset, settings=asked, keep=kept, on_event=stop)
    assert f"{section}.{key}" in caught.value.why
    assert "--keep" in caught.value.to_do


def test_another_data_set_and_other_queries_are_refused(
    kept: Path, dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in dataset.iterdir():
        (other / path.name).symlink_to(path)
    with fails(UsageError, "folder-taken") as caught:
        benchmark(other, settings=small(tiny_model), keep=kept, on_event=stop)
    assert "corpus.paths" in caught.value.why
    first, second = write_queries(tmp_path / "a.jsonl", "a", "b"), write_queries(tmp_path / "b.jsonl", "a", "c")
    with pytest.raises(UsageError) as caught:
        benchmark(dataset, queries=first, settings=small(tiny_model), keep=kept, on_event=stop)
    assert "queries.backend" in caught.value.why
    place = tmp_path / "imported"
    for _ in range(2):
        with pytest.raises(StoppedError):
            benchmark(dataset, queries=first, settings=small(tiny_model), keep=place, on_event=stop)
    with pytest.raises(UsageError) as caught:
        benchmark(dataset, queries=second, settings=small(tiny_model), keep=place, on_event=stop)
    assert "training queries" in caught.value.why
    assert len(list((place / "imports").glob("queries-*.jsonl"))) == 1
    with pytest.raises(UsageError):
        benchmark(dataset, settings=small(tiny_model), keep=place, on_event=stop)


def test_the_command_refuses_another_preset_seed_or_model(kept: Path, dataset: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "benchmark", str(dataset), "--keep", str(kept), "--seed", "7"],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert all(key in done.stderr for key in ("training.seed", "training.preset", "encoder.model"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_benchmark_and_removes_its_folder(
    dataset: Path, tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "engine", "benchmark", str(dataset), "--model", str(tiny_model), "--preset", "paper"],
        env={**environment(), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (found := list(tmp_path.glob("*/project/runs/*/stage.json"))):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = json.loads(found[0].read_text())["pid"]
    run.send_signal(number)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 130, told
    assert "Stopping" in told
    assert "Traceback" not in told
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not list(tmp_path.glob("bmembed-*"))


def test_a_temporary_project_is_removed_when_the_measurement_fails(
    dataset: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(StoppedError):
        benchmark(dataset, settings=small(tiny_model), on_event=stop)
    assert not list(tmp_path.iterdir())


def test_a_benchmark_can_be_stopped_by_its_caller(dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    from engine.core.errors import CancelledError

    with pytest.raises(CancelledError) as caught:
        benchmark(dataset, settings=small(tiny_model), keep=tmp_path / "kept", should_stop=lambda: True)
    assert caught.value.command == "benchmark"
    (record,) = ProjectFolder.open(tmp_path / "kept").path.glob("runs/*/run.json")
    assert json.loads(record.read_text())["state"] == "cancelled"


@pytest.mark.slow
def test_recipes_are_trained_side_by_side_and_kept_for_another_look(
    dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    settings, keep = small(tiny_model), tmp_path / "kept"
    found = benchmark(dataset, settings=settings, keep=keep, recipes=["triplet"])
    assert list(found["recipes"]) == ["default", "triplet"]
    assert found["recipes"]["default"]["systems"] == found["systems"]
    trained = ProjectFolder.open(tmp_path / "kept-triplet").settings().training
    assert (trained.objective, trained.steps) == ("triplet", 2)
    stages = found["recipes"]["triplet"]["stages"]
    assert "train" in stages
    assert stages["ingest"]["files_read"] == 0
    assert not {"index", "generate"} & set(stages), "what does not depend on the recipe was made again"
    for row in found["recipes"].values():
        assert {"weighted_served − weighted_base", "rrf_served − rrf_base"} <= set(row["pairs"])
        assert row["systems"]["base"] == found["systems"]["base"]
    again = benchmark(dataset, settings=settings, keep=keep, recipes=["triplet"])
    assert "train" not in again["recipes"]["triplet"]["stages"], "a recipe that was measured is not trained again"
    assert again["recipes"]["triplet"]["systems"] == found["recipes"]["triplet"]["systems"]


@pytest.mark.parametrize(
    ("solved", "same"),
    [(None, {"teacher-mixture", "adapter-scope-queries", "mixed"}), (0.6, set[str]())],
    ids=["easy", "hard"],
)
def test_every_recipe_ends_with_a_row_or_a_reason(
    dataset: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solved: float | None,
    same: set[str],
) -> None:
    def of(_self: object, place: Path, recipe: dict[str, Any], _like: Path) -> dict[str, Any]:
        if recipe.get("objective") == "listmle":
            raise StageError("Training went astray at step 1.", "It is no number.", "Halve the rate.")
        return {"trained": recipe, "place": place.name}

    monkeypatch.setattr(Measurement, "of", of)
    settings = small(tiny_model)
    settings["training"]["negatives_per_query"] = 0
    measurement = Measurement(dataset, None, settings, None, None)
    with closing(ProjectFolder.create(tmp_path / "kept", {}).store()) as store:
        store.put_artifact(Artifact(RankingsInfo(bm25_hit_at_1=solved), "f"))
    rows = measurement.rows(recipes_of(["all"]), tmp_path / "kept", {"trained": {}})
    assert set(rows) == set(RECIPES)
    assert list(rows["listmle"]) == ["failed"]
    assert rows["infonce"] == {"trained": {"objective": "infonce"}, "place": "kept-infonce"}
    assert rows["gradcache"]["trained"] == {"graph_memory_mb": 0.0}
    # What is trained already is not trained again: the default's loss and teacher, and its side with queries from sentences.
    assert {name for name, row in rows.items() if row.get("same_as") == "default"} == same
    assert "negatives_per_query = 0" in rows["triplet"]["skipped"]
    assert "cross-encoder" in rows["teacher-cross-encoder"]["skipped"]
    assert "GPU" in rows["compiled"]["skipped"]


def test_an_unknown_recipe_is_refused_before_anything_is_made(dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    with fails(UsageError, "recipe-unknown", "'lstnet'") as caught:
        benchmark(dataset, settings=small(tiny_model), keep=tmp_path / "kept", recipes=["lstnet"])
    assert "listnet" in caught.value.why
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_the_command_shows_a_row_for_each_recipe(dataset: Path, tiny_model: Path) -> None:
    done = engine(
        "benchmark", str(dataset), "--model", str(tiny_model), "--preset", "quick", "--recipes", "infonce",
        "--set", "training.steps=2", "--set", "encoder.device=cpu", "--set", "evaluation.bootstrap_samples=200",
    )  # fmt: skip
    _, recipes = done.stdout.split("recipes · nDCG@10")
    named = [line.split("│")[1].strip() for line in recipes.splitlines() if line.startswith("│ ")]
    # A cell of many words takes several lines; only the first of them names the recipe.
    assert [name for name in named if name] == ["default", "infonce"]
    assert "hybrid (weighted), in use − hybrid (weighted), base:" in done.stdout


@pytest.mark.parametrize(
    ("change", "code", "values"),
    [
        ("training.stps=2", "settings-unknown-key", ("--set training.stps=2", "'training.stps'", "'training.steps'")),
        ("training.steps", "settings-no-value", ("training.steps=60",)),
    ],
)
def test_the_command_refuses_a_setting_that_is_none(
    dataset: Path, change: str, code: str, values: tuple[str, ...]
) -> None:
    status, error = error_of("benchmark", str(dataset), "--set", change)
    assert (status, error["code"]) == (2, code)
    assert all(value in "\n".join((error["what"], error["why"], error["to_do"])) for value in values)
