"""Languages of documents that an earlier version noted."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fixtures.pipeline import stages_in_this_process

from engine.lexical.stage import DETECTION
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo
from engine.runs import pipeline

STAGES = ("ingest", "index")


def test_a_run_notes_languages_again_and_leaves_the_index_as_it_is(tmp_path: Path) -> None:
    texts = {
        "de": "Die Versicherung haftet nicht für den Schaden. ",
        "en": "The insurer is not liable for the damage. ",
    }
    for code, text in texts.items():
        (tmp_path / f"{code}.txt").write_text(text * 9)
    paths = [str(tmp_path / f"{code}.txt") for code in texts]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": paths}})
    with stages_in_this_process():
        pipeline.run(project, stages=STAGES)
        with closing(project.store()) as store:
            noted = sorted(store.languages_but(""))
            index = store.artifact(LexicalInfo)
            assert index is not None
            with store.transaction():
                store.put_languages((row, "qu") for row, _, _ in noted)
            store.put_artifact(
                replace(index, info=replace(index.info, detection=0))
            )  # as before there were versions
            pipeline.run(project, stages=STAGES)
            assert sorted(store.languages_but("")) == noted
            assert [code for _, code, _ in noted] == ["de", "en"]
            assert store.artifact(LexicalInfo) == index
            assert index.info.detection == DETECTION
            states = pipeline.all_status(ProjectSnapshot(project, project.settings(), store))
            assert [one.state for one in states[:2]] == ["done", "done"]
