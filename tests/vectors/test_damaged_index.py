"""A damaged index is seen, whatever the damage."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.project_files import mode
from fixtures.vector_indexes import unit

from engine.core.errors import DamagedError, ResourceError
from engine.vectors.index import VectorIndex


@pytest.mark.parametrize("name", ["part-000001.vec", "gone.npy", "manifest.json"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with fails(DamagedError, "index-damaged"):
        VectorIndex.open(folder)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DamagedError):
        VectorIndex.open(tmp_path / "none")


def test_a_truncated_index(folder: Path) -> None:
    whole = (folder / "part-000001.vec").read_bytes()
    for length in (0, 1, 64, len(whole) // 2, len(whole) - 1):
        (folder / "part-000001.vec").write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            VectorIndex.open(folder)


def test_every_flipped_bit_of_the_index_is_found(folder: Path) -> None:
    whole = (folder / "part-000001.vec").read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (folder / "part-000001.vec").write_bytes(data)
        with fails(DamagedError, "index-damaged"):
            VectorIndex.open(folder)


def test_every_flipped_bit_of_the_manifest_is_found_or_harmless(folder: Path) -> None:
    """In a process of its own: native code that crashes must fail this test, not end the test
    run.
    """
    code = (
        "import sys\nfrom pathlib import Path\nimport numpy as np\nfrom engine.core.errors import"
        " DamagedError\nfrom engine.vectors.index import VectorIndex\nfolder = Path(sys.argv[1]);"
        " path = folder / 'manifest.json'; whole = path.read_bytes(); found = 0\nfor at in"
        " range(len(whole)):\n  for bit in range(0, 8, 3):\n    data = bytearray(whole); data[at]"
        " ^= 1 << bit; path.write_bytes(data)\n    try:\n      index = VectorIndex.open(folder)\n  "
        "    assert len(index.search(np.ones(24, np.float32), 10**6)[0]) == 40\n    except"
        " DamagedError:\n      found += 1\nprint(found)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert int(completed.stdout) > 200


@pytest.mark.parametrize(
    "change",
    [
        {"count": 41},
        {"count": 39},
        {"count": "40"},
        {"count": -1},
        {"count": None},
        {"count": 40.0},
        {"dimension": 12},
        {"dimension": 0},
        {"dimension": 2**40},
        {"dtype": "f64"},
        {"dtype": ["f16"]},
        {"dtype": None},
        {"removed": None},
        {"version": 1},
        {"version": None},
        {"gone": ""},
        {"parts": {}},
        {"parts": None},
        {"parts": {"part-000001.vec": [40, ""]}},
        {"parts": {"part-000001.vec": [39, None]}},
        {"graphs": None},
        {"graphs": {"part-000001.vec": ""}},
        {"form": "unknown"},
        {"form": ["cosine"]},
        {"form": None},
    ],
)
def test_a_manifest_with_impossible_values(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedError):
        VectorIndex.open(folder)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"3", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_something_else(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(DamagedError):
        VectorIndex.open(folder)


def test_update_of_a_damaged_index_is_an_error(folder: Path, tmp_path: Path) -> None:
    (folder / "part-000001.vec").write_bytes(b"")
    (tmp_path / "new").mkdir()
    with pytest.raises(DamagedError):
        VectorIndex.open(folder).updated(
            tmp_path / "new",
            np.array([1]),
            unit(1),
            [],
        )


def test_files_that_were_checked_are_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    VectorIndex.open(folder)
    monkeypatch.setattr("engine.core.disk.file_sha256", lambda _path: "read again")
    assert VectorIndex.open(folder).count == 40


@pytest.mark.posix(reason="a mapped file cannot be removed on Windows")
def test_an_index_stays_usable_while_its_folder_is_removed(folder: Path) -> None:
    index = VectorIndex.open(folder)
    shutil.rmtree(folder)
    assert len(index.search(unit(1)[0], 5)[0]) == 5


@pytest.mark.posix(reason="modes of files")
def test_files_are_private(folder: Path) -> None:
    assert {mode(path) for path in folder.iterdir()} == {0o600}


def test_a_full_disk_is_an_error(small_disk: Path, disk_filler: Callable[..., None]) -> None:
    (small_disk / "index").mkdir()
    disk_filler(small_disk, leave=8192)
    with fails(ResourceError, "disk-full"):
        VectorIndex.build(
            small_disk / "index",
            np.arange(3000),
            unit(3000),
        )
