"""The project's reranker as teacher: trained by its scores of what BM25 and the encoder find, which
are kept.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from fixtures.pipeline import engine_here
from fixtures.tiny_cross_encoder import build_cross_encoder

from engine.encoders.embedding_cache import VectorCache
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo


def count_scores(project: Path) -> int:
    (folder,) = (project / "cache").glob("pair-scores-*")
    return len(VectorCache(folder, 2, reading=True))


def read_adapter(folder: ProjectFolder) -> AdapterInfo:
    with closing(folder.store()) as store:
        artifact = store.artifact(AdapterInfo)
    assert artifact is not None
    return artifact.info


def test_its_scores_teach_and_are_kept(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    before = read_adapter(folder)
    folder.change_settings(
        {
            "search.reranker": str(build_cross_encoder(tmp_path / "reranker")),
            "training.teacher": "cross-encoder",
            "training.teacher_candidates": 2,
            "training.queries_per_step": 4,
            "training.steps": 3,
        }
    )
    events = [
        json.loads(line)
        for line in engine_here("train", str(project), "--json").stdout.splitlines()
    ]
    chosen = {event["setting"]: event["value"] for event in events if event["event"] == "choice"}
    assert chosen["teacher"] == "cross-encoder"
    assert chosen["objective"] == "listnet"
    adapter = read_adapter(folder)
    assert adapter.steps == 3
    assert adapter.digest != before.digest
    # 12 lists of the evidence chunk, two by BM25 and two by the encoder, some of them the same.
    scores = count_scores(project)
    assert 12 * 3 <= scores <= 12 * 5
    engine_here(
        "train",
        str(project),
        "--force",
        "--json",
    )
    assert count_scores(project) == scores, "nothing was scored again"
    assert read_adapter(folder).digest == adapter.digest
