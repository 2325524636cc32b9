"""The result lists of two systems for a query, as search would show them with either in use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.errors import NotBuiltError
from engine.core.messages.preferences import ListMode
from engine.core.messages.search import Hit
from engine.core.text import format_count
from engine.encoders.for_project import load_for_search
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.lists.differing import DEPTH
from engine.evaluation.lists.systems import (
    ChoicePair,
    ListedSystem,
    SystemChoice,
    SystemPair,
    choose_pair,
)
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import SemanticVectorsInfo, VectorsInfo
from engine.search.cached_value import CachedValue
from engine.search.fusing import Fused, Ranking, fuse
from engine.search.listing import MIN_DEPTH, Listing
from engine.search.loaded import LoadedProject
from engine.search.presence import Presence
from engine.search.rankers import Rankings, put_codes_first
from engine.search.syntax import ParsedQuery
from engine.search.typed import TypedQueries

if TYPE_CHECKING:
    from engine.core.arrays import Floats, Ids
    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.encoder import QueryEncoder


@dataclass(frozen=True)
class KnownChunks:
    """The n chunks with cached vectors of both encoders."""

    ids: Ids
    """Ascending (n,)."""
    caches: dict[str, VectorCache]
    """Fingerprint of an encoder → its cached vectors."""
    places: dict[str, Ids]
    """Fingerprint of an encoder → the place of each chunk's vector in its cache (n,)."""
    missing: int
    """Number of other chunks, which lack a vector of either encoder."""

    def cosines(self, fingerprint: str, vector: Floats) -> Floats:
        """Return the cosines (n,) of a query's vector (d,) with the chunks' vectors.

        `fingerprint`: that of the encoder of the chunks.
        """
        from engine.vectors.exact import cosines

        all_cosines = cosines(self.caches[fingerprint].blocks, vector)
        selected: Floats = all_cosines[self.places[fingerprint]]
        return selected


@dataclass(frozen=True)
class SystemRanking:
    """A query's ranking by one system."""

    fused: Fused
    """The `rankings`, fused as in the evaluation."""
    rankings: Rankings

    @property
    def ids(self) -> list[int]:
        """The ids of the first ten chunks, on which nDCG@10 depends."""
        return [chunk_id for chunk_id, _ in self.fused.order[:DEPTH]]


@dataclass(frozen=True)
class ReferenceAndCandidate:
    """The hits of both systems for a query, as search shows them."""

    reference: tuple[Hit, ...]
    candidate: tuple[Hit, ...]


