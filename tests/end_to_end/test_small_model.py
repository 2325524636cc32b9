"""A small model that joins an encoder that is only asked for vectors: trained, compared, searched
with, exported.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.pipeline import engine_here, stage_here
from fixtures.serving import ask_once, request
from fixtures.tiny_model import build_tiny_model
from fixtures.training import stir

from engine.core.errors import UsageError
from engine.doctor.doctor import examine
from engine.encoders.embedding_cache import VectorCache
from engine.encoders.geometry.spaces import OwnLengths, read_geometry
from engine.encoders.kinds.augmented import AugmentedEncoder
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.reporting.report import read_report
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, InUseInfo, VectorsInfo
from engine.vectors.index import VectorIndex

QUERY = "Who signs off a freezer repair?"


def test_from_training_to_search_and_export(project: Path, tmp_path: Path) -> None:
    small = build_tiny_model(tmp_path / "small", seed=3)
    folder = ProjectFolder.open(project)
    folder.change_settings(
        {
            "encoder.small_model": str(small),
            "training.augmentation": "lambda-mafin",
            "training.epochs": 1,
            "training.preset": "mafin",
            "training.steps": None,
            "training.eval_every": None,
        }
    )
    events = [
        json.loads(line)
        for line in engine_here("adapt", str(project), "--json").stdout.splitlines()
    ]
    finished = {
        event["stage"]: event["summary"] for event in events if event["event"] == "stage_finished"
    }
    assert finished["ingest"]["new_chunks"] == 0
    assert {"train", "evaluate"} <= finished.keys() <= {"ingest", "train", "evaluate", "embed"}
    chosen = {event["setting"]: event["value"] for event in events if event["event"] == "choice"}
    assert (chosen["trained"], chosen["adapter scope"]) == ("small", "both")
    with closing(folder.store()) as store:
        queries = store.query_counts()[1]["train"]
        trained = store.artifact(AdapterInfo)
        evaluation = store.artifact(EvaluationInfo)
    assert trained is not None
    assert evaluation is not None
    assert trained.info.steps == -(-queries // 8)  # one epoch of the project's eight queries a step

    # The gate compares the black box, which is in use unless it is beaten, with what was joined.
    report = read_report(
        Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"])
    )
    assert report["settings"]["encoder"]["small_model"] == str(small)
    decision = report["selection"]["semantic"]["decision"]
    assert (decision["reference"], [candidate["name"] for candidate in decision["candidates"]]) == (
        "base",
        ["interpolated-0.5", "adapted"],
    )
    with closing(folder.store()) as store:
        before = store.artifact(VectorsInfo)
    assert before is not None
    if {ask_once.name for ask_once in evaluation.info.in_use.values()} == {"base"}:
        assert (before.info.dimension, before.info.small_model) == (32, "")

    # In use, it is what the joined encoder gives, and the black box is not asked for a chunk twice.
    with closing(folder.store()) as store:
        digest = stir(project / (trained.info.adapter or ""))
        store.put_artifact(replace(trained, info=replace(trained.info, digest=digest)))
        in_use = InUseInfo(
            "interpolated-0.5",
            0.5,
            trained.info.adapter,
        )
        store.put_artifact(
            replace(evaluation, info=replace(evaluation.info, semantic=in_use, hybrid=in_use))
        )
    base = encoder_source(folder.settings().encoder).vectors_fingerprint(256)
    stored = len(VectorCache(project / "cache" / base, 32, reading=True))
    stage_here(project, "embed")
    assert len(VectorCache(project / "cache" / base, 32, reading=True)) == stored
    with closing(folder.store()) as store:
        vectors = store.artifact(VectorsInfo)
        chunks = store.chunks()
    assert vectors is not None
    assert (vectors.info.dimension, vectors.info.small_dimension, vectors.info.small_model) == (
        64,
        32,
        str(small),
    )
    adapter = project / (trained.info.adapter or "")
    encoder = encoder_source(folder.settings().encoder).load(256, adapter, 0.5)
    assert isinstance(encoder, AugmentedEncoder)
    index = VectorIndex.open(folder.folder_of(vectors))
    keys, rows = index.stored()
    expected = encoder.encode_chunks([chunk.embedded_text for chunk in chunks])
    np.testing.assert_array_equal(keys, [chunk.id for chunk in chunks])
    np.testing.assert_allclose(rows.astype(np.float32), expected, atol=2e-3)  # float16
    order = np.argsort(-(expected @ encoder.encode_queries([QUERY])[0]), kind="stable")[:5]
    answer = ask_once(folder, request(1, "search", query=QUERY, mode="semantic", top=5))
    assert [hit["chunk_id"] for hit in answer["result"]["hits"]] == [
        chunks[row].id for row in order
    ]
    hits = [chunks[row].id for row in order]
    moved = ask_once(folder, request(2, "explain", query=QUERY, chunk_ids=hits))["result"]
    assert (moved["in_use"], moved["note"]) == ("interpolated-0.5", "")
    assert all(chunk["base_rank"] for chunk in moved["chunks"].values())

    # The small model's adapter can be taken away, the black box cannot.
    target = tmp_path / "taken"
    exported = export_project(
        folder,
        target,
        ["adapter"],
    )
    assert exported is not None
    card = (target / "adapter" / "README.md").read_text()
    geometry = read_geometry(adapter)
    assert isinstance(geometry, OwnLengths)
    assert 0 < geometry.small_scale < 1
    assert f"{geometry.small_scale}" in card
    assert read_geometry(target / "adapter") == geometry
    with pytest.raises(UsageError) as refused:
        export_project(
            folder,
            tmp_path / "refused",
            ["model"],
        )
    assert refused.value.code == "encoder-not-exportable"
    (model,) = [finding for finding in examine(folder) if finding.topic == "model"]
    assert model.state == "good"
    assert "small" in model.found
