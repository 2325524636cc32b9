"""The catalogue: its schema, and what it says of the models that ship with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import EngineError
from engine.encoders.fingerprint import known_prompts
from engine.models.catalogue import KINDS, MAX_MODELS, find_model, read_catalogue

ENTRY = """
[[models]]
name = "one"
kind = "encoder"
purpose = "For tests."
languages = ["en"]
licence = "MIT"
repository = "a/b"
architecture = "bert"
parameters = 1000
dimension = 8
max_tokens = 128
"""


def read(tmp_path: Path, text: str) -> None:
    file = tmp_path / f"models-{len(text)}.toml"
    file.write_text(text, encoding="utf-8")
    read_catalogue(file)


def test_the_shipped_catalogue_has_every_kind_and_two_sizes_of_each() -> None:
    models = read_catalogue()
    assert len(models) <= MAX_MODELS
    for kind in KINDS:
        sizes = {model.disk for model in models if model.kind == kind}
        assert len(sizes) >= 2
    licences = {"MIT", "Apache-2.0", "Gemma Terms of Use"}
    assert {model.licence for model in models} == licences
    encoders = [model for model in models if model.kind == "encoder"]
    assert {model.architecture for model in encoders} == {
        "bert",
        "xlm-roberta",
        "modernbert",
        "gemma3_text",
        "qwen3",
    }
    assert any(model.knows("de") and model.max_tokens == 512 for model in encoders)
    assert any(model.knows("de") and model.max_tokens >= 8192 for model in encoders)
    assert any(not model.knows("de") for model in encoders)


@pytest.mark.parametrize("model", read_catalogue(), ids=lambda model: model.name)
def test_prompts_are_those_that_are_known_by_the_models_name(model: object) -> None:
    known = known_prompts(model.name)
    if known is not None:
        assert (model.query_prompt or "", model.document_prompt or "") == (
            known.query,
            known.document,
        )


def test_size_and_memory_of_a_model() -> None:
    e5 = find_model("intfloat/multilingual-e5-base")
    assert e5 is not None
    assert (e5.name, e5.disk, e5.memory) == ("multilingual-e5-base", 1_112_000_000, 1_412_000_000)
    qwen = find_model("QWEN3-4B")
    assert qwen is not None
    assert (qwen.disk, qwen.memory) == (2_497_280_256, 2_797_280_256)
    assert find_model("no-such-model") is None


@pytest.mark.parametrize(
    ("former", "new"),
    [
        ("", ""),
        ('name = "one"', 'name = "One two"'),
        ('repository = "a/b"', 'repository = "https://a/b"'),
        ("dimension = 8\n", ""),
        ("parameters = 1000", 'parameters = "1000"'),
        ('kind = "encoder"', 'kind = "language model"'),
        ('licence = "MIT"\n', ""),
        ('licence = "MIT"', 'licence = "MIT"\nsecret = 1'),
    ],
)
def test_only_a_sound_catalogue_is_read(
    tmp_path: Path,
    former: str,
    new: str,
) -> None:
    if not former:
        read(tmp_path, ENTRY)
        former = ENTRY
        new = ENTRY + ENTRY
    with pytest.raises(EngineError) as error:
        read(tmp_path, ENTRY.replace(former, new))
    assert error.value.code == "installation-incomplete"
