"""How long a run will take: what its stages encode, counted by hand."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import events
from engine.core.errors import ModelError
from engine.core.messages.project import StageState
from engine.evaluation.document_set import deciding_groups
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER, ProjectSnapshot, stage_fingerprint
from engine.queries.document_written import find_untrained
from engine.runs import estimate, pipeline
from engine.runs.estimate import Rates, Workload
from engine.training.config import TrainingConfig
from engine.training.stage import TrainStage
from engine.written_queries.document_queries import document_queries

STAGES = ("index", "generate", "rank", "train", "evaluate", "embed")
RECIPE = TrainingConfig(
    steps=100,
    queries_per_step=40,
    negatives_per_query=1,
    eval_every=50,
    heldout_queries=200,
    heldout_pool=800,
)
WORK = Workload(
    chunks=1000,
    cached=0,
    queries=2000,
    questions=400,
    written=100,
    candidates=3,
    config=replace(RECIPE, adapter_scope="queries", shared_chunks=8192),
)


def test_queries_alone_are_trained_against_vectors_that_are_encoded_once() -> None:
    # train: 1000 chunks; evaluate: 3 × 400 × 0.15, 100 passages once
    assert WORK.encodings(STAGES) == pytest.approx(
        {"index": 0, "generate": 0, "rank": 0, "train": 1000, "evaluate": 180 + 100, "embed": 0}
    )
    assert (
        WORK.passes() == WORK.passes(again=True) == pytest.approx(1800 + 90)
    )  # 3 × 100 steps × 40 × 0.15, 3 checks × 200 × 0.15


def test_each_candidate_encodes_the_chunks_where_these_are_trained_too() -> None:
    work = replace(WORK, config=RECIPE)
    # train: 1000 of the teacher; evaluate: 180, 2 × 1000, 3 × 100
    assert work.encodings(("train", "evaluate")) == pytest.approx({"train": 1000, "evaluate": 2480})
    # 3 × 100 × 40 × (0.15 + 2), 3 × (800 + 30); once more over each text where graphs are too large
    assert (work.passes(), work.passes(again=True)) == pytest.approx((25_800 + 2490, 34_400 + 2490))


def test_gradients_of_all_weights_take_a_pass_more() -> None:
    work = replace(WORK, config=replace(RECIPE, weights="all"))
    assert work.passes() == pytest.approx(34_400 + 2490)
    assert work.passes(again=True) == pytest.approx(43_000 + 2490)


def test_what_is_too_little_to_train_on_costs_the_vectors_alone() -> None:
    work = replace(WORK, queries=19)
    assert (work.encodings(("train",)), work.passes()) == ({"train": 1000}, 0)


def test_vectors_that_are_there_cost_nothing() -> None:
    assert replace(WORK, cached=1000).encodings(("embed",)) == {"embed": 0}
    assert replace(WORK, cached=400).encodings(("evaluate", "embed")) == pytest.approx(
        {"evaluate": 880, "embed": 0}
    )


def test_seconds_are_those_of_encoding_and_of_all_else() -> None:
    assert WORK.seconds(STAGES, Rates(0.01, 0.002)) == pytest.approx(
        {
            "index": 1,
            "generate": 40,
            "rank": 0.6,
            "train": 10 + 3.78 + 6,
            "evaluate": 2.8 + 6 + 12,
            "embed": 6 + 1,
        }
    )


def test_what_a_stage_took_in_the_newest_run_that_did_all_of_it_counts(tmp_path: Path) -> None:
    project = ProjectFolder.create(tmp_path / "project", {})

    def run(name: str, *made: events.Event) -> None:
        folder = project.path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"run": name, "state": "done"}))
        log = events.EventLog(folder / "events.jsonl")
        for event in made:
            log(event)
        log.close()

    def finished(stage: str, seconds: float) -> events.StageFinished:
        return events.StageFinished(stage=stage, seconds=seconds, peak_memory_mb=1, summary={})

    def foreseen(encoder: str = "this", **nominal: float) -> events.RunEstimated:
        return events.RunEstimated(
            chunks=5, seconds={}, unknown=[], nominal=nominal, encoder=encoder
        )

    run(
        "1",
        foreseen(train=10, embed=4, rank=0),
        finished("train", 30),
        finished("embed", 2),
        finished("rank", 1),
    )
    resumed = events.Choice(stage="train", setting="first step", value="50", reason="")
    run("2", foreseen(train=10, evaluate=8), resumed, finished("train", 5), finished("evaluate", 4))
    run("3", foreseen(embed=4), finished("index", 1))  # broken off
    run("4", finished("embed", 9))  # too little to foresee
    run("5", foreseen("another", train=10), finished("train", 900))
    assert estimate.read_former_rates(project, "this") == {
        "train": 3,
        "embed": 0.5,
        "evaluate": 0.5,
    }


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[events.Event]:
    """A run whose stages do nothing: what it reports."""
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.txt").write_text("A text.")
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(documents)]}})
    states = {"ingest": "done", "index": "done", "train": "done"}
    monkeypatch.setattr(
        pipeline,
        "all_status",
        lambda _: [StageState(one, states.get(one, "stale"), "") for one in ORDER],
    )
    monkeypatch.setattr(pipeline.Run, "run_stage", lambda run, stage, forced: order.append(stage))
    order: list[str] = []
    found: list[events.Event] = []

    def watch(event: events.Event) -> None:
        found.append(event)
        if isinstance(event, events.RunEstimated):
            assert order == ["ingest", "index"]  # BM25 does not wait for it

    pipeline.run(project, force=["train"], on_event=watch)
    return found


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is to be estimated."""
    asked: list[tuple[str, ...]] = []

    def answer(_snapshot: object, stages: list[str], _should_stop: object) -> events.RunEstimated:
        asked.append(tuple(stages))
        return events.RunEstimated(chunks=5, seconds={"train": 60.0}, unknown=["generate"])

    monkeypatch.setattr(estimate, "estimate", answer)
    return asked


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ModelError("No model.", "", "")

    monkeypatch.setattr(estimate, "estimate", fail)
    monkeypatch.setattr(pipeline.Run, "run_stage", lambda *_args, **_kwargs: None)
    project = ProjectFolder.create(tmp_path / "project", {})
    found = list[events.Event]()
    pipeline.run(project, stages=["train"], on_event=found.append)
    assert isinstance(found[-1], events.RunFinished)
    assert found[-1].state == "done"


