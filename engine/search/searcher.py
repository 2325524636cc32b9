"""Answers searches over the current artifacts of a project; notices when a run has put new ones in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from engine.errors import DamagedError, EngineError, ModelError, NotBuiltError, UsageError
from engine.project import ProjectFolder
from engine.records import Chunk, Document
from engine.search.filters import SearchFilter
from engine.search.hits import Found, Hit, Ranked
from engine.search.snippets import snippet
from engine.store import Artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders import Encoder
    from engine.lexical import LexicalIndex
    from engine.vectors import VectorIndex

Mode = Literal["hybrid", "semantic", "bm25"]
Ranking = tuple["NDArray[np.int64]", "NDArray[np.float32]"]
MODES: tuple[Mode, ...] = ("hybrid", "semantic", "bm25")
LEAST_DEPTH = 100
INDEXES = {"lexical": "BM25", "vectors": "vector"}
Opened = TypeVar("Opened")


class Searcher:
    """Loads what a mode needs when it is first asked for: BM25 never waits for the encoder. Not for several threads."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self._store = project.store()
        self._lexical: tuple[str, LexicalIndex] | None = None
        self._vectors: tuple[str, VectorIndex] | None = None
        self._encoder: tuple[tuple[object, ...], Encoder] | None = None

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        top: int | None = None,
        where: SearchFilter | None = None,
        snippet_width: int = 300,
    ) -> Found:
        """The best `top` chunks for `query`, best first; settings from project.toml where an argument is None.

        Hybrid search goes on with one ranker, and says so in `notes`, when the other is not built, damaged or fails.
        Raises UsageError, SettingsError, NotBuiltError, DamagedError, ModelError, ResourceError.
        """
        query = query.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        settings = self.project.settings()
        mode, top = mode or settings.search.mode, settings.search.top if top is None else top
        if mode not in MODES:
            raise UsageError(
                f"There is no search mode '{mode}'.", "The modes are " + ", ".join(MODES) + ".", "Name one of them."
            )
        if top < 1:
            raise UsageError(
                f"{top} hits cannot be shown.", "The number of hits is at least 1.", "Ask for one or more."
            )
        if not query.strip():
            return Found(query, mode, (), ("The query is empty.",))
        allowed = self._allowed(where)
        depth = max(LEAST_DEPTH, 5 * top)
        rankings, notes = self._rankings(query, mode, depth, allowed)
        order = self._fuse(rankings)
        places = {name: {int(c): n for n, c in enumerate(ids, 1)} for name, (ids, _) in rankings.items()}
        hits: list[Hit] = []
        for chunk, score in self._present(order, top):
            ranks = {
                name: Ranked(place[chunk.id], float(rankings[name][1][place[chunk.id] - 1]))
                for name, place in places.items()
                if chunk.id in place
            }
            hits.append(self._hit(len(hits) + 1, query, chunk, score, ranks, snippet_width))
        return Found(query, mode, tuple(hits), tuple(notes))

    def _present(self, order: Sequence[tuple[int, float]], top: int) -> list[tuple[Chunk, float]]:
        """The first `top` of `order` whose documents still exist: an index may name some that were deleted since."""
        present: list[tuple[Chunk, float]] = []
        for start in range(0, len(order), 2 * top):
            block = order[start : start + 2 * top]
            chunks = self._store.chunks_by_id(chunk_id for chunk_id, _ in block)
            present += [(chunks[chunk_id], score) for chunk_id, score in block if chunk_id in chunks]
            if len(present) >= top:
                break
        return present[:top]

    def document(self, document_id: int) -> Document | None:
        """A document with its text, for a preview."""
        return self._store.document(document_id)

    def warm_up(self, mode: Mode) -> None:
        """Load what a mode needs, so that the first search is quick."""
        self.search("warm up", mode=mode, top=1)

    def _rankings(
        self, query: str, mode: Mode, depth: int, allowed: set[int] | None
    ) -> tuple[dict[str, Ranking], list[str]]:
        """The rankings that a mode asks for; a hybrid one may do without one of them."""
        if mode == "bm25":
            return {"bm25": self._bm25(query, depth, allowed)}, []
        if mode == "semantic":
            return {"semantic": self._semantic(query, depth, allowed)}, []
        rankings: dict[str, Ranking] = {}
        failures: list[EngineError] = []
        parts: dict[str, Callable[[], Ranking]] = {
            "bm25": lambda: self._bm25(query, depth, allowed),
            "semantic": lambda: self._semantic(query, depth, allowed),
        }
        for name, ranker in parts.items():
            try:
                rankings[name] = ranker()
            except EngineError as error:
                failures.append(error)
        if not rankings:
            raise failures[0]
        return rankings, [f"{' and '.join(rankings)} only: {error.what} {error.to_do}" for error in failures]

    def _bm25(self, query: str, depth: int, allowed: set[int] | None) -> Ranking:
        index = self._lexical_index()
        if allowed is None:
            return index.search(query, depth)
        import numpy as np

        wanted = np.fromiter(allowed, np.int64, len(allowed))
        fetched = depth
        while True:  # tantivy cannot filter by our rows: fetch more until enough pass
            ids, scores = index.search(query, fetched)
            keep = np.isin(ids, wanted)
            if keep.sum() >= depth or len(ids) < fetched:
                return ids[keep][:depth], scores[keep][:depth]
            fetched *= 8

    def _semantic(self, query: str, depth: int, allowed: set[int] | None) -> Ranking:
        artifact, index = self._vector_index()
        try:
            vector = self._query_encoder(artifact).encode_queries([query])[0]
        except ModelError:
            if self._need("vectors", "embed").folder == artifact.folder:
                raise
            return self._semantic(query, depth, allowed)  # a run has swept that adapter while the model was loading
        if allowed is None:
            return index.search(vector, depth)
        import numpy as np

        return index.search_among(vector, np.fromiter(sorted(allowed), np.int64, len(allowed)), depth)

    def _vector_index(self) -> tuple[Artifact, VectorIndex]:
        from engine.vectors import VectorIndex

        artifact, index = self._current("vectors", "embed", self._vectors, VectorIndex.open)
        self._vectors = (artifact.folder, index)
        return artifact, index

    def _query_encoder(self, artifact: Artifact) -> Encoder:
        """The encoder that the vectors were made with, whatever has been trained since."""
        info: dict[str, Any] = artifact.info
        key = (info["encoder"], info["model"], info["adapter"], info["scale"], info["max_tokens"])
        if self._encoder is None or self._encoder[0] != key:
            from engine.encoders import Encoder, choose_hardware, resolve_model

            settings = self.project.settings().encoder
            encoder = Encoder.load(
                resolve_model(info["model"]),
                adapter=self.project.path / info["adapter"] if info["adapter"] else None,
                adapter_scale=info["scale"],
                hardware=choose_hardware(settings.device, settings.dtype, purpose="encode"),
                max_tokens=info["max_tokens"],
            )
            if encoder.fingerprint != info["encoder"]:
                raise NotBuiltError(
                    f"The model {info['model']} is not the one that the documents were embedded with.",
                    "Its files were changed since.",
                    f"Run 'engine run {self.project.argument}'.",
                )
            self._encoder = (key, encoder)
        return self._encoder[1]

    def _lexical_index(self) -> LexicalIndex:
        from engine.lexical import LexicalIndex

        artifact, index = self._current("lexical", "index", self._lexical, LexicalIndex.open)
        self._lexical = (artifact.folder, index)
        return index

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
        artifact = self._store.artifact(kind)
        if artifact is None:
            raise NotBuiltError(
                f"The project {self.project.name} has no {INDEXES[kind]} index yet.",
                f"The stage '{stage}' makes it.",
                f"Run 'engine run {self.project.argument}'.",
            )
        return artifact

    def _allowed(self, where: SearchFilter | None) -> set[int] | None:
        """Chunk ids that pass the filter; None when there is no filter."""
        if where is None or where.empty:
            return None
        documents = where.allowed(self._store.documents())
        return {
            chunk_id for chunk_id, document_id in self._store.chunk_owners(superseded=True) if document_id in documents
        }

    def _fuse(self, rankings: dict[str, Ranking]) -> list[tuple[int, float]]:
        """(chunk id, score), best first: fused when there are two rankings, as it is when there is one."""
        if len(rankings) == 1:
            ids, scores = next(iter(rankings.values()))
            return [(int(c), float(s)) for c, s in zip(ids, scores, strict=True)]
        from engine.ranking import convex, rrf

        settings = self.project.settings().search
        if settings.fusion == "rrf":
            fused = rrf([rankings["bm25"], rankings["semantic"]], u=settings.rrf_u)
        else:
            fused = convex(rankings["semantic"], rankings["bm25"], settings.weight)
        return [(int(c), float(s)) for c, s in zip(*fused, strict=True)]

    def _hit(self, rank: int, query: str, chunk: Chunk, score: float, ranks: dict[str, Ranked], width: int) -> Hit:
        document = self._store.document_card(chunk.document_id)
        text, marks = snippet(chunk.text, self._matches(query, chunk.text), width)
        return Hit(
            rank=rank, score=score, path=document.path,
            source=str(self.project.path / document.source), title=document.title, headings=chunk.headings,
            snippet=text, marks=marks, format=document.format, modified=document.modified, chunk_id=chunk.id,
            document_id=document.id, start=chunk.start, end=chunk.end, rankers=ranks,
        )  # fmt: skip

    def _matches(self, query: str, text: str) -> list[tuple[int, int]]:
        from engine.lexical import matched_spans

        artifact = self._store.artifact("lexical")
        return matched_spans(query, text, str(artifact.info.get("language", "none")) if artifact else "none")
