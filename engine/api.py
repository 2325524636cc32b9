"""The library's front door: `from engine import Project`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core import environment
from engine.core.events import Event
from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.messages.search import MODE_OF_NAME
from engine.core.systems import IN_USE_ALONE
from engine.project.folder import ProjectFolder, full_path, locate
from engine.project.stage import ORDER, SEARCH, ProjectSnapshot
from engine.project.store.artifact_info import EvaluationInfo, InUseInfo, QueriesInfo
from engine.settings.schema import Settings

if TYPE_CHECKING:
    from engine.core.figures import FigureTable
    from engine.core.messages.documents import FileOutcome
    from engine.core.messages.project import Exported, StageState
    from engine.core.messages.queries import QueriesByOrigin, QueryRow
    from engine.core.messages.report import GateTable, ReportVerdict
    from engine.core.messages.search import Found
    from engine.search.filters import SearchFilter
    from engine.search.searcher import Searcher

environment.prepare()


@dataclass(frozen=True)
class Report:
    """What an evaluation found: the `verdict` in plain words, the encoder `in_use` in each
    search mode and why, what the gate compared, figures in percent by kind of queries, and the
    report's folder. Its fields are the keys of `engine report --json`.

    `rungs`: by mode the kind of evidence that decided, empty where none did. `own_systems`: the
        rows of the tables that are those
    of what is in use.
    """

    in_use: Mapping[SearchMode, InUseInfo]
    advice: str
    fusion: Mapping[str, Any]
    tables: Mapping[str, FigureTable]
    folder: Path
    verdict: ReportVerdict
    rungs: Mapping[SearchMode, str] = field(default_factory=dict)
    gates: Mapping[SearchMode, GateTable] = field(default_factory=dict)
    own_systems: tuple[str, ...] = IN_USE_ALONE

    @property
    def fusion_method(self) -> str:
        """How hybrid search fuses both rankings: `weighted` or `rrf`."""
        return str(self.fusion.get("method", "weighted"))


class Project:
    """A project: documents, an adapted encoder and the indexes to search them with.

    Every method may raise a subclass of `engine.core.errors.EngineError`, whose text says what
    happened, why, and what to do.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self.folder = folder
        self._searcher: Searcher | None = None

    @classmethod
    def create(
        cls,
        name_or_path: str | os.PathLike[str],
        documents: Iterable[str | os.PathLike[str]],
        **settings: dict[str, Any],
    ) -> Project:
        """Make a project over `documents` (folders or files); `settings` are sections of
        project.toml.

        `Project.create("handbook", ["~/handbook"], training={"preset": "quick"})`. A name without a
        separator lies in the user's data folder.
        """
        paths = [str(full_path(Path(path).expanduser())) for path in documents]
        chosen = {**settings, "corpus": {**settings.get("corpus", {}), "paths": paths}}
        return cls(ProjectFolder.create(locate(name_or_path), chosen))

    @classmethod
    def open(cls, name_or_path: str | os.PathLike[str]) -> Project:
        """An existing project, by name or path."""
        return cls(ProjectFolder.open(name_or_path))

    @property
    def path(self) -> Path:
        """The project's folder."""
        return self.folder.path

    def settings(self) -> Settings:
        """project.toml as it is now."""
        return self.folder.settings()

    def run(
        self,
        stages: Sequence[str] = SEARCH,
        *,
        force: Iterable[str] = (),
        on_event: Callable[[Event], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> str:
        """Make the documents searchable, or bring the `stages` that are named up to date, each
        in a child process; returns the run's id.

        `on_event` is called with every event; `should_stop` is asked many times a second.
        """
        from engine.runs import pipeline

        return pipeline.run(
            self.folder, stages=stages, force=force, on_event=on_event, should_stop=should_stop
        )

    def adapt(
        self,
        *,
        on_event: Callable[[Event], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> str:
        """Bring every stage up to date: adapt the encoder, and use it in each search mode where
        it is proved, or expected, to be better. As `run`.
        """
        return self.run(ORDER, on_event=on_event, should_stop=should_stop)

    def search(
        self,
        query: str,
        *,
        mode: Any = None,
        top: int | None = None,
        where: SearchFilter | None = None,
        with_facets: bool = False,
        syntax: bool = True,
        by_document: bool = False,
        by_date: bool = False,
        min_score: float | None = None,
        rerank: bool | None = None,
    ) -> Found:
        """The best chunks for `query`: mode `hybrid`, `semantic` or `keywords` (also `bm25`);
        models stay loaded between calls.

        `"phrases"`, `-word`, `word*`, `title:word` and `like:document` mean what they do for a
        user, unless `syntax` is False.
        `by_document`: the best chunk of each document. `by_date`: newest first. `min_score`: the
            least of a hit.
        `rerank`: whether the reranker puts the first passages in order; None: if it is in use.
        """
        from engine.search.searcher import Searcher

        if self._searcher is None:
            self._searcher = Searcher(self.folder)
        return self._searcher.search(
            query,
            mode=MODE_OF_NAME.get(mode, mode),
            top=top,
            where=where,
            with_facets=with_facets,
            syntax=syntax,
            by_document=by_document,
            by_date=by_date,
            min_score=min_score,
            rerank=rerank,
        )

    def import_queries(self, path: str | os.PathLike[str], *, validation: bool = False) -> int:
        """Add training queries from a JSONL file or qrels/NAME.tsv; returns how many.

        `validation`: they are not trained on, but decide when training stops.
        """
        from engine.written_queries.imports import import_queries

        return import_queries(self.folder, Path(path), validation=validation)

    def import_judgments(
        self, path: str | os.PathLike[str], split: str = "test", *, measuring: bool = False
    ) -> int:
        """Add judged queries from a JSONL file or a BEIR folder; returns how many.

        `measuring`: they measure what comes into use, and have no part in choosing it.
        """
        from engine.written_queries.imports import import_judgments

        return import_judgments(self.folder, Path(path), split, measuring=measuring)

    def status(self) -> list[StageState]:
        """Every stage: done, stale or to do, and why."""
        from engine.runs.pipeline import all_status

        with closing(self.folder.store()) as store:
            return all_status(ProjectSnapshot(self.folder, self.settings(), store))

    def counts(self) -> dict[str, int]:
        """Files that were read, skipped and quarantined, documents, chunks, queries and judged
        queries in the project.
        """
        with closing(self.folder.store()) as store:
            return store.counts()

    def skipped(self) -> dict[str, str]:
        """Files that were not tried, or that the system did not let us read, with the reason.

        One whose path is that of another in another folder is named whole.
        """
        return self._unsearched("skipped")

    def quarantined(self) -> dict[str, str]:
        """Files whose content could not be read, with the reason; named as by `skipped`."""
        return self._unsearched("quarantined")

    def _unsearched(self, state: str) -> dict[str, str]:
        from engine.service.documents import unsearched

        with closing(self.folder.store()) as store:
            rows = unsearched(store, state)
        times = Counter(row.path for row in rows)
        return {
            row.path if times[row.path] == 1 else f"{row.source}/{row.path}": row.reason
            for row in rows
        }

    def documents(self, state: str | None = None) -> list[FileOutcome]:
        """What became of every file, and of what is inside it: read, skipped or quarantined, and
        why.
        """
        from engine.service.documents import ledger

        with closing(self.folder.store()) as store:
            return ledger(store, state)

    def queries(self, rejected: bool = False) -> list[QueryRow]:
        """The training queries with their documents, or those that were left out when they were
        made, and why.
        """
        from engine.service.queries import list_queries

        with closing(self.folder.store()) as store:
            ProjectSnapshot(self.folder, self.settings(), store).need(QueriesInfo)
            return list_queries(store, rejected)

    def queries_by_origin(self, origin: str | None = None) -> QueriesByOrigin:
        """All queries that the project has, with those that its documents hold (titles, headings
        and so on), and what each is used for; of one origin where it is named.
        """
        from engine.service.queries import by_origin

        with closing(self.folder.store()) as store:
            return by_origin(ProjectSnapshot(self.folder, self.settings(), store), origin)

    def retry(self, paths: Sequence[str] = ()) -> int:
        """Let the next ingest read files again that were not read, or not all of them: all, or
        those that match globs.
        """
        from engine.service.documents import retry_matching

        return retry_matching(self.folder, paths)

    def report(self) -> Report:
        """What the last evaluation found."""
        from engine.evaluation.reporting.report import read_report
        from engine.evaluation.reporting.verdict import (
            gates_of,
            own_systems_of,
            rung_of,
            tables_of,
            verdict_of,
        )

        settings = self.settings()
        with closing(self.folder.store()) as store:
            artifact = ProjectSnapshot(self.folder, settings, store).need(EvaluationInfo)
        folder = self.folder.folder_of(artifact)
        info = artifact.info
        found = read_report(folder)
        return Report(
            info.in_use,
            info.advice,
            found["fusion"],
            tables_of(found),
            folder,
            verdict_of(found, settings.search.mode_in_json, self.folder.argument),
            {mode: rung_of(found, mode) for mode in SEARCH_MODES},
            gates_of(found),
            own_systems_of(found),
        )

    def export(
        self, target: str | os.PathLike[str], kinds: Iterable[str] | None = None
    ) -> Exported:
        """Write what was made into `target`, a new folder: adapter and model, or the `kinds`
        that are named, or ["all"].
        """
        from engine.export.take import export_project

        return export_project(self.folder, Path(target), kinds)

    def close(self) -> None:
        """Let go of loaded models and open files."""
        if self._searcher is not None:
            self._searcher.close()
            self._searcher = None
