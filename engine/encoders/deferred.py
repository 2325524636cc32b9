"""Importing the libraries of models without what makes it long: what the engine never calls, and
Python's garbage collection.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

PUT_OFF = ("sklearn.metrics", "scipy.sparse", "scipy.optimize")


class _Deferred(ModuleType):
    """A module of functions: each imports the real module when it is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def called(*arguments: Any, **named: Any) -> Any:
            return getattr(import_module(self.__name__), name)(*arguments, **named)

        return called


@contextmanager
def uncollected() -> Iterator[None]:
    """Python does not look for garbage inside, which takes a tenth of the time until a process
    has loaded a model.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def light_imports() -> Iterator[None]:
    """What is imported inside takes the functions of `PUT_OFF` without importing their modules.

    sentence-transformers and transformers import them for what the engine does not ask for, a fifth
    of the time until a process has loaded a model. A function taken here imports its module when it
    is called, after the block.
    """
    stubs = {name: _Deferred(name) for name in PUT_OFF if name not in sys.modules}
    sys.modules.update(stubs)
    try:
        with uncollected():
            yield
    finally:
        for name in stubs:
            sys.modules.pop(name, None)
