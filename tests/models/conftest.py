from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.hub import StandInHub, stand_in_hub
from fixtures.tiny_model import build_tiny_model
from fixtures.user_folders import DATA

from engine.models import hub as hub_module

REPOSITORY = "intfloat/multilingual-e5-small"
NAME = "multilingual-e5-small"


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    (folder / "README.md").write_text("---\nlanguage:\n- de\n- en\nlicense: mit\n---\n", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models of its own for each test, no policy, and no waiting between tries."""
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    monkeypatch.delenv("BMEMBED_OFFLINE", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("engine.models.policy.policy_files", lambda: (tmp_path / "policy.toml",))
    monkeypatch.setattr(hub_module, "PAUSE", 0.0)
    return tmp_path / "data" / "bmembed" / "models"


@pytest.fixture
def hub(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """A hub that has the tiny encoder under the name of one of the catalogue, with what must not
    be taken with it.
    """
    with stand_in_hub() as found:
        found.add_folder(REPOSITORY, tiny_encoder)
        found.files[REPOSITORY] |= {
            "pytorch_model.bin": b"pickle",
            "modeling.py": b"import os",
            "onnx/config.json": b"{}",
            "onnx/model.onnx": b"onnx",
            ".gitattributes": b"",
        }
        monkeypatch.setenv("HF_ENDPOINT", found.address)
        yield found
