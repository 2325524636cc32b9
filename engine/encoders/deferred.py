"""What the model libraries import and the engine never calls, put off until somebody calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

_METRICS = "sklearn.metrics"


class _Deferred(ModuleType):
    """A module of functions: each imports the real module when it is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def called(*arguments: Any, **named: Any) -> Any:
            return getattr(import_module(self.__name__), name)(*arguments, **named)

        return called


@contextmanager
def without_sklearn() -> Iterator[None]:
    """What is imported inside takes the functions of `sklearn.metrics` without importing scikit-learn.

    sentence-transformers imports it for distances that the engine does not ask for. That is a sixth of the time until a
    process has loaded a model. A function taken here imports scikit-learn when it is called, after the block.
    """
    if _METRICS in sys.modules:
        yield
        return
    sys.modules[_METRICS] = _Deferred(_METRICS)
    try:
        yield
    finally:
        del sys.modules[_METRICS]
