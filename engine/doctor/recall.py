"""Whether search by meaning finds in a large project what comparing all of its vectors would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.messages.project import Finding
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import VectorsInfo

if TYPE_CHECKING:
    from engine.vectors.index import VectorIndex

QUERIES, DEPTH = 50, 10
MIN_RECALL = 0.99


def vector_index(project: ProjectFolder) -> list[Finding]:
    """The size of the vector index and how it is searched, with its recall; nothing where there is none yet. Raises EngineError."""
    from contextlib import closing

    from engine.vectors.index import EXACT_UP_TO, VectorIndex

    with closing(project.store()) as store:
        artifact = store.artifact(VectorsInfo)
    if artifact is None or not artifact.folder:
        return []
    index = VectorIndex.open(project.folder_of(artifact))
    if index.count <= EXACT_UP_TO:
        return [Finding("vectors", "good", f"{index.count:,} vectors", "all are compared with a query")]
    recall = recall_of(index)
    found = f"{index.count:,} vectors, recall@{DEPTH} {recall:.3f} on {QUERIES} passages"
    if recall >= MIN_RECALL:
        return [Finding("vectors", "good", found, "a graph names candidates, which are compared")]
    return [Finding("vectors", "problem", found, "'engine embed --force' builds the index anew")]


def recall_of(index: VectorIndex, seed: int = 0) -> float:
    """Share of the `DEPTH` chunks nearest to a chunk, itself aside, that search finds: mean over `QUERIES` chunks at random."""
    import numpy as np

    keys, rows = index.stored()
    shares = []
    for place in np.random.default_rng(seed).choice(len(keys), QUERIES):
        vector = index.form.vectors(rows[place : place + 1])[0]
        found, exact = (search(vector, DEPTH + 1)[0] for search in (index.search, index.search_exactly))
        wanted = exact[exact != keys[place]][:DEPTH]
        shares.append(float(np.isin(wanted, found).mean()))
    return float(np.mean(shares))
