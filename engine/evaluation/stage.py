"""Stage `evaluate`: chooses an encoder for each search mode by the best evidence available."""

from __future__ import annotations

from typing import Any

from engine.core.errors import DamagedError, NotBuiltError
from engine.encoders.for_project import check_device, encoder_fingerprint_of, model_fingerprint
from engine.evaluation.evaluating import Evaluation
from engine.evaluation.experience import experience_fingerprint
from engine.evaluation.judgments import judgments_fingerprint
from engine.evaluation.lists.preferences import preferences_fingerprint
from engine.evaluation.marks import focused_fingerprint
from engine.evaluation.results import publish_results
from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, LexicalInfo

VERSION = 35


class EvaluateStage(Stage):
    """Comparison of base, adapted and interpolated encoders, of which each search mode uses one."""

    version = VERSION
    artifact = EvaluationInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the adapter, the judgments, and how to compare."""
        settings = snapshot.settings
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
        experience = ""
        if settings.evaluation.gate == "expected":
            experience = experience_fingerprint()
        return {
            "adapter": adapter.fingerprint,
            "judged": judgments_fingerprint(snapshot.store),
            "preferences": preferences_fingerprint(snapshot.project),
            "focused": focused_fingerprint(snapshot.project),
            "experience": experience,
            "evaluation": settings.evaluation.model_dump(),
            "search": settings.search.model_dump(include=_list_search_settings(snapshot)),
            "lexical": [settings.lexical.titles, snapshot.need(LexicalInfo).info.language],
            "base": encoder_fingerprint_of(snapshot, None, 1.0),
            **_read_reranker(snapshot),
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Check that everything the evaluation needs can be used.

        Raises ModelError for an unusable reranker, UsageError for a missing device.
        """
        check_device(snapshot.settings)
        _read_reranker(snapshot)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise DamagedError if the report is missing or the chosen adapter has been replaced."""
        artifact = snapshot.need(EvaluationInfo)
        adapter = snapshot.need(AdapterInfo).info.adapter
        if not (snapshot.project.folder_of(artifact) / "report.html").is_file():
            raise DamagedError.of_stage(
                "evaluate",
                "The report is missing.",
                code="report-missing",
            )
        for choice in artifact.info.in_use.values():
            if choice.adapter not in (None, adapter):
                raise DamagedError.of_stage(
                    "evaluate", "The adapter was trained again.", code="adapter-changed"
                )

    def stale_note(self, snapshot: ProjectSnapshot) -> str:
        """Return a note if judgments were added or changed."""
        artifact = snapshot.store.artifact(EvaluationInfo)
        # An evaluation by an earlier version has no fingerprint of its judgments to compare with.
        if artifact is None or not artifact.info.judgments:
            return ""
        if artifact.info.judgments == judgments_fingerprint(snapshot.store):
            return ""
        return "judgments were added or changed"

    def run(self, context: StageContext) -> dict[str, Any]:
        """Compare, choose what comes into use, write the report."""
        work = Evaluation(context)
        work.rank_bm25()
        work.rank_candidates()
        selection = work.select()
        fusion = work.fusion_of(selection)
        work.learn_threshold()
        work.choose_reranker(fusion)
        return publish_results(context, work, selection, fusion)


STAGE = EvaluateStage()


def _read_reranker(snapshot: ProjectSnapshot) -> dict[str, Any]:
    """Return what a comparison with the reranker depends on, empty without one.

    Raises what `reranker_of` raises.
    """
    search = snapshot.settings.search
    if not search.reranker:
        return {}
    from engine.reranking.chosen import reranker_of

    reranker = reranker_of(snapshot.project, snapshot.settings)
    if reranker is None:
        return {}
    return {"reranker": {"fingerprint": reranker.fingerprint, "seconds": search.rerank_seconds}}


def _list_search_settings(snapshot: ProjectSnapshot) -> set[str]:
    """Return the names of settings that decide what is ranked and how it is fused."""
    search = snapshot.settings.search
    names = {"rrf_k", "fusion", "named_documents"}
    if search.fusion == "weighted":
        names.add("weight")
    # The reranker is tried in the default mode.
    if search.reranker and search.mode == "semantic":
        names.add("mode")
    return names
