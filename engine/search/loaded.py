"""What a searcher keeps open: the database, the indexes and the encoder, each loaded when it is first needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine.core.errors import DamagedError, EngineError, ModelError, NotBuiltError
from engine.core.records import Document
from engine.project.folder import ProjectFolder
from engine.project.store import Store
from engine.project.store.artifacts import Artifact
from engine.settings.load import SearchSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.encoder import Encoder
    from engine.lexical.filenames import DocumentNames
    from engine.lexical.index import LexicalIndex
    from engine.vectors.index import VectorIndex

INDEXES = {"lexical": "BM25", "vectors": "vector"}
Opened = TypeVar("Opened")


class Loaded:
    """Notices when a run has put new artifacts in place, or a repair another database. Not for several threads.

    `repairs` counts the databases that were opened anew.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self.repairs = 0
        self._file = self._database_file()
        self.store: Store = project.store()
        self._lexical: tuple[str, LexicalIndex] | None = None
        self._vectors: tuple[str, VectorIndex] | None = None
        self._weights: tuple[tuple[object, ...], Mapping[str, float], str] | None = None
        self._names: tuple[tuple[object, ...], DocumentNames] | None = None
        self._behind: dict[str, tuple[tuple[object, ...], int, float]] = {}
        self._vector: tuple[tuple[str, str], NDArray[np.float32]] | None = None
        self._encoders: dict[str, tuple[tuple[object, ...], Encoder]] = {}

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def follow_repair(self) -> None:
        """Open the database anew where a repair has replaced it: our connection still reads the one set aside."""
        now = self._database_file()
        if now != self._file:
            fresh = self.project.store()
            self.store.close()
            self.store, self._file, self._lexical, self._vectors = fresh, now, None, None
            self.repairs += 1

    def _database_file(self) -> tuple[int, int] | None:
        """What tells the database file from one that a repair has put in its place."""
        try:
            found = (self.project.path / "project.db").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def lexical_index(self) -> LexicalIndex:
        """The current BM25 index. Raises NotBuiltError, DamagedError."""
        from engine.lexical.index import LexicalIndex

        artifact, index = self._current("lexical", "index", self._lexical, LexicalIndex.open)
        self._lexical = (artifact.folder, index)
        return index

    def hybrid_index(self, settings: SearchSettings) -> tuple[LexicalIndex, str]:
        """The BM25 index as hybrid search asks it, words counted as evaluation learnt, and what is to be told of that, or "".

        Raises as `lexical_index`.
        """
        index = self.lexical_index()
        weights, note = self._term_weights() if settings.term_weights else ({}, "")
        return (index.weighted(weights) if weights else index), note

    def _term_weights(self) -> tuple[Mapping[str, float], str]:
        """Read again only when the database has changed. Without those that cannot be read, or that were learnt on words of
        another language, search goes on as BM25 counts words; the next run makes them again."""
        state = (self.repairs, self.store.version())
        if self._weights is None or self._weights[0] != state:
            artifact, weights, note = self.store.artifact("evaluation"), dict[str, float](), ""
            info: dict[str, Any] = artifact.info if artifact else {}
            if artifact and info.get("fusion", {}).get("weighed_words") and info.get("language") == self.language():
                from engine.ranking.term_weights import read_weights

                try:
                    weights = read_weights(self.project.path / artifact.folder)
                except DamagedError as error:
                    note = f"Every word counts as in BM25: {error.what} {error.to_do}"
            self._weights = state, weights, note
        return self._weights[1:]

    def vector_index(self) -> tuple[Artifact, VectorIndex]:
        """The current vector index, and what its stage noted. Raises NotBuiltError, DamagedError."""
        from engine.vectors.index import VectorIndex

        artifact, index = self._current("vectors", "embed", self._vectors, VectorIndex.open)
        self._vectors = (artifact.folder, index)
        return artifact, index

    def behind(self, ranker: str) -> str:
        """What a ranker does not know yet, since its index is older than the documents; empty where it knows all of them.

        While a run changes the documents again and again, this is looked up for a twentieth of the time at most.
        """
        kind, stage, called = (
            ("lexical", "index", "BM25") if ranker == "bm25" else ("vectors", "embed", "semantic search")
        )
        try:
            artifact = self._need(kind, stage)
            state = (self.repairs, self.store.version(), artifact.folder)
            former, _, until = self._behind.get(ranker, (None, 0, 0.0))
            if former != state and (began := time.monotonic()) >= until:
                count = self._unknown_to(ranker, artifact)
                self._behind[ranker] = state, count, began + 20 * (time.monotonic() - began)
        except EngineError:  # replaced a moment ago
            return ""
        if not (count := self._behind[ranker][1]):
            return ""
        some = "1 chunk is" if count == 1 else f"{count:,} chunks are"
        return f"{some} not in {called} yet: 'engine {stage} {self.project.argument}' adds {'it' if count == 1 else 'them'}."

    def _unknown_to(self, ranker: str, artifact: Artifact) -> int:
        """How many live chunks an index lacks."""
        import numpy as np

        if ranker == "bm25":
            if artifact.info.get("chunks_fingerprint") == self.store.corpus_fingerprint():
                return 0
            known = np.fromiter(self.lexical_index().ids(), np.int64)
        else:
            known = self.vector_index()[1].keys()
        live = np.fromiter((row for row, _ in self.store.chunk_owners()), np.int64)
        return int((~np.isin(live, known)).sum())

    def query_vector(self, query: str) -> tuple[Artifact, VectorIndex, NDArray[np.float32]]:
        """A query as the current vector index wants it (d,), with that index. Raises ModelError besides.

        The last one is kept: hybrid search asks for it twice.
        """
        while True:
            artifact, index = self.vector_index()
            asked = (query, artifact.folder)
            try:
                if self._vector is None or self._vector[0] != asked:
                    self._vector = asked, self.query_encoder(artifact).encode_queries([query])[0]
                return artifact, index, self._vector[1]
            except ModelError:
                if self._need("vectors", "embed").folder == artifact.folder:
                    raise  # otherwise a run has swept that adapter while the model was loading

    def query_encoder(self, artifact: Artifact) -> Encoder:
        """The encoder that the vectors were made with, whatever has been trained since."""
        info: dict[str, Any] = artifact.info
        encoder = self._encoder("served", info, info["adapter"], info["scale"])
        if encoder.fingerprint != info["encoder"]:
            raise NotBuiltError(
                f"The model {info['model']} is not the one that the documents were embedded with.",
                "Its files were changed since.",
                f"Run 'engine run {self.project.argument}'.",
            )
        return encoder

    def base_encoder(self, artifact: Artifact) -> Encoder:
        """The same model without an adapter."""
        return self._encoder("base", artifact.info, None, 1.0)

    def _encoder(self, role: str, info: dict[str, Any], adapter: str | None, scale: float) -> Encoder:
        key = (info["encoder"], info["model"], adapter, scale, info["max_tokens"])
        if role not in self._encoders or self._encoders[role][0] != key:
            from engine.encoders.encoder import Encoder
            from engine.encoders.for_project import model_of
            from engine.encoders.hardware import choose_hardware

            settings = self.project.settings().encoder
            encoder = Encoder.load(
                model_of(info),
                adapter=self.project.path / adapter if adapter else None,
                adapter_scale=scale,
                hardware=choose_hardware(settings.device, settings.dtype, purpose="encode"),
                max_tokens=info["max_tokens"],
            )
            self._encoders[role] = (key, encoder)
        return self._encoders[role][1]

    def fusion(self, settings: SearchSettings) -> SearchSettings:
        """The settings with `auto` fusion put in concrete terms: what the last evaluation chose, the even sum before one."""
        if settings.fusion != "auto":
            return settings
        artifact = self.store.artifact("evaluation")
        chosen: dict[str, Any] = {"method": "weighted", "weight": 0.5}
        if artifact is not None:  # a former evaluation knew RRF alone
            chosen = artifact.info.get("fusion", {"method": "rrf", "weight": 0.5})
        return settings.model_copy(update={"fusion": chosen["method"], "weight": float(chosen["weight"])})

    def threshold(self) -> tuple[float | None, str]:
        """The least similarity, as search has it, of a hit that is not weak, as evaluation learnt it; or None and why not."""
        evaluation, vectors = self.store.artifact("evaluation"), self.store.artifact("vectors")
        learnt: dict[str, Any] = evaluation.info.get("threshold", {}) if evaluation else {}
        if not learnt:
            return None, f"'engine evaluate {self.project.argument}' learns how similar a hit must be"
        if vectors is None or learnt["encoder"] != vectors.info["encoder"]:
            return None, "the documents are embedded with another encoder than the one that evaluation measured"
        if learnt.get("hubs", "") != vectors.info.get("hubs", ""):
            return (
                None,
                "evaluation has measured other similarities than those of the present index; 'engine embed' makes it anew",
            )
        return learnt["similarity"], str(learnt["reason"])

    def document_names(self) -> DocumentNames:
        """What queries may call the documents; read again only when the database has changed."""
        from engine.lexical.filenames import DocumentNames

        state = (self.repairs, self.store.version())
        if self._names is None or self._names[0] != state:
            rows = ((document.id, document.title, document.path) for document in self.store.documents())
            self._names = (state, DocumentNames(rows))
        return self._names[1]

    def language(self, document: Document | None = None) -> str:
        """The main language of the BM25 index, or what it has analysed a `document` with its text in; "none" before there is
        an index."""
        from engine.lexical.languages import analysed_in

        artifact = self.store.artifact("lexical")
        if artifact is None:
            return "none"
        main = str(artifact.info.get("language", "none"))
        own = analysed_in(document.language, len(document.text), main) if document else main
        return own if own in artifact.info.get("languages", ()) else main

    def _current(
        self, kind: str, stage: str, loaded: tuple[str, Opened] | None, load: Callable[[Path], Opened]
    ) -> tuple[Artifact, Opened]:
        """The current artifact of a kind, opened. A run may replace and sweep it between our look and our opening."""
        while True:
            artifact = self._need(kind, stage)
            if loaded is not None and loaded[0] == artifact.folder:
                return artifact, loaded[1]
            try:
                return artifact, load(self.project.folder_of(artifact))
            except DamagedError:
                if self._need(kind, stage).folder == artifact.folder:
                    raise

    def _need(self, kind: str, stage: str) -> Artifact:
        artifact = self.store.artifact(kind)
        if artifact is None:
            raise NotBuiltError(
                f"The project {self.project.name} has no {INDEXES[kind]} index yet.",
                f"The stage '{stage}' makes it.",
                f"Run 'engine run {self.project.argument}', or 'engine {stage} {self.project.argument}' without training.",
            )
        return artifact
