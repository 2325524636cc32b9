"""The folder for Windows that needs no installation."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).with_name("windows_zip.py")


@pytest.fixture(scope="module")
def windows_zip() -> ModuleType:
    spec = importlib.util.spec_from_file_location("windows_zip", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def test_the_embeddable_python_finds_its_modules_and_the_packages(
    windows_zip: ModuleType, tmp_path: Path
) -> None:
    names = (
        "python.exe",
        "python3.dll",
        "python312.dll",
        "python312.zip",
        "python312._pth",
    )
    archive = make_archive(tmp_path / "embed.zip", *names)
    assert windows_zip.unpack_python(archive, tmp_path / "python") == "3.12"
    assert (tmp_path / "python" / "python.exe").read_text() == "python.exe"
    searched = (tmp_path / "python" / "python312._pth").read_text().splitlines()
    assert searched == ["python312.zip", ".", "..\\packages", "import site"]


def test_a_whole_python_in_a_folder(windows_zip: ModuleType, tmp_path: Path) -> None:
    names = ("cp313/python313.dll", "cp313/Lib/os.py", "cp313/DLLs/_ctypes.pyd", "other/README")
    archive = make_archive(tmp_path / "whole.zip", *names)
    assert windows_zip.unpack_python(archive, tmp_path / "python") == "3.13"
    assert sorted(path.name for path in (tmp_path / "python").iterdir()) == [
        "DLLs",
        "Lib",
        "python313._pth",
        "python313.dll",
    ]
    searched = (tmp_path / "python" / "python313._pth").read_text().splitlines()
    assert searched == ["Lib", "DLLs", ".", "..\\packages", "import site"]


@pytest.mark.parametrize(
    "names", [("bin/python3", "lib/os.py"), ("python313.dll", "../outside.exe")]
)
def test_an_archive_that_is_refused(
    names: tuple[str, ...], windows_zip: ModuleType, tmp_path: Path
) -> None:
    archive = make_archive(tmp_path / "bad.zip", *names)
    with pytest.raises(ValueError, match=r"bad\.zip"):
        windows_zip.unpack_python(archive, tmp_path / "python")
    assert not (tmp_path / "outside.exe").exists()


def test_the_commands_start_the_python_of_their_folder(
    windows_zip: ModuleType, tmp_path: Path
) -> None:
    windows_zip.write_starters(tmp_path)
    assert (tmp_path / "engine.cmd").read_bytes() == (
        b'@"%~dp0python\\python.exe" -X utf8 -m engine %*\r\n'
    )
    assert b"-m bmembed_tui " in (tmp_path / "bmembed.cmd").read_bytes()
    assert b"\n" not in (tmp_path / "README.txt").read_bytes().replace(b"\r\n", b"")


@pytest.mark.parametrize(
    ("wheels", "wanted"),
    [
        (None, ["our.whl[desktop]"]),
        (
            Path("llm"),
            [
                *("--refresh-package", "llama-cpp-python"),
                *("--find-links", "llm", "our.whl[desktop,llm]"),
            ],
        ),
    ],
)
def test_gguf_models_are_installed_from_the_wheel_that_was_built(
    windows_zip: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wheels: Path | None,
    wanted: list[str],
) -> None:
    commands: list[list[str]] = []

    def keep(command: Sequence[object], **_options: object) -> None:
        commands.append([str(part) for part in command])

    monkeypatch.setattr(
        windows_zip.subprocess,
        "run",
        keep,
    )
    windows_zip.install_packages(
        Path("our.whl"),
        tmp_path,
        "3.13",
        tmp_path / "tools",
        wheels,
    )
    constraints = str(SCRIPT.parents[2] / "constraints.txt")
    assert commands[-1][commands[-1].index(constraints) + 1 :] == wanted


def test_what_only_compilers_need_is_removed(windows_zip: ModuleType, tmp_path: Path) -> None:
    for name in ("torch/include/a.h", "torch/lib/torch.lib", "torch/lib/torch.dll", "b/a.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    windows_zip.remove_headers(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["a.h", "torch.dll"]
    assert not (tmp_path / "torch" / "include").exists()


def test_the_zip_holds_the_folder(windows_zip: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "bmembed"
    (folder / "python").mkdir(parents=True)
    (folder / "packages").mkdir()
    for name in ("msvcp140.dll", "msvcp140_1.dll", "msvcp140_atomic_wait.dll"):
        (folder / "packages" / name).write_text(name)
    windows_zip.move_runtime(folder)
    windows_zip.write_starters(folder)
    with zipfile.ZipFile(windows_zip.pack(folder)) as archive:
        names = archive.namelist()
        assert archive.read("bmembed/python/msvcp140_1.dll") == b"msvcp140_1.dll"
    assert "bmembed/python/msvcp140_atomic_wait.dll" in names
    assert [name for name in names if name.startswith("bmembed/packages/msvcp")] == []
    assert "bmembed/engine.cmd" in names
