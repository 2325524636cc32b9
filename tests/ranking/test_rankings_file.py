"""Ranked lists survive the disk; every kind of damage is told."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import DamagedError
from engine.ranking.rankings_file import RankedLists

LISTS = RankedLists.from_lists([4, 2, 9], [([7, 3, 5], [3.5, 2.0, 1.0]), ([], []), ([0], [9.25])])


def test_padding_is_minus_one_and_minus_infinity() -> None:
    assert LISTS.ids.tolist() == [[7, 3, 5], [-1, -1, -1], [0, -1, -1]]
    assert LISTS.lengths.tolist() == [3, 0, 1]
    assert LISTS.scores[2].tolist() == [9.25, -np.inf, -np.inf]


@pytest.mark.parametrize("lists", [LISTS, RankedLists.from_lists([], [])])
def test_saved_lists_are_loaded_as_they_were(tmp_path, lists) -> None:
    lists.save(tmp_path / "deep" / "folder")
    loaded = RankedLists.load(tmp_path / "deep" / "folder")
    for name in ("query_ids", "ids", "scores"):
        assert getattr(loaded, name).dtype == getattr(lists, name).dtype
        assert np.array_equal(getattr(loaded, name), getattr(lists, name))


def cut(folder):
    path = folder / "ids.npy"
    path.write_bytes(path.read_bytes()[:-8])


def swap(folder):
    (folder / "scores.npy").write_bytes((folder / "query_ids.npy").read_bytes())


def same_size_other_type(folder):
    np.save(folder / "ids.npy", np.zeros((3, 3), dtype=np.float64))


def pickled(folder):
    np.save(
        folder / "query_ids.npy",
        np.array([{}], dtype=object),
        allow_pickle=True,
    )


def senseless_ids(folder):
    np.save(folder / "ids.npy", np.full((3, 3), -5, dtype=np.int64))


def garbage_header(folder):
    path = folder / "ids.npy"
    path.write_bytes(b"\xff" * path.stat().st_size)


def other_version(folder):
    text = (folder / "rankings.json").read_text()
    (folder / "rankings.json").write_text(text.replace('"version": 1', '"version": 99'))


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        swap,
        same_size_other_type,
        pickled,
        senseless_ids,
        garbage_header,
        other_version,
        lambda folder: (folder / "scores.npy").unlink(),
        lambda folder: (folder / "rankings.json").unlink(),
        lambda folder: (folder / "rankings.json").write_bytes(b'{"version": 1'),
        lambda folder: (folder / "rankings.json").write_bytes(b"[1]"),
        lambda folder: (folder / "rankings.json").write_bytes(b"\xff\xfe"),
    ],
)
def test_damage_is_an_error_and_never_loaded(tmp_path, damage) -> None:
    LISTS.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(DamagedError) as caught:
        RankedLists.load(tmp_path)
    assert caught.value.why
    assert caught.value.to_do


@pytest.mark.parametrize(
    ("ids", "scores"),
    [
        ([[-1, 3]], [[0.0, 1.0]]),
        ([[3, 4]], [[np.nan, 1.0]]),
        ([[-2, -1]], [[0.0, 0.0]]),
        ([[1, 2]], [[1.0]]),
    ],
)
def test_senseless_lists_are_refused(ids, scores) -> None:
    with pytest.raises(ValueError, match=r"padding|finite|below|shapes"):
        RankedLists(
            np.array([1]),
            np.array(ids),
            np.array(scores, dtype=np.float32),
        )
