"""What the stage `train` depends on, and what it makes of the settings of a teacher."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.records import build_chunk, build_document

from engine.core.errors import ModelError, ResourceError, SettingsError
from engine.core.records import DocumentQuery, Query, Split
from engine.encoders.model_folder import ModelFolder
from engine.encoders.model_size import model_size
from engine.queries.heldout import related_documents
from engine.ranking.rankings_file import RankedLists
from engine.settings.load import validate
from engine.settings.schema import Settings
from engine.training import stage
from engine.training.config import TrainingConfig
from engine.training.dataset import sampled_lists, train_rows, why_untrained
from engine.training.recipe import config_of, resolve_config, teacher_choice, teacher_folder
from engine.training.stopping_queries import (
    generated_for_stopping,
    without_answers,
    written_for_stopping,
)


def snapshot(
    project: Path,
    model: ModelFolder,
    **training: Any,
) -> Any:
    encoder = {"model": str(model.path), "device": "cpu"}
    settings: Settings = validate({"encoder": encoder, "training": training})

    def need(_kind: type) -> Any:
        return SimpleNamespace(
            fingerprint="of the rankings", info=SimpleNamespace(queries="q", content="q")
        )

    store = SimpleNamespace(artifact=lambda _: None, query_counts=lambda: ({}, {"train": 100}))
    return SimpleNamespace(
        settings=settings, project=SimpleNamespace(path=project), need=need, store=store
    )


@pytest.fixture
def project(tmp_path: Path, tiny: ModelFolder) -> Path:
    """A folder with a cross-encoder's files and nothing else."""
    folder = tmp_path / "reranker"
    shutil.copytree(tiny.path, folder)
    config = json.loads((folder / "config.json").read_text()) | {
        "architectures": ["BertForSequenceClassification"]
    }
    (folder / "config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize(
    "training", [{"weights": "all"}, {"method": "PT", "pretrain_weights": "all"}], ids=str
)
def test_a_model_that_memory_cannot_hold_in_training_is_reported_before_a_run(
    project: Path, tiny: ModelFolder, training: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = snapshot(
        project,
        tiny,
        **training,
    )
    stage.STAGE.preflight(given)
    needed = (
        44 * model_size(tiny).parameters
    )  # weights, masters, two gradients, two moments, the best ones, a checkpoint
    for total, fits in ((needed, True), (needed - 1, False)):
        memory = SimpleNamespace(virtual_memory=lambda total=total: SimpleNamespace(total=total))
        monkeypatch.setattr(stage, "psutil", memory)
        stage.STAGE.preflight(snapshot(project, tiny))  # LoRA layers take next to nothing
        if fits:
            stage.STAGE.preflight(given)
            continue
        with fails(ResourceError, "memory-too-small"):
            stage.STAGE.preflight(given)


def test_the_cross_encoder_lies_in_the_project_folder(project: Path, tiny: ModelFolder) -> None:
    given = snapshot(
        project,
        tiny,
        teacher="cross-encoder",
        cross_encoder="reranker",
    )
    found = teacher_folder(given, resolve_config(given))
    assert found is not None
    assert found.path == project / "reranker"
    assert found.cache is not None
    assert found.cache.parent == project / "cache"


def test_the_projects_reranker_teaches_unless_another_is_named(
    project: Path, tiny: ModelFolder
) -> None:
    def taught(search: str, own: str = "") -> TrainingConfig:
        given: Any = {
            "search": {"reranker": search},
            "training": {"teacher": "cross-encoder", "cross_encoder": own},
        }
        return config_of(validate(given))

    assert taught("reranker").cross_encoder == "reranker"
    assert taught("reranker", "own").cross_encoder == "own"
    assert taught("http://127.0.0.1:8081/v1", "own").cross_encoder == "own"
    for search in ("", "http://127.0.0.1:8081/v1"):
        with fails(SettingsError, "cross-encoder-not-chosen"):
            taught(search)


def test_a_cross_encoder_teaches_lists_of_what_is_found(tiny: ModelFolder) -> None:
    def config(**training: Any) -> TrainingConfig:
        chosen = {
            "teacher": "cross-encoder",
            "cross_encoder": "x",
            **training,
        }
        return config_of(validate({"training": chosen}))

    chosen = config()
    assert (chosen.objective, chosen.target, chosen.queries_per_step) == ("listnet", "entropy", 8)
    assert (chosen.uses_candidates, chosen.list_width, chosen.needs_vectors) == (True, 17, True)
    assert (chosen.adapter_scope, chosen.shared_chunks) == ("queries", 0)
    own = config(
        queries_per_step=3,
        target="fixed",
        teacher_candidates=2,
        adapter_scope="both",
    )
    assert (own.queries_per_step, own.target, own.list_width) == (3, "fixed", 5)
    assert (own.adapter_scope, own.needs_vectors) == ("both", True)
    over_the_batch = config(objective="mixed")
    assert (over_the_batch.uses_candidates, over_the_batch.queries_per_step) == (False, 64)
    assert config_of(validate({})).uses_candidates is False
    paper = config(preset="paper")
    assert (paper.adapter_scope, paper.steps, paper.learning_rate) == ("both", 500, 2e-5)


def test_the_source_of_training_queries_makes_training_stale(
    project: Path, tiny: ModelFolder
) -> None:
    before = stage.STAGE.inputs(snapshot(project, tiny, query_source="all"))
    assert before == stage.STAGE.inputs(snapshot(project, tiny))
    assert (
        stage.STAGE.inputs(snapshot(project, tiny, query_source="generated"))["config"][
            "query_source"
        ]
        == "generated"
    )


def test_what_makes_training_stale(project: Path, tiny: ModelFolder) -> None:
    def inputs(**training: Any) -> dict[str, Any]:
        return stage.STAGE.inputs(snapshot(project, tiny, **training))

    taught = inputs(teacher="cross-encoder", cross_encoder="reranker")
    shutil.copytree(project / "reranker", project / "copy")
    assert inputs(teacher="cross-encoder", cross_encoder="copy") == taught, (
        "the content counts, not the place"
    )
    (project / "copy" / "tokenizer_config.json").write_text("{}")
    assert inputs(teacher="cross-encoder", cross_encoder="copy") != taught
    assert inputs(cross_encoder="nowhere") == inputs(), "it does not teach"
    assert inputs(teacher_candidates=3) == inputs(), "only a cross-encoder's lists have candidates"
    fewer = inputs(
        teacher="cross-encoder",
        cross_encoder="reranker",
        teacher_candidates=3,
    )
    assert fewer["lists"] == {"candidates": 3} != taught["lists"]
    assert inputs() != inputs(teacher="bm25")
    assert inputs() != inputs(false_negatives="drop")


def test_what_selects_queries_and_lists_is_an_input(project: Path, tiny: ModelFolder) -> None:
    before = stage.STAGE.inputs(snapshot(project, tiny))["config"]
    assert (before["query_share"], before["query_source"]) == (1.0, "all")
    assert (before["lists_per_query"], before["keep_evidence"]) == (1, True)
    half = stage.STAGE.inputs(snapshot(project, tiny, query_share=0.5))["config"]
    assert half == {**before, "query_share": 0.5}
    several = snapshot(project, tiny)
    several.settings = validate(
        {**several.settings.model_dump(exclude_none=True), "ranking": {"lists_per_query": 4}}
    )
    assert stage.STAGE.inputs(several)["config"] == {**before, "lists_per_query": 4}


def test_a_share_of_the_training_queries_holds_the_smaller_shares() -> None:
    chunks = [build_chunk("a", 7)]
    queries = [
        Query(f"query {n}", "question", 7 if n else 8, 1, "", "heldout" if n == 1 else "train")
        for n in range(42)
    ]

    def rows(share: float, seed: int = 0) -> list[int]:
        settings = validate({"training": {"query_share": share, "seed": seed}})
        return train_rows(settings, queries, chunks)

    assert rows(1.0) == list(range(2, 42)), "query 0 has lost its chunk, query 1 is held out"
    assert [len(rows(share)) for share in (0.5, 0.25, 0.001)] == [20, 10, 1]
    assert set(rows(0.25)) < set(rows(0.5))
    assert rows(0.5) == sorted(rows(0.5)) != rows(0.5, seed=1)


@pytest.mark.parametrize(
    ("source", "rows"), [("all", [0, 1, 2, 3]), ("graded", [1, 3]), ("generated", [0, 2])]
)
def test_training_queries_of_a_source(source: str, rows: list[int]) -> None:
    chunks = [build_chunk("a", 7), build_chunk("b", 8, ordinal=1, start=1)]
    queries = [Query(f"query {n}", "question", 7, 1, "") for n in range(4)]
    settings = validate({"training": {"query_source": source}})
    assert train_rows(settings, queries, chunks, {"query 1", "query 3"}) == rows
    assert why_untrained(settings, queries, chunks, {"query 1", "query 3"}).startswith(
        f"{len(rows)} "
    )


def test_several_lists_are_drawn_of_each_ranking() -> None:
    found = (np.arange(10, 30), np.linspace(9, 1, 20, dtype=np.float32))
    ranked = RankedLists.from_lists([5, 6], [found, found])
    context: Any = SimpleNamespace(settings=validate({"ranking": {"m": 4, "lists_per_query": 3}}))
    chunks = [build_chunk("a", chunk_id) for chunk_id in range(10, 30)]
    lists = sampled_lists(
        context,
        ranked,
        [0, 1],
        chunks,
    )
    assert lists.queries.tolist() == [0, 0, 0, 1, 1, 1]
    assert lists.chunks.shape == (6, 4)
    assert len({tuple(row) for row in lists.chunks.tolist()}) > 1


@pytest.mark.parametrize("folder", ["nowhere", "~nobody-of-this-name/x", "a\0b", "x" * 300])
def test_a_cross_encoder_that_is_not_there(
    project: Path,
    tiny: ModelFolder,
    folder: str,
) -> None:
    given = snapshot(
        project,
        tiny,
        teacher="cross-encoder",
        cross_encoder=folder,
    )
    with fails(ModelError, "cross-encoder-invalid") as caught:
        stage.STAGE.inputs(given)
    assert caught.value.to_do


def test_a_teacher_without_its_model_is_reported_at_once(project: Path, tiny: ModelFolder) -> None:
    with fails(SettingsError, "cross-encoder-not-chosen"):
        config_of(validate({"training": {"teacher": "cross-encoder"}}))


CHOSEN = "chosen in project.toml; it scores up to {} pairs in a step"


@pytest.mark.parametrize(
    ("recipe", "reported"),
    [
        ({}, ("mixture", "goes with the loss 'mixed'")),
        ({"objective": "listmle"}, ("bm25", "goes with the loss 'listmle'")),
        ({"teacher": "bm25"}, ("bm25", "chosen in project.toml")),
        (
            {"teacher": "cross-encoder"},
            ("cross-encoder", CHOSEN.format("8,192")),
        ),  # 64 queries × 64 · 2 chunks
        (
            {"teacher": "cross-encoder", "objective": "listnet"},
            ("cross-encoder", CHOSEN.format("1,088")),
        ),  # 64 lists of 1 + 2 · 8 chunks
        (
            {"teacher": "cross-encoder", "objective": "plackett_luce", "false_negatives": "drop"},
            ("cross-encoder", CHOSEN.format("128")),
        ),
        (
            {"objective": "triplet", "teacher": "mixture"},
            ("none", "the loss 'triplet' learns from the evidence chunk alone"),
        ),
        (
            {"objective": "infonce", "false_negatives": "drop"},
            ("bm25", "goes with the loss 'infonce'"),
        ),
    ],
)
def test_the_teacher_is_reported_with_a_reason(
    recipe: dict[str, Any], reported: tuple[str, str]
) -> None:
    config = replace(TrainingConfig(), **{"cross_encoder": "x", **recipe})
    assert teacher_choice(config, 9) == reported


def test_titles_of_documents_with_validation_queries_only_stop_the_training() -> None:
    count = 3
    sides: dict[int, list[Split]] = {n: ["validation", "validation"] for n in range(count)}
    sides |= {
        100: ["train"],
        101: ["heldout"],
        102: ["validation", "train"],
        103: [],
        104: ["validation"],
    }
    queries = [Query("q", "question", n, n, "", side) for n, own in sides.items() for side in own]
    texts = {n: f"Report of the harbour {n}\nShips pay." for n in sides}
    chunks = [build_chunk(texts[n], n, n) for n in sides]
    written = [
        DocumentQuery(f"Report of the harbour {n}", "title", None, n, 0, 23, n) for n in sides
    ]
    titles = {100: "Berths", 104: "Re: Berths"}  # of one thread: the first mail was trained on
    documents = [
        build_document(f"{n}.eml", title=titles.get(n, f"{n}"), content_hash=f"{n}", id=n)
        for n in sides
    ]
    found = written_for_stopping(
        queries,
        written,
        chunks,
        related_documents(documents),
    )
    assert [one.document_id for one in found] == [0, 1, 2]


@pytest.mark.parametrize(
    ("backend", "imported", "found"),
    [("extractive", False, 0), ("both", True, 40), ("gguf", False, 40)],
)
def test_queries_that_are_not_extractive_stop_the_training(
    backend: str, imported: bool, found: int
) -> None:
    chunks = [build_chunk("a", 7)]
    sides: list[Split] = ["train", "heldout", *["validation"] * 40]  # type: ignore[list-item]
    queries = [
        Query(f"q{row}", "question", 7, 1, "", side, imported=imported)
        for row, side in enumerate(sides)
    ]
    gone = replace(queries[-1], chunk_id=8)
    assert generated_for_stopping([*queries, gone], chunks, backend) == list(range(2, 2 + found))


def test_other_chunks_of_the_answering_document_are_no_negatives_of_its_title() -> None:
    chunks = [build_chunk("x", row, document) for row, document in enumerate((7, 7, 8, 9), 1)]
    title = DocumentQuery(
        "A title",
        "title",
        None,
        7,
    )
    heading = DocumentQuery(
        "A heading",
        "heading",
        1,
        7,
    )
    hard = np.array([[1, 2, -1], [1, 3, 2]])
    assert without_answers(hard, [title, heading], chunks).tolist() == [[-1, 2, -1], [1, 3, 2]]
