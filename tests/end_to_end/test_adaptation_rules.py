"""When queries, rankings and adapters belong together, and what may never be trained on."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import copy_documents, engine_here, figures
from fixtures.tiny_model import build_tiny_model
from fixtures.training import stir

from engine.api import Project
from engine.encoders.hardware import choose_hardware
from engine.encoders.model_folder import resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import (
    AdapterInfo,
    EvaluationInfo,
    InUseInfo,
    QueriesInfo,
    VectorsInfo,
)
from engine.queries.rejection import Reason
from engine.search.searcher import Searcher


def set_key(
    project: Path,
    key: str,
    value: object,
) -> None:
    """Change a value in project.toml."""
    ProjectFolder(project).change_settings({key: value})


def states(project: Path) -> dict[str, str]:
    opened = Project.open(project)
    try:
        return {status.stage: status.state for status in opened.status()}
    finally:
        opened.close()


def test_queries_made_again_within_the_threshold_are_never_joined_to_former_rankings(
    project: Path,
) -> None:
    set_key(project, "corpus.retrain_threshold", 0.9)
    copy_documents(
        project / "documents",
        ("minutes",),
        2,
    )
    engine_here("ingest", str(project))
    engine_here("index", str(project))
    assert states(project)["generate"] == "done", "a small change keeps the queries"
    engine_here(
        "generate",
        str(project),
        "--force",
    )
    after = states(project)
    assert after["generate"] == "done", "what was made just now is up to date"
    assert after["rank"] == "stale"
    code, error = error_of("train", str(project))
    assert (code, error["code"], error["stage"], error["command"]) == (
        3,
        "rankings-outdated",
        "rank",
        "adapt",
    )


def test_a_changed_recipe_is_up_to_date_after_one_run_within_the_threshold(project: Path) -> None:
    set_key(project, "corpus.retrain_threshold", 0.9)
    copy_documents(
        project / "documents",
        ("minutes",),
        1,
    )
    engine_here("ingest", str(project))
    engine_here("index", str(project))
    set_key(project, "queries.max_queries", 200)
    assert states(project)["generate"] == "stale"
    engine_here("generate", str(project))
    assert states(project)["generate"] == "done"
    assert Project.open(project).counts()["queries"] <= 200


def test_judged_questions_are_not_trained_on(project: Path, tmp_path: Path) -> None:
    store = Project.open(project).folder.store()
    trained = [query for query in store.queries() if query.split == "train"][:5]
    store.close()
    rows = [{"query": query.text.upper(), "evidence": [query.evidence]} for query in trained]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    engine_here(
        "import-judgments",
        str(project),
        str(file),
    )
    engine_here("evaluate", str(project))
    table = figures(project)["tables"]["judged"]
    engine_here(
        "generate",
        str(project),
        "--force",
    )
    store = Project.open(project).folder.store()
    remaining = {query.text for query in store.queries()}
    generated = store.artifact(QueriesInfo)
    judged = len(store.judged())
    store.close()
    assert table["queries"] + table["left_out"] == judged - 5
    assert generated
    assert generated.info.rejected[Reason.JUDGED] == 5
    assert not remaining & {query.text for query in trained}


def test_stopping_and_choosing_use_different_documents(project: Path) -> None:
    store = Project.open(project).folder.store()
    queries = store.queries()
    store.close()
    sides = {
        side: {q.document_id for q in queries if q.split == side}
        for side in ("train", "validation", "heldout")
    }
    assert all(sides.values())
    assert not sides["train"] & sides["validation"]
    assert not sides["train"] & sides["heldout"]
    assert not sides["validation"] & sides["heldout"]


def test_an_adapter_of_another_model_is_not_used(project: Path, tmp_path: Path) -> None:
    store = Project.open(project).folder.store()
    evaluation = store.artifact(EvaluationInfo)
    adapter = store.artifact(AdapterInfo)
    assert evaluation
    assert adapter
    served = InUseInfo(
        "adapted",
        1.0,
        adapter.folder,
    )
    store.put_artifact(
        replace(evaluation, info=replace(evaluation.info, semantic=served, hybrid=served))
    )
    store.close()
    set_key(
        project,
        "encoder.model",
        str(build_tiny_model(tmp_path / "other", seed=1)),
    )
    code, error = error_of("evaluate", str(project))
    assert (code, error["code"]) == (3, "adapter-mismatch")
    run = engine_here("run", str(project))  # does not need an adaptation to search
    assert "another model" in run.stderr
    with closing(ProjectFolder.open(project).store()) as store:
        vectors = store.artifact(VectorsInfo)
        assert vectors
        assert vectors.info.adapter is None
        assert vectors.info.model == str(tmp_path / "other")
    assert json.loads(
        engine_here("search", str(project), "door", "--mode", "semantic", "--json").stdout
    )["hits"]


def test_hits_of_an_adapter_that_is_not_in_use_are_there_to_be_judged(project: Path) -> None:
    ProjectFolder.open(project).change_settings({"evaluation.gate": "strict"})
    engine_here("adapt", str(project))
    opened = Project.open(project)
    with closing(opened.folder.store()) as store:
        trained = store.artifact(AdapterInfo)
        vectors = store.artifact(VectorsInfo)
        texts = {chunk.id: chunk.embedded_text for chunk in store.chunks()}
    assert trained
    assert vectors
    assert (vectors.info.adapter, trained.info.adapter_scope) == (None, "queries")
    stir(project / (trained.info.adapter or ""), seed=1)
    model = resolve_model(opened.settings().encoder.model)
    hardware = choose_hardware("cpu", "float32")
    longest = opened.settings().encoder.max_tokens
    base = TransformerEncoder.load(
        model,
        hardware=hardware,
        max_tokens=longest,
    )
    adapted = TransformerEncoder.load(
        model, adapter=project / (trained.info.adapter or ""), hardware=hardware, max_tokens=longest
    )
    similarities = (
        base.encode_chunks(list(texts.values())) @ adapted.encode_queries(["customer complaint"])[0]
    )
    scores = dict(zip(texts, similarities.tolist(), strict=True))
    with closing(Searcher(opened.folder)) as searcher:
        hits = searcher.search_unused("customer complaint", 5)
    opened.close()
    assert [hit.score for hit in hits] == pytest.approx(
        sorted(scores.values(), reverse=True)[:5], abs=2e-3
    )
    assert all(abs(scores[hit.chunk_id] - hit.score) < 2e-3 for hit in hits)


@pytest.mark.slow
def test_an_adapter_for_queries_alone_keeps_the_vector_index(project: Path) -> None:
    set_key(project, "training.adapter_scope", "queries")
    set_key(project, "training.shared_chunks", 5000)
    engine_here("train", str(project))
    engine_here("evaluate", str(project))
    opened = Project.open(project)
    store = opened.folder.store()
    evaluation = store.artifact(EvaluationInfo)
    trained = store.artifact(AdapterInfo)
    assert evaluation is not None
    assert trained is not None
    assert evaluation.info.hybrid.adapter_scope == trained.info.adapter_scope == "queries"
    engine_here(
        "embed", str(project)
    )  # whatever is served: the chunks' vectors are the untouched encoder's from here on
    served = InUseInfo(
        "interpolated-0.5",
        0.5,
        trained.info.adapter,
        "queries",
    )
    store.put_artifact(
        replace(
            evaluation,
            fingerprint="another",
            info=replace(evaluation.info, semantic=served, hybrid=served),
        )
    )
    engine_here("embed", str(project))
    vectors = store.artifact(VectorsInfo)
    texts = {chunk.id: chunk.embedded_text for chunk in store.chunks()}
    store.close()
    assert vectors is not None
    assert vectors.info.chunk_encoder != vectors.info.encoder
    model = resolve_model(opened.settings().encoder.model)
    hardware = choose_hardware("cpu", "float32")
    longest = opened.settings().encoder.max_tokens
    base = TransformerEncoder.load(
        model,
        hardware=hardware,
        max_tokens=longest,
    )
    adapted = TransformerEncoder.load(
        model,
        adapter=project / (trained.info.adapter or ""),
        adapter_scale=0.5,
        hardware=hardware,
        max_tokens=longest,
    )
    assert vectors.info.chunk_encoder == base.fingerprint
    assert vectors.info.encoder == adapted.fingerprint
    hit = opened.search("customer complaint", mode="semantic", top=1).hits[0]
    expected = (
        adapted.encode_queries(["customer complaint"])[0]
        @ base.encode_chunks([texts[hit.chunk_id]])[0]
    )
    assert abs(hit.score - float(expected)) < 0.01
    opened.close()


@pytest.mark.slow
def test_nothing_is_embedded_again_for_another_adapter_for_queries(project: Path) -> None:
    set_key(project, "training.adapter_scope", "queries")
    set_key(project, "training.seed", 7)
    events = [
        json.loads(line)
        for line in engine_here("adapt", str(project), "--json").stdout.splitlines()
    ]
    assert "train" in {event["stage"] for event in events if "summary" in event}
    runs = [folder / "events.jsonl" for folder in sorted((project / "runs").iterdir())]
    first, *_, last = (
        [json.loads(line) for line in file.read_text().splitlines()] for file in runs
    )
    encoded = [
        {
            event["done"]
            for event in run
            if event["event"] == "progress" and event["unit"] == "chunks encoded"
        }
        for run in (first, last)
    ]
    assert len(encoded[0]) > 1  # batch by batch
    assert encoded[1] == {max(encoded[0])}  # all at once: they are at hand
