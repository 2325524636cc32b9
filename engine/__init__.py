"""bmembed's engine: adapts an embedding model to private documents, offline, and searches them.

`from engine import Project` is the library's front door; see `engine.api.Project`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.platforms.own_parts import use_runtime_libraries
from engine.version import __version__

if TYPE_CHECKING:
    from engine.api import Project as Project

__all__ = ["Project", "__version__"]

# Before any library is imported that needs it.
use_runtime_libraries()


def __getattr__(name: str) -> Any:
    if name == "Project":
        from engine.api import Project

        return Project
    raise AttributeError(name)
