"""Bring the stages up to date in order: skip what is done, run the rest in child processes.

The module is long because `Run` holds everything about one run.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cluster.nodes import cluster_address, lost
from engine.core import events
from engine.core.disk import disk_errors, write_text
from engine.core.errors import (
    CancelledError,
    EngineError,
    NotBuiltError,
    UsageError,
    internal_fault,
    unknown_name,
)
from engine.core.events import (
    Event,
    EventLog,
    RunFinished,
    RunStarted,
    StageFailed,
    StageFinished,
    StageSkipped,
    StageStarted,
    Warned,
)
from engine.core.messages.offer import FEWER, MIN_TO_DECIDE
from engine.core.messages.project import UP_TO_DATE, StageState
from engine.core.platforms.files import try_remove_tree
from engine.core.platforms.processes import describe_exit_code
from engine.core.platforms.stopping import ask_to_stop
from engine.core.subprocesses import (
    ChildOutput,
    crash_error,
    end_child,
    read_error,
    run_folder_missing,
    spawn,
    to_short_dict,
)
from engine.project.control import CANCEL, POLL_SECONDS, Gate
from engine.project.folder import ProjectFolder
from engine.project.sharing import share_new_files
from engine.project.stage import (
    KEYWORD_STAGES,
    ORDER,
    SEARCH,
    ProjectSnapshot,
    Stage,
    stage_fingerprint,
)
from engine.project.store.artifact_info import EvaluationInfo, VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.connection import COPY
from engine.project.store.store import Store
from engine.training.compute import launch

if TYPE_CHECKING:
    from engine.runs.estimate import Correction, StageWork

ROOMS = {
    "ingest": "corpus.ingest",
    "index": "lexical",
    "generate": "queries",
    "rank": "ranking",
    "train": "training",
    "evaluate": "evaluation",
    "embed": "vectors",
}
"""The package with the module `stage` of each stage."""
KEPT_RUNS = 20
"""Number of runs whose records are kept."""


def load_stage(name: str) -> Stage:
    """Return a stage by its name, importing it on first use."""
    stage: Stage = importlib.import_module(f"engine.{ROOMS[name]}.stage").STAGE
    return stage


def stage_status(snapshot: ProjectSnapshot, stage: str) -> StageState:
    """Compare a stage's fingerprint with that of its current artifact.

    Raises NotBuiltError if an input is missing.
    """
    definition = load_stage(stage)
    wanted = stage_fingerprint(
        stage,
        definition.version,
        definition.inputs(snapshot),
    )
    current = snapshot.store.artifact(definition.artifact)
    if current is None:
        return StageState(
            stage,
            "to do",
            "not run yet",
            fingerprint=wanted,
        )
    if current.folder and not (snapshot.project.path / current.folder).is_dir():
        return StageState(
            stage,
            "stale",
            f"{current.folder} is missing",
            fingerprint=wanted,
        )
    if current.fingerprint == INCOMPLETE:
        return StageState(
            stage,
            "stale",
            "it is not finished",
            fingerprint=wanted,
        )
    if current.fingerprint != wanted:
        reason = definition.stale_note(snapshot) or "its settings or inputs changed"
        return StageState(
            stage,
            "stale",
            reason,
            fingerprint=wanted,
        )
    note = definition.status_note(snapshot) or UP_TO_DATE
    return StageState(
        stage,
        "done",
        note,
        fingerprint=wanted,
    )


def verify_status(snapshot: ProjectSnapshot, status: StageState) -> StageState:
    """Return the status of a finished stage after checking its files: stale if damaged."""
    try:
        load_stage(status.stage).verify(snapshot)
    except EngineError as error:
        return replace(
            status,
            state="stale",
            reason=error.what.rstrip("."),
            code=error.code,
        )
    return status


def all_status(snapshot: ProjectSnapshot) -> list[StageState]:
    """Return every stage's status; a stage that depends on something stale is stale too.

    Vectors depend on the documents alone until another encoder has come into use.
    """
    statuses: list[StageState] = []
    for stage in ORDER:
        try:
            status = stage_status(snapshot, stage)
        except NotBuiltError as error:
            status = StageState(
                stage,
                "to do",
                error.what.rstrip("."),
                error.code,
            )
        except EngineError as error:
            # Even if a model folder is gone, for example, the other stages are worth showing.
            has_artifact = snapshot.store.artifact(load_stage(stage).artifact) is not None
            state = "stale" if has_artifact else "to do"
            status = StageState(
                stage,
                state,
                error.what.rstrip("."),
                error.code,
            )
        inputs = statuses[:1] if stage == "embed" else statuses  # embed: of ingest alone
        stale = [earlier.stage for earlier in inputs if earlier.state == "stale"]
        if status.state == "done" and stale:
            status = replace(
                status,
                state="stale",
                reason=f"{stale[0]} is stale",
            )
        statuses.append(status)
    return statuses


def find_due_stages(
    snapshot: ProjectSnapshot, stages: Iterable[str], forced: Collection[str] = ()
) -> list[str]:
    """Return those of `stages` with work to do, each once."""
    states = {status.stage: status.state for status in all_status(snapshot)}
    return [stage for stage in dict.fromkeys(stages) if stage in forced or states[stage] != "done"]


class Run:
    """One execution of the stages, holding the project's lock.

    Its events are in `runs/ID/events.jsonl`. `runs/ID/run.json` holds the run's id, the pid, the
    state (running, done, failed, cancelled), the time of the state, and the `error` that made it
    fail.
    """

    def __init__(
        self,
        project: ProjectFolder,
        on_event: Callable[[Event], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.project = project
        self.id = _name_run(project.path / "runs")
        self.folder = project.path / "runs" / self.id
        self._on_event = on_event or (lambda _event: None)
        self._should_stop = should_stop or (lambda: False)
        self._log_offset = 0  # Events of the log before this byte were passed on.
        self._is_single_stage = False
        # Estimated work of stages that are not finished.
        self._work: dict[str, StageWork] = {}
        self._correction: Correction | None = None

    def execute(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Run `stages` in order.

        Raises the first EngineError, CancelledError if stopped.
        """
        started = time.monotonic()
        self._is_single_stage = len(stages) == 1
        with self.project.locked(is_run=True):
            # Begun before the repair, which may take a while, so that the run can be seen,
            # cancelled and paused.
            self._begin()
            state = "failed"
            error: dict[str, str] = {}
            try:
                self._emit(RunStarted(run=self.id, stages=list(stages)))
                repaired = self.project.repair()
                if repaired:
                    self._emit(Warned(stage="run", text=str(repaired)))
                self._preflight(stages, forced)
                self._run_stages(stages, forced)
                self._clean_up(stages)
                state = "done"
            except CancelledError as stopped:
                state = "cancelled"
                stopped.to_do = how_to_resume(
                    self.project,
                    stages,
                    forced,
                )
                stopped.command = resume_command(stages)
                raise
            except KeyboardInterrupt:  # a second Ctrl-C
                state = "cancelled"
                raise
            except EngineError as failure:
                error = to_short_dict(failure)
                raise
            except Exception as fault:
                what = "The run had an internal fault"
                error = to_short_dict(internal_fault(what, fault, command="run"))
                raise
            finally:
                self._end(
                    state,
                    time.monotonic() - started,
                    error,
                )

    def _run_stages(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Run the stages of keyword search, report an estimate, and run the others."""
        ordered = self._order_stages(stages)
        self._read_and_index([stage for stage in ordered if stage in KEYWORD_STAGES], forced)
        others = [stage for stage in ordered if stage not in KEYWORD_STAGES]
        # The work is known once the documents are read, and keyword search must not wait.
        if others:
            self._estimate(others, forced)
        for stage in others:
            self.run_stage(stage, forced=stage in forced)

    def _read_and_index(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Run the stages of keyword search until all files are read.

        In a new project the files that are read can be searched before the next ones are read.
        """
        for stage in stages:
            self.run_stage(stage, forced=stage in forced)
        while "ingest" in stages and self._files_left():
            for stage in stages:
                self.run_stage(stage, forced=False)
        if "index" in stages:
            self._warn_of_language()

    def _order_stages(self, stages: Sequence[str]) -> list[str]:
        """Return `stages` in the order of execution.

        If nothing is embedded yet, `embed` comes before the stages that learn: they take much
        longer and need the same vectors.
        """
        reading = list(itertools.takewhile(lambda stage: stage in SEARCH, stages))
        learning = list(stages[len(reading) :])
        with closing(self.project.store()) as store:
            has_vectors = store.artifact(VectorsInfo) is not None
            has_evaluation = store.artifact(EvaluationInfo) is not None
        if "embed" in learning and not has_vectors and not has_evaluation:
            reading.append("embed")
        return [*reading, *learning]

    def _begin(self) -> None:
        """Make the run's folder with its log and record."""
        with disk_errors(f"The run's folder {self.folder} could not be made."):
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            self.folder.mkdir(mode=0o700)
            self._log = EventLog(self.folder / "events.jsonl")
            self._record("running")

    def _record(self, state: str, error: dict[str, str] | None = None) -> None:
        """Write run.json."""
        data: dict[str, Any] = {
            "run": self.id,
            "pid": os.getpid(),
            "state": state,
            "time": time.time(),
        }
        if error:
            data["error"] = error
        write_text(self.folder / "run.json", json.dumps(data))

    def _end(
        self,
        state: str,
        seconds: float,
        error: dict[str, str],
    ) -> None:
        """Report and record the end of the run, and close the log."""
        self._log(RunFinished(run=self.id, state=state, seconds=round(seconds, 3)))
        self._log.close()
        # A full disk must not hide the error that is on its way to the user.
        with suppress(OSError):
            self._record(state, error)
        share_new_files(self.project)
        self.relay()

    def _emit(self, event: Event) -> None:
        """Write an event to the log, and pass it on."""
        self._log(event)
        self.relay()

    def _report_failure(self, stage: str, error: EngineError) -> None:
        """Report that a stage failed, and note the stage in the error."""
        error.stage = error.stage or stage
        self._emit(StageFailed(stage=stage, error=error.as_dict()))

    def relay(self) -> None:
        """Pass on every event that the log has gained, from this process or a child."""
        for event, offset in events.read(self.folder / "events.jsonl", self._log_offset):
            self._log_offset = offset
            if isinstance(event, StageFinished):
                self._learn_rate(event)
            self._on_event(event)
            if self._correction:
                corrected = self._correction.take(event, time.monotonic())
                if corrected:
                    self._log(corrected)

    def _learn_rate(self, event: StageFinished) -> None:
        """Keep the time of a stage whose work was counted, for the next estimate."""
        from engine.runs.estimate import keep_rate

        if event.stage in self._work:
            work = self._work.pop(event.stage)
            keep_rate(
                work.rate_key,
                work.units,
                event.seconds,
            )

    def _is_cancelled(self) -> bool:
        """Return whether the caller or `engine cancel` wants the run to stop."""
        return self._should_stop() or (self.folder / CANCEL).exists()

    def _preflight(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Report what would stop a later stage before hours are spent.

        A server that may not be used stops any run.
        """
        from engine.endpoint.address import check_addresses

        check_addresses(self.project.settings())
        with closing(self.project.store()) as store:
            for position, stage in enumerate(stages):
                try:
                    snapshot = ProjectSnapshot(
                        self.project,
                        self.project.settings(),
                        store,
                    )
                    load_stage(stage).preflight(snapshot)
                    check_inputs(
                        snapshot,
                        stage,
                        stages[:position],
                    )
                except EngineError as error:
                    # A stage that is done does not need what is missing.
                    if stage not in forced and self._is_done(stage, store):
                        continue
                    self._report_failure(stage, error)
                    raise

    def _warn_of_language(self) -> None:
        """Warn if the encoder does not know the documents' language."""
        from engine.encoders.choosing.languages import language_finding
        from engine.encoders.kinds.chosen import encoder_source

        # An error about the encoder concerns only later stages.
        with closing(self.project.store()) as store, suppress(EngineError):
            finding = language_finding(store, encoder_source(self.project.settings().encoder))
            if finding:
                text = f"{finding.found}: {finding.follows}."
                self._emit(Warned(stage="run", text=text, code=finding.code))

    def _estimate(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Report the estimated time of the rest, and warn if an adapter could not come into use.

        Errors are ignored: a run does without.
        """
        from engine.evaluation.query_estimates import expected_evidence
        from engine.runs.estimate import Correction, estimate

        with closing(self.project.store()) as store, suppress(EngineError):
            snapshot = ProjectSnapshot(
                self.project,
                self.project.settings(),
                store,
            )
            due = find_due_stages(snapshot, stages, forced)
            if "train" in due and snapshot.settings.evaluation.gate == "strict":
                has_queries = "generate" not in due
                questions = max(expected_evidence(snapshot, has_queries).values())
                if questions < MIN_TO_DECIDE:
                    text = _describe_shortage(snapshot.project, questions)
                    self._emit(Warned(stage="run", text=text, code="too-few-questions"))
            forecast = estimate(snapshot, due) if due else None
            if forecast:
                self._work = dict(forecast.work)
                self._emit(forecast.event)
                self._correction = Correction(forecast.event)

    def _files_left(self) -> int:
        """Return the number of files of a new project that are not read yet."""
        with closing(self.project.store()) as store:
            return store.files_left()

    def _is_done(self, stage: str, store: Store) -> bool:
        """Return whether a stage is up to date; False if that cannot be told."""
        try:
            statuses = all_status(ProjectSnapshot(self.project, self.project.settings(), store))
        except EngineError:
            return False
        return any(status.stage == stage and status.state == "done" for status in statuses)

    def run_stage(self, stage: str, forced: bool) -> None:
        """Run one stage, unless it is done and not forced.

        Raises EngineError.
        """
        # Waits while the run is paused.
        if Gate(self.folder, stage, self._emit, self._is_cancelled)():
            raise CancelledError("The run was cancelled.")
        store = self.project.store()
        try:
            snapshot = ProjectSnapshot(
                self.project,
                self.project.settings(),
                store,
            )
            status = stage_status(snapshot, stage)
            if status.state == "done":
                status = verify_status(snapshot, status)
            may_be_outdated = status.state == "done" and self._is_single_stage
            if may_be_outdated and load_stage(stage).is_outdated(snapshot):
                status = replace(
                    status,
                    state="stale",
                    reason="the defaults have changed since",
                )
        except EngineError as error:
            self._report_failure(stage, error)
            raise
        finally:
            store.close()
        if status.state == "done" and not forced and not load_stage(stage).always:
            self._emit(StageSkipped(stage=stage, reason=status.reason))
            return
        reasons = {"to do": "", "done": "looks for changes"}
        reason = "forced" if forced else reasons.get(status.state, status.reason)
        self._emit(StageStarted(stage=stage, fingerprint=status.fingerprint, reason=reason))
        self.run_child(
            stage,
            status.fingerprint,
            forced,
        )

    def run_child(
        self,
        stage: str,
        wanted: str,
        forced: bool,
    ) -> None:
        """Run a stage in a child process. `wanted`: the fingerprint of its artifact.

        Raises the error that ended it.
        """
        arguments = [
            str(self.project.path),
            stage,
            wanted,
            self.id,
        ]
        if forced:
            arguments.append("force")
        pipe = subprocess.PIPE
        child = spawn(
            "engine.runs.stage_process",
            arguments,
            launch.child_environment(),
            stdin=pipe,
            stdout=pipe,
        )
        try:
            was_cancelled, answer = self._wait_for_child(child, stage)
        finally:
            end_child(child)
            if stage == "train":
                launch.spend()
        if was_cancelled and child.returncode == -signal.SIGTERM:
            # The child was not yet ready to stop by itself.
            raise CancelledError("The run was cancelled.")
        self._raise_child_error(
            stage,
            child.returncode,
            answer,
        )

    def _wait_for_child(self, child: subprocess.Popen[bytes], stage: str) -> tuple[bool, str]:
        """Pass on events until the child ends.

        Return whether it was asked to stop, and what it has written to standard output.
        """
        with disk_errors(f"The stage {stage} could not be noted in {self.folder}."):
            write_text(self.folder / "stage.json", json.dumps({"stage": stage, "pid": child.pid}))
        output = ChildOutput(child)
        was_cancelled = False
        while child.poll() is None:
            if self._is_cancelled() and not was_cancelled:
                ask_to_stop(child)
                was_cancelled = True
            if not self.folder.is_dir():
                raise run_folder_missing(stage, self.folder)
            self.relay()
            time.sleep(POLL_SECONDS)
        answer = output.read().decode("utf-8", "replace")
        self.relay()
        return was_cancelled, answer

    def _raise_child_error(
        self,
        stage: str,
        code: int,
        answer: str,
    ) -> None:
        """Raise the error that ended a child, if any."""
        if code == 0:
            return
        error = read_error(answer, code)
        if error:
            raise error
        # Without the cluster's head or its local node, Ray ends the process.
        if cluster_address() and code == 1:
            error = lost(describe_exit_code(code))
        else:
            error = crash_error(
                stage,
                code,
                self.folder,
            )
        self._report_failure(stage, error)
        raise error

    def _clean_up(self, stages: Sequence[str]) -> None:
        """Keep a good copy of the database; remove unused artifacts and the oldest run records."""
        with closing(self.project.store()) as store:
            copy = self.project.path / COPY
            # Results of the learning stages take longest to make again.
            has_learnt = bool(set(stages) - set(SEARCH))
            if has_learnt or not store.is_fresh(store.path, copy):
                store.backup(copy)
            self.project.sweep(find_folders_in_use(store))
        for folder in sorted((self.project.path / "runs").iterdir())[:-KEPT_RUNS]:
            try_remove_tree(folder)


def check_inputs(
    snapshot: ProjectSnapshot,
    stage: str,
    earlier: Sequence[str],
) -> None:
    """Raise NotBuiltError if a stage needs an artifact that no `earlier` stage of the run makes."""
    try:
        load_stage(stage).inputs(snapshot)
    except NotBuiltError as error:
        if error.stage not in earlier:
            raise
    except EngineError:
        # The stage reports it if it comes to run.
        pass


def _name_run(runs: Path) -> str:
    """Return a name for a new run, such as 20260131-094500-123-a1b2: its time and a random part.

    The time is later than that of every run in `runs`, so that runs sort by name even if the clock
    was set back.
    """
    now = datetime.now(UTC)
    for folder in runs.glob("*-*-*-*"):
        with suppress(ValueError):
            stamp = folder.name.rpartition("-")[0]
            former = datetime.strptime(stamp, "%Y%m%d-%H%M%S-%f").replace(tzinfo=UTC)
            now = max(now, former + timedelta(milliseconds=1))
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}-{secrets.token_hex(2)}"


def find_folders_in_use(store: Store) -> set[str]:
    """Return the artifact folders that search, or a later stage, may still read."""
    folders = set()
    for artifact in store.artifacts().values():
        folders |= {artifact.folder, *artifact.info.folders_read}
    return folders - {""}


def run(
    project: ProjectFolder,
    *,
    stages: Sequence[str] = ORDER,
    force: Iterable[str] = (),
    on_event: Callable[[Event], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> str:
    """Bring the stages up to date, in order; return the run's id.

    Everything finished is kept whatever happens. Raises ProjectBusyError if another run holds the
    project, CancelledError, or the EngineError of the stage that failed.
    """
    wanted = order_stages(stages)
    forced = frozenset(order_stages(force))
    current = Run(project, on_event, should_stop)
    current.execute(wanted, forced)
    return current.id


def order_stages(stages: Iterable[str]) -> tuple[str, ...]:
    """Return the stages in the order of a run.

    Raises UsageError for a single string, and for an unknown name, suggesting the nearest.
    """
    if isinstance(stages, str):
        raise UsageError(
            f"'{stages}' is one text, not a list of stages.",
            "",
            f"Write ['{stages}'].",
            code="stage-unknown",
        )
    names = tuple(stages)
    for name in names:
        if name not in ROOMS:
            raise unknown_name(
                "stage",
                name,
                ORDER,
                code="stage-unknown",
            )
    return tuple(stage for stage in ORDER if stage in names)


def _describe_shortage(project: ProjectFolder, questions: int) -> str:
    """Return the warning before a training whose result cannot come into use."""
    count = f"there are about {questions}" if questions else "there are none"
    return (
        f"{FEWER.capitalize()}; {count}. To judge some first: engine judge {project.argument}"
        " --query 'your own question'"
    )


def resume_command(stages: Sequence[str]) -> str:
    """Return the command that continues a run of these stages, without its project."""
    if len(stages) == 1:
        return stages[0]
    return "adapt" if tuple(stages) == ORDER else "run"


def how_to_resume(
    project: ProjectFolder, stages: Sequence[str], forced: Collection[str] = ()
) -> str:
    """Return the advice how to continue a run of these stages."""
    name = resume_command(stages)
    command = f"engine {name} {project.argument}"
    if name == "run" and tuple(stages) != SEARCH:
        command += f" --only {','.join(stages)}"
    # Without --force, stages that are up to date are skipped.
    if forced:
        return (
            f"Run '{command} --force' to do it all again, or without --force to finish what is not"
            " up to date."
        )
    return f"Run '{command}' to resume."
