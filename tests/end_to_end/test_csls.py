"""CSLS, where evaluation has chosen it: it is in the index that search uses, and stays there when documents change."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import engine_here
from numpy.typing import NDArray

from engine.core.unit_vectors import unit_rows
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, HubnessInfo, VectorsInfo
from engine.queries.articles import article_numbers
from engine.ranking.hubness import FILE, HubnessReference, hub_offsets, read_reference, write_reference
from engine.vectors.index import VectorIndex


def index_of(path: Path) -> VectorIndex:
    with closing(ProjectFolder(path).store()) as store:
        artifact = store.artifact(VectorsInfo)
        assert artifact is not None
        return VectorIndex.open(path / artifact.folder)


def hits(path: Path) -> dict[int, float]:
    query_row = ("search", str(path), "leave of absence", "--mode", "semantic", "--top", "1000", "--json")
    return {hit["chunk_id"]: hit["score"] for hit in json.loads(engine_here(*query_row).stdout)["hits"]}


def articles_of(path: Path, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    with closing(ProjectFolder(path).store()) as store:
        known = store.chunks_by_id(chunks.tolist())
        return article_numbers([known[key] for key in chunks.tolist()], store.documents())


def embedded(path: Path) -> dict[str, Any]:
    told = engine_here("embed", str(path), "--json").stdout.splitlines()
    done = [json.loads(line) for line in told if json.loads(line)["event"] == "stage_finished"]
    return dict(done[-1]["summary"]) if done else {}


@pytest.fixture
def corrected(project: Path) -> Path:
    """The finished project, embedded anew after an evaluation has chosen CSLS."""
    index = index_of(project)
    reference = unit_rows(np.random.default_rng(0).normal(size=(300, index.width)))
    with closing(ProjectFolder(project).store()) as store:
        artifact = store.artifact(EvaluationInfo)
        assert artifact is not None
        write_reference(
            project / artifact.folder, HubnessReference(reference, np.resize(articles_of(project, index.keys()), 300))
        )
        store.put_artifact(replace(artifact, info=replace(artifact.info, hubness=HubnessInfo(300, "some"))))
    assert embedded(project)["added"] > 0
    return project


def test_search_takes_off_what_was_chosen_and_updates_do_as_well(project: Path, corrected: Path) -> None:
    index = index_of(corrected)
    assert index.form.corrects
    keys, stored = index.stored()
    unit_vectors_of = index.form.vectors(stored)
    with closing(ProjectFolder(corrected).store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    reference = read_reference(corrected / artifact.folder)
    offsets = dict(
        zip(keys.tolist(), hub_offsets(unit_vectors_of, articles_of(corrected, keys), reference).tolist(), strict=True)
    )
    assert np.ptp(list(offsets.values())) > 0.01
    taken = -stored[:, -2].astype(np.float32) * np.sqrt(2)
    assert taken == pytest.approx(list(offsets.values()), abs=2e-3)
    found = hits(corrected)
    assert set(found) == set(keys.tolist())
    spread = np.array([found[key] for key in keys.tolist()])
    assert -1 - max(offsets.values()) < spread.min()
    assert spread.max() < 1 - min(offsets.values()) + 1e-3
    (corrected / "documents" / "added.md").write_text(
        "# Added\n\nA chunk that has come since, about leave of absence.\n"
    )
    engine_here("ingest", str(corrected))
    assert embedded(corrected)["added"] == 1
    grown = index_of(corrected)
    after, rows = grown.stored()
    assert (grown.form.corrects, len(after)) == (True, len(keys) + 1)
    new = ~np.isin(after, keys)
    assert -rows[new, -2].astype(np.float32) * np.sqrt(2) == pytest.approx(
        hub_offsets(grown.form.vectors(rows[new]), articles_of(corrected, after[new]), reference), abs=2e-3
    )
    assert set(after[new].tolist()) <= set(hits(corrected))


def test_without_the_reference_new_documents_are_searchable_all_the_same(corrected: Path) -> None:
    with closing(ProjectFolder(corrected).store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    (corrected / artifact.folder / FILE).unlink()
    (corrected / "documents" / "added.md").write_text(
        "# Added\n\nA chunk that has come since, about leave of absence.\n"
    )
    engine_here("ingest", str(corrected))
    events = [json.loads(line) for line in engine_here("embed", str(corrected), "--json").stdout.splitlines()]
    assert [event["stage"] for event in events if event["event"] == "warning"] == ["embed"]
    assert not index_of(corrected).form.corrects
    assert len(hits(corrected)) == index_of(corrected).count


def test_without_the_reference_evaluation_is_done_again(corrected: Path) -> None:
    with closing(ProjectFolder(corrected).store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    (corrected / artifact.folder / FILE).write_bytes(b"damaged")
    told = [json.loads(line) for line in engine_here("run", str(corrected), "--json").stdout.splitlines()]
    done = {event["stage"]: event for event in told if event["event"] == "stage_finished"}
    assert {"evaluate", "embed"} <= set(done)
    with closing(ProjectFolder(corrected).store()) as store:
        again = store.artifact(EvaluationInfo)
    assert again is not None
    assert again.info.hubness.hub_queries == 0  # the gate finds no gain with weights that mean nothing
    assert not index_of(corrected).form.corrects
    assert hits(corrected)


def test_an_export_of_vectors_comes_with_what_is_taken_off(corrected: Path, tmp_path: Path) -> None:
    from engine.export.take import export_project

    made = export_project(ProjectFolder.open(corrected), tmp_path / "taken", ["vectors"])
    vectors = np.load(made.folder / "vectors" / "vectors.npy")
    ids = [json.loads(line) for line in (made.folder / "vectors" / "ids.jsonl").read_text("utf-8").splitlines()]
    with closing(ProjectFolder(corrected).store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    reference = read_reference(corrected / artifact.folder)
    assert vectors.shape == (len(ids), reference.vectors.shape[1])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(ids)), abs=1e-5)
    owners = articles_of(corrected, np.array([one["chunk_id"] for one in ids]))
    assert [one["hub_offset"] for one in ids] == pytest.approx(
        hub_offsets(vectors, owners, reference).tolist(), abs=2e-3
    )
    page = (made.folder / "README.md").read_text("utf-8")
    assert "`search.csls`" in page
    assert "`vectors/hub_queries.npy`" in page
    assert "export --only vectors" not in page
    shown = np.load(made.folder / "vectors" / "hub_queries.npy")
    lines = (made.folder / "vectors" / "hub_queries.jsonl").read_text("utf-8").splitlines()
    articles = np.array([json.loads(line)["article"] for line in lines])
    assert np.array_equal(shown, reference.vectors)
    assert np.array_equal(articles, reference.articles)
    for one, vector in list(zip(ids, vectors, strict=True))[::20]:  # as the card says it, from the export alone
        nearest = np.sort(shown[articles != one["article"]] @ vector)[-10:]
        assert nearest.mean() / 2 == pytest.approx(one["hub_offset"], abs=2e-3)


def test_an_exported_encoder_and_vectors_rank_as_search_does(corrected: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from engine.export.take import export_project

    made = export_project(ProjectFolder.open(corrected), tmp_path / "taken", ["model", "vectors"])
    vectors = np.load(made.folder / "vectors" / "vectors.npy")
    ids = [json.loads(line) for line in (made.folder / "vectors" / "ids.jsonl").read_text("utf-8").splitlines()]
    folder = made.folder / ("model" if (made.folder / "model").is_dir() else "query-encoder")
    query = SentenceTransformer(str(folder), device="cpu").encode_query("leave of absence")
    offsets = np.array([one["hub_offset"] for one in ids])
    scores = vectors @ query - offsets
    found = hits(corrected)
    assert scores == pytest.approx([found[one["chunk_id"]] for one in ids], abs=3e-3)
    best = ids[int(np.argmax(scores))]["chunk_id"]
    assert found[best] == pytest.approx(max(found.values()), abs=3e-3)
    plain = vectors @ query
    assert np.abs(scores - plain).max() > 0.01  # without the offsets it would be something else


def test_a_card_without_vectors_names_the_export_with_the_offsets(corrected: Path, tmp_path: Path) -> None:
    from engine.export.take import export_project

    made = export_project(ProjectFolder.open(corrected), tmp_path / "taken", ["model"])
    assert "`engine export --only vectors`" in (made.folder / "README.md").read_text("utf-8")


def test_parquet_holds_the_queries_that_show_hubs(corrected: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from engine.export.take import export_project

    made = export_project(ProjectFolder.open(corrected), tmp_path / "taken", ["vectors", "parquet"])
    rows = parquet.read_table(made.folder / "vectors" / "hub_queries.parquet").to_pylist()
    assert np.array_equal(
        np.array([row["vector"] for row in rows], np.float32), np.load(made.folder / "vectors" / "hub_queries.npy")
    )
    assert [{"article": row["article"]} for row in rows] == [
        json.loads(line) for line in (made.folder / "vectors" / "hub_queries.jsonl").read_text("utf-8").splitlines()
    ]
    assert [
        row["hub_offset"] for row in parquet.read_table(made.folder / "vectors" / "vectors.parquet").to_pylist()
    ] == [
        json.loads(line)["hub_offset"]
        for line in (made.folder / "vectors" / "ids.jsonl").read_text("utf-8").splitlines()
    ]
