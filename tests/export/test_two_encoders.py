"""Exports, bundles and the local API of a project whose search modes have encoders of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.local_api import TOKEN, asked, listening
from fixtures.opensearch import OpenSearch
from fixtures.optional import needs, needs_pyarrow
from fixtures.sentence_encoders import load_exported
from fixtures.two_encoders import (
    BASE,
    ON_BOTH,
    ON_QUERIES,
    OTHER,
    QUERY,
    Embedded,
    artifact_of,
    choose,
    embedded,
    encoder_of,
    similarities,
    two_encoders_built,
)

from engine.assistants.http.api import LocalApi
from engine.assistants.tools import ProjectTools
from engine.core.errors import NotBuiltError
from engine.core.messages.search import Search
from engine.core.systems import IN_USE_ALONE
from engine.doctor.findings import examine_vector_index
from engine.evaluation.reporting import report, verdict
from engine.export import card
from engine.export.bundle.pack import bundle_project
from engine.export.bundle.unpack import unbundle
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import InUseInfo, SemanticVectorsInfo, VectorsInfo
from engine.search.searcher import Searcher

__all__ = ["embedded", "two_encoders_built"]

TEXTS = ["who repairs the roof?", "Pressure on the wing", "é"]


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluation was put in place by hand: it has no report."""
    for name, value in (("read_report", {}), ("tables_of", {}), ("own_systems_of", IN_USE_ALONE)):
        monkeypatch.setattr(
            card,
            name,
            lambda _, value=value: value,
        )
    monkeypatch.setattr(
        report,
        "read_report",
        lambda _: {},
    )
    monkeypatch.setattr(
        verdict,
        "verdict_of",
        lambda _: SimpleNamespace(modes=()),
    )


def folders_in(path: Path) -> set[str]:
    return {one.name for one in path.iterdir() if one.is_dir()}


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return found


def test_each_mode_has_its_model_and_the_manifest_names_both(
    embedded: Embedded, tmp_path: Path
) -> None:
    project = embedded(ON_BOTH, BASE)
    made = export_project(
        project,
        tmp_path / "taken",
        ["model", "vectors"],
    )
    assert folders_in(made.folder) == {"model", "semantic-model", "vectors", "semantic-vectors"}
    for name, chosen in (("model", BASE), ("semantic-model", ON_BOTH)):
        own = encoder_of(project, chosen)
        np.testing.assert_allclose(
            load_exported(made.folder / name).encode_query(TEXTS),
            own.encode_queries(TEXTS),
            atol=1e-5,
        )
    manifest = manifest_of(made.folder)
    vectors = artifact_of(project, VectorsInfo)
    semantic = artifact_of(project, SemanticVectorsInfo)
    assert vectors is not None
    assert semantic is not None
    assert manifest["encoder"]["query_encoder"] == vectors.info.encoder
    assert manifest["semantic_encoder"]["query_encoder"] == semantic.info.encoder
    assert manifest["semantic_encoder"]["chunk_encoder"] == semantic.info.chunk_encoder
    assert manifest["in_use"] == {"semantic": "adapted", "hybrid": "base"}
    assert manifest["fusion"] == {"method": "weighted", "weight": 0.6}
    for name, chosen in (("vectors", BASE), ("semantic-vectors", ON_BOTH)):
        rows = np.load(made.folder / name / "vectors.npy", allow_pickle=False)
        lines = (made.folder / name / "ids.jsonl").read_text("utf-8").splitlines()
        with closing(project.store()) as store:
            texts = {chunk.id: chunk.embedded_text for chunk in store.chunks()}
        wanted = encoder_of(project, chosen).encode_chunks(
            [texts[json.loads(line)["chunk_id"]] for line in lines]
        )
        np.testing.assert_allclose(
            rows,
            wanted,
            atol=2e-3,
        )
    readme = (made.folder / "README.md").read_text("utf-8")
    assert all(f"`{name}/`" in readme for name in ("model", "semantic-model", "semantic-vectors"))
    assert semantic.info.encoder in readme


