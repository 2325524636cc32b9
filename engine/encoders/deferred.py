"""Faster imports of model libraries: without unused modules and without garbage collection."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

PUT_OFF = ("sklearn.metrics", "scipy.sparse", "scipy.optimize")
"""Modules that are imported only when one of their functions is called."""


class _Deferred(ModuleType):
    """A stub of a module of functions; each imports the real module when it is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            return getattr(import_module(self.__name__), name)(*arguments, **keywords)

        return call


@contextmanager
def pause_collection() -> Iterator[None]:
    """Disable garbage collection inside the block.

    It takes a tenth of the time a process needs to load a model.
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
    """Stub the modules of `PUT_OFF` for imports inside the block.

    sentence-transformers and transformers import them for features the engine never uses, which
    takes a fifth of the time a process needs to load a model. A function imported from a stub
    imports its real module when it is called after the block.
    """
    stubs = {name: _Deferred(name) for name in PUT_OFF if name not in sys.modules}
    sys.modules.update(stubs)
    try:
        with pause_collection():
            yield
    finally:
        for name in stubs:
            sys.modules.pop(name, None)
