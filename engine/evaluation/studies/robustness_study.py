"""The systems of an evaluation asked with mistyped, masked and exchanged words (engine/evaluation/studies/robustness.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.errors import CancelledError, EngineError
from engine.core.systems import ADAPTED, BASE, BM25, HYBRID_BASE, HYBRID_IN_USE, IN_USE
from engine.evaluation.comparison import DocumentOf
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import FusionChoice
from engine.evaluation.studies.hybrid import HybridFusion, Scorer
from engine.evaluation.studies.perturbation import content_terms, without_masks
from engine.evaluation.studies.robustness import Robustness, make_trial, measure_trial
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import LexicalInfo

if TYPE_CHECKING:
    from engine.evaluation.rankers import Among, Rankers
    from engine.lexical.index import LexicalIndex

Words = Sequence[tuple[str, Sequence[str]]]


def language_model_of(snapshot: ProjectSnapshot) -> str:
    """What names the language model whose synonyms are taken; empty where none can be asked, or robustness is not."""
    from engine.queries.substitutes import language_model

    try:
        return language_model(snapshot) if snapshot.settings.evaluation.robustness else ""
    except EngineError:
        return ""


def drop_unused_substitutes(snapshot: ProjectSnapshot) -> None:
    """Drop a language model's words of former evaluations where none is asked any more: they are words of queries."""
    from engine.queries.substitutes import forget_substitutes, language_model

    try:
        model = snapshot.settings.evaluation.robustness and language_model(snapshot)
    except EngineError:  # the one that is named is not there now, and may be again
        return
    if not model:
        forget_substitutes(snapshot.project.path)


class RobustnessStudy:
    """Asks the systems with the encoder in use at an interpolation `weight`, fused as `fusion` says.

    `among`: the chunks that a query set is ranked within.
    """

    def __init__(
        self, context: StageContext, rankers: Rankers, weight: float, fusion: FusionChoice, among: Callable[[QuerySet], Among]
    ) -> None:  # fmt: skip
        self._context, self._rankers, self._weight = context, rankers, weight
        self._fusion, self._among = fusion, among

    def measure(self, sets: Sequence[QuerySet], document_of: DocumentOf) -> Robustness | None:
        """Of the judged queries, or else the held-out ones; None where no query can be measured."""
        context, settings = self._context, self._context.settings
        terms = content_terms(context.need(LexicalInfo).info.language)
        ask = self._ask if language_model_of(context) else None
        trials = (make_trial(one, self._rankers.chunks, terms, settings.training.seed, ask) for one in sets)
        trial = next((trial for trial in trials if trial), None)
        if trial is None:
            return None
        one = trial.perturbed
        among, texts = self._among(one), [without_masks(text) for text in one.texts]
        one.rankings[BM25], one.scores[BM25] = self._rankers.bm25(texts, among)
        self._rank(one, among)
        fuser = HybridFusion(settings, self._scorer(self._rankers.lexical))
        for name, encoder in ((HYBRID_BASE, BASE), (HYBRID_IN_USE, IN_USE)):
            one.rankings[name] = fuser.fused(one, encoder, self._fusion.share)
        samples, seed = settings.evaluation.bootstrap_samples, settings.training.seed
        return measure_trial(trial, one.rankings, document_of, samples, seed)

    def _rank(self, one: QuerySet, among: Among) -> None:
        """By base, by the adapted encoder where there is one, and by what is in use; of one weight, queries are encoded once."""
        rankers = self._rankers
        systems = {BASE: 0.0, **({ADAPTED: 1.0} if rankers.adapter else {}), IN_USE: self._weight}
        for weight in dict.fromkeys(systems.values()):
            names = [name for name, own in systems.items() if own == weight]
            candidate = rankers.candidate(weight, names[0])
            queries, vectors = candidate.query_vectors(one.texts), candidate.chunk_vectors(rankers.chunks)
            for name in names:
                one.rankings[name], one.scores[name] = rankers.nearest(queries, vectors, among, candidate.similarity)
                one.beside[name] = rankers.scores_of(queries, vectors, one.rankings[BM25], candidate.similarity)
            self._context.check_stop()
        one.rankings = {name: one.rankings[name] for name in (BM25, *systems)}

    @staticmethod
    def _scorer(index: LexicalIndex) -> Scorer:
        return lambda one, ids: index.scores_many([without_masks(text) for text in one.texts], ids)

    def _ask(self, words: Words) -> tuple[list[dict[str, str]], str]:
        """A language model's own words; nothing, and a warning, where it cannot be asked."""
        from engine.queries.substitutes import substitutes

        def progress(done: int) -> None:
            self._context.progress(done, len(words), "queries whose words are replaced")

        try:
            return substitutes(self._context, words, progress)
        except CancelledError:
            raise
        except EngineError as error:
            self._context.warn(
                f"Words are replaced without the language model, by words that your documents use alike: {error.what} {error.why}"
            )
            return [], ""
