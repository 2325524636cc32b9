from __future__ import annotations

from fixtures.ranked_project import built, project

__all__ = ["built", "project"]
