"""The forms and number types that the manifest of an index may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.encoders.geometry.lorentz import LorentzForm
from engine.encoders.geometry.similarity import COSINE, IndexForm

INDEX_FORMS: dict[str, IndexForm] = {form.name: form for form in (COSINE.index_form, LorentzForm())}
"""Forms by the name in a manifest."""

DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "i8": "int8",
}


def index_form(manifest: Mapping[str, Any]) -> IndexForm:
    """Return the form of an index's rows, with the parameters that the manifest holds.

    Raises KeyError, TypeError or ValueError for an invalid manifest.
    """
    return INDEX_FORMS[manifest["form"]].with_parameters(manifest)
