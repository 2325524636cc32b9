"""The lists of two systems for one query, as search would show them with either encoder in use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.characters import visible
from engine.core.errors import NotBuiltError
from engine.core.messages.preferences import ListMode
from engine.core.messages.search import Hit
from engine.encoders.for_project import with_kept_queries
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.lists.differing import DEPTH
from engine.evaluation.lists.systems import (
    ChoicePair,
    ListedSystem,
    SystemChoice,
    SystemPair,
    choose_pair,
)
from engine.lexical.filenames import FilenameMatch
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import SemanticVectorsInfo, VectorsInfo
from engine.search.fusing import Fused, Ranking, fuse
from engine.search.latest import Latest
from engine.search.listing import MIN_DEPTH, Listing
from engine.search.loaded import Loaded
from engine.search.presence import Presence
from engine.search.rankers import Rankings, codes_first
from engine.search.typed import TypedQueries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.encoder import QueryEncoder


@dataclass(frozen=True)
class KnownChunks:
    """The chunks that both encoders have vectors of: `ids` (n,), ascending; by fingerprint, the
    cached vectors and the places (n,) of theirs among them. `missing`: how many chunks lack one.
    """

    ids: NDArray[np.int64]
    caches: dict[str, VectorCache]
    places: dict[str, NDArray[np.int64]]
    missing: int

    def cosines(self, chunks: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) Of the chunks, as an encoder of that fingerprint sees them, with a query's vector
        (d,).
        """
        from engine.vectors.exact import cosines

        found: NDArray[np.float32] = cosines(self.caches[chunks].blocks, vector)[
            self.places[chunks]
        ]
        return found


@dataclass(frozen=True)
class SystemRanking:
    """One query as one system ranks it: `fused` by evaluation's rules, from the rankings
    `by_ranker`.
    """

    fused: Fused
    rankings: Rankings

    @property
    def ids(self) -> list[int]:
        """The first chunks, as far as nDCG@10 looks."""
        return [chunk_id for chunk_id, _ in self.fused.order[:DEPTH]]


@dataclass(frozen=True)
class ReferenceAndCandidate:
    """What both systems give for one query: hits as search shows them."""

    reference: tuple[Hit, ...]
    candidate: tuple[Hit, ...]


