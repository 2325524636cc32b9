import numpy as np
import pytest

from engine.vectors.ids import distinct


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([], []), ([7], [7]), ([5, 1, 5, 3, 1, 1], [1, 3, 5]), ([2**62, -1, 2**62], [-1, 2**62])],
)
def test_distinct_ids_ascend(ids: list[int], expected: list[int]) -> None:
    result = distinct(np.array(ids, np.int64))
    assert result.dtype == np.int64
    assert result.tolist() == expected == np.unique(np.array(ids, np.int64)).tolist()
