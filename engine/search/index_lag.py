"""How far the indexes of a project lag behind its documents and chunks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from engine.core.errors import EngineError
from engine.core.messages.report import SearchMode
from engine.project.store.artifact_info import ArtifactInfo, LexicalInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.search.loaded import LoadedProject

WAIT_PER_COUNT = 20
"""After a count of missing chunks that took t seconds, the next waits at least this times t."""


@dataclass(frozen=True, slots=True)
class IndexLag:
    """What an index does not contain yet, and the command that updates it.

    `command` is empty if a run updates the index now.
    """

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class _MissingCount:
    """The number of chunks missing from an index, at the time of the count."""

    state: tuple[object, ...]
    """The state of the database that was counted."""
    missing: int
    next_at: float
    """Time (`time.monotonic`) before which they are not counted again, even in another state."""


class LagMonitor:
    """Compares the indexes of a project with its documents."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._counts: dict[str, _MissingCount] = {}

    def find_lag(self, ranker: str, mode: SearchMode = "hybrid") -> IndexLag | None:
        """Return what the index of a ranker (`bm25` or `semantic`) lacks, None if it is complete.

        An index is incomplete if it is older than the documents or not finished.
        """
        run = f"'engine run {self._loaded.project.argument}'"
        if ranker != "bm25" and mode == "semantic" and self._loaded.has_damaged_index:
            text = "The index of semantic search is damaged: the encoder of hybrid search answers."
            return IndexLag(f"{text} {run} builds it again.", "embed")
        try:
            artifact = self._find_artifact(ranker, mode)
            if artifact is None:
                return None
            missing = self._count_missing(ranker, mode, artifact)
        except EngineError:  # a run has just replaced the index
            return None
        if not missing:
            return None
        if artifact.fingerprint == INCOMPLETE:
            return self._describe_unfinished(missing, mode)
        return self._describe_outdated(
            ranker,
            artifact.info.stage,
            missing,
        )

    def _find_artifact(self, ranker: str, mode: SearchMode) -> Artifact[ArtifactInfo] | None:
        """Return the index that a ranker searches in a mode, as an artifact."""
        if ranker == "bm25":
            return self._loaded.artifact(LexicalInfo)
        return self._loaded.vectors(mode)

    def _count_missing(
        self, ranker: str, mode: SearchMode, artifact: Artifact[ArtifactInfo]
    ) -> int:
        """Return how many live chunks an index lacks.

        The last count is reused for a while, in case a run changes the documents continually.
        """
        if ranker == "bm25":
            key = ranker
        else:
            key = f"{ranker} in {mode} search"
        state = (*self._loaded.state, artifact.folder)
        last = self._counts.get(key)
        start = time.monotonic()
        if last is None or (last.state != state and start >= last.next_at):
            missing = self._compare_chunks(artifact, mode)
            end = time.monotonic()
            wait = WAIT_PER_COUNT * (end - start)
            last = _MissingCount(
                state,
                missing,
                end + wait,
            )
            self._counts[key] = last
        return last.missing

    def _compare_chunks(self, artifact: Artifact[ArtifactInfo], mode: SearchMode) -> int:
        """Return how many live chunks an index lacks, by comparing all ids."""
        import numpy as np

        store = self._loaded.store
        if isinstance(artifact.info, LexicalInfo):
            if artifact.info.chunks_fingerprint == store.corpus_fingerprint():
                return 0
            indexed = self._loaded.lexical_index().ids()
        else:
            _, index = self._loaded.vector_index(mode)
            indexed = index.keys()
        is_missing = ~np.isin(store.chunk_ids(), indexed)
        return int(is_missing.sum())

    def _describe_unfinished(self, missing: int, mode: SearchMode) -> IndexLag:
        """Describe a vector index whose embedding is not finished."""
        project = self._loaded.project
        total = self._loaded.store.count("chunks")
        others = "the others by keyword" if mode == "hybrid" else "the others not yet"
        text = f"{total - missing:,} of {total:,} chunks are searched by meaning so far, {others}."
        if project.is_running():
            return IndexLag(text)
        return IndexLag(f"{text} 'engine run {project.argument}' continues it.", "embed")

    def _describe_outdated(
        self,
        ranker: str,
        stage: str,
        missing: int,
    ) -> IndexLag:
        """Describe an index that was built before the latest documents were read."""
        project = self._loaded.project
        if ranker == "bm25":
            search = "keyword search"
            command = "index"
        else:
            search = "semantic search"
            command = "embed"
        if missing == 1:
            chunks = "1 chunk is"
            pronoun = "it"
        else:
            chunks = f"{missing:,} chunks are"
            pronoun = "them"
        text = f"{chunks} not in {search} yet"
        if project.is_running() or project.is_running("watch"):
            return IndexLag(f"{text}.")
        run = f"'engine {stage} {project.argument}'"
        return IndexLag(f"{text}: {run} adds {pronoun}.", command)
