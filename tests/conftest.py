from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.project import ProjectFolder
from engine.store import Store

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
USER_FOLDERS = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME")


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test, nor a process that it starts, reads or writes the user's own folders."""
    root = tmp_path_factory.mktemp("user")
    former = {name: os.environ.get(name) for name in USER_FOLDERS}
    for name in USER_FOLDERS:
        folder = root / name.lower()
        folder.mkdir()
        os.environ[name] = str(folder)
    yield root
    for name, value in former.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the data sets that are kept beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the data sets are not here: {SHARED_DATA} is missing")
    return SHARED_DATA


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """A new project without documents."""
    return ProjectFolder.create(tmp_path / "project", {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database without a project."""
    made = Store.create(tmp_path / "project.db")
    yield made
    made.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 512 KiB."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    if shutil.which("mount") is None or os.name != "posix":
        pytest.skip("there is no mount command to make a small disk with")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path, leave: int = 0) -> None:
    """Write until no byte is left, then free about `leave` bytes."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))


@pytest.fixture
def disk_filler() -> object:
    """`fill_disk`, for tests that run a small disk full."""
    return fill_disk
