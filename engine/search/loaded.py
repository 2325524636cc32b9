"""The database, indexes and encoders that a searcher keeps open, each loaded when first needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from engine.core.errors import DamagedError, ModelError, NotBuiltError
from engine.core.messages.report import SearchMode
from engine.core.records import Document
from engine.project.folder import ProjectFolder
from engine.project.stage import not_built
from engine.project.store.artifact_info import (
    ArtifactInfo,
    EvaluationInfo,
    FusionInfo,
    LexicalInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import Artifact, Info
from engine.project.store.store import Store
from engine.search.cached_value import CachedValue
from engine.settings.schema import SearchSettings, Settings

if TYPE_CHECKING:
    from engine.core.arrays import Floats, Ids
    from engine.encoders.encoder import Encoder, QueryEncoder
    from engine.lexical.filenames import DocumentNames
    from engine.lexical.index import LexicalIndex
    from engine.vectors.index import VectorIndex

Documents = dict[int, Document]
Owners = tuple["Ids", "Ids"]
"""Ids of chunks (n,), and for each the id of its document (n,)."""
Opened = TypeVar("Opened")


class LoadedProject:
    """An opened project. Each call uses the artifacts that the last run has published.

    The *first index* is the vector index of hybrid search. Semantic search has its own if its
    chunks are encoded in another way. `repairs` counts how often the database was reopened. Not
    thread-safe.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self.repairs = 0
        self._file = self._identify_database()
        self.store: Store = project.store()
        self._settings = CachedValue[Settings]()
        self._documents = CachedValue[Documents]()
        self._owners = CachedValue[Owners]()
        self._names = CachedValue["DocumentNames"]()
        self._artifacts: defaultdict[type, CachedValue[Any]] = defaultdict(CachedValue)
        self._indexes: defaultdict[type, CachedValue[Any]] = defaultdict(CachedValue)
        self._vectors: defaultdict[SearchMode, CachedValue[Floats]] = defaultdict(CachedValue)
        self._encoders: defaultdict[str, CachedValue[QueryEncoder]] = defaultdict(CachedValue)
        # Folder of a semantic index that could not be opened, and the state of the database then.
        self._damaged: tuple[str, tuple[int, int]] | None = None

    def close(self) -> None:
        """Close the database, and release indexes and encoders.

        On Windows, files of an open index cannot be deleted.
        """
        self.store.close()
        self._indexes.clear()
        self._encoders.clear()

    def follow_repair(self) -> None:
        """Reopen the database if a repair has replaced its file, or if the connection is stale.

        After a repair, the connection still reads the former file. A connection is stale if it was
        opened without the write-ahead log and the database has been written to since.
        """
        file = self._identify_database()
        if file != self._file or self.store.is_stale:
            store = self.project.store()
            self.store.close()
            self.store = store
            self._file = file
            self.repairs += 1

    @property
    def state(self) -> tuple[int, int]:
        """A value that changes whenever the database changes."""
        return self.repairs, self.store.version()

    def settings(self) -> Settings:
        """Return the current settings; project.toml is read again only after a change.

        Raises SettingsError.
        """
        try:
            status = (self.project.path / "project.toml").stat()
        except OSError:  # reading the file reports it
            return self.project.settings()
        key = (
            status.st_mtime_ns,
            status.st_size,
            status.st_ino,
        )
        return self._settings.get(key, self.project.settings)

    def artifact(self, kind: type[Info]) -> Artifact[Info] | None:
        """Return the current artifact of a kind."""
        artifact: Artifact[Info] | None = self._artifacts[kind].get(
            self.state, lambda: self.store.artifact(kind)
        )
        return artifact

    def documents(self) -> Documents:
        """Return the live documents by id, without their texts, in order of path."""

        def read() -> Documents:
            return {document.id: document for document in self.store.documents()}

        return self._documents.get(self.state, read)

    def chunk_owners(self) -> Owners:
        """Return the ids of all searchable chunks (n,), and those of their documents (n,)."""
        import numpy as np

        def read() -> Owners:
            pairs = [key[:2] for key in self.store.chunk_keys(superseded=True)]
            rows = np.array(pairs, np.int64).reshape(-1, 2)
            return rows[:, 0], rows[:, 1]

        return self._owners.get(self.state, read)

    def _identify_database(self) -> tuple[int, int] | None:
        """Return (device, inode) of the database file, which change with a repair."""
        try:
            status = (self.project.path / "project.db").stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def lexical_index(self) -> LexicalIndex:
        """Return the current BM25 index. Raises NotBuiltError, DamagedError."""
        from engine.lexical.index import LexicalIndex

        _, index = self._open_current(LexicalInfo, LexicalIndex.open)
        return index

    def vectors(self, mode: SearchMode) -> Artifact[VectorsInfo]:
        """Return the artifact of a mode's vector index and encoder. Raises NotBuiltError.

        Semantic search falls back to the first index while a run builds its own index, if its own
        shares the rows of an earlier first index, or if `vector_index` has found it damaged.
        """
        first = self._require(VectorsInfo)
        if mode != "semantic" or self.has_damaged_index:
            return first
        semantic = self.artifact(SemanticVectorsInfo)
        if semantic is None:
            return first
        if semantic.info.shared and semantic.info.chunk_encoder != first.info.chunk_encoder:
            return first
        return semantic

    def vector_index(self, mode: SearchMode) -> tuple[Artifact[VectorsInfo], VectorIndex]:
        """Return the current vector index of a mode, and its artifact.

        Raises NotBuiltError, DamagedError.
        """
        from engine.vectors.index import VectorIndex

        artifact = self.vectors(mode)
        if not isinstance(artifact.info, SemanticVectorsInfo):
            return self._open_current(VectorsInfo, VectorIndex.open)
        if artifact.info.shared:
            first, index = self._open_current(VectorsInfo, VectorIndex.open)
            if first.info.chunk_encoder == artifact.info.chunk_encoder:
                return artifact, index
            return first, index  # a run has just replaced the index that they shared
        try:
            return self._open_current(SemanticVectorsInfo, VectorIndex.open)
        except DamagedError:
            self._damaged = (artifact.folder, self.state)
        except NotBuiltError:  # a run has just removed it
            pass
        return self.vector_index(mode)  # now the first index

    @property
    def has_damaged_index(self) -> bool:
        """Whether semantic search falls back to the first index, because its own is damaged.

        Its own index is tried again after any change of the database.
        """
        semantic = self.artifact(SemanticVectorsInfo)
        return semantic is not None and self._damaged == (semantic.folder, self.state)

    def query_vector(
        self, query: str, mode: SearchMode
    ) -> tuple[Artifact[VectorsInfo], VectorIndex, Floats]:
        """Encode a query for the current vector index of a mode.

        Returns the artifact, the index and the query's vector (d,). The last vector of each mode is
        cached, as hybrid search needs it twice. Raises NotBuiltError, DamagedError, ModelError.
        """
        while True:
            artifact, index = self.vector_index(mode)
            encode = partial(
                self._encode,
                query,
                artifact,
            )
            try:
                vector = self._vectors[mode].get((query, artifact.folder), encode)
                return artifact, index, vector
            except ModelError:
                # A run may have removed the adapter while the model was loading: then try again.
                if self.vectors(mode).folder == artifact.folder:
                    raise

    def _encode(self, query: str, artifact: Artifact[VectorsInfo]) -> Floats:
        """Return the vector (d,) of a query for an index."""
        encoder = self.query_encoder(artifact)
        vector: Floats = encoder.encode_queries([query])[0]
        return vector

    def query_encoder(self, artifact: Artifact[VectorsInfo]) -> QueryEncoder:
        """Return the query encoder that an index was built with.

        It is the ONNX graph stored with the index if there is one, otherwise the whole model.
        Raises NotBuiltError if the model's files have changed since.
        """
        from engine.encoders.graph.query_graph import QueryGraph

        info = artifact.info
        folder = self.project.path / artifact.folder
        graph = partial(
            QueryGraph.open,
            folder,
            info.encoder,
        )
        role = f"{info.kind} in use"
        encoder = self._load_encoder(
            role,
            info,
            info.adapter,
            info.interpolation_weight,
            graph,
        )
        self._check_unchanged(
            encoder,
            info.encoder,
            info,
        )
        return encoder

    def chunk_encoder(self, artifact: Artifact[VectorsInfo]) -> Encoder:
        """Return the whole model that the chunks were encoded with."""
        info = artifact.info
        if info.chunk_adapter:
            weight = info.interpolation_weight
        else:
            weight = 1.0
        encoder = self._load_encoder(
            "chunks",
            info,
            info.chunk_adapter,
            weight,
        )
        self._check_unchanged(
            encoder,
            info.chunk_encoder,
            info,
        )
        return cast("Encoder", encoder)

    def _check_unchanged(
        self,
        encoder: QueryEncoder,
        expected: str,
        info: VectorsInfo,
    ) -> None:
        """Raise NotBuiltError if the files of an index's encoder have changed."""
        if encoder.fingerprint != expected:
            raise NotBuiltError(
                f"The model {info.model} is not the one that the documents were embedded with.",
                "Its files have changed since.",
                f"Run 'engine run {self.project.argument}'.",
                code="model-changed",
                stage="embed",
            )

    def base_encoder(self, artifact: Artifact[VectorsInfo]) -> QueryEncoder:
        """Return an index's model without an adapter."""
        return self._load_encoder(
            "base",
            artifact.info,
            None,
            1.0,
        )

    def _load_encoder(
        self,
        role: str,
        info: VectorsInfo,
        adapter: str | None,
        weight: float,
        graph: Callable[[], QueryEncoder | None] = lambda: None,
    ) -> QueryEncoder:
        """Load an encoder; the last one of each `role`, such as `base` or `chunks`, stays loaded.

        `adapter`: its folder, relative to the project. `weight`: the adapter's interpolation
        weight. `graph` opens the encoder's stored ONNX graph, which loads faster than the whole
        model, or returns None.
        """

        def load() -> QueryEncoder:
            from engine.encoders.for_project import load_for_search, source_of

            stored = graph()
            if stored:
                return stored
            folder = self.project.path / adapter if adapter else None
            source = source_of(info, self.settings())
            return load_for_search(
                self.project,
                source,
                info.max_tokens,
                folder,
                weight,
            )

        key = (
            info.encoder,
            info.model,
            adapter,
            weight,
            info.max_tokens,
        )
        return self._encoders[role].get(key, load)

    def fusion(self, settings: SearchSettings) -> SearchSettings:
        """Return the settings with `auto` fusion replaced by what the last evaluation chose.

        Before the first evaluation of the index's base model, that is the weighted sum with the
        share that usually suits this model.
        """
        if settings.fusion != "auto":
            return settings
        vectors = self.artifact(VectorsInfo)
        evaluation = self.artifact(EvaluationInfo)
        info = vectors.info if vectors else VectorsInfo()
        chosen = FusionInfo("weighted", info.usual_share)
        if evaluation:
            known_models = {info.base_encoder, evaluation.info.model} - {""}
            if len(known_models) < 2:
                chosen = evaluation.info.fusion
        return settings.model_copy(update={"fusion": chosen.method, "weight": chosen.weight})

    def threshold(self) -> tuple[float | None, str]:
        """Return the similarity below which hits are weak, according to the last evaluation.

        The second value says why there is none, if the first is None.
        """
        evaluation = self.artifact(EvaluationInfo)
        threshold = evaluation.info.threshold if evaluation else None
        if threshold is None:
            return None, f"'engine adapt {self.project.argument}' learns how similar a hit must be"
        if threshold.encoder != self.vectors("semantic").info.encoder:
            reason = (
                "the documents are embedded with another encoder than the one that evaluation"
                " measured"
            )
            return None, reason
        return threshold.similarity, threshold.reason

    def document_names(self) -> DocumentNames:
        """Return the names by which queries may refer to documents."""
        from engine.lexical.filenames import DocumentNames

        def read() -> DocumentNames:
            documents = self.documents().values()
            return DocumentNames((item.id, item.title, item.file_path) for item in documents)

        return self._names.get(self.state, read)

    def language(self, document: Document | None = None) -> str:
        """Return the language in which the BM25 index has analysed a `document`.

        Without a document, the main language of the index; "none" if there is no index.
        """
        from engine.lexical.languages import choose_analysis_language

        artifact = self.artifact(LexicalInfo)
        if artifact is None:
            return "none"
        main = artifact.info.language
        if document is None or document.language not in artifact.info.languages:
            return main
        return choose_analysis_language(
            document.language, self.store.text_length(document.id), main
        )

    def _open_current(
        self, kind: type[Info], load: Callable[[Path], Opened]
    ) -> tuple[Artifact[Info], Opened]:
        """Return the current artifact of a kind, and what `load` opens from its folder.

        What was opened is kept until the artifact changes.
        """
        while True:
            artifact = self._require(kind)
            open_folder = partial(
                self._open,
                artifact,
                load,
            )
            key = (self.repairs, artifact.folder)
            try:
                return artifact, self._indexes[kind].get(key, open_folder)
            except DamagedError:
                # A run may have replaced and removed the artifact meanwhile: then try again.
                if self._require(kind).folder == artifact.folder:
                    raise

    def _open(self, artifact: Artifact[ArtifactInfo], load: Callable[[Path], Opened]) -> Opened:
        """Open the folder of an artifact."""
        return load(self.project.folder_of(artifact))

    def _require(self, kind: type[Info]) -> Artifact[Info]:
        """Return the current artifact of a kind. Raises NotBuiltError if there is none."""
        artifact = self.artifact(kind)
        if artifact is None:
            raise not_built(self.project, kind)
        return artifact
