"""An encoder's share of the hybrid score before evidence decides it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from engine.encoders.choosing import shares
from engine.encoders.choosing.shares import EQUAL, FOREIGN, usual_share
from engine.encoders.for_project import source_of
from engine.encoders.kinds.chosen import encoder_source, named_model
from engine.models.catalogue import CatalogueModel
from engine.project.store.artifact_info import VectorsInfo
from engine.settings.load import validate

MODEL: dict[str, Any] = {
    "name": "a-model",
    "kind": "encoder",
    "purpose": "x",
    "languages": ["en"],
    "licence": "MIT",
    "repository": "a/a-model",
    "architecture": "bert",
    "parameters": 1,
    "dimension": 2,
    "max_tokens": 3,
}


@pytest.mark.parametrize(
    ("share", "language", "usual"),
    [(None, "en", EQUAL), (0.7, "en", 0.7), (0.7, "none", 0.7), (0.7, "de", FOREIGN)],
)
@pytest.mark.parametrize("by_folder", [True, False])
def test_it_is_the_catalogues_for_documents_in_a_language_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    share: float | None,
    language: str,
    usual: float,
    by_folder: bool,
) -> None:
    entry = CatalogueModel.model_validate({**MODEL, "share": share})
    monkeypatch.setattr(
        shares,
        "find_entry_of",
        lambda _: entry if by_folder else None,
    )
    monkeypatch.setattr(
        shares,
        "find_model",
        lambda _: None if by_folder else entry,
    )
    monkeypatch.setattr(
        shares,
        "knows",
        lambda _source, code: code in ("en", "none"),
    )
    source: Any = SimpleNamespace(folder=SimpleNamespace(path=tmp_path), name="a-model")
    assert usual_share(source, language) == usual


@pytest.mark.parametrize("wrong", [{"share": 0.55}, {"share": 0.7, "kind": "reranker"}])
def test_a_share_is_one_that_evaluation_tries(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CatalogueModel.model_validate({**MODEL, **wrong})


@pytest.mark.parametrize(
    "chosen",
    [{}, {"query_prompt": "q: "}, {"pooling": "cls"}, {"query_prompt": "", "pooling": "mean"}],
)
def test_an_index_names_the_base_model_that_evaluation_names(
    tiny_model: Path, chosen: dict[str, Any]
) -> None:
    """Otherwise search would take no share that evaluation chose."""
    settings = validate({"encoder": {"model": str(tiny_model), "device": "cpu", **chosen}})
    encoder = settings.encoder
    info = VectorsInfo(
        model=named_model(encoder.model),
        prompts=(encoder.query_prompt, encoder.document_prompt),
        pooling=encoder.pooling,
        dimension=32,
    )
    assert source_of(info, settings).fingerprint == encoder_source(encoder).fingerprint
