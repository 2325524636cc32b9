"""The systems whose lists people compare.

They are named by what makes the lists, so that answers outlive runs and moves of a project.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.preferences import ListMode
from engine.encoders.for_project import chunk_adapter, encoder_fingerprint_of
from engine.encoders.geometry.spaces import Hyperbolic, read_geometry
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, FusionInfo
from engine.queries.rules.tokens import question_key

EQUAL_WEIGHTS = FusionInfo("weighted", 0.5)


@dataclass(frozen=True, slots=True)
class ListedSystem:
    """Everything that a list depends on, except the documents.

    `queries` and `chunks` are fingerprints of their encoders. In hybrid search, `fusion` is its
    method and `share` the semantic share of a weighted sum.
    """

    queries: str
    chunks: str
    mode: ListMode
    fusion: Literal["", "rrf", "weighted"] = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two systems to compare; the reference is what would be in use otherwise, such as base."""

    reference: ListedSystem
    candidate: ListedSystem

    @property
    def digest(self) -> str:
        """A digest of both systems that does not reveal which is which."""
        text = json.dumps([asdict(self.reference), asdict(self.candidate)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def candidate_first(self, query: str) -> bool:
        """Return whether the candidate's list is shown first: a hash of query and pair decides."""
        text = json.dumps([question_key(query), asdict(self.reference), asdict(self.candidate)])
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return bool(digest[0] & 1)

    def shown(self, query: str) -> tuple[ListedSystem, ListedSystem]:
        """Return both systems in the order in which their lists are shown."""
        if self.candidate_first(query):
            return self.candidate, self.reference
        return self.reference, self.candidate


@dataclass(frozen=True, slots=True)
class SystemChoice:
    """A system that a project can build: base or an adapter, and how hybrid search fuses.

    `adapter` is a folder in the project, trained for `scope`, used at the interpolation `weight`.
    """

    mode: ListMode
    fusion: FusionInfo = EQUAL_WEIGHTS
    adapter: str | None = None
    scope: str = "both"
    weight: float = 1.0

    def identify(self, snapshot: ProjectSnapshot) -> ListedSystem:
        """Return the system by its fingerprints. Raises ModelError for an unusable adapter."""
        adapter = None
        if self.adapter:
            adapter = snapshot.project.path / self.adapter
        # Chunks are encoded by base if the adapter was trained for queries alone.
        adapter_of_chunks = chunk_adapter(adapter, self.scope)
        chunk_weight = self.weight if adapter_of_chunks else 1.0
        queries = encoder_fingerprint_of(
            snapshot,
            adapter,
            self.weight,
        )
        chunks = encoder_fingerprint_of(snapshot, adapter_of_chunks, chunk_weight)
        if self.mode == "semantic":
            return ListedSystem(queries, chunks, "semantic")
        if self.fusion.method == "rrf":
            return ListedSystem(queries, chunks, "hybrid", "rrf")
        return ListedSystem(
            queries,
            chunks,
            "hybrid",
            "weighted",
            share=self.fusion.weight,
        )


@dataclass(frozen=True, slots=True)
class ChoicePair:
    """The two systems that a project compares, as it can build them."""

    reference: SystemChoice
    candidate: SystemChoice

    def identify(self, snapshot: ProjectSnapshot) -> SystemPair:
        """Return both systems by their fingerprints. Raises ModelError."""
        return SystemPair(self.reference.identify(snapshot), self.candidate.identify(snapshot))


def choose_pair(snapshot: ProjectSnapshot, mode: ListMode | None = None) -> ChoicePair:
    """Return base and the last trained adapter in a search mode (None: the project's default).

    The adapter has the interpolation weight, and in hybrid search the share, of the candidate that
    the evaluation finds most worth comparing; before an evaluation its full weight. Raises
    NotBuiltError if there is no adapter to compare, UsageError for a hyperbolic encoder.
    """
    from engine.evaluation.choosing.fusion import default_share

    mode = mode or default_list_mode(snapshot)
    trained = _find_comparable_adapter(snapshot)
    fusion = FusionInfo.of_share(default_share(snapshot))
    reference = SystemChoice(mode, fusion)
    contender = None
    evaluated = snapshot.store.artifact(EvaluationInfo)
    if evaluated is not None:
        contender = evaluated.info.contenders.get(mode)
    weight = 1.0
    if contender is not None:
        weight = contender.interpolation_weight or 1.0
        if contender.share is not None and fusion.method == "weighted":
            fusion = FusionInfo.of_share(contender.share)
    candidate = SystemChoice(
        mode=mode,
        fusion=fusion,
        adapter=trained.adapter,
        scope=trained.adapter_scope,
        weight=weight,
    )
    return ChoicePair(reference, candidate)


def _find_comparable_adapter(snapshot: ProjectSnapshot) -> AdapterInfo:
    """Return the adapter that was trained last. Raises what `choose_pair` raises."""
    trained = snapshot.store.artifact(AdapterInfo)
    source = encoder_source(snapshot.settings.encoder)
    models = ("", source.fingerprint)
    if not trained or not trained.info.adapter or trained.info.model not in models:
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
    return trained.info


def default_list_mode(snapshot: ProjectSnapshot) -> ListMode:
    """Return the default search mode, or hybrid if that is BM25, which no encoder changes."""
    if snapshot.settings.search.mode_in_json == "semantic":
        return "semantic"
    return "hybrid"
