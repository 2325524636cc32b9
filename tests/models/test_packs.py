"""Model packs and folders from elsewhere: sound ones are installed, others leave nothing behind."""

from __future__ import annotations

import json
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.hub import COMMIT, StandInHub
from fixtures.tiny_cross_encoder import build_cross_encoder
from models.conftest import NAME, REPOSITORY

from engine.core.errors import EngineError, InputError, ModelError, UsageError
from engine.encoders.model_folder import resolve_model
from engine.models.installed import list_installed, read_installed
from engine.models.packs import FILES, MANIFEST
from engine.service.models import add, get_model, remove_model, verify_model

Entry = tuple[zipfile.ZipInfo, bytes]


@pytest.fixture
def pack(hub: StandInHub, tmp_path: Path) -> Path:
    return get_model(NAME, to=tmp_path).path


def rewrite(pack: Path, change: Callable[[list[Entry]], None]) -> Path:
    """The same pack with other entries."""
    with zipfile.ZipFile(pack) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    change(entries)
    target = pack.with_name("changed.modelpack")
    with zipfile.ZipFile(target, "w") as archive:
        for info, content in entries:
            archive.writestr(info, content)
    return target


def change_manifest(entries: list[Entry], change: Callable[[dict], None]) -> None:
    (place,) = (i for i, (info, _) in enumerate(entries) if info.filename == MANIFEST)
    info, content = entries[place]
    manifest = json.loads(content)
    change(manifest)
    entries[place] = (info, json.dumps(manifest).encode())


def refused(pack: Path, data_folder: Path) -> str:
    with pytest.raises(EngineError) as error:
        add(pack)
    assert "\n" not in error.value.what
    assert list_installed() == []
    assert not data_folder.exists() or list(data_folder.iterdir()) == []
    return error.value.code


def test_a_pack_is_written_with_a_network_and_added_without_one(
    pack: Path, hub: StandInHub, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pack.name == f"{NAME}.modelpack"
    assert not data_folder.exists() or list(data_folder.iterdir()) == []
    asked = len(hub.requests)
    monkeypatch.setenv("BMEMBED_OFFLINE", "1")
    changed = add(pack)
    assert (changed.name, changed.path) == (NAME, data_folder / NAME)
    assert len(hub.requests) == asked
    assert verify_model(NAME).revision == COMMIT
    installed = read_installed(NAME)
    assert installed is not None
    assert (installed.repository, installed.licence) == (REPOSITORY, "MIT")
    assert resolve_model(NAME).name == NAME
    with pytest.raises(UsageError) as error:
        add(pack)
    assert error.value.code == "target-exists"


def test_a_pack_of_a_model_that_is_here_needs_no_network(
    hub: StandInHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_model(NAME)
    monkeypatch.setenv("BMEMBED_OFFLINE", "1")
    pack = get_model(NAME, to=tmp_path).path
    remove_model(NAME)
    assert add(pack, name="other").name == "other"
    with pytest.raises(UsageError) as error:
        get_model(NAME, to=tmp_path)
    assert error.value.code == "target-exists"
    with pytest.raises(InputError) as missing:
        get_model(NAME, to=tmp_path / "no-folder")
    assert missing.value.code == "path-missing"


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_pack_is_refused(
    pack: Path,
    data_folder: Path,
    kept: float,
) -> None:
    content = pack.read_bytes()
    pack.write_bytes(content[: int(kept * len(content))])
    assert refused(pack, data_folder) == "model-pack-invalid"


def test_an_altered_file_is_refused(pack: Path, data_folder: Path) -> None:
    def alter(entries: list[Entry]) -> None:
        for place, (info, content) in enumerate(entries):
            if info.filename.endswith("model.safetensors"):
                entries[place] = (info, content[:-1] + bytes([content[-1] ^ 1]))

    assert refused(rewrite(pack, alter), data_folder) == "model-altered"


def test_bytes_flipped_in_the_file_are_noticed(pack: Path, data_folder: Path) -> None:
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    assert refused(pack, data_folder) in ("model-altered", "model-pack-invalid")


@pytest.mark.parametrize("name", ["../climbs.json", "/etc/climbs.json", "a\\..\\b.json"])
def test_paths_that_climb_are_refused(
    pack: Path,
    data_folder: Path,
    name: str,
) -> None:
    def climb(entries: list[Entry]) -> None:
        part = {
            "path": name,
            "size": 2,
            "sha256": "0" * 64,
            "blob_id": "",
        }
        change_manifest(entries, lambda manifest: manifest["files"].append(part))
        entries.append((zipfile.ZipInfo(FILES + name), b"{}"))

    assert refused(rewrite(pack, climb), data_folder) == "model-files-unsafe"


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", ""])
def test_a_name_that_names_no_folder_is_refused(
    pack: Path,
    data_folder: Path,
    name: str,
) -> None:
    changed = rewrite(
        pack, lambda entries: change_manifest(entries, lambda found: found.update(name=name))
    )
    assert refused(changed, data_folder) == "model-files-unsafe"


def test_links_are_refused(pack: Path, data_folder: Path) -> None:
    def link(entries: list[Entry]) -> None:
        for info, _ in entries:
            if info.filename.endswith("README.md"):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16

    assert refused(rewrite(pack, link), data_folder) == "model-files-unsafe"


@pytest.mark.parametrize("name", ["weights.bin", "modeling.py", "model.onnx"])
def test_pickles_and_code_are_refused(
    pack: Path,
    data_folder: Path,
    name: str,
) -> None:
    def add_file(entries: list[Entry]) -> None:
        part = {
            "path": name,
            "size": 2,
            "sha256": "0" * 64,
            "blob_id": "",
        }
        change_manifest(entries, lambda manifest: manifest["files"].append(part))
        entries.append((zipfile.ZipInfo(FILES + name), b"{}"))

    assert refused(rewrite(pack, add_file), data_folder) == "model-files-unsafe"


def test_files_that_the_manifest_does_not_name_are_refused(pack: Path, data_folder: Path) -> None:
    changed = rewrite(pack, lambda entries: entries.append((zipfile.ZipInfo("more.json"), b"{}")))
    assert refused(changed, data_folder) == "model-files-unsafe"


def test_files_that_are_missing_are_noticed(pack: Path, data_folder: Path) -> None:
    def drop(entries: list[Entry]) -> None:
        entries[:] = [entry for entry in entries if not entry[0].filename.endswith("config.json")]

    assert refused(rewrite(pack, drop), data_folder) == "model-files-unsafe"


def test_compressed_entries_are_refused(pack: Path, data_folder: Path) -> None:
    def compress(entries: list[Entry]) -> None:
        for info, _ in entries:
            info.compress_type = zipfile.ZIP_DEFLATED

    assert refused(rewrite(pack, compress), data_folder) == "model-files-unsafe"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "program"},
        {"files": []},
        {"files": 3},
        {"revision": None, "files": [{"path": "a.json"}]},
    ],
)
def test_invalid_manifests_are_refused(
    pack: Path, data_folder: Path, change: dict[str, object]
) -> None:
    changed = rewrite(
        pack, lambda entries: change_manifest(entries, lambda found: found.update(change))
    )
    assert refused(changed, data_folder) == "model-pack-invalid"


