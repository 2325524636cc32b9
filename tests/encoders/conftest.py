from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.environment import prepare

prepare()


def _builder() -> Callable[[Path, int], Path]:
    source = Path(__file__).resolve().parents[1] / "fixtures" / "tiny_model.py"
    spec = importlib.util.spec_from_file_location("tiny_model", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[[Path, int], Path] = module.build_tiny_model
    return build


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that tests must not change."""
    return _builder()(tmp_path_factory.mktemp("model") / "tiny", 0)


@pytest.fixture
def model_copy(tiny_model: Path, tmp_path: Path) -> Path:
    """A model folder that a test may damage."""
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


@pytest.fixture
def edit_json() -> Callable[..., None]:
    """Change keys of a JSON file in place."""

    def edit(path: Path, **changes: object) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


@pytest.fixture(scope="module")
def adapter(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter of random A and B (rank 4, alpha 8) on queries and the feed-forward layer."""
    import torch
    from peft import LoraConfig, get_peft_model
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(3)
    base = SentenceTransformer(str(tiny_model), device="cpu")[0].auto_model
    wrapped = get_peft_model(
        base, LoraConfig(r=4, lora_alpha=8, target_modules=["query", "intermediate.dense"])
    )
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.3)
    folder = tmp_path_factory.mktemp("adapter") / "lora"
    wrapped.save_pretrained(str(folder))
    return folder
