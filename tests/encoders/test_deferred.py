"""What the model libraries import and the engine never calls is not imported."""

from __future__ import annotations

import sys

import pytest

from engine.encoders.deferred import without_sklearn


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not imported scikit-learn."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("fresh")
def test_a_function_is_imported_when_it_is_called() -> None:
    with without_sklearn():
        from sklearn.metrics import pairwise_distances
    assert not [name for name in sys.modules if name.partition(".")[0] == "sklearn"]
    assert pairwise_distances([[1.0, 2.0]], [[4.0, 6.0]]).tolist() == [[5.0]]
    assert "sklearn.metrics" in sys.modules


@pytest.mark.usefixtures("fresh")
def test_after_the_block_the_real_module_is_imported() -> None:
    with pytest.raises(RuntimeError), without_sklearn():
        raise RuntimeError
    from sklearn import metrics

    assert metrics.accuracy_score([1, 1], [1, 0]) == 0.5


def test_what_is_imported_already_stays() -> None:
    from sklearn import metrics

    with without_sklearn():
        assert sys.modules["sklearn.metrics"] is metrics
    assert sys.modules["sklearn.metrics"] is metrics
