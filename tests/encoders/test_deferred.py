"""What the model libraries import and the engine never calls is not imported; meanwhile nobody
looks for garbage.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress

import pytest
from fixtures.pipeline import environment

from engine.encoders.deferred import light_imports, pause_collection


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported scikit-learn."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("fresh")
def test_a_function_is_imported_when_it_is_called() -> None:
    with light_imports():
        from sklearn.metrics import pairwise_distances
    assert not [name for name in sys.modules if name.partition(".")[0] == "sklearn"]
    assert pairwise_distances([[1.0, 2.0]], [[4.0, 6.0]]).tolist() == [[5.0]]
    assert "sklearn.metrics" in sys.modules


@pytest.mark.usefixtures("fresh")
def test_after_the_block_the_real_module_is_imported() -> None:
    with pytest.raises(RuntimeError), light_imports():
        raise RuntimeError
    from sklearn import metrics

    assert metrics.accuracy_score([1, 1], [1, 0]) == 0.5


def test_what_is_imported_already_stays() -> None:
    from sklearn import metrics

    with light_imports():
        assert sys.modules["sklearn.metrics"] is metrics
    assert sys.modules["sklearn.metrics"] is metrics


def test_functions_of_scipy_are_imported_when_they_are_called() -> None:
    code = """
import sys
from engine.encoders.deferred import light_imports
with light_imports():
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_matrix
print(any(name.startswith("scipy") for name in sys.modules))
print(coo_matrix(([3.0], ([1], [0])), shape=(2, 1)).toarray().tolist())
print([side.tolist() for side in linear_sum_assignment([[4, 1], [2, 3]])])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False", "[[0.0], [3.0]]", "[[0, 1], [1, 0]]"]


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_collected_again_after_the_block_where_it_was_before(before: bool) -> None:
    if not before:
        gc.disable()
    try:
        with suppress(RuntimeError), pause_collection():
            assert not gc.isenabled()
            raise RuntimeError
        assert gc.isenabled() == before
    finally:
        gc.enable()
