"""The CL baseline is trained beside the adapter: it can be broken off and taken up, and leaves the adapter as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import CancelledError
from engine.core.events import Event, Progress
from engine.encoders.for_project import load_encoder
from engine.evaluation.rankers import Rankers
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import AdapterInfo, BaselineInfo
from engine.runs.pipeline import in_use, stage_status
from engine.settings.schema import Settings
from engine.training import baseline, meter
from engine.training.baseline import baseline_adapter, baseline_config
from engine.training.config import TrainingConfig


def test_it_is_resumed_made_once_and_made_anew_when_it_is_damaged(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "EMIT_SECONDS", 0.0)  # a fast machine would make all steps before the second is told
    folder, told = ProjectFolder.open(project), list[Event]()
    folder.change_settings({"evaluation.cl_baseline": True})
    store = folder.store()
    checkpoints = project / "checkpoints"

    def steps() -> list[int]:
        return [event.done for event in told if isinstance(event, Progress) and "CL" in event.unit]

    def context(until: int = 99) -> StageContext:
        told.clear()
        return StageContext(
            folder,
            folder.settings(),
            store,
            "evaluate",
            "wanted",
            "test",
            told.append,
            lambda: max(steps(), default=0) >= until,
        )

    trained = store.artifact(AdapterInfo)
    with pytest.raises(CancelledError):
        baseline_adapter(context(until=4))
    assert steps()[0] == 1
    before = steps()[-1]
    assert store.artifact(BaselineInfo) is None
    assert list(checkpoints.glob(f"{BaselineInfo.kind}-*/*"))
    info = baseline_adapter(context())
    assert steps()[0] > before  # not from the beginning
    assert info.steps == 12
    assert not list(checkpoints.glob(f"{BaselineInfo.kind}-*"))
    assert (project / (info.adapter or "") / "adapter_model.safetensors").is_file()
    assert {info.adapter, trained.folder} <= in_use(store)
    assert store.artifact(AdapterInfo) == trained
    assert info.adapter != trained.folder

    assert baseline_adapter(context()) == info
    assert told == []
    (project / (info.adapter or "") / "adapter_model.safetensors").write_bytes(b"x")
    assert baseline_adapter(context()).digest == info.digest
    assert steps()[0] == 1
    store.close()


def test_where_the_recipe_goes_on_for_queries_alone_it_does_so_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, told = ProjectFolder.open(project), list[Event]()
    recipe = {
        "training.adapter_scope": "both-then-queries",
        "training.query_steps": 4,
        "training.query_learning_rate": 0.02,
    }
    folder.change_settings({"evaluation.cl_baseline": True, **recipe})

    def unwatched(settings: Settings) -> TrainingConfig:
        return replace(baseline_config(settings), eval_every=0)  # the last step is kept, better or not

    monkeypatch.setattr(baseline, "baseline_config", unwatched)
    store = folder.store()
    context = StageContext(
        folder, folder.settings(), store, "evaluate", "wanted", "test", told.append, lambda: False, lambda: True
    )  # to finish a training early is for the one that may be served
    info = baseline_adapter(context)
    steps = [(event.done, event.total) for event in told if isinstance(event, Progress) and "CL" in event.unit]
    assert steps[-1][0] == 16
    assert {total for _, total in steps} == {16}
    of_chunks = project / (info.adapter or "") / "chunks"
    assert (info.adapter_scope, info.steps) == ("both-then-queries", 16)
    assert (info.best_step or 0) > 12
    chunks = store.chunks()[:3]
    rankers = Rankers(context, chunks)
    candidate = rankers.baseline(project / (info.adapter or ""), info.adapter_scope, "cl")
    texts = [chunk.text for chunk in chunks]
    of_texts = candidate.passage_vectors(texts)
    assert of_texts == pytest.approx(load_encoder(context, of_chunks).encode_chunks(texts), abs=1e-5)
    assert abs(candidate.query_vectors(texts) - of_texts).max() > 1e-3
    assert baseline_adapter(context) == info
    (of_chunks / "adapter_model.safetensors").write_bytes(b"x")
    assert baseline_adapter(context).digest == info.digest
    store.close()


def test_asking_for_it_makes_the_evaluation_stale_and_not_the_adapter(project: Path) -> None:
    folder = ProjectFolder.open(project)
    store = folder.store()

    def states() -> list[str]:
        snapshot = ProjectSnapshot(folder, folder.settings(), store)
        return [stage_status(snapshot, stage).state for stage in ("rank", "train", "evaluate")]

    assert states() == ["done", "done", "done"]
    folder.change_settings({"evaluation.cl_baseline": True})
    assert states()[:2] == ["done", "done"]
    assert states()[2] != "done"
    store.close()