def test_the_measurement_is_made_on_the_projects_own_chunks(
    finished_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "MIN_ENCODINGS", 0)
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        found = estimate.estimate(snapshot, ["train", "evaluate"], lambda: False)
        assert found is not None
        assert found.chunks == store.counts()["chunks"]
    assert list(found.seconds) == ["train", "evaluate"]
    assert all(seconds >= estimate.LOADING for seconds in found.seconds.values())
    assert found.unknown == []
    assert found.nominal["train"] > 0


def test_what_was_done_before_is_not_measured(
    finished_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "MIN_ENCODINGS", 0)
    monkeypatch.setattr(estimate, "read_former_rates", lambda *_: {"train": 2.0, "embed": 3.0})
    monkeypatch.setattr(estimate, "run_in_subprocess", lambda *_: pytest.fail("it measures"))
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        found = estimate.estimate(
            ProjectSnapshot(project, project.settings(), store), ["train", "embed"], lambda: False
        )
    assert found is not None
    assert {
        stage: round(found.seconds[stage] / found.nominal[stage], 1) for stage in found.seconds
    } == {
        "train": 2,
        "embed": 3,
    }
    assert not found.rough


@pytest.mark.parametrize("changed", [{"dtype": "bfloat16"}, {"device": "auto"}])
def test_what_another_precision_or_device_took_does_not_count(
    finished_built: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    monkeypatch.setattr(estimate, "MIN_ENCODINGS", 0)
    asked: list[str] = []
    monkeypatch.setattr(
        estimate, "read_former_rates", lambda _, encoder: asked.append(encoder) or {"train": 1.0}
    )
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        encoder = snapshot.settings.encoder.model_copy(update=changed)
        other = replace(
            snapshot, settings=snapshot.settings.model_copy(update={"encoder": encoder})
        )
        found = [
            estimate.estimate(one, ["train"], lambda: False) for one in (snapshot, snapshot, other)
        ]
    assert asked[0] == asked[1] != asked[2]
    assert [one and one.encoder for one in found] == asked


@pytest.mark.parametrize(("place", "left"), [("", (0, 23)), ("pretraining", (83, 40))])
def test_steps_that_are_done_are_not_counted(
    finished_built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    left: tuple[int, int],
) -> None:
    recipe = replace(RECIPE, method="PT-FT", steps=40, pretrain_steps=100)
    monkeypatch.setattr("engine.training.recipe.resolve_config", lambda _: recipe)
    monkeypatch.setattr("engine.training.stage.resolve_config", lambda _: recipe)
    monkeypatch.setattr(estimate, "resolve_config", lambda _: recipe)
    monkeypatch.setattr(estimate, "MIN_ENCODINGS", 0)
    monkeypatch.setattr(estimate, "read_former_rates", lambda *_: {"train": 1.0})
    project = ProjectFolder(Path(shutil.copytree(finished_built, tmp_path / "project")))
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        wanted = stage_fingerprint("train", TrainStage.version, TrainStage().inputs(snapshot))
        folder = project.path / "checkpoints" / wanted / place / "step-000017"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"state": {"step": 17}}))
        work = estimate.read_workload(snapshot)
        resumed = estimate.estimate(snapshot, ["train"], lambda: False)
        anew = estimate.estimate(snapshot, ["rank", "train"], lambda: False)
    rest = replace(work, config=replace(recipe, pretrain_steps=left[0], steps=left[1]))
    assert resumed is not None
    assert anew is not None
    assert resumed.nominal == rest.seconds(["train"], estimate.NOMINAL)
    assert (
        anew.nominal["train"]
        == work.seconds(["train"], estimate.NOMINAL)["train"]
        > resumed.nominal["train"]
    )


def test_as_many_queries_are_expected_as_will_be_asked(finished_built: Path) -> None:
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        work = estimate.read_workload(snapshot)
        written = document_queries(store)
        asked = deciding_groups(
            snapshot, find_untrained(snapshot, store.chunks(), written), store.chunks()
        )
        judged = len(store.judged())
    assert 0 < len(asked) < len(written)
    held_out = round(project.settings().evaluation.heldout_share * 2 / 3 * work.queries)
    assert (work.written, work.questions) == (len(asked), held_out + len(asked) + judged)


def test_too_little_work_is_not_measured(finished_built: Path) -> None:
    project = ProjectFolder(finished_built)
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        assert estimate.estimate(snapshot, ["index", "embed"], lambda: False) is None
