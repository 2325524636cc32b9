"""Stage `evaluate`: base, adapted and their merges meet on held-out queries; the report says what search will serve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.embedding import model_fingerprint, served_fingerprint
from engine.errors import DamagedError, NotBuiltError
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.stage import StageContext, View
from engine.store import Artifact
from engine.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.encoders import Encoder
    from engine.evaluation.comparison import Comparison
    from engine.evaluation.fusion import FusionChoice
    from engine.evaluation.judgments import Judgment
    from engine.evaluation.selection import Selection
    from engine.records import Chunk

    Rankings = NDArray[np.int64]

VERSION = 5
ARTIFACT = "evaluation"
POOL_ALL = 4000  # up to this many chunks, merges are compared over the whole corpus
POOL_DEPTH = 30
SYSTEMS = (
    "bm25", "base", "adapted", "served", "rrf_base", "rrf_adapted", "rrf_served", "weighted_base", "weighted_adapted",
    "weighted_served",
)  # fmt: skip
HYBRID_PAIRS = tuple((f"{way}_served", other) for way in ("rrf", "weighted") for other in (f"{way}_base", "bm25"))


def inputs(view: View) -> dict[str, Any]:
    """The adapter, the judgments, and how to compare."""
    from engine.stage import fingerprint

    judged = [[q.key, q.text, q.evidence, q.grades, q.path] for q in view.store.judged()]
    adapter = view.need("adapter", "train")
    if adapter.info.get("model", model_fingerprint(view)) != model_fingerprint(view):
        raise NotBuiltError(
            "The adapter belongs to another model.",
            "encoder.model, or the files in its folder, have changed since it was trained.",
            f"Run 'engine run {view.project.argument}', which trains one for the present model.",
        )
    return {
        "adapter": adapter.fingerprint,
        "judged": fingerprint(judged=judged),
        "evaluation": view.settings.evaluation.model_dump(),
        "search": view.settings.search.model_dump(include=_fused(view)),
        "base": served_fingerprint(view, None, 1.0),
    }


def _fused(view: View) -> set[str]:
    """The settings that decide what is ranked, and how the rankings are joined."""
    always = {"rrf_u", "fusion", "named_documents"}
    return always | {"weight"} if view.settings.search.fusion == "weighted" else always


def verify(view: View) -> None:
    """Raises DamagedError when the report is gone, or the adapter that was chosen has been replaced."""
    artifact, adapter = view.need(ARTIFACT, "evaluate"), view.need("adapter", "train").info.get("adapter")
    if not (view.project.folder_of(artifact) / "report.html").is_file():
        raise DamagedError("The report is missing.", "", "Run 'engine evaluate'.")
    if artifact.info["served"].get("adapter") not in (None, adapter):
        raise DamagedError("The adapter was trained anew.", "", "Run 'engine evaluate'.")


def run(context: StageContext) -> dict[str, Any]:
    """Compare, choose what to serve, write the report."""
    work = Evaluation(context)
    work.rank_bm25()
    work.rank_encoder("base", 0.0)
    if work.adapter:
        work.rank_encoder("adapted", 1.0)
    selection = work.select()
    if selection.strength not in (0.0, 1.0):
        work.rank_encoder("served", selection.strength)
    else:
        work.alias("served", selection.served)
    return work.conclude(selection, work.fuse())


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far."""

    def __init__(self, context: StageContext) -> None:
        from engine.embedding import told_hardware

        self._context = context
        self._chunks: list[Chunk] = context.store.chunks()
        self._hardware = told_hardware(context, "encode")
        artifact = context.need("adapter", "train")
        self._artifact = artifact
        self.adapter = context.project.path / artifact.info["adapter"] if artifact.info.get("adapter") else None
        self._ids = np.array([chunk.id for chunk in self._chunks], dtype=np.int64)  # ascending
        self._owners = np.array([chunk.document_id for chunk in self._chunks], dtype=np.int64)
        self._of_base: NDArray[np.float32] | None = None
        self.sets = query_sets(context, self._chunks)
        self._among = {one.kind: self._chunks_meant(one) for one in self.sets}

    def _set(self, kind: str) -> QuerySet | None:
        return next((one for one in self.sets if one.kind == kind), None)

    def rank_bm25(self) -> None:
        """BM25's best `depth` chunks of every query."""
        from engine.evaluation.rankings import padded
        from engine.lexical import LexicalIndex

        context, depth = self._context, self._context.settings.evaluation.depth
        index = self._lexical = LexicalIndex.open(context.project.folder_of(context.need("lexical", "index")))
        for one in self.sets:
            found = list(index.search_many(one.texts, depth))
            for row, allowed in enumerate(self._among[one.kind]):
                if allowed is not None:
                    found[row] = index.search_among(one.texts[row], depth, allowed)
            one.rankings["bm25"], one.scores["bm25"] = padded(found, depth)
            context.check_stop()

    def _chunks_meant(self, one: QuerySet) -> list[NDArray[np.int64] | None]:
        """Per query, the chunks of the documents that it names; None where it names none."""
        named = {meant.documents for meant in one.meant if meant.documents}
        chunks = {documents: self._ids[np.isin(self._owners, list(documents))] for documents in named}
        return [chunks.get(meant.documents) for meant in one.meant]

    def _encoder(self, strength: float) -> Encoder:
        from engine.embedding import load_encoder

        return load_encoder(self._context, self._hardware, self.adapter if strength else None, strength or 1.0)

    def rank_encoder(self, name: str, strength: float) -> None:
        """The best `depth` chunks by cosine, over the whole corpus, of the encoder with the adapter at `strength` (λ)."""
        from engine.evaluation.rankings import cosines_of, rank_within

        encoder = self._encoder(strength)
        vectors = self._vectors(encoder, strength, self._chunks, name)
        for one in self.sets:
            depth, queries = self._context.settings.evaluation.depth, encoder.encode_queries(one.texts)
            one.rankings[name], one.scores[name] = rank_within(
                queries, vectors, self._ids, depth, self._among[one.kind]
            )
            one.beside[name] = cosines_of(queries, vectors, self._ids, one.rankings["bm25"])

    def _vectors(self, encoder: Encoder, strength: float, chunks: Sequence[Chunk], name: str) -> NDArray[np.float32]:
        """The chunks' unit vectors, where `encoder` encodes queries with the adapter at `strength` (λ): of the untouched
        encoder where the adapter acts on queries alone, of the chunks' own adapter where they have one."""
        from engine.embedding import chunk_adapter, chunk_vectors, load_encoder

        side = self._artifact.info.get("side", "both")
        alone = side == "query"
        if alone and self._of_base is not None:
            return self._of_base[np.searchsorted(self._ids, [chunk.id for chunk in chunks])]
        if strength and side == "both-then-query":
            encoder = load_encoder(self._context, self._hardware, chunk_adapter(self.adapter, side), strength)
        vectors = chunk_vectors(self._context, encoder, chunks, f"chunks ({name})")
        if alone and name == "base" and len(chunks) == len(self._chunks):
            self._of_base = vectors
        return vectors

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that has been ranked already."""
        for one in self.sets:
            one.rankings[name], one.scores[name] = one.rankings[system], one.scores[system]
            one.beside[name] = one.beside[system]

    def select(self) -> Selection:
        """The never-worse-than-base rule, on the held-out queries, with the judged ones as a veto if the user wants that."""
        from engine.evaluation.selection import Selection, choose_served

        settings = self._context.settings.evaluation
        heldout = self._set("synthetic")
        if self.adapter is None or heldout is None:
            reason = self._artifact.info.get("reason") or "there are no held-out queries to compare with"
            selection = Selection("base", 0.0, f"The base encoder is served, because {reason}.", 0, ())
        else:
            judged = self._set("judged") if settings.veto else None
            veto = (
                self._ndcg(judged, ("base", "adapted")) if judged and any(j.usable for j in judged.judgments) else None
            )
            selection = choose_served(
                self._candidates(heldout), veto, settings.bootstrap_samples, self._context.settings.training.seed
            )
        self._context.choose("served", selection.served, selection.reason)
        return selection

    def _candidates(self, heldout: QuerySet) -> Mapping[str, NDArray[np.float64]]:
        """nDCG@10 per held-out query of every candidate, all ranked over the same pool of chunks."""
        from engine.evaluation.rankings import pool_of, rank_within
        from engine.evaluation.selection import candidate_name

        relevant = [key for judgment in heldout.judgments for key in judgment.grades]
        everything = len(self._ids) <= POOL_ALL
        pool = set(self._ids.tolist()) if everything else pool_of(heldout.rankings.values(), POOL_DEPTH, relevant)
        chunks = [chunk for chunk in self._chunks if chunk.id in pool]
        keys = np.array([chunk.id for chunk in chunks], dtype=np.int64)
        values = {}
        for strength in (0.0, *sorted(self._context.settings.evaluation.lambdas), 1.0):
            name = candidate_name(strength)
            encoder = self._encoder(strength)
            vectors = self._vectors(encoder, strength, chunks, name)
            ranking, _ = rank_within(
                encoder.encode_queries(heldout.texts), vectors, keys, 10, self._among[heldout.kind]
            )
            values[name] = self._measure(ranking, heldout.judgments)
            self._context.check_stop()
        return values

    def _ndcg(self, one: QuerySet, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        usable = [row for row, judgment in enumerate(one.judgments) if judgment.usable]
        judgments = [one.judgments[row] for row in usable]
        return {name: self._measure(one.rankings[name][usable], judgments) for name in names}

    def _measure(self, ranking: Rankings, judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        from engine.evaluation.comparison import measure

        return measure(ranking, list(judgments), self._document_of)["ndcg@10"]

    def _document_of(self, ids: Rankings) -> Rankings:
        return self._owners[np.searchsorted(self._ids, ids)]

    def fuse(self) -> FusionChoice:
        """BM25 joined with base, with the adapted encoder, and with what is served: by RRF, and by a weighted sum."""
        from engine.evaluation.joining import Joining

        joining = Joining(self._context.settings, self._measure, self._lexical.scores_many)
        choice = joining.choose(self._set("synthetic"))
        self._context.choose("fusion", choice.method, choice.reason)
        for one in self.sets:
            for name in ("base", "adapted", "served"):
                if name in one.rankings:
                    one.rankings[f"rrf_{name}"] = joining.joined(one, name, None)
                    one.rankings[f"weighted_{name}"] = joining.joined(one, name, choice.weight)
        return choice

    def conclude(self, selection: Selection, fusion: FusionChoice) -> dict[str, Any]:
        """Write the report, make it current, and sum it up."""
        from engine.evaluation.report import write_report

        context = self._context
        comparisons = [(one, self._compare(one)) for one in self.sets if any(j.usable for j in one.judgments)]
        with context.project.building("reports", context.fingerprint) as building:
            write_report(building.folder, self._report(selection, fusion, comparisons))
        adapter = self._artifact.info.get("adapter")
        served = {
            "name": selection.served,
            "scale": selection.strength,
            "adapter": adapter if selection.strength else None,
            "side": self._artifact.info.get("side", "both"),
        }
        tables = {one.kind: comparison.as_dict() for one, comparison in comparisons}
        info = {
            "served": served,
            "adapter": served["adapter"],
            "model": model_fingerprint(context),
            "reason": selection.reason,
            "fusion": fusion.as_dict(),
            "tables": tables,
        }
        context.store.put_artifact(Artifact(ARTIFACT, context.fingerprint, building.name, time.time(), info))
        return {"served": selection.served, "reason": selection.reason, "report": f"{building.name}/report.html"}

    def _compare(self, one: QuerySet) -> Comparison:
        from engine.evaluation.comparison import compare

        order = [name for name in SYSTEMS if name in one.rankings]
        settings = self._context.settings
        return compare(
            {name: one.rankings[name] for name in order}, one.judgments, self._document_of,
            samples=settings.evaluation.bootstrap_samples, seed=settings.training.seed,
            pairs=[pair for pair in HYBRID_PAIRS if set(pair) <= set(order)],
        )  # fmt: skip

    def _report(
        self, selection: Selection, fusion: FusionChoice, comparisons: Sequence[tuple[QuerySet, Comparison]]
    ) -> Any:
        from engine.evaluation.changes import query_changes
        from engine.evaluation.report import QuerySetReport, ReportData, TrainingCurve, choices_made

        history = self._artifact.info.get("history") or {}
        sets = [
            QuerySetReport(
                one.name, "judged" if one.kind == "judged" else "synthetic", comparison.as_dict(),
                query_changes(comparison, "served"), "served",
                [text for judgment in one.judgments for text in judgment.unmatched],
            )
            for one, comparison in comparisons
        ]  # fmt: skip
        context = self._context
        return ReportData(
            project=context.project.name, created=datetime.now(UTC).isoformat(timespec="seconds"), version=__version__,
            selection=selection, fusion=fusion.as_dict(), query_sets=sets,
            training=TrainingCurve(history.get("losses", ()), history.get("held_out", ())),
            settings=context.settings.model_dump(),
            choices=choices_made(context.project.path / "runs" / context.run / "events.jsonl"),
            sizes=context.store.counts(),
        )  # fmt: skip
