"""Prompts that project.toml names for a model whose folder names none: from training queries to
the hits of a search.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fixtures.pipeline import SAMPLE, engine_here, ingest_here

from engine.encoders.fingerprint import Prompts, missing_prompts, read_prompts
from engine.encoders.for_project import encoder_fingerprint_of, project_model
from engine.encoders.hardware import choose_hardware
from engine.encoders.model_folder import resolve_model
from engine.encoders.pooling import with_pooling
from engine.encoders.transformer import TransformerEncoder
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.runs.pipeline import all_status
from engine.settings.load import validate

QUERY = "what who: "
DOCUMENT = "the news of "

WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


def create_project(
    path: Path,
    model: Path,
    **encoder: str,
) -> ProjectFolder:
    settings = {
        "corpus": {"paths": ["documents"], "chunk_tokens": 96},
        "encoder": {"model": str(model), "device": "cpu", "dtype": "float32", **encoder},
        "vectors": {"dtype": "f32"},  # made of vectors that were kept in half precision
    }
    project = ProjectFolder.create(path, settings)
    (path / "documents").mkdir()
    for source in sorted((SAMPLE / "documents" / "incidents").iterdir())[:6]:
        shutil.copy(source, path / "documents")
    return project


def test_the_space_at_the_end_of_a_prompt_counts(tmp_path: Path, tiny_model: Path) -> None:
    assert validate({"encoder": {"query_prompt": "query: "}}).encoder.query_prompt == "query: "
    project = create_project(
        tmp_path / "project",
        tiny_model,
        query_prompt=QUERY,
    )
    assert ProjectFolder.open(project.path).settings().encoder.query_prompt == QUERY
    project.change_settings({"encoder.document_prompt": DOCUMENT})
    assert project.settings().encoder.document_prompt == DOCUMENT


def test_prompts_of_the_project_come_before_those_of_the_model(tiny_model: Path) -> None:
    model = resolve_model(str(tiny_model))
    with_setting = project_model(
        validate({"encoder": {"model": str(tiny_model), "query_prompt": QUERY}})
    )
    assert read_prompts(model) == Prompts("", "")
    assert read_prompts(with_setting) == Prompts(QUERY, "")
    assert with_setting.fingerprint != model.fingerprint, (
        "an adapter that was trained without the prompt would stay"
    )
    assert model.with_prompts(None, None) is model
    plain = {
        "model": str(tiny_model),
        "query_prompt": "",
        "document_prompt": "",
    }
    assert read_prompts(project_model(validate({"encoder": plain}))) == Prompts("", "")


def test_search_looks_with_the_prompt_and_pooling_for_chunks_with_theirs(
    tmp_path: Path, tiny_model: Path
) -> None:
    project = create_project(
        tmp_path / "project",
        tiny_model,
        query_prompt=QUERY,
        document_prompt=DOCUMENT,
        pooling="cls",
    )
    engine_here(
        "run",
        str(project.path),
        "--only",
        "ingest,index,embed",
    )
    from engine.api import Project

    with_prompts = Project.open(project.path)
    hits = with_prompts.search("freezer alarm", mode="semantic", top=3).hits
    with_prompts.close()
    encoder = TransformerEncoder.load(
        with_pooling(resolve_model(str(tiny_model)), "cls"),
        hardware=choose_hardware("cpu", "float32"),
    )
    store = project.store()
    chunks = store.chunks()
    vectors = encoder.encode_chunks([DOCUMENT + chunk.embedded_text for chunk in chunks])
    cosines = vectors @ encoder.encode_queries([QUERY + "freezer alarm"])[0]
    best = np.argsort(-cosines)[:3]
    assert [hit.chunk_id for hit in hits] == [chunks[place].id for place in best]
    assert [hit.score for hit in hits] == pytest.approx(cosines[best].tolist(), abs=1e-4)
    project.change_settings({"encoder.query_prompt": "other "})
    states = {
        status.stage: status.state
        for status in all_status(ProjectSnapshot(project, project.settings(), store))
    }
    assert (states["ingest"], states["embed"]) == ("done", "stale")
    before = encoder_fingerprint_of(
        ProjectSnapshot(project, project.settings(), store),
        None,
        1.0,
    )
    assert before != encoder.fingerprint
    store.close()


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("e5-base-v2", Prompts("query: ", "passage: ")),
        ("intfloat-multilingual-e5-small", Prompts("query: ", "passage: ")),
        (
            "bge-small-en-v1.5",
            Prompts("Represent this sentence for searching relevant passages: ", ""),
        ),
        ("e5-mistral-7b-instruct", Prompts(f"Instruct: {WEB_SEARCH}\nQuery: ", "")),
        ("my-model", None),
    ],
)
def test_a_model_that_is_known_to_want_prompts_is_warned_of(
    tmp_path: Path, tiny_model: Path, name: str, prompts: Prompts | None
) -> None:
    folder = tmp_path / name
    shutil.copytree(tiny_model, folder)
    assert missing_prompts(resolve_model(str(folder))) == prompts
    project = create_project(tmp_path / "project", folder)
    warnings = [text for text in ingest_here(project.path)[1] if "prompts" in text]
    assert len(warnings) == (prompts is not None)
    if prompts:
        assert repr(prompts.query) in warnings[0]
        chosen = resolve_model(str(folder)).with_prompts("", "")
        assert missing_prompts(chosen) is None, "who sets them to nothing has decided"
