"""What stages note of their artifacts, also with keys that are no longer used or not yet there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from engine.project.store.artifact_info import (
    KINDS,
    AdapterInfo,
    ArtifactInfo,
    ContenderInfo,
    CorpusInfo,
    EvaluationInfo,
    FusionInfo,
    InUseInfo,
    LexicalInfo,
    QueriesInfo,
    QueryBackendInfo,
    RankingsInfo,
    SemanticVectorsInfo,
    ThresholdInfo,
    VectorsInfo,
    WriterInfo,
)
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

INTERPOLATED = InUseInfo(
    "interpolated-0.5",
    0.5,
    "adapters/a",
    "queries",
    "proved",
    "because",
)
PROVED = InUseInfo(
    "adapted",
    1.0,
    "adapters/a",
    "queries",
    "proved",
    "better",
)
FORMER: list[tuple[str, dict[str, Any], ArtifactInfo]] = [
    (
        "corpus",
        {
            "chunks": "c",
            "passwords": [7],
            "ocr": "5.3",
            "limits": {"timed out": 60},
            "skipped": {"a": "large"},
        },
        CorpusInfo("c", (7,), "5.3", {"timed out": 60}),
    ),
    (
        "lexical",
        {"language": "en", "chunks": 2, "chunks_fingerprint": "c", "version": 4},
        LexicalInfo("en", (), 2, "c", 4),
    ),
    (
        "queries",
        {
            "corpus": "c",
            "recipe": "r",
            "made": 5,
            "rejected": {"duplicate": 1},
            "content": "q",
            "backend": "gguf",
            "backend_reason": "it is set",
            "writer": {"named": "a.gguf", "identity": "i"},
        },
        QueriesInfo("c", "r", 5, {"duplicate": 1}, "q", "gguf", WriterInfo("a.gguf", "i")),
    ),
    ("queries", {"corpus": "c", "recipe": "r", "content": "q"}, QueriesInfo("c", "r", content="q")),
    ("query-backend", {}, QueryBackendInfo()),
    ("rankings", {"queries": "q", "k": 9}, RankingsInfo("q", 9)),
    (
        "adapter",
        {
            "adapter": "adapters/a",
            "reason": "",
            "steps": 6,
            "best_step": 4,
            "ended": "all steps",
            "adapter_scope": "queries",
            "digest": "d",
            "model": "m",
        },
        AdapterInfo(
            "adapters/a",
            "",
            6,
            4,
            "all steps",
            "queries",
            "d",
            "m",
        ),
    ),
    ("adapter", {"adapter": None, "reason": "few"}, AdapterInfo(reason="few")),
    (
        "evaluation",
        {
            "semantic": PROVED.to_dict(),
            "hybrid": INTERPOLATED.to_dict(),
            "hybrid_contender": {"name": "adapted", "interpolation_weight": 1.0, "share": 0.6},
            "model": "m",
            "advice": "less",
            "language": "en",
            "fusion": {"method": "weighted", "weight": 0.4, "reason": "w"},
            "tables": {"synthetic": {"systems": {"base": {"ndcg@10": {"value": 1.0}}}}},
            "threshold": {
                "similarity": 0.3,
                "kind": "judged",
                "reason": "",
                "encoder": "e",
                "hubs": "k",
            },
        },
        EvaluationInfo(
            PROVED,
            INTERPOLATED,
            hybrid_contender=ContenderInfo(share=0.6),
            model="m",
            advice="less",
            fusion=FusionInfo("weighted", 0.4),
            threshold=ThresholdInfo(0.3, "", "e"),
        ),
    ),
    (
        "vectors",
        {
            "model": "m",
            "max_tokens": 64,
            "adapter": "adapters/a",
            "chunk_adapter": "adapters/a",
            "interpolation_weight": 0.5,
            "encoder": "e",
            "chunk_encoder": "e",
            "version": 1,
            "dimension": 8,
            "chunks": 2,
            "hubs": "k",
        },
        VectorsInfo("m", 64, (None, None), "adapters/a", "adapters/a", 0.5, "e", "e", 1, 8, 2),
    ),
    (
        "vectors",
        {
            "model": "m",
            "max_tokens": 64,
            "prompts": ["q: ", None],
            "adapter": "adapters/a",
            "chunk_adapter": None,
            "interpolation_weight": 1.0,
            "encoder": "e",
            "chunk_encoder": "base",
            "version": 1,
            "dimension": 8,
            "chunks": 2,
        },
        VectorsInfo("m", 64, ("q: ", None), "adapters/a", None, 1.0, "e", "base", 1, 8, 2),
    ),
]


@pytest.mark.parametrize(("kind", "former", "info"), FORMER)
def test_what_a_former_version_noted_is_read(
    store: Store, kind: str, former: dict[str, Any], info: ArtifactInfo
) -> None:
    with closing(sqlite3.connect(store.path)) as database, database:
        database.execute(
            "INSERT INTO artifacts VALUES (?, 'f', 'folder', 1.0, ?)", (kind, json.dumps(former))
        )
    assert store.artifact(KINDS[kind]) == Artifact(info, "f", "folder")
    store.put_artifact(Artifact(info, "g", "folder"))
    assert store.artifacts() == {kind: Artifact(info, "g", "folder")}


def test_a_key_that_no_field_has_is_left_out() -> None:
    assert RankingsInfo.from_dict({"found_first": 0.1, "k": 9}) == RankingsInfo(k=9)


def test_folders_of_adapters_that_something_needs_are_known(store: Store) -> None:
    both = EvaluationInfo(InUseInfo(adapter="adapters/a"), InUseInfo(adapter="adapters/a"))
    store.put_artifact(Artifact(both, "f", "reports/r"))
    store.put_artifact(Artifact(VectorsInfo(adapter="adapters/b"), "f", "vectors/v"))
    store.put_artifact(
        Artifact(SemanticVectorsInfo(adapter="adapters/a", shared=True), "f", "vectors/s")
    )
    store.put_artifact(Artifact(LexicalInfo(), "f", "lexical/l"))
    needed = {kind: artifact.info.folders_read for kind, artifact in store.artifacts().items()}
    assert needed == {
        "evaluation": ("adapters/a",),
        "vectors": ("adapters/b",),
        "semantic-vectors": ("adapters/a",),
        "lexical": (),
    }
    apart = EvaluationInfo(InUseInfo(adapter="adapters/a"), InUseInfo(adapter="adapters/b"))
    assert apart.folders_read == ("adapters/a", "adapters/b")
    assert EvaluationInfo(InUseInfo(adapter="adapters/a")).folders_read == ("adapters/a",)


def test_each_search_mode_has_its_own_encoder(store: Store) -> None:
    info = EvaluationInfo(
        PROVED, InUseInfo("interpolated-0.5", 0.5, "adapters/a", standing="expected", reason="six")
    )
    store.put_artifact(Artifact(info, "f", "reports/r"))
    artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    assert artifact.info == info
    assert {mode: encoder.name for mode, encoder in artifact.info.in_use.items()} == {
        "semantic": "adapted",
        "hybrid": "interpolated-0.5",
    }


def test_tables_of_figures_are_not_kept_in_the_database() -> None:
    (info,) = (info for kind, former, info in FORMER if "tables" in former)
    assert "tables" not in info.to_dict()
