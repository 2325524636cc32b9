"""`engine verify PROJECT`: damage is found wherever a digest was recorded, and what has none is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import engine_here

from engine.export.verifying import verify_project
from engine.project.folder import ProjectFolder


@pytest.fixture
def built(tmp_path: Path, finished_built: Path) -> ProjectFolder:
    return ProjectFolder(Path(shutil.copytree(finished_built, tmp_path / "built")))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_of_a_sound_project_every_file_is_counted_once(built: ProjectFolder) -> None:
    files = [
        path
        for path in built.path.rglob("*")
        if path.is_file() and path.relative_to(built.path).parts[0] != "documents"
    ]
    found = verify_project(built)
    assert found.damaged == {}
    assert found.undamaged + sum(found.without_digest.values()) == len(files)
    assert {"project.db", "project.toml", "reports", "runs"} <= set(found.without_digest)
    assert not {"lexical", "cache"} & set(found.without_digest)


@pytest.mark.parametrize(
    "pattern",
    ["vectors/*/part-000001.vec", "vectors/*/query-encoder/model.onnx", "vectors/*/query-encoder/tokenizer.json",
     "lexical/*/generation-1/*.store", "cache/*/*.vec", "adapters/*/adapter_model.safetensors"],
)  # fmt: skip
def test_a_flipped_bit_is_found(built: ProjectFolder, pattern: str) -> None:
    whole = verify_project(built).undamaged
    file = sorted(built.path.glob(pattern))[0]
    flip(file)
    found = verify_project(built)
    (name,) = found.damaged
    assert file.is_relative_to(built.path / name)
    assert found.undamaged < whole
    done = engine_here("verify", str(built.path), "--json", check=False)
    assert done.returncode == 7
    assert json.loads(done.stdout)["damaged"] == found.damaged


def test_damaged_pages_of_the_database_are_found(built: ProjectFolder) -> None:
    file = built.path / "project.db"
    data = bytearray(file.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    file.write_bytes(data)
    assert "project.db" in verify_project(built).damaged


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    code, error = error_of("verify", str(tmp_path / "nothing"))
    assert (code, error["code"]) == (2, "project-missing")
