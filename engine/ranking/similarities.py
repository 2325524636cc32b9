"""The similarities that an index may serve, as its manifest names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.similarity import COSINE, IndexForm
from engine.ranking.hubness import Csls


def index_form(manifest: Mapping[str, Any]) -> IndexForm:
    """The form of an index's rows; that of cosines where the manifest names none."""
    return Csls.index_form if manifest.get("lifted") else COSINE.index_form
