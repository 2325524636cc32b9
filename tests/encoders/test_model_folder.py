from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.disk import remembered_sha256
from engine.core.errors import ModelError
from engine.encoders import model_folder
from engine.encoders.fingerprint import encoder_fingerprint, read_prompts
from engine.encoders.model_folder import resolve_model
from engine.encoders.weights_file import tensor_names

ROOT = Path(__file__).resolve().parents[2]
Edit = Callable[..., None]


def refusal(spec: str | Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        resolve_model(str(spec))
    assert caught.value.what
    assert caught.value.why
    assert caught.value.to_do
    return caught.value


def test_bundled_model() -> None:
    model = resolve_model()
    assert (model.name, model.dimension, model.max_tokens) == ("all-MiniLM-L6-v2", 384, 256)
    assert (
        model.weights_sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
    assert model.tokenizer_file.is_file()
    assert resolve_model("sentence-transformers/all-MiniLM-L6-v2") == model


def test_bundled_model_with_other_weights_is_refused(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        model_folder,
        "bundled_folder",
        lambda: tiny_model,
    )
    error = refusal("all-MiniLM-L6-v2")
    assert error.code == "bundled-model-changed"
    assert "sha256" in error.why


def test_bundled_package_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "BUNDLED_PACKAGE", "no_such_package_here")
    error = refusal("all-MiniLM-L6-v2")
    assert error.code == "model-missing"
    assert "no-such-package-here" in error.why


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from engine.encoders.fingerprint import encoder_fingerprint; from"
        " engine.encoders.model_folder import resolve_model; encoder_fingerprint(resolve_model());"
        " print(sorted({'torch', 'transformers', 'sentence_transformers', 'peft'} &"
        " set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_folder(tiny_model: Path) -> None:
    model = resolve_model(str(tiny_model))
    assert (model.path, model.name, model.dimension, model.max_tokens) == (
        tiny_model.resolve(),
        "tiny",
        32,
        128,
    )
    assert (
        model.weights_sha256
        == hashlib.sha256((tiny_model / "model.safetensors").read_bytes()).hexdigest()
    )


def test_a_folder_is_checked_once_for_each_state_of_its_files(
    model_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers_read: list[Path] = []

    def note(path: Path) -> frozenset[str]:
        headers_read.append(path)
        return tensor_names(path)

    monkeypatch.setattr(model_folder, "tensor_names", note)
    first = resolve_model(str(model_copy))
    count = len(headers_read)
    assert resolve_model(str(model_copy)) == first
    assert len(headers_read) == count
    pooling = model_copy / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text() + "\n")
    assert resolve_model(str(model_copy)).fingerprint != first.fingerprint
    code = model_copy / "processor_config.json"
    code.write_text(json.dumps({"auto_map": {"AutoProcessor": "own.Processor"}}))
    assert refusal(model_copy).code == "model-needs-code"


def test_hub_name_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal("intfloat/e5-small").code == "model-missing"


def test_missing_folder_and_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").code == "model-missing"
    (tmp_path / "file").write_text("x")
    assert refusal(tmp_path / "file").code == "model-invalid"


@pytest.mark.parametrize(
    "name", ["modules.json", "config.json", "model.safetensors", "tokenizer.json"]
)
def test_missing_file(model_copy: Path, name: str) -> None:
    (model_copy / name).unlink()
    error = refusal(model_copy)
    assert name.split(".")[-1] in error.what + error.why


def test_broken_json(model_copy: Path) -> None:
    (model_copy / "modules.json").write_text("[{")
    assert "modules.json" in refusal(model_copy).what


def test_pickled_weights_are_refused(model_copy: Path) -> None:
    (model_copy / "model.safetensors").rename(model_copy / "pytorch_model.bin")
    error = refusal(model_copy)
    assert error.code == "model-pickled"
    assert "pytorch_model.bin" in error.what
    assert "safe_serialization=True" in error.to_do


def test_pickled_weights_of_a_later_module_are_refused(model_copy: Path) -> None:
    add_dense(model_copy)
    (model_copy / "2_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x04N.")
    assert "2_Dense" in refusal(model_copy).what


def test_custom_code_is_refused(model_copy: Path, edit_json: Edit) -> None:
    edit_json(model_copy / "config.json", auto_map={"AutoModel": "modeling_x.X"})
    error = refusal(model_copy)
    assert error.code == "model-needs-code"
    assert "auto_map" in error.why


def test_custom_module_is_refused(model_copy: Path) -> None:
    modules = json.loads((model_copy / "modules.json").read_text())
    modules[1]["type"] = "my_code.MyPooling"
    (model_copy / "modules.json").write_text(json.dumps(modules))
    assert "my_code.MyPooling" in refusal(model_copy).why


@pytest.mark.parametrize("path", ["../1_Pooling", "/etc"])
def test_module_path_outside_is_refused(model_copy: Path, path: str) -> None:
    modules = json.loads((model_copy / "modules.json").read_text())
    modules[1]["path"] = path
    (model_copy / "modules.json").write_text(json.dumps(modules))
    error = refusal(model_copy)
    assert error.code == "model-invalid"
    assert path in error.why


def test_split_weights(model_copy: Path) -> None:
    whole = resolve_model(str(model_copy)).fingerprint
    (model_copy / "model.safetensors").rename(model_copy / "model-00001-of-00001.safetensors")
    (model_copy / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-00001-of-00001.safetensors"}}'
    )
    assert resolve_model(str(model_copy)).fingerprint != whole


@pytest.mark.parametrize(
    "name",
    ["config.json", "1_Pooling/config.json", "tokenizer_config.json", "sentence_bert_config.json"],
)
def test_configuration_that_is_no_object(model_copy: Path, name: str) -> None:
    (model_copy / name).write_text("[1]")
    error = refusal(model_copy)
    assert error.code == "model-invalid"
    assert str(model_copy / name) in error.what


def test_adapter_alone_is_refused(model_copy: Path) -> None:
    (model_copy / "adapter_config.json").write_text('{"base_model_name_or_path": "some/model"}')
    assert refusal(model_copy).code == "model-is-adapter"


def test_missing_part_of_split_weights(model_copy: Path) -> None:
    (model_copy / "model.safetensors").unlink()
    (model_copy / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-00002-of-00002.safetensors"}}'
    )
    assert "model-00002-of-00002.safetensors" in refusal(model_copy).why


@given(cut=st.integers(min_value=0, max_value=10**6))
@settings(max_examples=60)
def test_truncated_weights_are_found(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    whole = (tiny_model / "model.safetensors").read_bytes()
    path = tmp_path_factory.mktemp("cut") / "model.safetensors"
    path.write_bytes(whole[: cut % len(whole)])
    with pytest.raises(ModelError):
        tensor_names(path)


def stored(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ([], b""),
        (
            {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
            bytes(9),
        ),  # one byte too many
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)),  # 12 bytes in 8
        ({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [-4, 0]}}, bytes(4)),
        ({"a": {"dtype": "U8", "shape": [-4], "data_offsets": [4, 0]}}, bytes(4)),
        ({"a": {"dtype": "U8", "shape": [4]}}, bytes(4)),
        (
            {
                "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
            },
            bytes(6),
        ),  # overlap
    ],
)
def test_bad_headers(
    tmp_path: Path,
    header: object,
    data: bytes,
) -> None:
    (tmp_path / "x.safetensors").write_bytes(stored(header, data))
    with pytest.raises(ModelError):
        tensor_names(tmp_path / "x.safetensors")


