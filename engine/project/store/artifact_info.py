"""The record each stage stores with its artifact (column `info`), one class a kind.

A field's default stands for a key that the stored record lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, cast, get_args, get_type_hints

from engine.core.messages.report import SearchMode, Standing


@dataclass(frozen=True)
class Record:
    """A dataclass with a JSON form.

    Lists are read as tuples; keys without a field are ignored.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        records = _find_records(cast(Any, cls))
        values = {}
        for column in fields(cls):
            if column.name not in data:
                continue
            value = data[column.name]
            if value is not None and column.name in records:
                value = records[column.name].from_dict(value)
            values[column.name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


@cache
def _find_records(kind: type[Record]) -> Mapping[str, type[Record]]:
    """Return the fields of a record whose value is a record, too, or None."""
    records = {}
    for name, hint in get_type_hints(kind).items():
        for part in (hint, *get_args(hint)):
            if isinstance(part, type) and issubclass(part, Record):
                records[name] = part
    return records


@dataclass(frozen=True)
class ArtifactInfo(Record):
    """Base of the records of artifacts."""

    kind: ClassVar[str] = ""  # Key in the database.
    stage: ClassVar[str] = ""  # The stage that makes it.
    called: ClassVar[str] = ""  # Its name in messages.
    plural: ClassVar[bool] = False  # Whether `called` is a plural.

    @property
    def folders_read(self) -> tuple[str, ...]:
        """Folders of other artifacts without which this artifact is useless."""
        return ()


@dataclass(frozen=True)
class CorpusInfo(ArtifactInfo):
    """The chunks of the corpus.

    `passwords`, `ocr` and `limits` show when unreadable files are worth another try.
    """

    kind = "corpus"
    stage = "ingest"
    called = "chunks"
    plural = True
    chunks: str = ""  # `Store.corpus_fingerprint` after a complete ingest.
    passwords: tuple[int, ...] | None = None
    ocr: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    tokenizer: str = ""  # Fingerprint of the tokenizer that measured the chunks.
    files_left: int = 0  # Files still to be read; those read before them are indexed first.


@dataclass(frozen=True)
class LexicalInfo(ArtifactInfo):
    """The BM25 index."""

    kind = "lexical"
    stage = "index"
    called = "keyword index"
    language: str = "none"  # Its main language.
    languages: tuple[str, ...] = ()  # Other languages that documents are stemmed in.
    chunks: int = 0  # Number of chunks.
    chunks_fingerprint: str = ""
    version: int = 0


@dataclass(frozen=True)
class WriterInfo(Record):
    """The language model file that wrote the queries."""

    named: str = ""  # As project.toml names it.
    identity: str = ""  # Its `content_identity`.


@dataclass(frozen=True)
class QueriesInfo(ArtifactInfo):
    """The training queries, and what they were made from."""

    kind = "queries"
    stage = "generate"
    called = "queries"
    plural = True
    corpus: str = ""  # Fingerprint.
    recipe: str = ""  # Fingerprint.
    made: int = 0  # Number of queries before filtering.
    rejected: Mapping[str, int] = field(default_factory=dict)  # Reason → number of queries.
    content: str = ""  # Fingerprint of the queries themselves.
    backend: str = ""
    writer: WriterInfo | None = None
    # Fingerprint and length limit of the model of the consistency filter.
    encoder: tuple[str, int] | None = None
    # Defaults of the program that made them (engine/queries/recipe.py); empty if not stored.
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryBackendInfo(ArtifactInfo):
    """The backend that makes the queries, and why; for a language model its file and identity.

    As an artifact it is the choice of `auto`; empty if project.toml names a backend.
    """

    kind = "query-backend"
    stage = "generate"
    backend: str = ""
    reason: str = ""
    model: str = ""
    identity: str = ""


@dataclass(frozen=True)
class RankingsInfo(ArtifactInfo):
    """The rankings of the training queries."""

    kind = "rankings"
    stage = "rank"
    called = "rankings"
    plural = True
    queries: str = ""  # `QueriesInfo.content` of the queries ranked.
    k: int = 0  # Depth.


@dataclass(frozen=True)
class TrainingHistory(Record):
    """The course of a training.

    `losses`: (step, loss). `held_out`: (step, nDCG@10 in percent).
    """

    losses: Sequence[tuple[int, float]] = ()
    held_out: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True)
class AdapterInfo(ArtifactInfo):
    """The trained adapter."""

    kind = "adapter"
    stage = "train"
    called = "adapter"
    adapter: str | None = None  # Its folder; None, with a `reason`, if none was trained.
    reason: str = ""
    steps: int = 0
    best_step: int | None = None
    ended: str = ""
    adapter_scope: str = "both"
    digest: str = ""
    model: str = ""  # Fingerprint of the base model.
    seconds: float = 0.0  # Training time over all its runs; 0 if unknown.


@dataclass(frozen=True)
class InUseInfo(Record):
    """The encoder that evaluation chose for a search mode, and why."""

    name: str = "base"
    interpolation_weight: float = 0.0
    adapter: str | None = None  # Its folder; None for base.
    adapter_scope: str = "both"
    standing: Standing = "base"
    reason: str = ""