def test_one_encoder_for_both_modes_leaves_an_export_as_it_was(
    embedded: Embedded, tmp_path: Path
) -> None:
    project = embedded(ON_BOTH, ON_BOTH)
    made = export_project(
        project,
        tmp_path / "taken",
        ["model", "vectors"],
    )
    assert folders_in(made.folder) == {"model", "vectors"}
    assert "semantic_encoder" not in manifest_of(made.folder)
    assert "semantic-" not in (made.folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("semantic", "hybrid", "names"),
    [
        (ON_QUERIES, BASE, {"model": BASE, "semantic-query-encoder": ON_QUERIES}),
        (
            BASE,
            ON_QUERIES,
            {"query-encoder": ON_QUERIES, "chunk-encoder": BASE, "semantic-query-encoder": BASE},
        ),
        (OTHER, ON_BOTH, {"model": ON_BOTH, "semantic-model": OTHER}),
    ],
    ids=["queries in semantic search", "queries in hybrid search", "two adapters"],
)
def test_folders_say_which_mode_they_are_of(
    embedded: Embedded,
    tmp_path: Path,
    semantic: InUseInfo,
    hybrid: InUseInfo,
    names: dict[str, InUseInfo],
) -> None:
    project = embedded(semantic, hybrid)
    made = export_project(
        project,
        tmp_path / "taken",
        ["model"],
    )
    assert folders_in(made.folder) == {*names}
    for name, chosen in names.items():
        found = load_exported(made.folder / name).encode(TEXTS)
        np.testing.assert_allclose(
            found, encoder_of(project, chosen).encode_queries(TEXTS), atol=1e-5
        )
        assert (made.folder / name / "README.md").is_file()


def test_an_evaluation_that_is_not_embedded_yet_is_not_exported(
    embedded: Embedded, tmp_path: Path
) -> None:
    project = embedded(BASE, BASE)
    choose(project, ON_BOTH, BASE)
    with fails(NotBuiltError, "index-outdated"):
        export_project(
            project,
            tmp_path / "taken",
            ["model"],
        )


@needs_pyarrow
def test_parquet_has_a_column_for_each_mode(embedded: Embedded, tmp_path: Path) -> None:
    from pyarrow import parquet

    project = embedded(ON_BOTH, BASE)
    folder = export_project(project, tmp_path / "taken", ["parquet"]).folder / "parquet"
    rows = parquet.read_table(folder / "chunks.parquet").to_pylist()
    for column, chosen in (("vector", BASE), ("semantic_vector", ON_BOTH)):
        vector = encoder_of(project, chosen).encode_queries([QUERY])[0]
        wanted = similarities(project, chosen, QUERY)
        assert {
            row["chunk_id"]: float(np.dot(row[column], vector)) for row in rows
        } == pytest.approx(wanted, abs=2e-3)
    semantic = artifact_of(project, SemanticVectorsInfo)
    assert semantic is not None
    assert manifest_of(folder)["fingerprints"]["semantic"]["encoder"] == semantic.info.encoder


def run_readme(
    folder: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """The names that the Python of a README defines, asking a server."""
    monkeypatch.chdir(folder)
    blocks = re.findall(
        r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL
    )
    assert all(block.count("\n") <= 25 for block in blocks)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    names["URL"] = url
    names["TOKEN"] = TOKEN
    return names


@pytest.mark.parametrize("semantic", [ON_BOTH, ON_QUERIES], ids=["two indexes", "one index"])
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("qdrant", marks=needs("qdrant_client")),
        pytest.param("lancedb", marks=needs("lancedb")),
        "opensearch",
    ],
)
def test_each_mode_is_searched_elsewhere_as_here(
    embedded: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    semantic: InUseInfo,
) -> None:
    project = embedded(semantic, BASE)
    with listening(LocalApi([str(project.path)]).answer) as server:
        for mode in ("hybrid", "semantic"):
            project.change_settings({"search.mode": mode, "search.named_documents": False})
            folder = export_project(project, tmp_path / mode, [target]).folder / target
            if target == "opensearch":
                OpenSearch.install(monkeypatch, folder)
            names = run_readme(
                folder,
                server.url,
                monkeypatch,
            )
            searches: dict[Any, Callable[[str], list[int]]] = {mode: names["search"]}
            if mode == "hybrid":
                searches["semantic"] = names["search_by_meaning"]
            with closing(Searcher(project)) as own:
                for name, search in searches.items():
                    assert search(QUERY) == [
                        hit.chunk_id for hit in own.search(Search(QUERY, name)).hits
                    ]


