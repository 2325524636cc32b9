"""The public interface of the library: `from engine import Project`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core import environment
from engine.core.disk import expand_home
from engine.core.events import Event
from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.messages.search import Search
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
    from engine.search.searcher import Searcher

environment.prepare()


@dataclass(frozen=True)
class Report:
    """The results of an evaluation; its fields are the keys of `engine report --json`."""

    in_use: Mapping[SearchMode, InUseInfo]  # Search mode → the encoder in use, and why.
    advice: str
    fusion: Mapping[str, Any]  # How hybrid search fuses both rankings.
    tables: Mapping[str, FigureTable]  # Kind of queries → figures in percent.
    folder: Path  # Where the report is.
    verdict: ReportVerdict  # The conclusion in plain words.
    outdated: str = ""  # Why the figures are out of date; empty if they are not.
    # Search mode → the kind of evidence that proved what is in use, or else had the last word;
    # empty if none had.
    rungs: Mapping[SearchMode, str] = field(default_factory=dict)
    # Search mode → what the gate compared.
    gates: Mapping[SearchMode, GateTable] = field(default_factory=dict)
    # The rows of the tables that describe what is in use.
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
        """Create a project over `documents` (folders or files).

        `settings` are sections of project.toml, as in `Project.create("handbook", ["~/handbook"],
        training={"preset": "quick"})`. A name without a separator becomes a folder in the user's
        data folder.
        """
        paths = [str(full_path(expand_home(path))) for path in documents]
        chosen = {**settings, "corpus": {**settings.get("corpus", {}), "paths": paths}}
        return cls(ProjectFolder.create(locate(name_or_path), chosen))

    @classmethod
    def open(cls, name_or_path: str | os.PathLike[str]) -> Project:
        """Open an existing project by name or path."""
        return cls(ProjectFolder.open(name_or_path))

    @property
    def path(self) -> Path:
        """The project's folder."""
        return self.folder.path

    def settings(self) -> Settings:
        """Return the current settings of project.toml."""
        return self.folder.settings()

    def run(
        self,
        stages: Sequence[str] = SEARCH,
        *,
        force: Iterable[str] = (),
        on_event: Callable[[Event], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> str:
        """Make the documents searchable, or update the named `stages`, and return the run's id.

        Each stage runs in a child process. `on_event` is called with every event; `should_stop` is
        called many times a second.
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
        """Bring every stage up to date: adapt the encoder, and use it where it is better.

        Each search mode uses the adapted encoder only if it is proved, or expected, to be better.
        Arguments and result are those of `run`.
        """
        return self.run(
            ORDER,
            on_event=on_event,
            should_stop=should_stop,
        )

    def search(
        self,
        query: str | Search,
        *,
        mode: str | None = None,
        **options: Any,
    ) -> Found:
        """Return the best chunks for `query`, best first; models stay loaded between calls.

        `query`: a text, or a whole request (`engine.core.messages.search.Search`). `mode`:
        `hybrid`, `semantic` or `keywords` (also `bm25`). `options`: the other fields of a request,
        such as `top=3` or `types=("pdf",)`; they replace those of a whole request.
        """
        from engine.search.searcher import Searcher

        request = query if isinstance(query, Search) else Search(query)
        if mode is not None:
            options["mode"] = mode
        request = replace(request, **options)
        if self._searcher is None:
            self._searcher = Searcher(self.folder)
        return self._searcher.search(request)

    def import_queries(self, path: str | os.PathLike[str], *, validation: bool = False) -> int:
        """Add training queries from a JSONL file or qrels/NAME.tsv, and return their number.

        With `validation`, they are not trained on but decide when training stops.
        """
        from engine.datasets.imports import import_queries

        return import_queries(
            self.folder,
            Path(path),
            validation=validation,
        )

    def import_judgments(
        self, path: str | os.PathLike[str], split: str = "test", *, measuring: bool = False
    ) -> int:
        """Add judged queries from a JSONL file or a BEIR folder, and return their number.

        With `measuring`, they measure what comes into use but do not help to choose it.
        """
        from engine.datasets.imports import import_judgments

        return import_judgments(
            self.folder,
            Path(path),
            split,
            measuring=measuring,
        )

    def status(self) -> list[StageState]:
        """Return the state of every stage (done, stale or to do) and the reason."""
        from engine.runs.pipeline import all_status

        with closing(self.folder.store()) as store:
            return all_status(ProjectSnapshot(self.folder, self.settings(), store))

    def counts(self) -> dict[str, int]:
        """Return the numbers of files, documents, chunks, queries and judged queries.

        Files are counted as read, skipped and quarantined.
        """
        with closing(self.folder.store()) as store:
            return store.counts()

    def skipped(self) -> dict[str, str]:
        """Return files that were not tried or to which the system denied access, with the reason.

        If several folders hold a file of the same path, the folder is part of its name.
        """
        return self._list_unsearched("skipped")

    def quarantined(self) -> dict[str, str]:
        """Return files whose content could not be read, with the reason; named as by `skipped`."""
        return self._list_unsearched("quarantined")

    def _list_unsearched(self, state: str) -> dict[str, str]:
        """Return the files in that state with the reason, by path.

        If several sources hold a file of the same path, the source precedes it.
        """
        from engine.service.documents import list_unsearched

        with closing(self.folder.store()) as store:
            rows = list_unsearched(store, state)
        path_counts = Counter(row.path for row in rows)
        reasons = {}
        for row in rows:
            name = row.path
            if path_counts[row.path] > 1:
                name = f"{row.source}/{row.path}"
            reasons[name] = row.reason
        return reasons

    def documents(self, state: str | None = None) -> list[FileOutcome]:
        """Return the outcome of every file and of everything inside it.

        The outcome is read, skipped or quarantined, with the reason.
        """
        from engine.service.documents import ledger

        with closing(self.folder.store()) as store:
            return ledger(store, state)

    def queries(self, rejected: bool = False) -> list[QueryRow]:
        """Return the training queries with their documents.

        With `rejected`, return the queries that were left out when they were made, with the reason.
        """
        from engine.service.queries import list_queries

        with closing(self.folder.store()) as store:
            ProjectSnapshot(self.folder, self.settings(), store).need(QueriesInfo)
            return list_queries(store, rejected)

    def queries_by_origin(self, origin: str | None = None) -> QueriesByOrigin:
        """Return all queries of the project and what each is used for, of one `origin` if given.

        Queries taken from documents (titles, headings and so on) are included.
        """
        from engine.service.queries import by_origin

        with closing(self.folder.store()) as store:
            return by_origin(ProjectSnapshot(self.folder, self.settings(), store), origin)

    def retry(self, paths: Sequence[str] = ()) -> int:
        """Let the next ingest retry files that it did not read completely; return their number.

        All such files are retried, or only those that match the globs in `paths`.
        """
        from engine.service.documents import retry_matching

        return retry_matching(self.folder, paths)

    def report(self) -> Report:
        """Return the results of the last evaluation."""
        from engine.evaluation.reporting.report import read_report
        from engine.evaluation.reporting.verdict import (
            deciding_rung,
            gates_of,
            own_systems_of,
            tables_of,
            verdict_of,
        )
        from engine.runs.pipeline import all_status

        settings = self.settings()
        with closing(self.folder.store()) as store:
            snapshot = ProjectSnapshot(
                self.folder,
                settings,
                store,
            )
            artifact = snapshot.need(EvaluationInfo)
            states = {status.stage: status for status in all_status(snapshot)}
        outdated = ""
        if states["evaluate"].state != "done":  # "to do" if an input is gone or of another model
            outdated = states["evaluate"].reason
        folder = self.folder.folder_of(artifact)
        info = artifact.info
        content = read_report(folder)
        return Report(
            info.in_use,
            info.advice,
            content["fusion"],
            tables_of(content),
            folder,
            verdict_of(content, settings.search.mode_in_json, self.folder.argument),
            outdated,
            {mode: deciding_rung(content, mode) for mode in SEARCH_MODES},
            gates_of(content),
            own_systems_of(content),
        )

    def export(
        self, target: str | os.PathLike[str], kinds: Iterable[str] | None = None
    ) -> Exported:
        """Export results into `target`, a new folder.

        These are the adapter and the model, or the named `kinds`; ["all"] exports everything.
        """
        from engine.export.take import export_project

        return export_project(
            self.folder,
            Path(target),
            kinds,
        )

    def close(self) -> None:
        """Release loaded models and open files."""
        if self._searcher is not None:
            self._searcher.close()
            self._searcher = None