class SystemLists:
    """Ranks queries by two systems, with the vectors that the stages have cached.

    `mode`: None for the project's default mode. `notes`: messages for the user, each once. Not
    thread-safe.
    """

    def __init__(self, project: ProjectFolder, mode: ListMode | None = None) -> None:
        self._mode = mode
        self._loaded = LoadedProject(project)
        self._typed = TypedQueries(self._loaded)
        self._listing = Listing(self._loaded)
        self._chosen = CachedValue[tuple[ChoicePair, SystemPair]]()
        self._chunks = CachedValue[KnownChunks]()
        self._encoders: dict[str, QueryEncoder] = {}  # by fingerprint
        # Vectors of queries, by the encoder's fingerprint and the query's text.
        self._vectors: dict[tuple[str, str], Floats] = {}
        self.notes: dict[str, None] = {}

    def close(self) -> None:
        """Close the database."""
        self._loaded.close()

    @property
    def snapshot(self) -> ProjectSnapshot:
        """The current state of the project."""
        self._loaded.follow_repair()
        return ProjectSnapshot(
            self._loaded.project,
            self._loaded.settings(),
            self._loaded.store,
        )

    @property
    def pair(self) -> SystemPair:
        """The systems that are compared.

        Raises NotBuiltError if there are no two to compare, ModelError.
        """
        _, pair = self._choose_pair()
        return pair

    def ready(self) -> SystemPair:
        """Return the `pair` after checking that both systems can make lists.

        Raises NotBuiltError also if cached vectors are missing.
        """
        pair = self.pair
        self._find_known_chunks(pair)
        if pair.reference.mode == "hybrid":
            self._loaded.lexical_index()
        return pair

    def load(self, queries: Iterable[str]) -> None:
        """Encode many queries at once, which is faster than one by one."""
        choices, pair = self._choose_pair()
        texts = {self._read(query).text: None for query in queries}
        self._encode(
            texts,
            choices.reference,
            pair.reference.queries,
        )
        self._encode(
            texts,
            choices.candidate,
            pair.candidate.queries,
        )

    def _encode(
        self,
        texts: Iterable[str],
        choice: SystemChoice,
        fingerprint: str,
    ) -> None:
        """Encode the texts that have no vector by this encoder yet, and keep their vectors."""
        import numpy as np

        new = [text for text in texts if (fingerprint, text) not in self._vectors]
        if not new:
            return
        vectors = self._get_encoder(choice, fingerprint).encode_queries(new)
        for text, vector in zip(new, np.asarray(vectors, np.float32), strict=True):
            self._vectors[fingerprint, text] = vector

    def rank(self, query: str) -> tuple[SystemRanking, SystemRanking]:
        """Return the rankings by the reference and by the candidate.

        Raises NotBuiltError, ModelError, DamagedError.
        """
        self.load([query])
        choices, pair = self._choose_pair()
        known = self._find_known_chunks(pair)
        reference = self._rank(
            query,
            choices.reference,
            pair.reference,
            known,
        )
        candidate = self._rank(
            query,
            choices.candidate,
            pair.candidate,
            known,
        )
        return reference, candidate

    def texts(self, rankings: tuple[SystemRanking, SystemRanking]) -> tuple[list[str], list[str]]:
        """Return the texts of the passages in both lists, see `passage_texts`."""
        first, second = rankings
        texts = self.passage_texts([*first.ids, *second.ids])
        first_texts = [texts[chunk_id] for chunk_id in first.ids]
        second_texts = [texts[chunk_id] for chunk_id in second.ids]
        return first_texts, second_texts

    def list_hits(self, query: str) -> ReferenceAndCandidate:
        """Return both lists as search would show them.

        Chunks with codes of the query come first; missing documents are left out.
        """
        parsed = self._read(query)
        allowed = self._typed.chunks_of(parsed.documents)
        presence = Presence(self._loaded.project.path)
        lists: list[tuple[Hit, ...]] = []
        for ranking in self.rank(query):
            rankings = ranking.rankings
            fused = put_codes_first(
                ranking.fused,
                parsed.text,
                rankings,
                allowed,
            )
            lists.append(
                self._listing.hits(parsed.text, rankings.by_ranker, fused, DEPTH, presence)
            )
        return ReferenceAndCandidate(*lists)

    def hits(self, query: str, chunk_ids: Iterable[int]) -> tuple[Hit, ...]:
        """Return hits of these chunks, in their order, without those of missing documents."""
        order = [(chunk_id, 0.0) for chunk_id in chunk_ids]
        presence = Presence(self._loaded.project.path)
        return self._listing.hits(
            query,
            {},
            Fused(order),
            max(1, len(order)),
            presence,
        )

    def passage_texts(self, chunk_ids: Iterable[int]) -> dict[int, str]:
        """Return chunk id → its whole text, with single blanks, so that copies have equal texts.

        A chunk that has just been removed gets its id as text.
        """
        ids = set(chunk_ids)
        texts = {chunk_id: str(chunk_id) for chunk_id in ids}
        for chunk in self._loaded.store.chunks_by_id(ids).values():
            texts[chunk.id] = " ".join(chunk.text.split())
        return texts

    def _choose_pair(self) -> tuple[ChoicePair, SystemPair]:
        """Return the two systems as evaluation chose them, and as stored answers identify them."""
        snapshot = self.snapshot

        def choose() -> tuple[ChoicePair, SystemPair]:
            pair = choose_pair(snapshot, self._mode)
            return pair, pair.identify(snapshot)

        return self._chosen.get((self._loaded.state, repr(snapshot.settings)), choose)

    def _read_known_chunks(self, pair: SystemPair) -> KnownChunks:
        """Look up all chunks in the caches of both encoders."""
        import numpy as np

        from engine.encoders.embedding_cache import EmbeddingCache, VectorCache, hash_keys

        folder = self._loaded.project.path / "cache"
        keys = self._loaded.store.chunk_keys()
        ids = np.array([chunk_id for chunk_id, _, _ in keys], np.int64)
        hashes = hash_keys([content_hash for _, _, content_hash in keys])
        caches: dict[str, VectorCache] = {}
        is_known = np.ones(len(ids), bool)
        for fingerprint in {pair.reference.chunks, pair.candidate.chunks}:
            width = EmbeddingCache(folder).read_width(fingerprint)
            cache = VectorCache(
                folder / fingerprint,
                width,
                reading=True,
            )
            is_known &= cache.find(hashes) >= 0
            caches[fingerprint] = cache
        known_hashes = hashes[is_known]
        places = {name: cache.find(known_hashes) for name, cache in caches.items()}
        missing = int((~is_known).sum())
        return KnownChunks(
            ids[is_known],
            caches,
            places,
            missing,
        )

    def _find_known_chunks(self, pair: SystemPair) -> KnownChunks:
        """Return the chunks with vectors of both encoders. Raises NotBuiltError without any."""
        known = self._chunks.get((self._loaded.state, pair), lambda: self._read_known_chunks(pair))
        if not len(known.ids):
            raise NotBuiltError(
                "The lists of both encoders cannot be made.",
                "The chunk vectors of both encoders are not cached.",
                f"Run 'engine evaluate {self._loaded.project.argument} --force', which makes them.",
                code="lists-unavailable",
                stage="evaluate",
                command="evaluate",
            )
        if known.missing:
            chunks = format_count(known.missing, "chunk")
            note = f"Left out, because added since the last evaluation: {chunks}."
            self.notes[note] = None
        return known

    def _get_encoder(self, choice: SystemChoice, fingerprint: str) -> QueryEncoder:
        """Return the query encoder of a system; once loaded, it is kept."""
        if fingerprint not in self._encoders:
            self._encoders[fingerprint] = self._load_encoder(choice, fingerprint)
        return self._encoders[fingerprint]

    def _load_encoder(self, choice: SystemChoice, fingerprint: str) -> QueryEncoder:
        """Load the query encoder of a system.

        If an index in use has the encoder, its stored ONNX graph is opened, which is faster than
        loading the model.
        """
        kinds: tuple[type[VectorsInfo], ...] = (VectorsInfo, SemanticVectorsInfo)
        for artifact in map(self._loaded.artifact, kinds):
            if artifact is not None and artifact.info.encoder == fingerprint:
                return self._loaded.query_encoder(artifact)
        settings = self._loaded.settings().encoder
        source = encoder_source(settings)
        project = self._loaded.project
        adapter = project.path / choice.adapter if choice.adapter else None
        return load_for_search(
            project,
            source,
            settings.max_tokens,
            adapter,
            choice.weight,
        )

    def _read(self, query: str) -> ParsedQuery:
        """Parse a query, restricted to the documents that it names, as search does."""
        return self._typed.restrict(self._typed.read(query))

    def _rank(
        self, query: str, choice: SystemChoice, system: ListedSystem, known: KnownChunks
    ) -> SystemRanking:
        """Rank a query by one system, from its cached vectors and the BM25 index."""
        import numpy as np

        parsed = self._read(query)
        text = parsed.text
        ids = known.ids
        vector = self._vectors[system.queries, text]
        cosines = known.cosines(system.chunks, vector)
        allowed = self._typed.chunks_of(parsed.documents)
        if allowed is not None:
            is_allowed = np.isin(ids, allowed)
            ids = ids[is_allowed]
            cosines = cosines[is_allowed]
        best = np.lexsort((ids, -cosines))[:MIN_DEPTH]  # by cosine, then by id
        rankings = Rankings({"semantic": (ids[best], cosines[best])})
        settings = self._loaded.settings().search
        if choice.mode == "hybrid":
            index = self._loaded.lexical_index()
            rankings.index = index
            rankings.by_ranker["bm25"] = index.search(text, MIN_DEPTH, ids)
            settings = settings.model_copy(
                update={"fusion": choice.fusion.method, "weight": choice.fusion.weight}
            )
        scored = _cross_score(
            text,
            rankings,
            settings.fusion,
            ids,
            cosines,
        )
        return SystemRanking(fuse(scored, settings), rankings)


def _cross_score(
    text: str, rankings: Rankings, fusion: str, ids: Ids, cosines: Floats
) -> dict[str, Ranking]:
    """Return the rankings by BM25 and by meaning, each with the other's chunks and scores added.

    Search does the same, unless it fuses by ranks. `ids` (n,): all chunks, ascending. `cosines`
    (n,): those of the query `text` with these chunks.
    """
    import numpy as np

    from engine.ranking.fusion import cross_score

    if rankings.index is None or fusion == "rrf":
        return rankings.by_ranker
    bm25 = rankings.by_ranker["bm25"]
    semantic = rankings.by_ranker["semantic"]
    bm25_ids, _ = bm25
    semantic_ids, _ = semantic
    return {
        "bm25": cross_score(bm25, semantic_ids, rankings.index.scores(text, semantic_ids)),
        "semantic": cross_score(semantic, bm25_ids, cosines[np.searchsorted(ids, bm25_ids)]),
    }