def test_a_zip_archive_without_a_manifest_is_no_pack(tmp_path: Path, data_folder: Path) -> None:
    target = tmp_path / "other.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("files/config.json", "{}")
    assert refused(target, data_folder) == "model-pack-invalid"


def test_a_pack_of_a_model_that_cannot_be_loaded_is_refused(pack: Path, data_folder: Path) -> None:
    def other_kind(entries: list[Entry]) -> None:
        change_manifest(entries, lambda manifest: manifest.update(kind="reranker"))

    assert refused(rewrite(pack, other_kind), data_folder) == "cross-encoder-invalid"


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_folder_is_copied_without_pickles_and_code(
    tiny_encoder: Path, tmp_path: Path, data_folder: Path
) -> None:
    source = tmp_path / "my-model"
    source.symlink_to(tiny_encoder)
    copy = tmp_path / "with-more"
    copy.mkdir()
    for path in tiny_encoder.rglob("*"):
        target = copy / path.relative_to(tiny_encoder)
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    (copy / "training_args.bin").write_bytes(b"pickle")
    (copy / "modeling.py").write_bytes(b"import os")
    changed = add(copy, name="mine")
    assert (changed.name, changed.kind, changed.revision) == ("mine", "encoder", "")
    names = {path.name for path in (data_folder / "mine").rglob("*")}
    assert "model.safetensors" in names
    assert not names & {"training_args.bin", "modeling.py"}
    assert verify_model("mine").files == changed.files
    assert add(source).name == "my-model"


def test_a_rerankers_folder_is_known_as_one(tmp_path: Path) -> None:
    changed = add(build_cross_encoder(tmp_path / "cross"))
    assert (changed.name, changed.kind) == ("cross", "reranker")


def test_folders_and_files_that_are_no_models_are_refused(
    tmp_path: Path, data_folder: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError) as error:
        add(tmp_path / "empty")
    assert error.value.code == "model-unsupported"
    (tmp_path / "text.gguf").write_bytes(struct.pack("<I", 7))
    with pytest.raises(ModelError) as error:
        add(tmp_path / "text.gguf")
    assert error.value.code == "language-model-invalid"
    with fails(InputError, "path-missing"):
        add(tmp_path / "missing")
    assert not data_folder.exists()