@pytest.mark.parametrize("search_only", [False, True], ids=["whole", "search only"])
def test_a_bundle_searches_in_both_modes(
    embedded: Embedded, tmp_path: Path, search_only: bool
) -> None:
    project = embedded(ON_BOTH, BASE)
    bundle_project(
        project,
        tmp_path / "it.bundle",
        search_only=search_only,
    )
    there = ProjectFolder(unbundle(tmp_path / "it.bundle", str(tmp_path / "there")).folder)
    assert len([*(there.path / "vectors").iterdir()]) == 2
    for mode in ("semantic", "hybrid"):
        with closing(Searcher(project)) as here, closing(Searcher(there)) as other:
            wanted = [(hit.chunk_id, hit.score) for hit in here.search(Search(QUERY, mode)).hits]
            assert [
                (hit.chunk_id, hit.score) for hit in other.search(Search(QUERY, mode)).hits
            ] == wanted


def test_a_bundle_names_its_own_copy_of_the_model_for_both(
    embedded: Embedded, tmp_path: Path
) -> None:
    project = embedded(ON_BOTH, BASE)
    bundle_project(
        project,
        tmp_path / "it.bundle",
        with_model=True,
    )
    there = ProjectFolder(unbundle(tmp_path / "it.bundle", str(tmp_path / "there")).folder)
    for kind in (VectorsInfo, SemanticVectorsInfo):
        artifact = artifact_of(there, kind)
        assert artifact is not None
        assert Path(artifact.info.model).is_relative_to(there.path)


def test_the_local_api_embeds_for_the_mode_that_a_model_or_the_request_names(
    embedded: Embedded,
) -> None:
    project = embedded(ON_BOTH, BASE)
    name = project.path.name
    vectors = artifact_of(project, VectorsInfo)
    semantic = artifact_of(project, SemanticVectorsInfo)
    assert vectors is not None
    assert semantic is not None
    cases: list[tuple[dict[str, Any], InUseInfo, str]] = [
        ({"model": f"{name}:query"}, BASE, vectors.info.encoder),
        ({"model": f"{name}:semantic:query"}, ON_BOTH, semantic.info.encoder),
        (
            {"model": name, "mode": "semantic", "input_type": "query"},
            ON_BOTH,
            semantic.info.encoder,
        ),
        (
            {"model": f"{name}:semantic", "mode": "hybrid", "input_type": "query"},
            BASE,
            vectors.info.encoder,
        ),
    ]
    with listening(LocalApi([str(project.path)]).answer) as server:
        for body, chosen, fingerprint in cases:
            status, data = asked(
                server, "POST", "/v1/embeddings", {**body, "input": TEXTS, "terms": True}
            )
            assert status == 200, data
            found = np.array([one["embedding"] for one in data["data"]])
            np.testing.assert_allclose(
                found, encoder_of(project, chosen).encode_queries(TEXTS), atol=1e-4
            )
            assert data["fingerprints"]["encoder"] == fingerprint
        _, models = asked(server, "GET", "/v1/models")
        status, _ = asked(
            server, "POST", "/v1/embeddings", {"model": name, "input": TEXTS, "mode": "keywords"}
        )
    wanted = [
        f"{name}{mode}{side}" for mode in ("", ":semantic") for side in ("", ":query", ":document")
    ]
    assert [one["id"] for one in models["data"]] == wanted
    assert status == 400


def test_an_assistant_is_told_both_encoders(embedded: Embedded) -> None:
    project = embedded(ON_BOTH, BASE)
    semantic = artifact_of(project, SemanticVectorsInfo)
    assert semantic is not None
    tools = ProjectTools([str(project.path)])
    try:
        (status,) = tools.call("status", {})["projects"]
    finally:
        tools.close()
    assert status["encoders"]["hybrid"]["name"] == "base"
    assert status["encoders"]["semantic"] == {
        "name": "adapted",
        "fingerprint": semantic.info.encoder,
    }


@pytest.mark.parametrize(("semantic", "subjects"), [(ON_BOTH, 2), (ON_QUERIES, 2), (BASE, 1)])
def test_the_doctor_looks_at_each_index(
    embedded: Embedded, semantic: InUseInfo, subjects: int
) -> None:
    project = embedded(semantic, BASE)
    findings = examine_vector_index(project)
    assert [one.state for one in findings] == ["good"] * subjects
