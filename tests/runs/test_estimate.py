"""How long a run will take: the work of its stages, counted by hand, at this machine's rates."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.project_files import create_project
from fixtures.user_folders import STATE

from engine.core import events
from engine.core.errors import ModelError
from engine.core.messages.project import StageState
from engine.corpus.text.document_queries import document_queries
from engine.evaluation.document_set import deciding_groups
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER, ProjectSnapshot, stage_fingerprint
from engine.queries.from_documents import find_untrained
from engine.runs import estimate, pipeline
from engine.runs.estimate import (
    Forecast,
    StageWork,
    count_passes,
    count_units,
    keep_rate,
    read_rates,
)
from engine.training.config import TrainingConfig
from engine.training.stage import TrainStage

RECIPE = TrainingConfig(
    steps=100,
    queries_per_step=40,
    negatives_per_query=1,
    eval_every=50,
    heldout_queries=200,
    heldout_pool=800,
)


def test_the_passes_of_a_training_are_those_of_its_steps_and_checks() -> None:
    queries_alone = replace(
        RECIPE,
        adapter_scope="queries",
        shared_chunks=8192,
    )
    # 3 × 100 steps × 40 × 0.15, 3 checks × 200 × 0.15
    assert count_passes(queries_alone, 1000, 2000, 9) == pytest.approx(1800 + 90)
    # 3 × 100 × 40 × (0.15 + 2), 3 × (800 + 30)
    assert count_passes(RECIPE, 1000, 2000, 9) == pytest.approx(25_800 + 2490)
    lists = replace(
        RECIPE,
        objective="listnet",
        negatives_per_query=0,
    )
    # 3 × 100 × 40 × (0.15 + 9), 3 × (800 + 30)
    assert count_passes(lists, 1000, 2000, 9) == pytest.approx(109_800 + 2490)
    assert count_passes(RECIPE, 1000, 19, 9) == 0, "too little to train on"


@pytest.fixture
def own_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of rates, which does not exist yet."""
    monkeypatch.setenv(STATE, str(tmp_path))
    return tmp_path / "bmembed" / "rates.json"


def snapshot_of(project: ProjectFolder, **changed: str) -> ProjectSnapshot:
    settings = project.settings()
    encoder = settings.encoder.model_copy(update=changed)
    return ProjectSnapshot(
        project, settings.model_copy(update={"encoder": encoder}), project.store()
    )


@pytest.mark.usefixtures("own_rates")
def test_the_rate_at_which_a_stage_was_done_here_counts_the_next_time(finished_built: Path) -> None:
    project = ProjectFolder(finished_built)
    snapshot = snapshot_of(project)
    with closing(snapshot.store):
        key = estimate.rate_keys(snapshot, ["embed"])["embed"]
        keep_rate(key, 2000, 10.0)
        keep_rate(key, 10, 100.0)  # too little to tell
        assert read_rates() == {key: 0.005}
        units = {
            "train": 4000.0,
            "embed": 1000.0,
            "rank": 10_000.0,
        }
        seconds, unknown = estimate.estimate_seconds(snapshot, units)
        assert seconds == pytest.approx({"train": 20, "embed": 5, "rank": 3})
        assert unknown == []
        keep_rate(
            estimate.rate_keys(snapshot, ["train"])["train"],
            4000,
            100.0,
        )
        assert estimate.estimate_seconds(snapshot, units)[0]["train"] == pytest.approx(100)


@pytest.mark.usefixtures("own_rates")
@pytest.mark.parametrize("changed", [{"dtype": "bfloat16"}, {"device": "auto"}])
def test_what_another_precision_or_device_took_does_not_count(
    finished_built: Path, changed: dict[str, str]
) -> None:
    project = ProjectFolder(finished_built)
    snapshot = snapshot_of(project)
    other = snapshot_of(project, **changed)
    with closing(snapshot.store), closing(other.store):
        keep_rate(
            estimate.rate_keys(snapshot, ["embed"])["embed"],
            2000,
            10.0,
        )
        assert estimate.estimate_seconds(snapshot, {"embed": 10.0})[1] == []
        assert estimate.estimate_seconds(other, {"embed": 10.0})[1] == ["embed"]


