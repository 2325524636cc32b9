"""Vectors of the chunks that a model elsewhere made: a map to them, compared, searched with, not
exported.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.pipeline import engine_here
from fixtures.serving import one, request
from fixtures.tiny_model import build_tiny_model
from safetensors.numpy import load_file

from engine.core.errors import EngineError
from engine.core.similarity import unit_rows
from engine.doctor.doctor import examine
from engine.encoders.kinds.chosen import base_source
from engine.evaluation.reporting.report import read_report
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, InUseInfo, VectorsInfo
from engine.settings.schema import EncoderSettings
from engine.training.model.query_map import RIDGE, ridge_map
from engine.vectors.index import VectorIndex

QUERY = "Who signs off a freezer repair?"


def test_from_an_export_to_search(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    export_project(folder, tmp_path / "out", ["chunks"])
    lines = (tmp_path / "out" / "chunks.jsonl").read_text().splitlines()
    exported = [json.loads(line) for line in lines]
    elsewhere = base_source(
        EncoderSettings(model=str(build_tiny_model(tmp_path / "elsewhere", seed=5)), device="cpu")
    ).load(256)
    made = elsewhere.encode_chunks([chunk["text"] for chunk in exported])
    given = tmp_path / "given.npy"
    np.save(
        given, np.concatenate([made[1:], made[:1]]) * 7
    )  # of the first chunk none, but of a text that is no chunk
    ids = tmp_path / "given.ids.txt"
    ids.write_text("\n".join([*(chunk["content_hash"] for chunk in exported[1:]), "0" * 64]))
    folder.change_settings({"encoder.vectors": str(given)})
    assert any(
        given.name in found.found
        for found in examine(folder)
        if (found.topic, found.state) == ("model", "good")
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
    counts = {name: finished["train"][name] for name in ("chunks", "given", "spare")}
    assert counts == {"chunks": len(made), "given": len(made) - 1, "spare": 1}

    # The gate compares the encoder alone with what was joined.
    report = read_report(
        Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"])
    )
    decision = report["selection"]["semantic"]["decision"]
    assert (decision["reference"], [found["name"] for found in decision["candidates"]]) == (
        "base",
        ["interpolated-0.5", "adapted"],
    )

    # In use, it is the sum of both similarities, and the chunk without a vector has that of the
    # map.
    with closing(folder.store()) as store:
        trained = store.artifact(AdapterInfo)
        evaluation = store.artifact(EvaluationInfo)
        assert trained is not None
        assert evaluation is not None
        in_use = InUseInfo("interpolated-0.5", 0.5, trained.info.adapter)
        store.put_artifact(
            replace(evaluation, info=replace(evaluation.info, semantic=in_use, hybrid=in_use))
        )
    events = [
        json.loads(line)
        for line in engine_here("embed", str(project), "--json").stdout.splitlines()
    ]
    assert [event["code"] for event in events if event["event"] == "warning"] == [
        "vectors-incomplete"
    ]
    with closing(folder.store()) as store:
        vectors = store.artifact(VectorsInfo)
        chunks = store.chunks()
    assert vectors is not None
    assert (vectors.info.dimension, vectors.info.small_dimension, vectors.info.given_vectors) == (
        64,
        32,
        str(given),
    )
    own = base_source(folder.settings().encoder).load(256)
    of_chunks = own.encode_chunks([chunk.embedded_text for chunk in chunks])
    fitted = load_file(project / (trained.info.adapter or "") / "adapter_model.safetensors")[
        "query_map"
    ]
    np.testing.assert_allclose(
        fitted, ridge_map(of_chunks[1:], made[1:], RIDGE), atol=2e-2
    )  # the run's were float16
    second = np.concatenate([unit_rows(of_chunks[:1] @ fitted), made[1:]])
    keys, rows = VectorIndex.open(folder.folder_of(vectors)).stored()
    np.testing.assert_array_equal(keys, [chunk.id for chunk in chunks])
    expected = np.concatenate([of_chunks, 0.5 * second], 1) / np.sqrt(1.25)
    np.testing.assert_allclose(rows.astype(np.float32), expected, atol=2e-3)  # float16
    asked = own.encode_queries([QUERY])
    scores = (of_chunks @ asked[0] + 0.25 * (second @ unit_rows(asked @ fitted)[0])) / 1.25
    best = [chunks[row].id for row in np.argsort(-scores, kind="stable")[:5]]

    def found(mode: str) -> list[int]:
        answer = one(folder, request(1, "search", query=QUERY, mode=mode, top=5))["result"]
        return [hit["chunk_id"] for hit in answer["hits"]]

    assert found("semantic") == best
    moved = one(folder, request(2, "explain", query=QUERY, chunk_ids=best))["result"]
    assert (moved["in_use"], moved["note"]) == ("interpolated-0.5", "")
    assert all(place["base_rank"] for place in moved["chunks"].values())

    # Nothing of it is exported but what belongs to the documents.
    for part in ("adapter", "model", "onnx"):
        with pytest.raises(EngineError) as refused:
            export_project(folder, tmp_path / "refused", [part])
        assert refused.value.code == "encoder-not-exportable"
    export_project(folder, tmp_path / "again", ["vectors"])
    assert np.load(tmp_path / "again" / "vectors" / "vectors.npy").shape == (len(chunks), 64)

    # Search does without the file; a run says that it is gone, or that it is of other texts.
    given.rename(tmp_path / "away.npy")
    assert found("semantic") == best
    assert len(found("hybrid")) == 5
    assert refusal(project) == "vectors-unreadable"
    (tmp_path / "away.npy").rename(given)
    ids.write_text("\n".join(f"{row:064}" for row in range(len(made))))
    assert refusal(project) == "vectors-of-other-chunks"


def refusal(project: Path) -> str:
    failed = engine_here("train", str(project), "--json", check=False).stdout.splitlines()
    return str(
        next(
            event["error"]["code"]
            for event in map(json.loads, failed)
            if event["event"] == "stage_failed"
        )
    )