class SystemLists:
    """Ranks queries by two systems over the vectors that the stages cached.

    Not for several threads.

    `mode`: None for the project's default one. `notes`: what the user should know, each once.
    """

    def __init__(self, project: ProjectFolder, mode: ListMode | None = None) -> None:
        self._mode = mode
        self._loaded = Loaded(project)
        self._typed = TypedQueries(self._loaded)
        self._listing = Listing(self._loaded)
        self._chosen = Latest[tuple[ChoicePair, SystemPair]]()
        self._chunks = Latest[KnownChunks]()
        self._encoders: dict[str, QueryEncoder] = {}
        self._vectors: dict[tuple[str, str], NDArray[np.float32]] = {}
        self.notes: dict[str, None] = {}

    def close(self) -> None:
        """Let go of the database."""
        self._loaded.close()

    @property
    def snapshot(self) -> ProjectSnapshot:
        """The project as it is now."""
        self._loaded.follow_repair()
        return ProjectSnapshot(self._loaded.project, self._loaded.settings(), self._loaded.store)

    @property
    def pair(self) -> SystemPair:
        """The systems that are compared.

        Raises NotBuiltError where there is none to compare, ModelError.
        """
        return self._both()[1]

    def ready(self) -> SystemPair:
        """The same, once it is known that both can make lists.

        Raises NotBuiltError as well where their vectors are gone.
        """
        pair = self.pair
        self._known(pair)
        if pair.reference.mode == "hybrid":
            self._loaded.lexical_index()
        return pair

    def load(self, queries: Iterable[str]) -> None:
        """Encode many queries at once, which is quicker than one by one."""
        import numpy as np

        choices, pair = self._both()
        texts = [self._match(query).text for query in queries]
        for choice, fingerprint in (
            (choices.reference, pair.reference),
            (choices.candidate, pair.candidate),
        ):
            new = [
                text
                for text in dict.fromkeys(texts)
                if (fingerprint.queries, text) not in self._vectors
            ]
            if new:
                vectors = self._encoder(choice, fingerprint.queries).encode_queries(new)
                for text, vector in zip(new, np.asarray(vectors, np.float32), strict=True):
                    self._vectors[fingerprint.queries, text] = vector

    def rank(self, query: str) -> tuple[SystemRanking, SystemRanking]:
        """The rankings of the reference and of the candidate.

        Raises NotBuiltError, ModelError, DamagedError.
        """
        self.load([query])
        choices, pair = self._both()
        known = self._known(pair)
        first = self._rank(query, choices.reference, pair.reference, known)
        return first, self._rank(query, choices.candidate, pair.candidate, known)

    def texts(self, rankings: tuple[SystemRanking, SystemRanking]) -> tuple[list[str], list[str]]:
        """What stands in both lists, passage by passage, white space single: copies of a text
        count as one passage.
        """
        first, second = rankings
        chunks = self._loaded.store.chunks_by_id({*first.ids, *second.ids})
        words = {chunk_id: " ".join(chunk.text.split()) for chunk_id, chunk in chunks.items()}
        return (
            [words.get(chunk_id, str(chunk_id)) for chunk_id in first.ids],
            [words.get(chunk_id, str(chunk_id)) for chunk_id in second.ids],
        )

    def shown(self, query: str) -> ReferenceAndCandidate:
        """Both lists as search would show them: with codes first, and without documents that are
        gone.
        """
        match = self._match(query)
        allowed = self._typed.chunks_of(set(match.documents) or None)
        presence = Presence(self._loaded.project.path)
        lists: list[tuple[Hit, ...]] = []
        for one in self.rank(query):
            fused = codes_first(one.fused, match.text, one.rankings, allowed)
            lists.append(
                self._listing.hits(match.text, one.rankings.by_ranker, fused, DEPTH, presence)
            )
        return ReferenceAndCandidate(*lists)

    def hits(self, query: str, chunk_ids: Iterable[int]) -> tuple[Hit, ...]:
        """Hits of these chunks, in their order, without those whose documents are gone."""
        order = [(chunk_id, 0.0) for chunk_id in chunk_ids]
        presence = Presence(self._loaded.project.path)
        return self._listing.hits(query, {}, Fused(order), max(1, len(order)), presence)

    def passage_texts(self, hits: Iterable[Hit]) -> dict[int, str]:
        """The whole text of each hit's chunk, by its id."""
        chunks = self._loaded.store.chunks_by_id(hit.chunk_id for hit in hits)
        return {chunk_id: chunk.text for chunk_id, chunk in chunks.items()}

    def _both(self) -> tuple[ChoicePair, SystemPair]:
        snapshot = self.snapshot

        def choose() -> tuple[ChoicePair, SystemPair]:
            pair = choose_pair(snapshot, self._mode)
            return pair, pair.listed(snapshot)

        return self._chosen.get((self._loaded.state, repr(snapshot.settings)), choose)

    def _known(self, pair: SystemPair) -> KnownChunks:
        """The chunks that both encoders know. Raises NotBuiltError where there are none."""
        import numpy as np

        from engine.encoders.embedding_cache import EmbeddingCache, VectorCache, hash_keys

        folder = self._loaded.project.path / "cache"

        def look() -> KnownChunks:
            keys = self._loaded.store.chunk_keys()
            ids = np.array([key[0] for key in keys], np.int64)
            hashes = hash_keys([key[2] for key in keys])
            caches: dict[str, VectorCache] = {}
            known = np.ones(len(ids), bool)
            for chunks in {pair.reference.chunks, pair.candidate.chunks}:
                width = EmbeddingCache(folder).width_of(chunks)
                caches[chunks] = VectorCache(folder / chunks, width, reading=True)
                known &= caches[chunks].find(hashes) >= 0
            places = {chunks: cache.find(hashes[known]) for chunks, cache in caches.items()}
            return KnownChunks(ids[known], caches, places, int((~known).sum()))

        found = self._chunks.get((self._loaded.state, pair), look)
        if not len(found.ids):
            raise NotBuiltError(
                "The lists of both encoders cannot be made.",
                "Their vectors of the chunks are not kept.",
                f"Run 'engine evaluate {self._loaded.project.argument} --force', which makes them.",
                code="lists-unavailable",
                stage="evaluate",
                command="evaluate",
            )
        if found.missing:
            self.notes[
                f"{found.missing:,} chunks that were added since the last evaluation are left out."
            ] = None
        return found

    def _encoder(self, choice: SystemChoice, fingerprint: str) -> QueryEncoder:
        """What encodes queries: the graph beside the index where it is in use, which loads
        faster, else the model.
        """
        if fingerprint not in self._encoders:
            kinds: tuple[type[VectorsInfo], ...] = (VectorsInfo, SemanticVectorsInfo)
            made = [self._loaded.artifact(kind) for kind in kinds]
            vectors = next(
                (one for one in made if one is not None and one.info.encoder == fingerprint), None
            )
            if vectors is not None:
                self._encoders[fingerprint] = self._loaded.query_encoder(vectors)
            else:
                self._encoders[fingerprint] = self._load(choice)
        return self._encoders[fingerprint]

    def _load(self, choice: SystemChoice) -> QueryEncoder:
        chosen = self._loaded.settings().encoder
        source = encoder_source(chosen)
        project = self._loaded.project
        if choice.adapter:
            adapter = project.path / choice.adapter
        else:
            adapter = None
        encoder = source.load(chosen.max_tokens, adapter, choice.weight)
        if source.server:
            return with_kept_queries(project, encoder)
        return encoder

    def _match(self, query: str) -> FilenameMatch:
        """What to look for, and the documents that the query names, as search has it."""
        clean = visible(query.encode("utf-8", "replace").decode())
        if self._loaded.settings().search.named_documents and "." in clean:
            return self._loaded.document_names().match(clean)
        return FilenameMatch(clean)

    def _rank(
        self, query: str, choice: SystemChoice, system: ListedSystem, known: KnownChunks
    ) -> SystemRanking:
        import numpy as np

        match = self._match(query)
        ids = known.ids
        cosines = known.cosines(system.chunks, self._vectors[system.queries, match.text])
        named = self._typed.chunks_of(set(match.documents) or None)
        if named is not None:
            inside = np.isin(ids, named)
            ids = ids[inside]
            cosines = cosines[inside]
        best = np.lexsort((ids, -cosines))[:MIN_DEPTH]
        semantic = ids[best], cosines[best]
        rankings = Rankings({"semantic": semantic})
        settings = self._loaded.settings().search
        if choice.mode == "hybrid":
            index = self._loaded.lexical_index()
            rankings.index = index
            rankings.by_ranker["bm25"] = index.search(match.text, MIN_DEPTH, ids)
            settings = settings.model_copy(
                update={"fusion": choice.fusion.method, "weight": choice.fusion.weight}
            )
        return SystemRanking(
            fuse(_scored(match.text, rankings, settings.fusion, ids, cosines), settings), rankings
        )


def _scored(
    text: str, rankings: Rankings, fusion: str, ids: NDArray[np.int64], cosines: NDArray[np.float32]
) -> dict[str, Ranking]:
    """Where scores are summed, each ranking with the other's chunks, too, as search scores them."""
    import numpy as np

    from engine.ranking.fusion import cross_scored

    if rankings.index is None or fusion == "rrf":
        return rankings.by_ranker
    bm25 = rankings.by_ranker["bm25"]
    semantic = rankings.by_ranker["semantic"]
    return {
        "bm25": cross_scored(bm25, semantic[0], rankings.index.scores(text, semantic[0])),
        "semantic": cross_scored(semantic, bm25[0], cosines[np.searchsorted(ids, bm25[0])]),
    }
