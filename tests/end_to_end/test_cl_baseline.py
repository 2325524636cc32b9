"""The CL baseline is trained beside the adapter: it can be broken off and taken up, and leaves the adapter as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import CancelledError
from engine.core.events import Event, Progress
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import AdapterInfo, BaselineInfo
from engine.runs.pipeline import in_use, stage_status
from engine.training import meter
from engine.training.baseline import baseline_adapter


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
