"""What a searcher keeps open: the database, the indexes and the encoder, each loaded when it is
first needed.
"""

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
from engine.search.behind import Behind, IndexLag
from engine.search.latest import Latest
from engine.settings.schema import SearchSettings, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.encoder import Encoder, QueryEncoder
    from engine.lexical.filenames import DocumentNames
    from engine.lexical.index import LexicalIndex
    from engine.vectors.index import VectorIndex

Documents = dict[int, Document]
Owners = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
Opened = TypeVar("Opened")


class Loaded:
    """Notices when a run has put new artifacts in place, or a repair another database.

    Not for several threads.

    `repairs` counts the databases that were opened anew.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self.repairs = 0
        self._file = self._database_file()
        self.store: Store = project.store()
        self._settings = Latest[Settings]()
        self._documents = Latest[Documents]()
        self._owners = Latest[Owners]()
        self._names = Latest["DocumentNames"]()
        self._artifacts: defaultdict[type, Latest[Any]] = defaultdict(Latest)
        self._indexes: defaultdict[type, Latest[Any]] = defaultdict(Latest)
        self._vectors: defaultdict[SearchMode, Latest[NDArray[np.float32]]] = defaultdict(Latest)
        self._encoders: defaultdict[str, Latest[QueryEncoder]] = defaultdict(Latest)
        self._lag = IndexLag(self)
        self._damaged: tuple[str, tuple[int, int]] | None = None
        """Folder of an index of semantic search that could not be opened, and the state of the database then."""  # noqa: E501

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def follow_repair(self) -> None:
        """Open the database anew where a repair has replaced it, as our connection still reads
        the one set aside; or where it was opened without its log and is written to.
        """
        now = self._database_file()
        if now != self._file or self.store.is_stale:
            fresh = self.project.store()
            self.store.close()
            self.store = fresh
            self._file = now
            self.repairs += 1

    @property
    def state(self) -> tuple[int, int]:
        """What changes whenever the database does."""
        return self.repairs, self.store.version()

    def settings(self) -> Settings:
        """project.toml as it is now, read again only when the file has changed.

        Raises SettingsError.
        """
        try:
            found = (self.project.path / "project.toml").stat()
        except OSError:  # reading it says what is wrong
            return self.project.settings()
        return self._settings.get(
            (found.st_mtime_ns, found.st_size, found.st_ino), self.project.settings
        )

    def artifact(self, kind: type[Info]) -> Artifact[Info] | None:
        """The current artifact of a kind."""
        found: Artifact[Info] | None = self._artifacts[kind].get(
            self.state, lambda: self.store.artifact(kind)
        )
        return found

    def documents(self) -> Documents:
        """The live documents by id, without their texts, in order of path."""
        return self._documents.get(
            self.state, lambda: {one.id: one for one in self.store.documents()}
        )

    def chunk_owners(self) -> Owners:
        """Ids of all chunks that can be found (n,), and of their documents (n,)."""
        import numpy as np

        def read() -> Owners:
            rows = np.array(
                [key[:2] for key in self.store.chunk_keys(superseded=True)], np.int64
            ).reshape(-1, 2)
            return rows[:, 0], rows[:, 1]

        return self._owners.get(self.state, read)

    def _database_file(self) -> tuple[int, int] | None:
        """Identity of the database file: a repair puts another in its place."""
        try:
            found = (self.project.path / "project.db").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def lexical_index(self) -> LexicalIndex:
        """The current BM25 index. Raises NotBuiltError, DamagedError."""
        from engine.lexical.index import LexicalIndex

        return self._current(LexicalInfo, LexicalIndex.open)[1]

    def vectors(self, mode: SearchMode) -> Artifact[VectorsInfo]:
        """What the stage noted of the index and the encoder of a mode. Raises NotBuiltError.

        While a run makes the index of semantic search, where it was made beside another first
        index, or where `vector_index` has found it damaged, semantic search uses the first one.
        """
        first = self._need(VectorsInfo)
        if mode == "semantic":
            own = self.artifact(SemanticVectorsInfo)
        else:
            own = None
        if own is None or self.has_damaged_index:
            return first
        if own.info.shared and own.info.chunk_encoder != first.info.chunk_encoder:
            return first
        return own

    def vector_index(self, mode: SearchMode) -> tuple[Artifact[VectorsInfo], VectorIndex]:
        """The current vector index of a mode, and what its stage noted.

        Raises NotBuiltError, DamagedError.
        """
        from engine.vectors.index import VectorIndex

        own = self.vectors(mode)
        if not isinstance(own.info, SemanticVectorsInfo):
            return self._current(VectorsInfo, VectorIndex.open)
        if own.info.shared:
            first, index = self._current(VectorsInfo, VectorIndex.open)
            fits = (
                first.info.chunk_encoder == own.info.chunk_encoder
            )  # otherwise a run has replaced it a moment ago
            return (own if fits else first), index
        try:
            return self._current(SemanticVectorsInfo, VectorIndex.open)
        except DamagedError:
            self._damaged = own.folder, self.state
        except NotBuiltError:  # a run has dropped it a moment ago
            pass
        return self.vector_index(mode)

    def behind(self, ranker: str, mode: SearchMode = "hybrid") -> Behind | None:
        """What a ranker does not know yet; None where it knows all documents."""
        return self._lag.behind(ranker, mode)

    @property
    def has_damaged_index(self) -> bool:
        """Whether semantic search uses the first index as its own was found damaged; it is tried
        again once anything changes.
        """
        own = self.artifact(SemanticVectorsInfo)
        return own is not None and self._damaged == (own.folder, self.state)

    def query_vector(
        self, query: str, mode: SearchMode
    ) -> tuple[Artifact[VectorsInfo], VectorIndex, NDArray[np.float32]]:
        """A query as the current vector index of a mode wants it (d,), with that index.

        Raises ModelError besides.

        The last one is kept: hybrid search asks for it twice.
        """
        while True:
            artifact, index = self.vector_index(mode)
            encode = partial(self._encoded, query, artifact)
            try:
                return artifact, index, self._vectors[mode].get((query, artifact.folder), encode)
            except ModelError:
                if self.vectors(mode).folder == artifact.folder:
                    raise  # otherwise a run has swept that adapter while the model was loading

    def _encoded(self, query: str, artifact: Artifact[VectorsInfo]) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.query_encoder(artifact).encode_queries([query])[0]
        return vector

    def query_encoder(self, artifact: Artifact[VectorsInfo]) -> QueryEncoder:
        """The encoder that the vectors were made with, whatever has been trained since: as the
        graph beside the index, else loaded whole.
        """
        from engine.encoders.graph.query_graph import QueryGraph

        info = artifact.info
        graph = partial(QueryGraph.open, self.project.path / artifact.folder, info.encoder)
        encoder = self._encoder(
            f"{info.kind} in use", info, info.adapter, info.interpolation_weight, graph
        )
        self._check_unchanged(encoder, info.encoder, info)
        return encoder

    def chunk_encoder(self, artifact: Artifact[VectorsInfo]) -> Encoder:
        """What the chunks were encoded with, loaded whole."""
        info = artifact.info
        if info.chunk_adapter:
            weight = info.interpolation_weight
        else:
            weight = 1.0
        encoder = cast("Encoder", self._encoder("chunks", info, info.chunk_adapter, weight))
        self._check_unchanged(encoder, info.chunk_encoder, info)
        return encoder

    def _check_unchanged(self, encoder: QueryEncoder, expected: str, info: VectorsInfo) -> None:
        if encoder.fingerprint != expected:
            raise NotBuiltError(
                f"The model {info.model} is not the one that the documents were embedded with.",
                "Its files have changed since.",
                f"Run 'engine run {self.project.argument}'.",
                code="model-changed",
                stage="embed",
            )

    def base_encoder(self, artifact: Artifact[VectorsInfo]) -> QueryEncoder:
        """The same model without an adapter."""
        return self._encoder("base", artifact.info, None, 1.0)

    def _encoder(
        self,
        role: str,
        info: VectorsInfo,
        adapter: str | None,
        weight: float,
        graph: Callable[[], QueryEncoder | None] = lambda: None,
    ) -> QueryEncoder:
        def load() -> QueryEncoder:
            from engine.encoders.for_project import source_of, with_kept_queries

            folder = self.project.path / adapter if adapter else None
            source = source_of(info, self.settings())
            encoder = source.load(info.max_tokens, folder, weight)
            if source.server:
                return with_kept_queries(self.project, encoder)
            return encoder

        return self._encoders[role].get(
            (info.encoder, info.model, adapter, weight, info.max_tokens), lambda: graph() or load()
        )

    def fusion(self, settings: SearchSettings) -> SearchSettings:
        """The settings with `auto` fusion replaced by what the last evaluation chose, the
        equal-weight sum before one.
        """
        if settings.fusion != "auto":
            return settings
        artifact = self.artifact(EvaluationInfo)
        if artifact:
            chosen = artifact.info.fusion
        else:
            chosen = FusionInfo("weighted", 0.5)
        return settings.model_copy(update={"fusion": chosen.method, "weight": chosen.weight})

    def threshold(self) -> tuple[float | None, str]:
        """The least similarity, as search has it, of a hit that is not weak, as evaluation
        learnt it; or None and why not.
        """
        evaluation = self.artifact(EvaluationInfo)
        learnt = evaluation.info.threshold if evaluation else None
        if learnt is None:
            return None, f"'engine adapt {self.project.argument}' learns how similar a hit must be"
        if learnt.encoder != self.vectors("semantic").info.encoder:
            return (
                None,
                (
                    "the documents are embedded with another encoder than the one that evaluation"
                    " measured"
                ),
            )
        return learnt.similarity, learnt.reason

    def document_names(self) -> DocumentNames:
        """What queries may call the documents."""
        from engine.lexical.filenames import DocumentNames

        rows = ((one.id, one.title, one.path) for one in self.documents().values())
        return self._names.get(self.state, lambda: DocumentNames(rows))

    def language(self, document: Document | None = None) -> str:
        """The main language of the BM25 index, or the one in which it has analysed a `document`;
        "none" before there is an index.
        """
        from engine.lexical.languages import analysed_in

        artifact = self.artifact(LexicalInfo)
        main = artifact.info.language if artifact else "none"
        if artifact is None or document is None or document.language not in artifact.info.languages:
            return main
        return analysed_in(document.language, self.store.text_length(document.id), main)

    def _current(
        self, kind: type[Info], load: Callable[[Path], Opened]
    ) -> tuple[Artifact[Info], Opened]:
        """The current artifact of a kind, opened.

        A run may replace and sweep it between our look and our opening.
        """
        while True:
            artifact = self._need(kind)
            opened = partial(self._opened, artifact, load)
            try:
                return artifact, self._indexes[kind].get((self.repairs, artifact.folder), opened)
            except DamagedError:
                if self._need(kind).folder == artifact.folder:
                    raise

    def _opened(self, artifact: Artifact[ArtifactInfo], load: Callable[[Path], Opened]) -> Opened:
        return load(self.project.folder_of(artifact))

    def _need(self, kind: type[Info]) -> Artifact[Info]:
        artifact = self.artifact(kind)
        stage = kind.stage
        if artifact is None:
            raise NotBuiltError(
                f"The project {self.project.name} has no {kind.called} yet.",
                "",
                f"To make it, run 'engine run {self.project.argument}'.",
                stage=stage,
            )
        return artifact
