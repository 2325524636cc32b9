"""Stage `rank`: BM25 ranks the chunks for every training query."""

from __future__ import annotations

from typing import Any

from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifact_info import LexicalInfo, QueriesInfo, RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.ranking.rankings_file import RankedLists

VERSION = 1
STEP = 256
"""Number of queries between two reports of progress."""
NO_QUERIES = "there are no training queries to rank: nothing can be trained"


class RankStage(Stage):
    """BM25 rankings of the training queries, which training learns from."""

    version = VERSION
    artifact = RankingsInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the queries and the depth; partition and sampling belong to training."""
        info = snapshot.need(QueriesInfo).info
        return {
            "queries": info.content,
            "corpus": info.corpus,
            "k": snapshot.settings.ranking.k,
        }

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise DamagedError if the lists on disk cannot be read."""
        RankedLists.load(snapshot.project.folder_of(snapshot.need(RankingsInfo)))

    def status_note(self, snapshot: ProjectSnapshot) -> str:
        """Return a note that there are no queries to rank, empty if there are some."""
        if snapshot.store.count("queries"):
            return ""
        return NO_QUERIES

    def run(self, context: StageContext) -> dict[str, Any]:
        """Rank BM25's best k chunks for every query."""
        if not context.store.count("queries"):
            context.report_choice("ranked", "nothing", NO_QUERIES)
        from engine.lexical.index import LexicalIndex

        queries = context.store.queries()
        index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))
        depth = context.settings.ranking.k
        k = min(depth, max(1, index.count))
        if queries and k < depth:
            context.report_choice(
                "k",
                k,
                f"the corpus has only {index.count} chunks",
            )
        texts = [query.text for query in queries]
        lists = []
        # The bonus for codes would turn every target into a single chunk.
        for hits in index.search_many(texts, k, bonus=False):
            lists.append(hits)
            if len(lists) % STEP == 0:
                context.check_stop()
                context.progress(
                    len(lists),
                    len(queries),
                    "queries",
                )
        ranked = RankedLists.from_lists([query.id for query in queries], lists)
        with context.project.building("rankings", context.fingerprint) as building:
            ranked.save(building.folder)
        context.progress(
            len(lists),
            len(queries),
            "queries",
        )
        info = RankingsInfo(context.need(QueriesInfo).info.content, k)
        context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
        return {"queries": len(queries), "k": k if queries else 0}


STAGE = RankStage()
