"""Stage `evaluate`: base, adapted and interpolations of both are compared on the best evidence
there is; each search mode gets one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.core.errors import DamagedError, NotBuiltError
from engine.encoders.for_project import check_device, encoder_fingerprint_of, model_fingerprint
from engine.evaluation.evaluating import Evaluation
from engine.evaluation.experience import experience_fingerprint
from engine.evaluation.judgments import judgments_fingerprint
from engine.evaluation.lists.preferences import preferences_fingerprint
from engine.evaluation.marks import focused_fingerprint
from engine.evaluation.results import publish_results
from engine.evaluation.studies.forgetting import general_folder, general_set
from engine.evaluation.studies.sentence_pairs import pairs_fingerprint
from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, LexicalInfo

VERSION = 31


class EvaluateStage(Stage):
    """Compare base, adapted and interpolations of both on the best evidence there is, and give
    each search mode one.
    """

    version = VERSION
    artifact = EvaluationInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The adapter, the judgments, and how to compare."""
        adapter = snapshot.need(AdapterInfo)
        if adapter.info.model not in ("", model_fingerprint(snapshot)):
            raise NotBuiltError(
                "The adapter belongs to another model.",
                "encoder.model, or the files in its folder, have changed since it was trained.",
                f"Run 'engine adapt {snapshot.project.argument}', which trains one for the current"
                " model.",
                code="adapter-mismatch",
                stage="train",
                command="adapt",
            )
        return {
            "adapter": adapter.fingerprint,
            "judged": judgments_fingerprint(snapshot.store),
            "preferences": preferences_fingerprint(snapshot.project),
            "focused": focused_fingerprint(snapshot.project),
            "experience": (
                experience_fingerprint() if snapshot.settings.evaluation.gate == "expected" else ""
            ),
            "evaluation": _settings_of(snapshot),
            "search": snapshot.settings.search.model_dump(include=_fused(snapshot)),
            "lexical": [snapshot.settings.lexical.titles, snapshot.need(LexicalInfo).info.language],
            "base": encoder_fingerprint_of(snapshot, None, 1.0),
            **_synonyms(snapshot),
            **_reranker(snapshot),
            **(
                {"pairs": pairs_fingerprint(snapshot)}
                if snapshot.settings.evaluation.sentence_pairs
                else {}
            ),
            **({"general": _times(folder)} if (folder := general_folder(snapshot)) else {}),
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises DatasetError for sentence pairs or general text that cannot be used, ModelError
        for such a reranker, UsageError for a device that is not there.
        """
        check_device(snapshot.settings)
        _reranker(snapshot)
        general_set(general_folder(snapshot))
        if not snapshot.settings.evaluation.sentence_pairs:
            return
        from engine.evaluation.studies.sentence_pairs import pairs_file, read_pairs

        if path := pairs_file(snapshot.project, snapshot.settings):
            read_pairs(path)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raises DamagedError when the report is gone, or the adapter that was chosen has been
        replaced.
        """
        artifact = snapshot.need(EvaluationInfo)
        adapter = snapshot.need(AdapterInfo).info.adapter
        if not (snapshot.project.folder_of(artifact) / "report.html").is_file():
            raise DamagedError.of_stage("evaluate", "The report is missing.", code="report-missing")
        if any(one.adapter not in (None, adapter) for one in artifact.info.in_use.values()):
            raise DamagedError.of_stage(
                "evaluate", "The adapter was trained again.", code="adapter-changed"
            )

    def stale_note(self, snapshot: ProjectSnapshot) -> str:
        """Says when judgments were added or changed."""
        found = snapshot.store.artifact(EvaluationInfo)
        same = not found or found.info.judgments in ("", judgments_fingerprint(snapshot.store))
        return "" if same else "judgments were added or changed"

    def run(self, context: StageContext) -> dict[str, Any]:
        """Compare, choose what comes into use, write the report."""
        from engine.evaluation.studies.robustness import drop_unused_substitutes

        work = Evaluation(context)
        work.rank_bm25()
        work.rank_candidates()
        selection = work.select()
        fusion = work.fusion_of(selection)
        work.learn_threshold()
        work.choose_reranker(fusion)
        drop_unused_substitutes(context)
        if context.settings.evaluation.robustness:
            work.perturb(selection, fusion)
        return publish_results(context, work, selection, fusion)


STAGE = EvaluateStage()


def _settings_of(snapshot: ProjectSnapshot) -> dict[str, Any]:
    """Return [evaluation].

    A key that came later counts only where it is set: evaluations of before stay up to date.
    """
    settings = snapshot.settings.evaluation
    return settings.model_dump(exclude=None if settings.plain_bm25 else {"plain_bm25"})


def _synonyms(snapshot: ProjectSnapshot) -> dict[str, str]:
    """The language model whose words for others robustness is measured with; nothing where there
    is none.
    """
    from engine.evaluation.studies.robustness import language_model_of

    if name := language_model_of(snapshot):
        return {"synonyms": name}
    return {}


def _reranker(snapshot: ProjectSnapshot) -> dict[str, Any]:
    """What a comparison with the reranker depends on; nothing where there is none.

    Raises as `reranker_of`.
    """
    if not snapshot.settings.search.reranker:
        return {}
    from engine.reranking.chosen import reranker_of

    found = reranker_of(snapshot.project, snapshot.settings)
    seconds = snapshot.settings.search.rerank_seconds
    if found:
        return {"reranker": {"fingerprint": found.fingerprint, "seconds": seconds}}
    return {}


def _times(folder: Path) -> list[int]:
    return [
        file.stat().st_mtime_ns
        for part in ("*.jsonl", "qrels/test.tsv")
        for file in sorted(folder.glob(part))
    ]


def _fused(snapshot: ProjectSnapshot) -> set[str]:
    """The settings that decide what is ranked, and how they are fused."""
    search = snapshot.settings.search
    found = {"rrf_k", "fusion", "named_documents"}
    if search.fusion == "weighted":
        found.add("weight")
    if search.reranker and search.mode == "semantic":  # it is tried in the default mode
        found.add("mode")
    return found