@dataclass(frozen=True)
class ContenderInfo(Record):
    """The candidate of a search mode that is most worth comparing with the reference."""

    name: str = "adapted"
    interpolation_weight: float = 1.0
    # Weight of the semantic score in hybrid search; None for RRF and semantic search.
    share: float | None = None
    # Evidence from preferences that proves it (engine/metrics/e_process.py).
    wealth_needed: float = 20.0


@dataclass(frozen=True)
class FusionInfo(Record):
    """How hybrid search fuses its rankings."""

    method: str = "rrf"
    weight: float = 0.5  # Of the semantic score, if `method` is `weighted`.

    @classmethod
    def of_share(cls, share: float | None) -> FusionInfo:
        """Return a weighted sum with this share of the semantic score; RRF for None."""
        if share is None:
            return cls("rrf")
        return cls("weighted", share)


@dataclass(frozen=True)
class ThresholdInfo(Record):
    """The similarity below which hits are weak, valid for one `encoder` (a fingerprint)."""

    similarity: float | None = None
    reason: str = ""
    encoder: str = ""


@dataclass(frozen=True)
class RerankerInfo(Record):
    """Whether search uses a reranker, and why."""

    used: bool = False
    reason: str = ""
    fingerprint: str = ""  # Of the reranker.
    mode: str = "hybrid"  # The search mode that it was measured in.
    seconds: float = 0.0  # Time that it had for a search.


@dataclass(frozen=True)
class EvaluationInfo(ArtifactInfo):
    """The choices of the evaluation."""

    kind = "evaluation"
    stage = "evaluate"
    called = "evaluation"
    semantic: InUseInfo = field(default_factory=InUseInfo)  # The encoder in use.
    hybrid: InUseInfo = field(default_factory=InUseInfo)  # The encoder in use.
    # The candidate whose results people compare with the base encoder's, if any.
    semantic_contender: ContenderInfo | None = None
    hybrid_contender: ContenderInfo | None = None
    model: str = ""  # Fingerprint of the base model.
    advice: str = ""
    fusion: FusionInfo = field(default_factory=FusionInfo)
    threshold: ThresholdInfo | None = None  # For semantic search.
    reranker: RerankerInfo | None = None  # None if project.toml named none.
    judgments: str = ""  # Fingerprint of the judgments.

    @property
    def in_use(self) -> Mapping[SearchMode, InUseInfo]:
        """The encoders in use by search mode."""
        return {"semantic": self.semantic, "hybrid": self.hybrid}

    @property
    def contenders(self) -> Mapping[SearchMode, ContenderInfo]:
        """The candidates to compare with the base encoder by people, by search mode."""
        contenders: dict[SearchMode, ContenderInfo] = {}
        if self.semantic_contender is not None:
            contenders["semantic"] = self.semantic_contender
        if self.hybrid_contender is not None:
            contenders["hybrid"] = self.hybrid_contender
        return contenders

    @property
    def folders_read(self) -> tuple[str, ...]:
        """The folders of the adapters in use."""
        return _list_distinct(encoder.adapter for encoder in self.in_use.values())


@dataclass(frozen=True)
class VectorsInfo(ArtifactInfo):
    """The first vector index, for hybrid search, and for semantic search unless it has its own."""

    kind = "vectors"
    stage = "embed"
    called = "vector index"
    model: str = ""
    max_tokens: int = 0
    prompts: tuple[str | None, str | None] = (None, None)
    adapter: str | None = None  # Folder of the adapter for queries.
    chunk_adapter: str | None = None  # Folder of the adapter for chunks.
    interpolation_weight: float = 1.0
    encoder: str = ""  # Fingerprint of what encodes queries.
    chunk_encoder: str = ""  # Fingerprint of what encodes chunks.
    version: int = 0
    dimension: int = 0  # With the part of the small model.
    chunks: int = 0
    pooling: str = "from the model"
    endpoint: str = ""
    endpoint_model: str = ""
    # The second model, next to `model` or `endpoint`, if its adapter is in use.
    small_model: str = ""
    small_dimension: int = 0  # How many of `dimension` belong to the small model.
    base_encoder: str = ""  # Fingerprint of the base model.
    usual_share: float = 0.5  # Weight of the semantic score in hybrid search before an evaluation.

    @property
    def folders_read(self) -> tuple[str, ...]:
        """The folder of the adapter."""
        return _list_distinct([self.adapter])


@dataclass(frozen=True)
class SemanticVectorsInfo(VectorsInfo):
    """The vector index of semantic search if its encoder differs from that of hybrid search."""

    kind = "semantic-vectors"
    stage = "embed"
    called = "vector index for semantic search"
    # The chunks' vectors are those of the first index; only queries are encoded differently.
    shared: bool = False


def _list_distinct(folders: Iterable[str | None]) -> tuple[str, ...]:
    """Return the folders in their order, each once, without None."""
    return tuple(dict.fromkeys(folder for folder in folders if folder))


KINDS: Mapping[str, type[ArtifactInfo]] = {
    record.kind: record
    for record in (
        CorpusInfo,
        LexicalInfo,
        QueriesInfo,
        QueryBackendInfo,
        RankingsInfo,
        AdapterInfo,
        EvaluationInfo,
        VectorsInfo,
        SemanticVectorsInfo,
    )
}
