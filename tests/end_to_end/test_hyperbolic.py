"""A hyperbolic encoder from training to search: gated, indexed, updated, taken away."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.pipeline import engine_here, stage_here
from fixtures.sentence_encoders import SentenceTransformer
from fixtures.training import stir

from engine.core.errors import UsageError
from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.similarity import compute_scores
from engine.encoders.geometry.spaces import read_geometry
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.evaluation.reporting.report import read_report
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, InUseInfo, VectorsInfo
from engine.vectors.index import VectorIndex

QUERY = "who signs off a retrofit"
CPU = Hardware(
    "cpu",
    "float32",
    1,
    (),
)


def take_into_use(project: Path) -> Path:
    """Let search use the adapter, with weights that matter, whatever the gate says of it; its
    folder.
    """
    with closing(ProjectFolder.open(project).store()) as store:
        evaluation = store.artifact(EvaluationInfo)
        trained = store.artifact(AdapterInfo)
        assert evaluation is not None
        assert trained is not None
        assert trained.info.adapter
        store.put_artifact(
            replace(
                trained, info=replace(trained.info, digest=stir(project / trained.info.adapter))
            )
        )
        in_use = InUseInfo(
            "adapted",
            1.0,
            trained.info.adapter,
            "both",
        )
        store.put_artifact(
            replace(evaluation, info=replace(evaluation.info, semantic=in_use, hybrid=in_use))
        )
    stage_here(project, "embed")
    return project / trained.info.adapter


def index_of(project: Path) -> VectorIndex:
    with closing(ProjectFolder.open(project).store()) as store:
        artifact = store.artifact(VectorsInfo)
    assert artifact is not None
    return VectorIndex.open(project / artifact.folder)


def check_hits(project: Path, encoder: TransformerEncoder) -> dict[str, float]:
    """Semantic search finds what has the least distance of all chunks; document → the length of
    its longest vector.
    """
    with closing(ProjectFolder.open(project).store()) as store:
        chunks = store.chunks()
        paths = {document.id: document.path for document in store.documents()}
    vectors = encoder.encode_chunks([chunk.embedded_text for chunk in chunks])
    distances = -compute_scores(Lorentz(), encoder.encode_queries([QUERY]), vectors)[0]
    answer = engine_here(
        "search", str(project), QUERY, "--mode", "semantic", "--top", "10", "--passages", "--json"
    )
    hits = json.loads(answer.stdout)["hits"]
    scores = {hit["chunk_id"]: hit["score"] for hit in hits}
    expected = {
        chunk.id: -float(distance) for chunk, distance in zip(chunks, distances, strict=True)
    }
    assert scores == pytest.approx({key: expected[key] for key in scores}, abs=5e-3)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert min(scores.values()) >= sorted(expected.values())[-len(scores)] - 5e-3
    lengths = np.linalg.norm(vectors, axis=1)
    return {
        paths[chunk.document_id]: float(lengths[place])
        for place in np.argsort(lengths)
        for chunk in [chunks[place]]
    }


def test_from_training_to_search(
    project: Path,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    ProjectFolder.open(project).change_settings(
        {"training.similarity": "lorentz", "training.curvature": 1.0, "vectors.dtype": "i8"}
    )
    engine_here("adapt", str(project))
    report = read_report(
        Path(json.loads(engine_here("report", str(project), "--json").stdout)["folder"])
    )
    assert [
        candidate["name"] for candidate in report["selection"]["semantic"]["decision"]["candidates"]
    ] == [
        "interpolated-0.5",
        "adapted",
    ]
    lab = json.loads(engine_here("lab", str(project), "--json").stdout)
    assert lab["hyperbolic"]
    assert {"alignment", "uniformity"} <= set(lab["diagnostics"]["base"])
    assert "alignment" in lab["diagnostics"]["adapted"]
    assert "uniformity" not in lab["diagnostics"]["adapted"]
    assert set(lab["general"]["distances"]["systems"]) == {"base"}

    adapter = take_into_use(project)
    encoder = TransformerEncoder.load(
        resolve_model(str(tiny_model)),
        adapter=adapter,
        hardware=CPU,
    )
    lengths = check_hits(project, encoder)
    longest = max(lengths, key=lengths.__getitem__)
    first = index_of(project)
    assert (first.form.name, first.manifest["dtype"]) == ("hyperbolic", "f32")

    file = next(
        path for path in (project / "documents").rglob("*") if path.as_posix().endswith(longest)
    )
    content = file.read_bytes()
    file.unlink()
    for stage in ("ingest", "embed"):
        stage_here(project, stage)
    engine_here("embed", str(project), "--force")  # by force it is made again
    less = index_of(project)
    assert less.count < first.count
    file.write_bytes(content)
    for stage in ("ingest", "embed"):
        stage_here(project, stage)
    again = index_of(project)
    assert (again.count, again.manifest["removed"]) == (first.count, 0)
    check_hits(project, encoder)
    check_export(project, encoder, adapter, tmp_path)


def check_export(
    project: Path,
    encoder: TransformerEncoder,
    adapter: Path,
    folder: Path,
) -> None:
    """What is taken away gives the points, with what its note says."""
    exported = export_project(
        ProjectFolder.open(project), folder / "taken", ["adapter", "model", "vectors"]
    )
    assert [note.code for note in exported.notes] == ["encoder-hyperbolic", "model-adapted"]
    geometry = read_geometry(folder / "taken" / "adapter")
    assert geometry is not None
    assert geometry == read_geometry(adapter)
    pooled = SentenceTransformer(str(folder / "taken" / "model"), device="cpu").encode([QUERY])
    points = geometry.vectors(torch.from_numpy(pooled)).numpy()
    assert points == pytest.approx(encoder.encode_queries([QUERY]), abs=1e-4)
    _, rows = index_of(project).stored()
    vectors = np.load(folder / "taken" / "vectors" / "vectors.npy")
    assert vectors == pytest.approx(index_of(project).form.vectors(rows), abs=1e-5)
    with pytest.raises(UsageError):
        export_project(
            ProjectFolder.open(project),
            folder / "other",
            ["onnx"],
        )
