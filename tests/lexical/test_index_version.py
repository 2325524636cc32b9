"""Indexes that an earlier version built."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fixtures.pipeline import stages_in_this_process

from engine.lexical.stage import STAGE
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, stage_fingerprint
from engine.project.store.artifact_info import LexicalInfo
from engine.runs import pipeline

STAGES = ("ingest", "index")


def test_an_index_of_the_version_before_is_built_again(tmp_path: Path) -> None:
    (tmp_path / "prices.txt").write_text("Staffel 0 – 5 000 Stück", encoding="utf-8")
    paths = [str(tmp_path / "prices.txt")]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": paths}})
    with stages_in_this_process():
        pipeline.run(project, stages=STAGES)
        with closing(project.store()) as store:
            built = store.artifact(LexicalInfo)
            assert built is not None
            assert built.info.version == STAGE.version
            snapshot = ProjectSnapshot(
                project,
                project.settings(),
                store,
            )
            former = stage_fingerprint(
                "index",
                STAGE.version - 1,
                STAGE.inputs(snapshot),
            )
            info = replace(built.info, version=STAGE.version - 1)
            store.put_artifact(replace(built, info=info, fingerprint=former))
            states = pipeline.all_status(ProjectSnapshot(project, project.settings(), store))
            assert states[1].state != "done"
            pipeline.run(project, stages=STAGES)
            rebuilt = store.artifact(LexicalInfo)
            assert rebuilt is not None
            assert rebuilt.info.version == STAGE.version
            assert rebuilt.folder != built.folder
