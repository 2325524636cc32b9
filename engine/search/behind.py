"""What the indexes do not know yet: documents that were read since, chunks that are not
embedded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.core.errors import EngineError
from engine.core.messages.report import SearchMode
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import ArtifactInfo, LexicalInfo, VectorsInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact, Info
from engine.project.store.store import Store

if TYPE_CHECKING:
    from engine.lexical.index import LexicalIndex
    from engine.vectors.index import VectorIndex

SHARE_OF_TIME = 20
"""An index is compared with the documents for a twentieth of the time at most."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What an index does not know yet, and the command that brings it in line; empty where a run
    does so now.
    """

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _Count:
    """How many chunks an index lacks in a `state` of the database, and when to count again if
    that changes.
    """

    state: tuple[object, ...]
    missing: int
    next_at: float


class OpenProject(Protocol):
    """What a searcher keeps open, as far as it is asked for here."""

    project: ProjectFolder
    store: Store

    @property
    def state(self) -> tuple[int, int]:
        """What changes whenever the database does."""

    @property
    def has_damaged_index(self) -> bool:
        """Whether semantic search uses the first index as its own was found damaged."""

    def artifact(self, kind: type[Info]) -> Artifact[Info] | None:
        """The current artifact of a kind."""

    def vectors(self, mode: SearchMode) -> Artifact[VectorsInfo]:
        """What the stage noted of the index of a mode. Raises NotBuiltError."""

    def lexical_index(self) -> LexicalIndex:
        """The current BM25 index. Raises NotBuiltError, DamagedError."""

    def vector_index(self, mode: SearchMode) -> tuple[Artifact[VectorsInfo], VectorIndex]:
        """The current vector index of a mode. Raises NotBuiltError, DamagedError."""


class IndexLag:
    """Compares the indexes of a project with its documents."""

    def __init__(self, loaded: OpenProject) -> None:
        self._loaded = loaded
        self._counts: dict[str, _Count] = {}

    def behind(self, ranker: str, mode: SearchMode) -> Behind | None:
        """What a ranker does not know yet: its index is older than the documents, or not finished.

        None where it knows all.
        """
        run = f"'engine run {self._loaded.project.argument}'"
        if ranker != "bm25" and mode == "semantic" and self._loaded.has_damaged_index:
            text = "The index of semantic search is damaged: the encoder of hybrid search answers."
            return Behind(f"{text} {run} builds it again.", "embed")
        try:
            artifact = self._artifact(ranker, mode)
            if artifact is None:
                return None
            missing = self._missing(ranker, mode, artifact)
        except EngineError:  # replaced a moment ago
            return None
        if not missing:
            return None
        if artifact.fingerprint == INCOMPLETE:
            return self._unfinished(missing)
        return self._outdated(ranker, artifact.info.stage, missing)

    def _artifact(self, ranker: str, mode: SearchMode) -> Artifact[ArtifactInfo] | None:
        if ranker == "bm25":
            return self._loaded.artifact(LexicalInfo)
        return self._loaded.vectors(mode)

    def _missing(self, ranker: str, mode: SearchMode, artifact: Artifact[ArtifactInfo]) -> int:
        """How many live chunks an index lacks, counted seldom while a run changes the documents
        again and again.
        """
        if ranker == "bm25":
            key = ranker
        else:
            key = f"{ranker} in {mode} search"
        state = (*self._loaded.state, artifact.folder)
        known = self._counts.get(key)
        began = time.monotonic()
        if known is None or (known.state != state and began >= known.next_at):
            missing = self._count_missing(artifact, mode)
            now = time.monotonic()
            known = _Count(state, missing, now + SHARE_OF_TIME * (now - began))
            self._counts[key] = known
        return known.missing

    def _count_missing(self, artifact: Artifact[ArtifactInfo], mode: SearchMode) -> int:
        import numpy as np

        store = self._loaded.store
        if isinstance(artifact.info, LexicalInfo):
            if artifact.info.chunks_fingerprint == store.corpus_fingerprint():
                return 0
            known = self._loaded.lexical_index().ids()
        else:
            known = self._loaded.vector_index(mode)[1].keys()
        return int((~np.isin(store.chunk_ids(), known)).sum())

    def _unfinished(self, missing: int) -> Behind:
        """What a vector index lacks since embedding is not finished."""
        project = self._loaded.project
        total = self._loaded.store.counts()["chunks"]
        text = (
            f"{total - missing:,} of {total:,} chunks are searched by meaning so far, the others by"
            " keyword."
        )
        if project.is_running():
            return Behind(text)
        return Behind(f"{text} 'engine run {project.argument}' continues it.", "embed")

    def _outdated(self, ranker: str, stage: str, missing: int) -> Behind:
        """What an index lacks since documents were read after it was made."""
        project = self._loaded.project
        if ranker == "bm25":
            called = "keyword search"
        else:
            called = "semantic search"
        if missing == 1:
            some = "1 chunk is"
        else:
            some = f"{missing:,} chunks are"
        if project.is_running() or project.is_running("watch"):
            return Behind(f"{some} not in {called} yet.")
        them = "it" if missing == 1 else "them"
        command = f"engine {stage} {project.argument}"
        return Behind(
            f"{some} not in {called} yet: '{command}' adds {them}.",
            "index" if ranker == "bm25" else "embed",
        )
