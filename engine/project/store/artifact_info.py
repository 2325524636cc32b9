"""What each stage notes of its artifact: the column `info`, one class for each kind of artifact.

A default is what a missing key stands for, in a project that was made before there was that key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from engine.core.messages.report import SearchMode, Standing


@dataclass(frozen=True)
class Record:
    """A dataclass with a JSON form.

    Lists are read as tuples; keys that no field has are left out.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        values = {}
        for one in fields(cls):
            if one.name not in data:
                continue
            value = data[one.name]
            record = _RECORDS.get(one.name)
            if record and value is not None:
                value = record.from_dict(value)
            values[one.name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Write the JSON form."""
        return asdict(self)


@dataclass(frozen=True)
class ArtifactInfo(Record):
    """Base of the classes below: the kind of artifact, the stage that makes it, and how messages
    call it.
    """

    kind: ClassVar[str] = ""
    stage: ClassVar[str] = ""
    called: ClassVar[str] = ""
    plural: ClassVar[bool] = False

    @property
    def folders_read(self) -> tuple[str, ...]:
        """Folders of other artifacts that this one is of no use without."""
        return ()


@dataclass(frozen=True)
class CorpusInfo(ArtifactInfo):
    """`passwords`, `ocr` and `limits` show when files that could not be read are worth another try.

    `tokenizer`: fingerprint of the one that chunks were measured by. `files_left`: files still to
    be read; those read before them are indexed first.
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
    """`language`: the main one of the BM25 index; `languages`: the others that documents are
    stemmed in. `detection`: the version of how the documents' languages were found.
    """

    kind = "lexical"
    stage = "index"
    called = "keyword index"
    language: str = "none"
    languages: tuple[str, ...] = ()
    chunks: int = 0
    chunks_fingerprint: str = ""
    version: int = 0
    detection: int = 0


@dataclass(frozen=True)
class WriterInfo(Record):
    """The file of the language model that wrote the queries: as project.toml names it, and its
    `content_identity`.
    """

    named: str = ""
    identity: str = ""


@dataclass(frozen=True)
class QueriesInfo(ArtifactInfo):
    """`corpus` and `recipe`: fingerprints of what the queries were made from; `content`: that of
    the queries themselves. `encoder`: what the consistency filter encoded with, as the
    fingerprint of a model and its length limit. `defaults`: those of the
    program that made them (engine/queries/recipe.py); empty before they were noted.
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
    """The backend that makes the queries, and why; where `auto` has found a language model, its
    file and `content_identity` of it. As an artifact: what `auto` has chosen, empty where
    project.toml names a backend.
    """

    kind = "query-backend"
    stage = "generate"
    backend: str = ""
    reason: str = ""
    model: str = ""
    identity: str = ""


@dataclass(frozen=True)
class RankingsInfo(ArtifactInfo):
    """`queries`: `QueriesInfo.content` of the queries ranked."""

    kind = "rankings"
    stage = "rank"
    called = "rankings"
    plural = True
    queries: str = ""
    k: int = 0


@dataclass(frozen=True)
class TrainingHistory(Record):
    """`losses`: (step, loss); `held_out`: (step, nDCG@10 in percent)."""

    losses: Sequence[tuple[int, float]] = ()
    held_out: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True)
class AdapterInfo(ArtifactInfo):
    """`adapter`: its folder; None, with a `reason`, where none was trained.

    `model`: fingerprint of the base model. `seconds`: what training took over all its runs; 0 where
    that is not known.
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
    """The encoder that evaluation chose for a search mode: its name, its interpolation weight,
    and the adapter it needs.

    `standing`: whether its gain is proved on the documents, or expected by experience; base where
        it is the base encoder.
    """

    name: str = "base"
    interpolation_weight: float = 0.0
    adapter: str | None = None
    adapter_scope: str = "both"
    standing: Standing = "base"
    reason: str = ""


@dataclass(frozen=True)
class ContenderInfo(Record):
    """The candidate of a search mode that is most worth comparing with the reference: its name,
    its interpolation weight, and its share in hybrid search (None: RRF, or semantic search).
    """

    name: str = "adapted"
    interpolation_weight: float = 1.0
    share: float | None = None


@dataclass(frozen=True)
class FusionInfo(Record):
    """How hybrid search fuses. RRF was all that former evaluations knew."""

    method: str = "rrf"
    weight: float = 0.5

    @classmethod
    def of_share(cls, share: float | None) -> FusionInfo:
        """Return a weighted sum with a share of the semantic score; RRF where there is none."""
        if share is None:
            return cls("rrf")
        return cls("weighted", share)


@dataclass(frozen=True)
class ThresholdInfo(Record):
    """Hits below `similarity` are weak. It holds for one `encoder` (a fingerprint)."""

    similarity: float | None = None
    reason: str = ""
    encoder: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """One that was learnt for similarities corrected for hubness, which search had once,
        says nothing of cosines.
        """
        found = super().from_dict(data)
        corrected = data.get("hubness_key") or data.get("hubs")
        if corrected:
            return replace(found, similarity=None, reason="'engine evaluate' learns it anew")
        return found


@dataclass(frozen=True)
class RerankerInfo(Record):
    """Whether the reranker of that `fingerprint` is `used`, in the search mode and within the
    `seconds` a search that it was measured in, and why.
    """

    used: bool = False
    reason: str = ""
    fingerprint: str = ""
    mode: str = "hybrid"
    seconds: float = 0.0


@dataclass(frozen=True)
class EvaluationInfo(ArtifactInfo):
    """`semantic` and `hybrid`: the encoders in use; `…_contender`: the candidates whose lists
    people are asked to compare with those of base, None where there is none. `model`:
    fingerprint of the base model; `judgments`: that of the judgments.
    `threshold` is of semantic search. `reranker`: None where project.toml named none.
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
        """The encoders in use, by search mode."""
        return {"semantic": self.semantic, "hybrid": self.hybrid}

    @property
    def contenders(self) -> Mapping[SearchMode, ContenderInfo]:
        """The candidates whose lists people are asked to compare with those of base, by search
        mode; none where there is none.
        """
        found: dict[SearchMode, ContenderInfo | None] = {
            "semantic": self.semantic_contender,
            "hybrid": self.hybrid_contender,
        }
        return {mode: one for mode, one in found.items() if one is not None}

    @property
    def folders_read(self) -> tuple[str, ...]:
        """The adapters'."""
        return _distinct(one.adapter for one in self.in_use.values())


@dataclass(frozen=True)
class VectorsInfo(ArtifactInfo):
    """The first vector index, which hybrid search uses, and semantic search unless it has one of
    its own.

    `encoder` and `chunk_encoder`: fingerprints of what encodes queries and chunks, with the
    adapters that they need.
    `small_model`: the one beside `model` or `endpoint`, where its adapter is in use;
        `given_vectors`: the
    file of vectors, where the map to them is. `small_dimension` of `dimension` are theirs.
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
    given_vectors: str = ""

    @property
    def folders_read(self) -> tuple[str, ...]:
        """The adapter's."""
        return _distinct([self.adapter])


@dataclass(frozen=True)
class SemanticVectorsInfo(VectorsInfo):
    """What semantic search uses where its encoder is another than that of hybrid search.

    `shared`: whether the chunks' vectors are those of the first index, and only queries are encoded
        differently.
    """

    kind = "semantic-vectors"
    stage = "embed"
    called = "vector index for semantic search"
    shared: bool = False


def _distinct(folders: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in folders if one))


KINDS: Mapping[str, type[ArtifactInfo]] = {
    one.kind: one
    for one in (
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
_RECORDS: Mapping[str, type[Record]] = {
    "writer": WriterInfo,
    "semantic": InUseInfo,
    "hybrid": InUseInfo,
    "semantic_contender": ContenderInfo,
    "hybrid_contender": ContenderInfo,
    "fusion": FusionInfo,
    "threshold": ThresholdInfo,
    "reranker": RerankerInfo,
}
"""The fields that hold a record."""
