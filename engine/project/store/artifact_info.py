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
    """Base of the records below: the kind of artifact, its stage, its name in messages."""

    kind: ClassVar[str] = ""
    stage: ClassVar[str] = ""
    called: ClassVar[str] = ""
    plural: ClassVar[bool] = False

    @property
    def folders_read(self) -> tuple[str, ...]:
        """Folders of other artifacts without which this artifact is useless."""
        return ()


@dataclass(frozen=True)
class CorpusInfo(ArtifactInfo):
    """The chunks of the corpus.

    `passwords`, `ocr` and `limits`: show when unreadable files are worth another try. `tokenizer`:
    fingerprint of the tokenizer that measured the chunks. `files_left`: files still to be read;
    those read before them are indexed first.
    """

    kind = "corpus"
    stage = "ingest"
    called = "chunks"
    plural = True
    chunks: str = ""
    passwords: tuple[int, ...] | None = None
    ocr: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    tokenizer: str = ""
    files_left: int = 0


@dataclass(frozen=True)
class LexicalInfo(ArtifactInfo):
    """The BM25 index.

    `language`: its main language. `languages`: the others that documents are stemmed in.
    """

    kind = "lexical"
    stage = "index"
    called = "keyword index"
    language: str = "none"
    languages: tuple[str, ...] = ()
    chunks: int = 0
    chunks_fingerprint: str = ""
    version: int = 0


@dataclass(frozen=True)
class WriterInfo(Record):
    """The language model file that wrote the queries: as project.toml names it, and its identity.

    `identity`: its `content_identity`.
    """

    named: str = ""
    identity: str = ""


@dataclass(frozen=True)
class QueriesInfo(ArtifactInfo):
    """The training queries.

    `corpus` and `recipe`: fingerprints of what the queries were made from. `content`: that of the
    queries themselves. `encoder`: fingerprint and length limit of the model that the consistency
    filter used. `defaults`: defaults of the program that made them (engine/queries/recipe.py);
    empty if not stored.
    """

    kind = "queries"
    stage = "generate"
    called = "queries"
    plural = True
    corpus: str = ""
    recipe: str = ""
    made: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    content: str = ""
    backend: str = ""
    writer: WriterInfo | None = None
    encoder: tuple[str, int] | None = None
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
    """The rankings of the training queries.

    `queries`: `QueriesInfo.content` of the queries ranked.
    """

    kind = "rankings"
    stage = "rank"
    called = "rankings"
    plural = True
    queries: str = ""
    k: int = 0


@dataclass(frozen=True)
class TrainingHistory(Record):
    """The course of a training.

    `losses`: (step, loss). `held_out`: (step, nDCG@10 in percent).
    """

    losses: Sequence[tuple[int, float]] = ()
    held_out: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True)
class AdapterInfo(ArtifactInfo):
    """The trained adapter.

    `adapter`: its folder; None, with a `reason`, if none was trained. `model`: fingerprint of the
    base model. `seconds`: training time over all its runs; 0 if unknown.
    """

    kind = "adapter"
    stage = "train"
    called = "adapter"
    adapter: str | None = None
    reason: str = ""
    steps: int = 0
    best_step: int | None = None
    ended: str = ""
    adapter_scope: str = "both"
    digest: str = ""
    model: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class InUseInfo(Record):
    """The encoder that evaluation chose for a search mode: name, interpolation weight and adapter.

    `standing`: whether its gain is proved on the documents or expected from experience; "base" for
    the base encoder.
    """

    name: str = "base"
    interpolation_weight: float = 0.0
    adapter: str | None = None
    adapter_scope: str = "both"
    standing: Standing = "base"
    reason: str = ""


@dataclass(frozen=True)
class ContenderInfo(Record):
    """The candidate of a search mode that is most worth comparing with the reference.

    `share`: its weight in hybrid search; None for RRF and for semantic search. `wealth_needed`:
    from which preferences prove it (engine/metrics/e_process.py).
    """

    name: str = "adapted"
    interpolation_weight: float = 1.0
    share: float | None = None
    wealth_needed: float = 20.0


@dataclass(frozen=True)
class FusionInfo(Record):
    """How hybrid search fuses its rankings."""

    method: str = "rrf"
    weight: float = 0.5

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
    """Whether search uses the reranker with that `fingerprint`, and why.

    It was measured in search mode `mode` with `seconds` for a search.
    """

    used: bool = False
    reason: str = ""
    fingerprint: str = ""
    mode: str = "hybrid"
    seconds: float = 0.0


@dataclass(frozen=True)
class EvaluationInfo(ArtifactInfo):
    """The choices of the evaluation.

    `semantic` and `hybrid`: the encoders in use. `…_contender`: the candidates whose results people
    are asked to compare with the base encoder's, if any. `model`: fingerprint of the base model.
    `judgments`: that of the judgments. `threshold`: for semantic search. `reranker`: None if
    project.toml named none.
    """

    kind = "evaluation"
    stage = "evaluate"
    called = "evaluation"
    semantic: InUseInfo = field(default_factory=InUseInfo)
    hybrid: InUseInfo = field(default_factory=InUseInfo)
    semantic_contender: ContenderInfo | None = None
    hybrid_contender: ContenderInfo | None = None
    model: str = ""
    advice: str = ""
    fusion: FusionInfo = field(default_factory=FusionInfo)
    threshold: ThresholdInfo | None = None
    reranker: RerankerInfo | None = None
    judgments: str = ""

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
    """The first vector index, for hybrid search, and for semantic search unless it has its own.

    `encoder` and `chunk_encoder`: fingerprints of what encodes queries and chunks, with the
    adapters that they need. `small_model`: the second model next to `model` or `endpoint` if its
    adapter is in use. `small_dimension` of `dimension` belong to it. `base_encoder`: fingerprint of
    the base model. `usual_share`: its share of the hybrid score before an evaluation.
    """

    kind = "vectors"
    stage = "embed"
    called = "vector index"
    model: str = ""
    max_tokens: int = 0
    prompts: tuple[str | None, str | None] = (None, None)
    adapter: str | None = None
    chunk_adapter: str | None = None
    interpolation_weight: float = 1.0
    encoder: str = ""
    chunk_encoder: str = ""
    version: int = 0
    dimension: int = 0
    chunks: int = 0
    pooling: str = "from the model"
    endpoint: str = ""
    endpoint_model: str = ""
    small_model: str = ""
    small_dimension: int = 0
    base_encoder: str = ""
    usual_share: float = 0.5

    @property
    def folders_read(self) -> tuple[str, ...]:
        """The folder of the adapter."""
        return _list_distinct([self.adapter])


@dataclass(frozen=True)
class SemanticVectorsInfo(VectorsInfo):
    """The vector index of semantic search if its encoder differs from that of hybrid search.

    `shared`: whether the chunks' vectors are those of the first index, and only queries are encoded
    differently.
    """

    kind = "semantic-vectors"
    stage = "embed"
    called = "vector index for semantic search"
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
