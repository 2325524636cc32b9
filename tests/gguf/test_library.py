"""`engine models`: files found where other programs keep them, read by their headers, and added
to our own folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import psutil
import pytest
from fixtures import tiny_gguf
from fixtures.errors import fails
from fixtures.pipeline import engine_here, environment
from fixtures.tiny_gguf import build_tiny_gguf, cut_to
from fixtures.user_folders import DATA, HOME

from engine.core.errors import CancelledError, ModelError, ResourceError, UsageError
from engine.core.messages.queries import ModelFile
from engine.core.platforms.users import is_private
from engine.gguf import library as gguf_library
from engine.gguf.file import content_identity, find_gguf_file
from engine.gguf.hardware import ModelMemory, read_model_memory
from engine.gguf.header import FILE_TYPES, TENSOR_TYPES, Header, read_header
from engine.gguf.library import WORKSPACE, add_model, list_models
from engine.gguf.places import OWN, own_models
from engine.models.installed import models_folder
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueryBackendInfo
from engine.queries.choosing import resolve_backend
from engine.queries.recipe import query_recipe
from engine.settings.schema import QuerySettings, Settings

VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "OLLAMA_MODELS",
    "XDG_CACHE_HOME",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no variable that names a folder elsewhere."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv(HOME, str(folder))
    monkeypatch.setenv(DATA, str(folder / "data"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


def put(source: Path, *steps: str | Path) -> Path:
    target = Path(*steps)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    return target


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_ollama(
    home: Path, tiny_gguf_file: Path, *names: str, size: int | None = None, digest: str = ""
) -> Path:
    digest = digest or sha256(tiny_gguf_file)
    blob = put(
        tiny_gguf_file,
        home,
        f".ollama/models/blobs/sha256-{digest}",
    )
    for name in names:
        manifest = home / ".ollama/models/manifests/registry.ollama.ai" / name
        manifest.parent.mkdir(parents=True, exist_ok=True)
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
        template = {
            "mediaType": "application/vnd.ollama.image.template",
            "digest": "sha256:" + "0" * 64,
            "size": 3,
        }
        layers = [
            template,
            {**layer, "size": tiny_gguf_file.stat().st_size if size is None else size},
        ]
        manifest.write_text(json.dumps({"layers": layers}))
    return blob


def listed() -> list[ModelFile]:
    return list_models(4096, free=10**12)


def test_the_header_holds_what_the_model_is(tiny_gguf_file: Path) -> None:
    header = read_header(tiny_gguf_file)
    # 2 × 261·64 for both vocabularies, 64 for a norm; a layer: 2 norms, 4 × 64·64, 3 × 64·128.
    # Cache: 2·4·32·2 bytes.
    parameters = 2 * 261 * 64 + 64 + 2 * (2 * 64 + 4 * 64 * 64 + 3 * 64 * 128)
    assert header == Header("llama", "tiny", "F32", parameters, 16_384, True, True, 512, 2, 64)
    assert ModelMemory.of(1000, header, 4096).total == 1000 + 4096 * 512
    assert ModelMemory.of(1000, header, 10**6) == ModelMemory.of(1000, header, 16_384)


def test_the_tables_of_types_are_those_of_the_format() -> None:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

    known = {kind.value: (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType}
    assert {key: known[key] for key in TENSOR_TYPES} == TENSOR_TYPES
    names = {
        kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType
    }
    assert {key: names[key].removesuffix("_MOE") for key in FILE_TYPES} == FILE_TYPES


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (cut_to(0), "empty"),
        (cut_to(6), "ends within its first bytes"),
        (cut_to(20), "ends within its header"),
        (cut_to(2000), "ends within its header"),
        (cut_to(200_000), "cut off: its tensors end at byte"),
        (lambda data: data[:-1], "cut off"),
        (lambda data: b"PK\x03\x04" + data[4:], "does not begin with the letters GGUF"),
        (
            lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4\n",
            "Git LFS",
        ),
        (lambda data: data[:4] + struct.pack("<I", 99) + data[8:], "version of GGUF is 99"),
        (lambda data: data[:8] + b"\xff" * 8 + data[16:], "corrupt: before byte"),
        (lambda data: data[:16] + b"\xff" * 8 + data[24:], "corrupt: before byte"),
        (lambda data: data[:300] + b"\xff" * 300 + data[600:], "corrupt: before byte"),
    ],
)
def test_a_damaged_file_is_refused_with_its_true_reason(
    home: Path, tiny_gguf_file: Path, tmp_path: Path, spoil: Callable[[bytes], bytes], why: str
) -> None:
    path = tmp_path / "spoilt.gguf"
    path.write_bytes(spoil(tiny_gguf_file.read_bytes()))
    with pytest.raises(ModelError) as caught:
        read_header(path)
    assert why in caught.value.why
    put(path, home, ".lmstudio/models/spoilt.gguf")
    (model,) = listed()
    assert (model.problem, model.fits, model.architecture) == (caught.value.why, None, None)
    with pytest.raises(ModelError) as caught:
        add_model(path)
    assert caught.value.why == model.problem
    assert "queries." not in caught.value.to_do, "no project is asked about"
    assert not models_folder().exists()


def test_bytes_at_random_never_break_the_reader(tiny_gguf_file: Path, tmp_path: Path) -> None:
    import random

    data = tiny_gguf_file.read_bytes()
    rng = random.Random(6)
    path = tmp_path / "odd.gguf"
    told = 0
    for _ in range(300):
        odd = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            odd[rng.randrange(8, 9000)] = rng.randrange(256)
        path.write_bytes(odd)
        try:
            read_header(path)
        except ModelError as error:
            told += bool(error.why)
    assert told > 20


def test_models_that_do_not_write_and_architectures_that_are_not_known_are_refused(
    home: Path, tmp_path: Path
) -> None:
    pooled = build_tiny_gguf(tmp_path / "pooled.gguf", llama__pooling_type=1)
    with fails(ModelError, "language-model-unsupported"):
        add_model(pooled)
    strange = tmp_path / "strange.gguf"
    data = build_tiny_gguf(strange).read_bytes()
    strange.write_bytes(data.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0lambs", 1))
    with fails(ModelError, "language-model-invalid", "'lambs'"):
        add_model(strange)


@pytest.mark.posix(reason="links need a right on Windows")
def test_every_usual_place_is_looked_into_and_each_file_is_listed_once(
    home: Path, tiny_gguf_file: Path
) -> None:
    put(tiny_gguf_file, home, ".lmstudio/models/maker/small/small.gguf")
    in_ollama(
        home,
        tiny_gguf_file,
        "library/llama/8b",
        "library/llama/latest",
        "me/mine/v1",
    )
    hub = home / ".cache/huggingface/hub/models--maker--big"
    blob = put(
        tiny_gguf_file,
        hub,
        "blobs",
        sha256(tiny_gguf_file),
    )
    for revision in ("abc", "def"):
        (hub / "snapshots" / revision).mkdir(parents=True)
        (hub / "snapshots" / revision / "big.gguf").symlink_to(blob)
    (hub / "snapshots" / "abc" / "readme.md").write_text("no model")
    add_model(tiny_gguf_file, name="ours")
    found = {model.place: model for model in listed()}
    assert {place: model.names for place, model in found.items()} == {
        OWN: ("ours.gguf",),
        "LM Studio": ("small.gguf",),
        "Ollama": ("llama:8b", "llama:latest", "me/mine:v1"),
        "Hugging Face": ("maker/big/big.gguf",),
    }
    assert len(listed()) == 4
    assert all(model.fits and not model.problem for model in found.values())


def test_variables_of_the_other_programs_are_followed(
    home: Path, tiny_gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    put(tiny_gguf_file, tmp_path, "hf/hub/models--a--b/snapshots/c/d.gguf")
    in_ollama(tmp_path, tiny_gguf_file, "library/x/y")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / ".ollama/models"))
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'lm'}\n")
    put(tiny_gguf_file, tmp_path, "lm/models/e.gguf")
    assert [model.names for model in listed()] == [("e.gguf",), ("x:y",), ("a/b/d.gguf",)]


def test_what_is_missing_cut_or_changed_is_reported(home: Path, tiny_gguf_file: Path) -> None:
    in_ollama(
        home,
        tiny_gguf_file,
        "library/longer/1",
        size=10**9,
    )
    changed = in_ollama(
        home,
        tiny_gguf_file,
        "library/changed/1",
        digest="a" * 64,
    )
    gone = in_ollama(
        home,
        tiny_gguf_file,
        "library/gone/1",
        digest="b" * 64,
    )
    gone.unlink()
    (home / ".ollama/models/manifests/registry.ollama.ai/library/longer/2").write_text(
        '{"layers": 7}'
    )
    problems = {model.names[0]: model.problem for model in listed()}
    assert set(problems) == {"longer:1", "changed:1", "gone:1"}
    assert "1,000,000,000" in problems["longer:1"]
    assert gone.name in problems["gone:1"]
    with fails(ModelError, "language-model-damaged") as caught:
        add_model(changed)
    assert "sha256" in caught.value.why


def test_a_model_in_parts_is_one_and_needs_all_of_them(home: Path, tiny_gguf_file: Path) -> None:
    for number in (1, 2):
        put(
            tiny_gguf_file,
            home,
            f".lmstudio/models/m-0000{number}-of-00002.gguf",
        )
    (model,) = listed()
    assert (model.names, model.size, model.problem) == (
        ("m-00001-of-00002.gguf",),
        2 * tiny_gguf_file.stat().st_size,
        "",
    )
    with fails(UsageError, "language-model-part"):
        add_model(model.path)
    (home / ".lmstudio/models/m-00002-of-00002.gguf").unlink()
    assert listed()[0].problem.startswith("m-00002-of-00002.gguf: ")


def test_what_does_not_fit_is_reported(home: Path, tiny_gguf_file: Path) -> None:
    put(tiny_gguf_file, home, ".lmstudio/models/a.gguf")
    need = WORKSPACE + read_model_memory(tiny_gguf_file, 100).total
    assert list_models(100, free=need - 1)[0].fits is False
    assert list_models(100, free=need)[0].fits is True


def test_an_added_file_is_a_private_copy_and_is_found_by_its_name(
    home: Path, tiny_gguf_file: Path, project: ProjectFolder
) -> None:
    blob = in_ollama(home, tiny_gguf_file, "library/x/y")
    added = add_model(blob)
    assert (added.name, added.parent, added.read_bytes()) == (
        "tiny-F32.gguf",
        models_folder(),
        tiny_gguf_file.read_bytes(),
    )
    assert is_private(added.stat())
    assert [path.name for path in models_folder().iterdir()] == ["tiny-F32.gguf"]
    assert add_model(blob) == added
    other = build_tiny_gguf(home / "tiny-F32.gguf", context=99)
    with fails(UsageError, "target-exists"):
        add_model(other)
    project.change_settings({"queries.model": "tiny-F32.gguf"})
    assert find_gguf_file(project.path, project.settings().queries.model) == added


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_link_stays_a_link(home: Path, tiny_gguf_file: Path) -> None:
    added = add_model(tiny_gguf_file, link=True)
    assert added.is_symlink()
    assert added.samefile(tiny_gguf_file)
    assert [path.name for path in models_folder().iterdir()] == ["tiny.gguf"]


def test_a_full_disk_leaves_nothing_behind(
    home: Path,
    tiny_gguf_file: Path,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    disk_filler: Callable[..., None],
) -> None:
    monkeypatch.setattr(
        gguf_library,
        "models_folder",
        lambda: small_disk / "models",
    )
    disk_filler(small_disk, leave=100_000)
    with fails(ResourceError, "disk-full"):
        add_model(tiny_gguf_file)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _path: SimpleNamespace(total=1, used=0, free=10**9)
    )
    with fails(ResourceError, "disk-full"):
        add_model(tiny_gguf_file)
    assert list((small_disk / "models").iterdir()) == []


def test_a_stop_is_heard_while_copying(home: Path, tiny_gguf_file: Path) -> None:
    with pytest.raises(CancelledError):
        add_model(tiny_gguf_file, should_stop=lambda: models_folder().exists())
    assert list(models_folder().iterdir()) == []


def test_a_copy_that_was_killed_is_no_model_and_is_done_again(
    home: Path, tiny_gguf_file: Path, tmp_path: Path
) -> None:
    """The model is followed by gigabytes of zeros, which take a while."""
    big = tmp_path / "big.gguf"
    shutil.copy(tiny_gguf_file, big)
    with big.open("r+b") as file:
        file.truncate(3 << 30)
    command = [
        sys.executable,
        "-m",
        "engine",
        "models",
        "add",
        str(big),
    ]
    started = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    temporary = models_folder() / ".tmp-big.gguf"
    try:
        end = time.monotonic() + 60
        while (
            not (temporary.exists() and temporary.stat().st_size)
            and started.poll() is None
            and time.monotonic() < end
        ):
            time.sleep(0.01)
    finally:
        started.kill()
        started.wait()
    assert [path.name for path in models_folder().iterdir()] == [".tmp-big.gguf"]
    assert listed() == []
    shutil.copy(tiny_gguf_file, big)
    add_model(big)
    assert [path.name for path in models_folder().iterdir()] == ["big.gguf"]


@pytest.mark.posix(reason="names hold no control characters on Windows")
def test_the_command_lists_adds_and_refuses(home: Path, tiny_gguf_file: Path) -> None:
    rows = json.loads(engine_here("models", "--json").stdout)
    assert {row["place"] for row in rows} == {"bundled", "catalogue"}
    put(tiny_gguf_file, home, ".lmstudio/models/a\x1b[31m.gguf")
    done = engine_here(
        "models",
        "add",
        str(tiny_gguf_file),
        "--name",
        "ours",
    )
    assert done.stdout == f"{models_folder() / 'ours.gguf'}\n"
    rows = json.loads(engine_here("models", "--json").stdout)
    files = [row for row in rows if row["kind"] == "language model" and row["here"]]
    assert [(row["place"], row["fits"]) for row in files] == [(OWN, True), ("LM Studio", True)]
    assert files[0]["architecture"] == "llama"
    text = engine_here("models").stdout
    assert "\x1b" not in text
    assert all(data in text for data in ("llama, F32, 0.00012 billion", "context 16384", "✓ fits"))
    for wrong in (("add",), ("remove", "x"), ("list", str(tiny_gguf_file))):
        assert engine_here("models", *wrong, check=False).returncode == 2
    assert engine_here("models", "add", str(home / "none.gguf"), check=False).returncode == 3


def with_pairs(
    path: Path,
    pairs: bytes,
    count: int,
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, count) + pairs)
    return path


def told(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.posix(reason="links need a right on Windows")
def test_one_odd_file_does_not_hide_the_others(home: Path, tiny_gguf_file: Path) -> None:
    folder = home / ".lmstudio/models"
    put(tiny_gguf_file, folder / "good.gguf")
    lists = b"".join(struct.pack("<IQ", 9, 1) for _ in range(3000)) + struct.pack("<IQ", 4, 0)
    with_pairs(
        folder / "deep.gguf",
        told("a.b") + struct.pack("<I", 9) + lists,
        1,
    )
    kind = told("general.architecture") + struct.pack("<I", 8) + told("llama")
    with_pairs(
        folder / "kind.gguf", kind + told("general.file_type") + struct.pack("<IIQI", 9, 4, 1, 1), 2
    )
    (folder / "loop.gguf").symlink_to("loop.gguf")
    problems = {model.path.name: model.problem for model in listed()}
    assert problems["good.gguf"] == ""
    assert all(problems[name] for name in ("deep.gguf", "kind.gguf", "loop.gguf"))


def test_a_vocabulary_alone_is_no_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tiny_gguf,
        "add_tensors",
        lambda *_: None,
    )
    path = build_tiny_gguf(home / "vocabulary.gguf")
    with fails(ModelError, "language-model-unsupported"):
        add_model(path)
    put(path, models_folder() / "vocabulary.gguf")
    assert own_models() == []


@pytest.fixture
def parts(
    home: Path,
    tiny_gguf_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Path]:
    """The tiny model in files of at most eight tensors."""
    whole = gguf.GGUFWriter
    monkeypatch.setattr(
        tiny_gguf.gguf, "GGUFWriter", lambda path, kind: whole(path, kind, split_max_tensors=8)
    )
    folder = home / ".lmstudio/models"
    folder.mkdir(parents=True)
    build_tiny_gguf(folder / "m.gguf")
    found = sorted(folder.iterdir())
    assert [path.name for path in found] == [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    return found


def test_a_model_in_parts_is_known_as_a_whole(parts: list[Path], tiny_gguf_file: Path) -> None:
    assert read_header(parts[0]) == read_header(tiny_gguf_file)
    size = sum(part.stat().st_size for part in parts)
    assert read_model_memory(parts[0], 4096).size == size
    (model,) = listed()
    assert (model.size, model.problem, model.fits) == (size, "", True)
    before = content_identity(parts[0])
    data = bytearray(parts[1].read_bytes())
    data[-1] ^= 1
    parts[1].write_bytes(data)
    assert content_identity(parts[0]) != before


def test_a_part_that_is_cut_off_or_missing_is_reported(parts: list[Path]) -> None:
    parts[2].write_bytes(parts[2].read_bytes()[:-9])
    (model,) = listed()
    assert f"{parts[2].stat().st_size:,}" in model.problem
    parts[2].unlink()
    (model,) = listed()
    assert model.problem.startswith("m-00003-of-00003.gguf: ")


def test_a_model_in_parts_that_lacks_one_is_reported_and_never_chosen_by_itself(
    parts: list[Path], home: Path
) -> None:
    parts[1].unlink()
    settings = Settings(queries=QuerySettings(backend="gguf", model=str(parts[0])))
    snapshot: Any = SimpleNamespace(
        settings=settings,
        store=SimpleNamespace(artifact=lambda _kind: None),
        project=SimpleNamespace(path=home),
    )
    with fails(ModelError, "language-model-invalid", "m-00002-of-00003.gguf"):
        query_recipe(snapshot)
    put(parts[0], models_folder() / parts[0].name)
    kept = SimpleNamespace(
        info=QueryBackendInfo("gguf", "", str(models_folder() / parts[0].name), "0" * 16)
    )
    store: Any = SimpleNamespace(artifact=lambda _kind: kept)
    found = resolve_backend(
        Settings(queries=QuerySettings(backend="auto")),
        store,
        present=True,
    )
    assert found.backend == "extractive"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_the_process_that_reads_a_model_ends_with_its_parent(tmp_path: Path) -> None:
    endless = tmp_path / "endless.gguf"
    os.mkfifo(endless)  # whoever opens it waits
    code = (
        "import sys; from engine.core.subprocesses import run_in_subprocess; "
        "run_in_subprocess('engine.gguf.llama', [sys.argv[1]], 'it')"
    )
    asking = subprocess.Popen([sys.executable, "-c", code, str(endless)], env=environment())
    try:
        (child,) = waited_for(lambda: psutil.Process(asking.pid).children())
        waited_for(
            lambda: any("llama" in mapped.path for mapped in child.memory_maps())
        )  # it is at work
    finally:
        asking.kill()
        asking.wait()
    assert waited_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def waited_for(what: Callable[[], Any]) -> Any:
    until = time.monotonic() + 60
    while not (found := what()) and time.monotonic() < until:
        time.sleep(0.05)
    return found