def test_damaged_rates_are_ignored(own_rates: Path) -> None:
    keep_rate("rank", 2000, 10.0)
    own_rates.write_text("[")
    assert read_rates() == {}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[events.Event]:
    """A run whose stages do nothing: what it reports."""
    project = create_project(tmp_path, {"a.txt": "A text."})
    states = {
        "ingest": "done",
        "index": "done",
        "train": "done",
    }
    monkeypatch.setattr(
        pipeline,
        "all_status",
        lambda _: [StageState(name, states.get(name, "stale"), "") for name in ORDER],
    )
    monkeypatch.setattr(
        pipeline.Run,
        "run_stage",
        lambda run, stage, forced: order.append(stage),
    )
    order: list[str] = []
    log: list[events.Event] = []

    def watch(event: events.Event) -> None:
        log.append(event)
        if isinstance(event, events.RunEstimated):
            assert order == ["ingest", "index"]  # BM25 does not wait for it

    pipeline.run(
        project,
        force=["train"],
        on_event=watch,
    )
    return log


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is to be estimated."""
    stage_lists: list[tuple[str, ...]] = []

    def answer(_snapshot: object, stages: list[str]) -> Forecast:
        stage_lists.append(tuple(stages))
        event = events.RunEstimated(
            chunks=5,
            seconds={"train": 60.0},
            unknown=["generate"],
        )
        return Forecast(event, {})

    monkeypatch.setattr(estimate, "estimate", answer)
    return stage_lists


def test_a_run_reports_it_once_for_the_stages_with_work_to_do(
    answered: list[tuple[str, ...]], run: list[events.Event]
) -> None:
    assert answered == [
        ("embed", "generate", "rank", "train", "evaluate")
    ]  # train is up to date, but asked for
    assert [event for event in run if isinstance(event, events.RunEstimated)] == [
        events.RunEstimated(chunks=5, seconds={"train": 60.0}, unknown=["generate"])
    ]


def test_a_run_goes_on_without_an_estimate_that_cannot_be_made(
    adapted: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ModelError("No model.", "", "")

    monkeypatch.setattr(estimate, "estimate", fail)
    monkeypatch.setattr(
        pipeline.Run,
        "run_stage",
        lambda *_args, **_kwargs: None,
    )
    log = list[events.Event]()
    pipeline.run(
        adapted,
        stages=["train"],
        force=["train"],
        on_event=log.append,
    )
    assert isinstance(log[-1], events.RunFinished)
    assert log[-1].state == "done"


@pytest.mark.usefixtures("own_rates")
def test_a_finished_stage_leaves_its_rate(
    adapted: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events.RunEstimated(
        chunks=5,
        seconds={},
        unknown=["train"],
    )
    forecast = Forecast(event, {"train": StageWork("train key", 5000.0)})
    monkeypatch.setattr(
        estimate,
        "estimate",
        lambda *_: forecast,
    )

    def finish(
        run: pipeline.Run,
        stage: str,
        **_options: object,
    ) -> None:
        log = events.EventLog(run.folder / "events.jsonl")
        log(events.StageFinished(stage=stage, seconds=50.0, peak_memory_mb=1, summary={}))
        log.close()
        run.relay()

    monkeypatch.setattr(
        pipeline.Run,
        "run_stage",
        finish,
    )
    pipeline.run(adapted, stages=["train"], force=["train"])
    assert read_rates() == {"train key": 0.01}


@pytest.mark.parametrize(("place", "remaining"), [("", (0, 23)), ("pretraining", (83, 40))])
def test_steps_that_are_done_are_not_counted(
    finished_built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    remaining: tuple[int, int],
) -> None:
    recipe = replace(
        RECIPE,
        method="PT-FT",
        steps=40,
        pretrain_steps=100,
    )
    monkeypatch.setattr("engine.training.recipe.resolve_config", lambda _: recipe)
    monkeypatch.setattr("engine.training.stage.resolve_config", lambda _: recipe)
    monkeypatch.setattr(
        estimate,
        "resolve_config",
        lambda _: recipe,
    )
    project = ProjectFolder(Path(shutil.copytree(finished_built, tmp_path / "project")))
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        fingerprint = stage_fingerprint(
            "train",
            TrainStage.version,
            TrainStage().inputs(snapshot),
        )
        folder = project.path / "checkpoints" / fingerprint / place / "step-000017"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"state": {"step": 17}}))
        resumed = count_units(snapshot, ["train"])["train"]
        anew = count_units(snapshot, ["rank", "train"])["train"]
        chunks = store.counts()["chunks"]
        queries = store.counts()["queries"]
    m = snapshot.settings.ranking.m
    rest = replace(
        recipe,
        pretrain_steps=remaining[0],
        steps=remaining[1],
    )
    assert anew - resumed == pytest.approx(
        count_passes(recipe, chunks, queries, m) - count_passes(rest, chunks, queries, m)
    )
    assert anew > resumed


def test_as_many_queries_are_expected_as_will_be_asked(finished_built: Path) -> None:
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        written = document_queries(store)
        groups = deciding_groups(
            snapshot, find_untrained(snapshot, store.chunks(), written), store.chunks()
        )
        judged = len(store.judged())
        queries = store.counts()["queries"]
        units = count_units(snapshot, ["evaluate"])["evaluate"]
    assert 0 < len(groups) < len(written)
    held_out = round(project.settings().evaluation.heldout_share * 2 / 3 * queries)
    # Three candidates; the vectors of the chunks are there, and the adapter is of queries alone.
    questions = held_out + len(groups) + judged
    assert units == pytest.approx(len(groups) + questions * (3 * 0.15 + 3))


def test_too_little_work_is_not_estimated(finished_built: Path) -> None:
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        assert estimate.estimate(snapshot, ["index", "embed"]) is None


def embedded(done: int) -> events.Progress:
    return events.Progress(
        stage="embed",
        done=done,
        total=1000,
        unit="chunks",
    )


def test_an_estimate_is_corrected_if_embedding_is_slower() -> None:
    estimated = events.RunEstimated(
        chunks=1000,
        seconds={"embed": 10.0, "train": 60.0},
        unknown=[],
    )
    correction = estimate.Correction(estimated)
    started = events.StageStarted(
        stage="embed",
        fingerprint="",
        reason="",
    )
    assert correction.take(started, 0.0) is None
    # Loading the encoder does not count, nor do the 200 chunks that were embedded before.
    assert correction.take(embedded(200), 90.0) is None
    assert correction.take(embedded(210), 100.0) is None, "too early to tell"
    corrected = correction.take(embedded(240), 110.0)
    assert corrected is not None
    assert corrected.seconds == {"embed": 400.0, "train": 60.0}  # 800 chunks at 2 a second
    assert correction.take(embedded(300), 150.0) is None, "about as slow as was said"
    # A pause of 1000 s, then 1 chunk a second.
    assert correction.take(events.Paused(stage="embed"), 160.0) is None
    assert correction.take(events.Resumed(stage="embed"), 1160.0) is None
    assert correction.take(embedded(300), 1160.0) is None
    again = correction.take(embedded(330), 1190.0)
    assert again is not None
    assert again.seconds["embed"] == 700.0


def test_a_correction_is_in_the_runs_log(
    adapted: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events.RunEstimated(
        chunks=1000,
        seconds={"embed": 10.0},
        unknown=[],
    )
    monkeypatch.setattr(
        estimate,
        "estimate",
        lambda *_: Forecast(event, {}),
    )
    monkeypatch.setattr(estimate, "MIN_SECONDS_OF_PACE", 0.0)
    monkeypatch.setattr(estimate, "CORRECTED_FROM", 0.0)

    def embed(
        run: pipeline.Run,
        stage: str,
        **_options: object,
    ) -> None:
        log = events.EventLog(run.folder / "events.jsonl")
        log(embedded(0))
        log(embedded(1))
        log.close()
        run.relay()

    monkeypatch.setattr(
        pipeline.Run,
        "run_stage",
        embed,
    )
    found = list[events.Event]()
    pipeline.run(
        adapted,
        stages=["embed"],
        force=["embed"],
        on_event=found.append,
    )
    assert [type(one) for one in found if isinstance(one, events.RunEstimated)] == [
        events.RunEstimated,
        events.RunEstimated,
    ]