def test_good_header(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "b": {"dtype": "I64", "shape": [], "data_offsets": [12, 20]},
    }
    (tmp_path / "x.safetensors").write_bytes(stored(header, bytes(20)))
    assert tensor_names(tmp_path / "x.safetensors") == {"a", "b"}


def test_fingerprint_follows_content_not_name(
    tiny_model: Path, model_copy: Path, edit_json: Edit
) -> None:
    first = resolve_model(str(tiny_model)).fingerprint
    (model_copy / "README.md").write_text("notes")
    assert resolve_model(str(model_copy)).fingerprint == first
    edit_json(
        model_copy / "1_Pooling" / "config.json",
        pooling_mode_cls_token=True,
        pooling_mode_mean_tokens=False,
    )
    second = resolve_model(str(model_copy)).fingerprint
    weights = bytearray((model_copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model_copy / "model.safetensors").write_bytes(weights)
    assert len({first, second, resolve_model(str(model_copy)).fingerprint}) == 3


def test_digest_is_renewed_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one")
    assert remembered_sha256(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert remembered_sha256(path) == hashlib.sha256(b"two").hexdigest()


def add_dense(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.insert(
        2, {"idx": 2, "name": "2d", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    )
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text('{"in_features": 32, "out_features": 5}')


def test_dimension(model_copy: Path, edit_json: Edit) -> None:
    edit_json(
        model_copy / "1_Pooling" / "config.json",
        pooling_mode_cls_token=True,
        pooling_mode_mean_tokens=True,
    )
    assert resolve_model(str(model_copy)).dimension == 64
    add_dense(model_copy)
    assert resolve_model(str(model_copy)).dimension == 5


def test_max_tokens_is_the_least_limit(model_copy: Path, edit_json: Edit) -> None:
    edit_json(model_copy / "sentence_bert_config.json", max_seq_length=64)
    assert resolve_model(str(model_copy)).max_tokens == 64
    edit_json(model_copy / "sentence_bert_config.json", max_seq_length=None)
    edit_json(model_copy / "tokenizer_config.json", model_max_length=10**30)
    edit_json(
        model_copy / "config.json",
        model_type="roberta",
        max_position_embeddings=130,
    )
    assert resolve_model(str(model_copy)).max_tokens == 128


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({}, "", ""),
        ({"prompts": None}, "", ""),
        ({"prompts": {"query": "q: ", "passage": "p: "}}, "q: ", "p: "),
        ({"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": "query"}, "q: ", ""),
        ({"prompts": {"any": "a: "}, "default_prompt_name": "any"}, "a: ", "a: "),
    ],
)
def test_prompts(
    model_copy: Path, edit_json: Edit, config: dict[str, object], query: str, document: str
) -> None:
    (model_copy / "config_sentence_transformers.json").write_text(json.dumps(config))
    prompts = read_prompts(resolve_model(str(model_copy)))
    assert (prompts.query, prompts.document) == (query, document)


def test_encoder_fingerprint_uses_the_effective_length(tiny_model: Path) -> None:
    model = resolve_model(str(tiny_model))
    assert encoder_fingerprint(model, max_tokens=128) == encoder_fingerprint(model, max_tokens=999)
    assert encoder_fingerprint(model, max_tokens=128) != encoder_fingerprint(model, max_tokens=64)
