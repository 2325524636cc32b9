"""The forms that an index's manifest may name, also of former versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.core.lorentz import LorentzForm
from engine.core.similarity import COSINE, IndexForm
from engine.core.unit_vectors import unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FormerCsls(IndexForm):
    """Of indexes made before CSLS went: rows are [c, −o, √(1 − o²)]/√2 for unit vectors c with offsets o. The cosine with
    [q, 0, 0], times √2, is that of q and c."""

    name, added = "csls", 2

    def takes(self, chunks: NDArray[np.float32]) -> bool:
        """None: the next index is one of cosines."""
        return False

    def query_rows(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """With zeros for what is no longer looked at."""
        import numpy as np

        return np.concatenate([queries, np.zeros((*queries.shape[:-1], self.added), np.float32)], axis=-1)

    def similarities(self, cosines: NDArray[np.float32], query_row: NDArray[np.float32]) -> NDArray[np.float32]:
        """Plain cosines."""
        return cosines * cosines.dtype.type(2**0.5)

    def vectors(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Without the two numbers more."""
        return unit_rows(rows[:, : -self.added])


INDEX_FORMS: dict[str, IndexForm] = {form.name: form for form in (COSINE.index_form, LorentzForm(), FormerCsls())}
"""By name: an index is opened in the form that its manifest names, with the parameters that it keeps."""


def index_form(manifest: Mapping[str, Any]) -> IndexForm:
    """The form of an index's rows. Former manifests name none: theirs is CSLS where they say "lifted", else that of cosines."""
    name = manifest.get("form", "csls" if manifest.get("lifted") else "cosine")
    return INDEX_FORMS[name].with_parameters(manifest)
