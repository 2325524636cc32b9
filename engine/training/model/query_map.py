"""A map from the project's own encoder to vectors that another model made, for queries.

METHODS.md §2, in closed form.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.encoders.fingerprint import QUERY_MAP
from engine.encoders.for_project import chunk_vectors, load_encoder
from engine.encoders.kinds.given import CONFIG, WEIGHTS
from engine.encoders.kinds.given_vectors import read_vectors, vectors_digest

if TYPE_CHECKING:
    from engine.project.stage import StageContext

RIDGE = 0.1
_BLOCK = 8192


def ridge_map(
    own: NDArray[np.float32], given: NDArray[np.float32], ridge: float = RIDGE
) -> NDArray[np.float32]:
    """Return W (e, d) that minimizes ‖X W − Y‖² + λ‖W‖² for X (n, e) and Y (n, d).

    W = (XᵀX + λI)⁻¹ XᵀY, where λ is `ridge` times the mean eigenvalue of XᵀX.
    """
    width = own.shape[1]
    gram = np.zeros((width, width))
    product = np.zeros((width, given.shape[1]))
    for start in range(0, len(own), _BLOCK):
        block = own[start : start + _BLOCK].astype(np.float64)
        gram += block.T @ block
        product += block.T @ given[start : start + _BLOCK]
    damping = ridge * np.trace(gram) / width * np.eye(width)
    return np.linalg.solve(gram + damping, product).astype(np.float32)


def fit_map(context: StageContext, folder: Path) -> dict[str, Any]:
    """Fit the map to the chunks with a vector, and write it as an adapter into a folder.

    Raises ModelError if no chunk has a vector.
    """
    from safetensors.numpy import save_file

    path = context.settings.encoder.vectors
    chunks = context.store.chunks()
    digest = vectors_digest(path)
    given = read_vectors(path)
    places = given.find([chunk.content_hash for chunk in chunks])
    known = places >= 0
    count = int(known.sum())
    spare = len(given.places) - len(np.unique(places[known]))
    if not count:
        raise ModelError(
            f"No vector in {path} belongs to a chunk.",
            f"Its {spare} ids belong to other texts.",
            "Ids are the values of content_hash in chunks.jsonl, which 'engine export --only"
            " chunks' writes.",
            code="vectors-of-other-chunks",
        )
    own = chunk_vectors(context, load_encoder(context), chunks)
    matrix = ridge_map(own[known], given.read(places[known]))
    save_file({"query_map": matrix}, folder / WEIGHTS, {"vectors": digest})
    config = json.dumps({"peft_type": QUERY_MAP, "ridge": RIDGE})
    (folder / CONFIG).write_text(config + "\n", encoding="utf-8")
    why = f"a map was fitted to them; {spare} vectors of {Path(path).name} belong to no chunk"
    context.choose("chunks with a given vector", f"{count} of {len(chunks)}", why)
    return {"chunks": len(chunks), "given": count, "spare": spare}
