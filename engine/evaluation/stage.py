"""Stage `evaluate`: base, adapted and their merges meet on held-out queries; the report says what search will serve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.embedding import model_fingerprint, served_fingerprint
from engine.errors import DamagedError, NotBuiltError
from engine.evaluation.describing import Described
from engine.evaluation.hubs import Hubs
from engine.evaluation.joining import Joining
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import encoded_queries
from engine.evaluation.sentence_pairs import SentencePairs, pairs_fingerprint
from engine.evaluation.term_weights import TermWeights
from engine.stage import StageContext, View
from engine.store import Artifact
from engine.systems import BASE, BM25, CL, ENCODERS, LEARNT, PLAIN, SERVED, UNWEIGHED, WAYS, is_merge, ordered
from engine.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.encoders import Encoder
    from engine.evaluation.comparison import Comparison
    from engine.evaluation.fusion import FusionChoice
    from engine.evaluation.judgments import Judgment
    from engine.evaluation.rankers import Among, General
    from engine.evaluation.robustness import Robustness
    from engine.evaluation.selection import Selection
    from engine.evaluation.term_weights import TermTrial
    from engine.project import ProjectFolder
    from engine.records import Chunk
    from engine.settings import Settings

    Rankings = NDArray[np.int64]

VERSION = 16
ARTIFACT = "evaluation"
POOL_DEPTH = 30
JOINED = WAYS[1:]
PAIRS = (
    *((f"{way}{SERVED}", other) for way in JOINED for other in (f"{way}{BASE}", BM25)),
    *((f"{way}{UNWEIGHED}", f"{way}{BASE}") for way in JOINED),
    *((f"{way}{SERVED}", f"{way}{UNWEIGHED}") for way in JOINED),
    *((f"{way}{name}", f"{way}{CL}") for way in WAYS for name in (SERVED, UNWEIGHED)),
    (LEARNT, BM25),
)
"""Compared besides each system with base: hybrid search with what is served, what of its gain comes from the encoder and what from
learnt weights of words, all of it with the CL baseline, and BM25 with and without such weights."""


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
        "lexical": [view.settings.lexical.titles, view.need("lexical", "index").info.get("language", "none")],
        "base": served_fingerprint(view, None, 1.0),
        **({"coarse": True} if view.settings.vectors.dtype == "i8" else {}),
        "cl": _baseline(view),
        **_synonyms(view),
        **({"pairs": pairs_fingerprint(view)} if view.settings.evaluation.sentence_pairs else {}),
    }


def _synonyms(view: View) -> dict[str, str]:
    """The language model whose words for others robustness is measured with; nothing where there is none."""
    from engine.evaluation.robustness_trial import language_model_of

    return {"synonyms": name} if (name := language_model_of(view)) else {}


def _baseline(view: View) -> str:
    if not view.settings.evaluation.cl_baseline:
        return ""
    from engine.training.baseline import baseline_fingerprint

    return baseline_fingerprint(view)


def _fused(view: View) -> set[str]:
    """The settings that decide what is ranked, and how the rankings are joined."""
    always = {"rrf_u", "fusion", "named_documents", "term_weights", "hubs"}
    return always | {"weight"} if view.settings.search.fusion == "weighted" else always


def look_ahead(project: ProjectFolder, settings: Settings) -> None:
    """Raises DatasetError for a file of sentence pairs that cannot be used."""
    if not settings.evaluation.sentence_pairs:
        return
    from engine.evaluation.sentence_pairs import pairs_file, read_pairs

    if path := pairs_file(project, settings):
        read_pairs(path)


def verify(view: View) -> None:
    """Raises DamagedError when the report is gone, or the adapter that was chosen has been replaced."""
    artifact, adapter = view.need(ARTIFACT, "evaluate"), view.need("adapter", "train").info.get("adapter")
    if not (view.project.folder_of(artifact) / "report.html").is_file():
        raise DamagedError("The report is missing.", "", "Run 'engine evaluate'.")
    if artifact.info["fusion"].get("weighed_words"):
        from engine.lexical.weighting import read_weights

        read_weights(view.project.folder_of(artifact))
    if artifact.info.get("hubs", {}).get("hub_queries"):
        from engine.ranking.hubness import read_bank

        read_bank(view.project.folder_of(artifact))
    if artifact.info["served"].get("adapter") not in (None, adapter):
        raise DamagedError("The adapter was trained anew.", "", "Run 'engine evaluate'.")


def run(context: StageContext) -> dict[str, Any]:
    """Compare, choose what to serve, write the report."""
    from engine.evaluation.robustness_trial import drop_unasked

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
    if context.settings.evaluation.cl_baseline:
        work.rank_baseline()
    if context.settings.search.hubs:
        work.take_off_hubs(selection)
    fusion = work.fuse()
    if context.settings.search.term_weights:
        work.weigh_terms(selection, fusion)
    work.learn_threshold()
    drop_unasked(context)
    if context.settings.evaluation.robustness:
        work.perturb(selection, fusion)
    return work.conclude(selection, fusion)


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far."""

    def __init__(self, context: StageContext) -> None:
        from engine.evaluation.rankers import Rankers

        self._context = context
        self._artifact = context.need("adapter", "train")
        self._chunks: list[Chunk] = context.store.chunks()
        self._rankers = Rankers(context, self._chunks)
        self._ids, self.adapter = self._rankers.ids, self._rankers.adapter
        self._owners = np.array([chunk.document_id for chunk in self._chunks], dtype=np.int64)
        self.sets = query_sets(context, self._chunks)
        self._described = Described(self.sets, self._ids, context.settings.training.seed)
        self._pool: list[Chunk] = []
        self._baseline: Mapping[str, Any] | None = None
        self._robustness: Robustness | None = None
        self._threshold: dict[str, Any] = {}
        self._terms = TermWeights()
        self._weighed: TermTrial | None = None
        self._hubs = Hubs()
        self._general: dict[str, Mapping[str, NDArray[np.float64]]] = {}
        self._sentences = SentencePairs(context)
        self._apart: dict[str, NDArray[np.float64]] = {}
        self._among = {one.kind: self._chunks_meant(one) for one in self.sets}

    def _set(self, kind: str) -> QuerySet | None:
        return next((one for one in self.sets if one.kind == kind), None)

    def rank_bm25(self) -> None:
        """BM25's best `depth` chunks of every query."""
        for one in self.sets:
            one.rankings["bm25"], one.scores["bm25"] = self._rankers.bm25(one.texts, self._among[one.kind])

    def _chunks_meant(self, one: QuerySet) -> list[NDArray[np.int64] | None]:
        """Per query, the chunks of the documents that it names; None where it names none."""
        named = {meant.documents for meant in one.meant if meant.documents}
        chunks = {documents: self._ids[np.isin(self._owners, list(documents))] for documents in named}
        return [chunks.get(meant.documents) for meant in one.meant]

    def rank_encoder(self, name: str, strength: float) -> None:
        """The best `depth` chunks by cosine, over the whole corpus, of the encoder with the adapter at `strength` (λ)."""
        encoder = self._rankers.encoder(strength)
        vectors = self._rankers.vectors(encoder, strength, self._chunks, name)
        if self.adapter:
            self._know(name, self._rankers.general(encoder, strength), vectors)
        self._rank_by(encoder, vectors, name)

    def _rank_by(self, encoder: Encoder, vectors: NDArray[np.float32], name: str) -> None:
        self._sentences.take(name, encoder)
        for one in self.sets:
            asked = encoded_queries(self._context, encoder, one.texts)
            self._rank(one, name, asked, vectors, self._among[one.kind])
            self._described.take(name, one, asked, vectors)

    def _know(self, name: str, found: General, vectors: NDArray[np.float32]) -> None:
        """What an encoder knows besides the documents, and how far the chunks' `vectors` (n, d) lie from that."""
        from engine.metrics import nearest_distances

        self._general[name], passages = found
        self._apart[name] = nearest_distances(vectors, passages)

    def rank_baseline(self) -> None:
        """The CL baseline, trained first where it is not there yet. It comes after the choice, so that it has no part in it."""
        from engine.training.baseline import baseline_adapter, side_of

        self._baseline = baseline_adapter(self._context)
        if not self._baseline["adapter"]:
            return
        encoder, of_chunks = self._rankers.trained(
            self._context.project.path / self._baseline["adapter"], side_of(self._baseline)
        )
        everything = self._rankers.own_vectors(of_chunks, self._chunks, CL)
        self._rank_by(encoder, everything, CL)
        self._know(CL, self._rankers.general_of(encoder, of_chunks), everything)
        heldout = self._set("synthetic")
        if heldout and self._pool:
            asked = encoded_queries(self._context, encoder, heldout.texts)
            vectors = self._rankers.own_vectors(of_chunks, self._pool, CL)
            self._described.place(CL, None, heldout, asked, vectors, self._pool)

    def _rank(
        self, one: QuerySet, name: str, asked: NDArray[np.float32], vectors: NDArray[np.float32], among: Among
    ) -> None:
        """By cosine to the queries `asked`; BM25's chunks get theirs, too, for sums of both."""
        from engine.evaluation.rankings import cosines_of

        one.rankings[name], one.scores[name] = self._rankers.cosine(asked, vectors, among)
        one.beside[name] = cosines_of(asked, vectors, self._ids, one.rankings["bm25"])

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that has been ranked already."""
        for one in self.sets:
            one.rankings[name], one.scores[name] = one.rankings[system], one.scores[system]
            one.beside[name] = one.beside[system]
        if system in self._general:
            self._general[name], self._apart[name] = self._general[system], self._apart[system]
        self._described.alias(name, system)

    def select(self) -> Selection:
        """The never-worse-than-base rule, on the held-out queries, with the judged ones as a veto if the user wants that."""
        from engine.evaluation.selection import Selection, choose_served

        settings = self._context.settings.evaluation
        heldout = self._set("synthetic")
        if self.adapter is None or heldout is None:
            reason = self._artifact.info.get("reason") or "there are no held-out queries to compare with"
            selection = Selection("base", 0.0, f"The base encoder is served, because {reason}.", 0, ())
        else:
            values = self._candidates(heldout)
            judged = self._set("judged") if settings.veto else None
            known = [name for name in values if judged and name in judged.rankings]
            veto = self._ndcg(judged, known) if judged and judged.telling() else None
            seed = self._context.settings.training.seed
            selection = choose_served(values, veto, settings.bootstrap_samples, seed)
        self._context.choose("served", selection.served, selection.reason)
        return selection

    def _candidates(self, heldout: QuerySet) -> Mapping[str, NDArray[np.float64]]:
        """nDCG@10 per held-out query of every candidate, all ranked over the same pool of chunks. Where each stands in the
        plane of alignment and uniformity is noted."""
        from engine.evaluation.rankings import pool_of, rank_within
        from engine.evaluation.selection import candidate_name

        relevant = [key for judgment in heldout.judgments for key in judgment.grades]
        most = self._context.settings.evaluation.merges_up_to
        everything = len(self._ids) <= most
        pool = set(self._ids.tolist()) if everything else pool_of(heldout.rankings.values(), POOL_DEPTH, relevant)
        chunks = [chunk for chunk in self._chunks if chunk.id in pool]
        if not everything and self._rankers.side != "query":
            why = f"the corpus has more than {most:,} (evaluation.merges_up_to), and each merge would embed all of them"
            self._context.choose("merges compared among", f"{len(chunks):,} chunks", why)
        keys = np.array([chunk.id for chunk in chunks], dtype=np.int64)
        self._pool, values = chunks, {}
        for strength in (0.0, *sorted(self._context.settings.evaluation.lambdas), 1.0):
            name = candidate_name(strength)
            encoder = self._rankers.encoder(strength)
            vectors = self._rankers.vectors(encoder, strength, chunks, name)
            asked = encoded_queries(self._context, encoder, heldout.texts)
            ranking, _ = rank_within(asked, vectors, keys, 10, self._among[heldout.kind])
            values[name] = self._measure(ranking, heldout.judgments)
            if is_merge(name) and (everything or self._rankers.side == "query"):  # else it has no vectors of all chunks
                self._rank_merge(name, encoder, self._rankers.vectors(encoder, strength, self._chunks, name))
            self._described.place(name, strength, heldout, asked, vectors, chunks)
            self._context.check_stop()
        return values

    def _rank_merge(self, name: str, encoder: Encoder, vectors: NDArray[np.float32]) -> None:
        for one in self.sets:
            asked = encoded_queries(self._context, encoder, one.texts)
            self._rank(one, name, asked, vectors, self._among[one.kind])

    def _ndcg(self, one: QuerySet, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        rows = one.telling()
        judgments = [one.judgments[row] for row in rows]
        return {name: self._measure(one.rankings[name][rows], judgments) for name in names}

    def _measure(self, ranking: Rankings, judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        from engine.evaluation.comparison import measure

        return measure(ranking, list(judgments), self._document_of)["ndcg@10"]

    def _document_of(self, ids: Rankings) -> Rankings:
        return self._owners[np.searchsorted(self._ids, ids)]

    def take_off_hubs(self, selection: Selection) -> None:
        """Rank by the served encoder with less of what makes hubs near to every query, unless that seems to do harm."""
        from engine.evaluation.hubs import HubTrial

        trial = HubTrial(self._context, self._rankers, selection.strength, self._measure)
        self._hubs = trial.take(self.sets, self._among)
        if self._hubs.plain == PLAIN:
            self._described.alias(PLAIN, SERVED)
        for name, found in trial.found.items():
            for one in self.sets:
                self._described.take(name, one, found.asked[one.kind], found.vectors, found.offsets)
        self._context.choose("hubs", str(self._hubs.bank is not None).lower(), self._hubs.reason)

    def fuse(self) -> FusionChoice:
        """BM25 joined with every encoder: by RRF, and by a weighted sum."""
        joining = Joining(self._context.settings, self._measure, self._rankers.lexical.scores_many)
        choice = joining.choose(self._set("synthetic"))
        self._context.choose("fusion", choice.method, choice.reason)
        for one in self.sets:
            for name in [name for name in one.rankings if name in ENCODERS or is_merge(name)]:
                for way, weight in zip(JOINED, (None, choice.weight), strict=True):
                    one.rankings[way + name] = joining.joined(one, name, weight)
        return choice

    def weigh_terms(self, selection: Selection, fusion: FusionChoice) -> None:
        """Learn how much words of queries count in hybrid search, and take it over where that is shown to be better."""
        from engine.evaluation.term_weights import TermTrial, TermWeighting

        weighting = TermWeighting(self._context, self._rankers, selection.strength)
        trial = TermTrial(self._context.settings, weighting, self._measure, fusion)
        self._terms = trial.take(self.sets, self._among)
        self._context.choose("term_weights", str(bool(self._terms.weights)).lower(), self._terms.reason)
        self._weighed = trial if self._terms.weights else None

    def perturb(self, selection: Selection, fusion: FusionChoice) -> None:
        """Measure the judged queries, or else the held-out ones, with typos, masked words and other words."""
        from engine.evaluation.robustness_trial import RobustnessTrial

        trial = RobustnessTrial(
            self._context, self._rankers, selection.strength, fusion, self._weighed, self._chunks_meant
        )
        self._robustness = trial.measure(self.sets, self._measure, self._document_of)

    def learn_threshold(self) -> None:
        """How similar to the query a hit of semantic search must be not to count as weak."""
        from engine.evaluation.weak_hits import learn_threshold

        settings = self._context.settings
        self._threshold = learn_threshold(
            self.sets, "served", self._document_of, settings.evaluation.bootstrap_samples, settings.training.seed
        )

    def conclude(self, selection: Selection, fusion: FusionChoice) -> dict[str, Any]:
        """Write the report, make it current, and sum it up."""
        from engine.evaluation.report import write_report
        from engine.lexical.weighting import write_weights
        from engine.ranking.hubness import write_bank

        context = self._context
        comparisons = [(one, self._compare(one)) for one in self.sets if any(j.usable for j in one.judgments)]
        with context.project.building("reports", context.fingerprint) as building:
            write_report(building.folder, self._report(selection, fusion, comparisons))
            write_weights(building.folder, self._terms.weights)
            if self._hubs.bank is not None:
                write_bank(building.folder, self._hubs.bank)
        adapter = self._artifact.info.get("adapter")
        served = {
            "name": selection.served,
            "scale": selection.strength,
            "adapter": adapter if selection.strength else None,
            "side": self._artifact.info.get("side", "both"),
        }
        tables = {one.kind: {**comparison.as_dict(), "synthetic": one.synthetic} for one, comparison in comparisons}
        info = {
            "served": served,
            "adapter": served["adapter"],
            "model": model_fingerprint(context),
            "reason": selection.reason,
            "fusion": {**fusion.as_dict(), **self._terms.as_dict()},
            "hubs": {**self._hubs.as_dict(), "key": self._hubs.key},
            "language": self._rankers.lexical.language,
            "tables": tables,
            "threshold": {**self._threshold, "encoder": self._served_encoder(selection), "hubs": self._hubs.key},
        }
        context.store.put_artifact(Artifact(ARTIFACT, context.fingerprint, building.name, time.time(), info))
        return {"served": selection.served, "reason": selection.reason, "report": f"{building.name}/report.html"}

    def _served_encoder(self, selection: Selection) -> str:
        return served_fingerprint(
            self._context, self.adapter if selection.strength else None, selection.strength or 1.0
        )

    def _compare(self, one: QuerySet) -> Comparison:
        from engine.evaluation.comparison import compare

        order = ordered(one.rankings)
        wanted = (*PAIRS, *self._hubs.pairs(bool(self._terms.weights)))
        settings = self._context.settings
        return compare(
            {name: one.rankings[name] for name in order}, one.judgments, self._document_of,
            samples=settings.evaluation.bootstrap_samples, seed=settings.training.seed,
            pairs=[pair for pair in dict.fromkeys(wanted) if set(pair) <= set(order)],
        )  # fmt: skip

    def _told_baseline(self) -> dict[str, Any] | None:
        told = ("reason", "side", "steps", "best_step", "ended", "seconds")
        return {name: self._baseline.get(name) for name in told} if self._baseline else None

    def _report(
        self, selection: Selection, fusion: FusionChoice, comparisons: Sequence[tuple[QuerySet, Comparison]]
    ) -> Any:
        from engine.evaluation.changes import hit_finder, query_changes
        from engine.evaluation.forgetting import measure_general
        from engine.evaluation.report import QuerySetReport, ReportData, TrainingCurve, choices_made, warnings_told

        history = self._artifact.info.get("history") or {}
        log = self._context.project.path / "runs" / self._context.run / "events.jsonl"
        base_alone = not selection.strength and self._hubs.bank is None
        changed = "adapted" if self.adapter and base_alone else "served"
        chunks = {chunk.id: chunk for chunk in self._chunks}
        titles = {document.id: document.title or document.path for document in self._context.store.documents()}
        sets = [
            QuerySetReport(
                one.name, "judged" if one.kind == "judged" else "synthetic", comparison.as_dict(),
                query_changes(comparison, changed, hits=hit_finder(one.rankings, one.judgments, chunks, titles)), changed,
                [text for judgment in one.judgments for text in judgment.unmatched], one.synthetic,
            )
            for one, comparison in comparisons
        ]  # fmt: skip
        context = self._context
        return ReportData(
            project=context.project.name, created=datetime.now(UTC).isoformat(timespec="seconds"), version=__version__,
            selection=selection, fusion={**fusion.as_dict(), **self._terms.as_dict(), **self._hubs.as_dict()}, query_sets=sets,
            training=TrainingCurve(history.get("losses", ()), history.get("held_out", ())),
            settings=context.settings.model_dump(),
            choices=choices_made(log), warnings=warnings_told(log),
            sizes=context.store.counts(), diagnostics=self._described.diagnostics,
            similarities=self._described.similarities(), geometry=self._described.plane(),
            baseline=self._told_baseline(),
            robustness=self._robustness.as_dict() if self._robustness else None,
            threshold=self._threshold, sentences=self._sentences.as_dict(),
            general=measure_general(self._general, self._apart, context.settings.evaluation.bootstrap_samples),
        )  # fmt: skip
