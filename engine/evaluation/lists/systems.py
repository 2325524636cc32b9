"""The systems whose lists people compare: named by what makes them, so that answers outlive runs
and moves of a project.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.preferences import ListMode
from engine.encoders.for_project import chunk_adapter, encoder_fingerprint_of
from engine.encoders.geometry import Hyperbolic, read_geometry
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, FusionInfo
from engine.queries.rules.tokens import question_key

EQUAL = FusionInfo("weighted", 0.5)


@dataclass(frozen=True, slots=True)
class ListedSystem:
    """What makes a list: the fingerprints of what encodes queries and chunks, the search mode,
    and for hybrid search how it fuses (`share`: of the semantic score in a weighted sum). It
    stays the same when documents are read again.
    """

    queries: str
    chunks: str
    mode: ListMode
    fusion: Literal["", "rrf", "weighted"] = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two systems that are compared: the `reference` is what is in use otherwise, such as base."""

    reference: ListedSystem
    candidate: ListedSystem

    @property
    def digest(self) -> str:
        """Stands for both, without a word on which is which."""
        text = json.dumps([asdict(self.reference), asdict(self.candidate)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def candidate_first(self, query: str) -> bool:
        """Whether the candidate's list is shown first for a query: a toss of a coin that always
        falls the same way.
        """
        text = json.dumps([question_key(query), asdict(self.reference), asdict(self.candidate)])
        return bool(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] & 1)

    def shown(self, query: str) -> tuple[ListedSystem, ListedSystem]:
        """Both in the order in which their lists are shown."""
        if self.candidate_first(query):
            return self.candidate, self.reference
        return self.reference, self.candidate


@dataclass(frozen=True, slots=True)
class SystemChoice:
    """A system that a project can build: base, or an `adapter` (its folder in the project)
    trained for `scope`, at an interpolation weight; and for hybrid search how both rankings are
    fused.
    """

    mode: ListMode
    fusion: FusionInfo = EQUAL
    adapter: str | None = None
    scope: str = "both"
    weight: float = 1.0

    def listed(self, snapshot: ProjectSnapshot) -> ListedSystem:
        """The same by fingerprints. Raises ModelError for an unsound adapter."""
        if self.adapter:
            folder = snapshot.project.path / self.adapter
        else:
            folder = None
        of_chunks = chunk_adapter(folder, self.scope)
        queries = encoder_fingerprint_of(snapshot, folder, self.weight)
        chunks = encoder_fingerprint_of(snapshot, of_chunks, self.weight if of_chunks else 1.0)
        if self.mode == "semantic":
            return ListedSystem(queries, chunks, "semantic")
        if self.fusion.method == "rrf":
            return ListedSystem(queries, chunks, "hybrid", "rrf")
        return ListedSystem(queries, chunks, "hybrid", "weighted", self.fusion.weight)


@dataclass(frozen=True, slots=True)
class ChoicePair:
    """The two systems that a project compares, as it can build them."""

    reference: SystemChoice
    candidate: SystemChoice

    def listed(self, snapshot: ProjectSnapshot) -> SystemPair:
        """The same by fingerprints. Raises ModelError."""
        return SystemPair(self.reference.listed(snapshot), self.candidate.listed(snapshot))


def choose_pair(snapshot: ProjectSnapshot, mode: ListMode | None = None) -> ChoicePair:
    """Base and the adapter that was trained last, in a search mode (None: the project's default
    one).

    The adapter has the interpolation weight, and in hybrid search the share, of the candidate that
    evaluation finds most worth comparing; before an evaluation its full weight. Raises
    NotBuiltError where nothing was trained that could be compared, UsageError for a hyperbolic
    encoder.
    """
    chosen = mode or default_list_mode(snapshot)
    trained = snapshot.store.artifact(AdapterInfo)
    source = encoder_source(snapshot.settings.encoder)
    if (
        not trained
        or not trained.info.adapter
        or trained.info.model not in ("", source.fingerprint)
    ):
        raise NotBuiltError(
            f"The project {snapshot.project.name} has no adapted encoder to compare with base.",
            "Lists can be compared once an adapter is trained.",
            f"Run 'engine adapt {snapshot.project.argument}'.",
            code="nothing-to-compare",
            stage="train",
            command="adapt",
        )
    if isinstance(read_geometry(snapshot.project.path / trained.info.adapter), Hyperbolic):
        raise UsageError(
            "Lists of a hyperbolic encoder cannot be compared.",
            "Its vectors are compared by a distance that only its own index knows.",
            "Judge hits instead: 'engine judge'.",
            code="lists-unsupported",
            command="judge",
        )
    adapter = trained.info.adapter
    reference = SystemChoice(chosen, _reference_fusion(snapshot))
    evaluated = snapshot.store.artifact(EvaluationInfo)
    if evaluated is not None:
        contender = evaluated.info.contenders.get(chosen)
    else:
        contender = None
    if contender is None:
        return ChoicePair(
            reference, SystemChoice(chosen, reference.fusion, adapter, trained.info.adapter_scope)
        )
    fusion = reference.fusion
    if contender.share is not None and fusion.method == "weighted":
        fusion = FusionInfo.of_share(contender.share)
    weight = contender.interpolation_weight or 1.0
    return ChoicePair(
        reference, SystemChoice(chosen, fusion, adapter, trained.info.adapter_scope, weight)
    )


def default_list_mode(snapshot: ProjectSnapshot) -> ListMode:
    """The project's default search mode; hybrid where that is BM25, which no encoder changes."""
    if snapshot.settings.search.mode_in_json == "semantic":
        return "semantic"
    return "hybrid"


def _reference_fusion(snapshot: ProjectSnapshot) -> FusionInfo:
    """How hybrid search fuses before anything is adapted."""
    from engine.evaluation.studies.fusion import default_share

    return FusionInfo.of_share(default_share(snapshot))
