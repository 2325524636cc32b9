"""The forms and types that an index's manifest may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.lorentz import LorentzForm
from engine.core.similarity import COSINE, IndexForm

INDEX_FORMS: dict[str, IndexForm] = {form.name: form for form in (COSINE.index_form, LorentzForm())}
"""By name: an index is opened in the form that its manifest names, with the parameters that it
keeps.
"""

DTYPES = {"f16": "float16", "f32": "float32", "i8": "int8"}


def index_form(manifest: Mapping[str, Any]) -> IndexForm:
    """The form of an index's rows. Raises KeyError, TypeError or ValueError for none."""
    return INDEX_FORMS[manifest["form"]].with_parameters(manifest)
