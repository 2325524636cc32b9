"""Every byte of a bundle is covered: whatever is changed or missing is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core.errors import DamagedError, UsageError
from engine.core.messages.project import Bundled
from engine.export.bundle.unpack import unbundle, verify

FLIPS = 500


@pytest.mark.parametrize("name", ["half", "locked"])
def test_each_of_500_flipped_bits_is_found(
    halves: dict[str, Bundled], tmp_path: Path, name: str
) -> None:
    """Without the password, too."""
    rng = random.Random(34)
    content = bytearray(halves[name].file.read_bytes())
    bits = 8 * len(content)
    places = {
        *rng.sample(range(bits), FLIPS),
        *range(64),
        *range(bits - 8 * 71, bits),
    }  # also head, tail and each bit of the digest
    file = tmp_path / "flipped.bundle"
    for place in places:
        content[place // 8] ^= 1 << place % 8
        file.write_bytes(content)
        with fails(DamagedError, "bundle-damaged"):
            verify(file)
        content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)
    assert verify(file).sha256 == halves[name].sha256


def test_a_file_that_is_no_bundle_is_not_called_a_damaged_one(
    halves: dict[str, Bundled], tmp_path: Path
) -> None:
    other = tmp_path / "other.pdf"
    flipped = bytearray(halves["whole"].file.read_bytes())
    flipped[100] ^= 1
    said = []
    for content in (b"%PDF-1.7" * 100, bytes(flipped)):
        other.write_bytes(content)
        with fails(DamagedError, "bundle-damaged") as caught:
            verify(other)
        said.append(caught.value.what)
    assert said[0] != said[1]


def test_a_bundle_that_is_cut_off_anywhere_is_damaged(
    halves: dict[str, Bundled], tmp_path: Path
) -> None:
    content = halves["whole"].file.read_bytes()
    file = tmp_path / "short.bundle"
    size = len(content)
    for length in (
        0,
        1,
        70,
        71,
        72,
        *range(1000, size, size // 40),
        size - 71,
        size - 64,
        size - 1,
    ):
        file.write_bytes(content[:length])
        with fails(DamagedError, "bundle-damaged"):
            unbundle(file, str(tmp_path / "made"))
    file.write_bytes(content + b"0")
    with fails(DamagedError, "bundle-damaged"):
        unbundle(file, str(tmp_path / "made"))
    assert [path.name for path in tmp_path.iterdir()] == ["short.bundle"]


def test_the_password_opens_the_content_and_no_other_does(
    halves: dict[str, Bundled], tmp_path: Path
) -> None:
    file = halves["locked"].file
    assert (verify(file).files, verify(file).project) == (None, "")
    assert verify(file, lambda: "correct horse").files == halves["half"].files
    with fails(UsageError, "bundle-password"):
        unbundle(
            file,
            str(tmp_path / "made"),
            password=lambda: "Correct horse",
        )
    with fails(UsageError, "bundle-password"):
        unbundle(
            file,
            str(tmp_path / "made"),
            password=lambda: "",
        )
    with fails(UsageError, "bundle-password-missing"):
        unbundle(file, str(tmp_path / "made"))
    assert not list(tmp_path.iterdir())
    assert b"policies" not in file.read_bytes()
