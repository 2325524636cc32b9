"""Encoders with one tokenizer are compared on the same chunks and queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.pipeline import engine_here
from fixtures.tiny_decoder import build_tiny_decoder
from fixtures.tiny_model import build_tiny_model

from engine.core.errors import ModelError
from engine.encoders.tokenizer import chunk_tokenizer, tokenizer_fingerprint
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.runs.pipeline import all_status
from engine.settings.load import validate

MADE_ANEW = {"train", "evaluate", "embed"}


def stale_with(project: Path, **changes: str) -> set[str]:
    """The stages that are stale with these settings of the encoder and the corpus."""
    folder = ProjectFolder.open(project)
    folder.change_settings({name.replace("_", ".", 1): value for name, value in changes.items()})
    store = folder.store()
    states = all_status(ProjectSnapshot(folder, folder.settings(), store))
    store.close()
    return {status.stage for status in states if status.state != "done"}


def test_another_encoder_changes_neither_chunks_nor_queries(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    store = folder.store()
    before = store.artifact(QueriesInfo)
    other = build_tiny_model(tmp_path / "other", seed=1)
    assert stale_with(project, encoder_pooling="cls") == MADE_ANEW
    assert stale_with(project, encoder_model=str(other)) == MADE_ANEW
    events = [
        json.loads(line)
        for line in engine_here(
            "run", str(project), "--only", "ingest,generate", "--json"
        ).stdout.splitlines()
    ]
    finished = {
        event["stage"]: event["summary"] for event in events if event["event"] == "stage_finished"
    }
    assert finished.keys() == {"ingest"}
    assert (finished["ingest"]["files_read"], finished["ingest"]["new_chunks"]) == (0, 0)
    assert stale_with(project) == MADE_ANEW
    engine_here(
        "generate",
        str(project),
        "--force",
    )
    after = store.artifact(QueriesInfo)
    assert before is not None
    assert after is not None
    assert before.info.encoder != after.info.encoder
    assert "generate" not in stale_with(project)
    store.close()


def test_another_tokenizer_does_unless_chunks_keep_the_former(
    project: Path, tmp_path: Path, tiny_model: Path
) -> None:
    other = build_tiny_decoder(tmp_path / "other", "qwen3-embedding")
    assert stale_with(project, encoder_model=str(other)) > MADE_ANEW
    assert stale_with(project, corpus_tokenizer=str(tiny_model)) == MADE_ANEW
    assert stale_with(project, corpus_tokenizer=str(tiny_model / "tokenizer.json")) == MADE_ANEW


def test_how_long_texts_are_cut_or_padded_is_no_rule_of_a_tokenizer(
    tmp_path: Path, tiny_model: Path
) -> None:
    original = tiny_model / "tokenizer.json"
    rules = json.loads(original.read_text())
    copy = tmp_path / "tokenizer.json"
    other = tmp_path / "other.json"
    cut = {
        "direction": "Right",
        "max_length": 64,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    copy.write_text(json.dumps({**rules, "truncation": cut}, indent=2))
    other.write_text(json.dumps({**rules, "normalizer": None}))
    assert (
        tokenizer_fingerprint(copy)
        == tokenizer_fingerprint(original)
        != tokenizer_fingerprint(other)
    )


def test_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as missing:
        chunk_tokenizer(validate({"corpus": {"tokenizer": str(tmp_path)}}))
    assert missing.value.code == "tokenizer-missing"
