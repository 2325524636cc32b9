"""The stages in order: is it up to date? then skip it; else run it in a fresh child process.

Long: all of one run.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from engine.cluster.nodes import cluster_address, lost
from engine.core import events
from engine.core.disk import disk_errors, write_text
from engine.core.errors import (
    CancelledError,
    EngineError,
    NotBuiltError,
    StageError,
    UsageError,
    unknown,
)
from engine.core.events import (
    Event,
    EventLog,
    RunFinished,
    RunStarted,
    StageFailed,
    StageSkipped,
    StageStarted,
    Warned,
)
from engine.core.messages.offer import FEWER, MIN_TO_DECIDE
from engine.core.messages.project import UP_TO_DATE, StageState
from engine.core.subprocesses import crash, end, how_it_ended, run_folder_missing, spawn, to_dict
from engine.project.control import CANCEL, POLL_SECONDS, Gate
from engine.project.folder import ProjectFolder
from engine.project.sharing import follow
from engine.project.stage import ORDER, SEARCH, ProjectSnapshot, Stage, stage_fingerprint
from engine.project.store.artifact_info import EvaluationInfo, VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.connection import COPY
from engine.project.store.store import Store
from engine.training.compute import launch

ROOMS = dict(
    zip(
        ORDER,
        ("corpus.ingest", "lexical", "queries", "ranking", "training", "evaluation", "vectors"),
        strict=True,
    )
)
WORDS = ("ingest", "index")
KEPT_RUNS = 20


def stage_of(name: str) -> Stage:
    """A stage by its name, imported when it is first asked for."""
    stage: Stage = importlib.import_module(f"engine.{ROOMS[name]}.stage").STAGE
    return stage


def stage_status(snapshot: ProjectSnapshot, stage: str) -> StageState:
    """Compare a stage's fingerprint with that of its current artifact.

    Raises NotBuiltError where an input is missing.
    """
    found = stage_of(stage)
    wanted = stage_fingerprint(stage, found.version, found.inputs(snapshot))
    current = snapshot.store.artifact(found.artifact)
    if current is None:
        return StageState(stage, "to do", "not run yet", fingerprint=wanted)
    if current.folder and not (snapshot.project.path / current.folder).is_dir():
        return StageState(stage, "stale", f"{current.folder} is missing", fingerprint=wanted)
    if current.fingerprint == INCOMPLETE:
        return StageState(stage, "stale", "it is not finished", fingerprint=wanted)
    if current.fingerprint != wanted:
        reason = found.stale_note(snapshot) or "its settings or inputs changed"
        return StageState(stage, "stale", reason, fingerprint=wanted)
    return StageState(stage, "done", found.status_note(snapshot) or UP_TO_DATE, fingerprint=wanted)


def verified(snapshot: ProjectSnapshot, status: StageState) -> StageState:
    """The status of a finished stage after a look into its files: stale when they are damaged."""
    try:
        stage_of(status.stage).verify(snapshot)
    except EngineError as error:
        return replace(status, state="stale", reason=error.what.rstrip("."), code=error.code)
    return status


def all_status(snapshot: ProjectSnapshot) -> list[StageState]:
    """Every stage's status; what depends on something stale is stale too.

    Vectors depend on the documents alone until another encoder has come into use.
    """
    result: list[StageState] = []
    for stage in ORDER:
        try:
            status = stage_status(snapshot, stage)
        except NotBuiltError as error:
            status = StageState(stage, "to do", error.what, error.code)
        except (
            EngineError
        ) as error:  # such as a model folder that is gone: the other stages are still worth showing
            made = snapshot.store.artifact(stage_of(stage).artifact) is not None
            status = StageState(stage, "stale" if made else "to do", error.what, error.code)
        behind = result[:1] if stage == "embed" else result
        if status.state == "done" and any(earlier.state == "stale" for earlier in behind):
            status = replace(status, state="stale", reason="what it builds on is stale")
        result.append(status)
    return result


def stages_due(
    snapshot: ProjectSnapshot, stages: Iterable[str], forced: Collection[str] = ()
) -> list[str]:
    """Those of `stages` with work to do, each once."""
    states = {status.stage: status.state for status in all_status(snapshot)}
    return [stage for stage in dict.fromkeys(stages) if stage in forced or states[stage] != "done"]


class Run:
    """One walk over the stages, holding the project's lock.

    Its events are in `runs/ID/events.jsonl`.

    run.json beside them holds the run's id, the process's pid, the state (running, done, failed,
    cancelled), the time of that, and the `error` that made it fail.
    """

    def __init__(
        self,
        project: ProjectFolder,
        on_event: Callable[[Event], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.project = project
        now = time.time()
        day = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        self.id = f"{day}-{int(now % 1 * 1000):03d}-{secrets.token_hex(2)}"
        self.folder = project.path / "runs" / self.id
        self._on_event = on_event or (lambda _event: None)
        self._should_stop = should_stop or (lambda: False)
        self._offset = 0
        self._alone = False

    def execute(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Run `stages` in order. Raises the first EngineError; CancelledError when stopped."""
        started = time.monotonic()
        self._alone = len(stages) == 1
        with self.project.locked():
            # before the repair, which may take a while: the run can be seen, cancelled and paused
            self._begin()
            state = "failed"
            error = dict[str, str]()
            try:
                self._emit(RunStarted(run=self.id, stages=list(stages)))
                if repaired := self.project.repair():
                    self._emit(Warned(stage="run", text=str(repaired)))
                self._preflight(stages, forced)
                self._walk(stages, forced)
                self._tidy(stages)
                state = "done"
            except CancelledError as stopped:
                state = "cancelled"
                stopped.to_do = how_to_resume(self.project, stages, forced)
                if len(stages) == 1:
                    stopped.command = stages[0]
                elif tuple(stages) == ORDER:
                    stopped.command = "adapt"
                else:
                    stopped.command = "run"
                raise
            except EngineError as failure:
                error = to_dict(failure)
                raise
            except Exception as fault:
                what = f"The run had an internal fault ({type(fault).__name__})."
                error = to_dict(
                    StageError(what, f"{fault}", "Run again.", code="internal-fault", command="run")
                )
                raise
            finally:
                self._end(state, time.monotonic() - started, error)

    def _walk(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        walk = self._searchable_first(stages)
        # how much there is to do is known once the documents are read; search by words must not
        # wait for that
        words = [stage for stage in walk if stage in WORDS]
        for place, stage in enumerate(walk):
            if place == len(words):
                self._estimate(walk[place:], forced)
            self.run_stage(stage, forced=stage in forced)
            # what was read can be searched
            while "ingest" in words and stage == words[-1] and self._files_left():
                for again in words:
                    self.run_stage(again, forced=False)
            if stage == "index":
                self._look_at_languages()

    def _searchable_first(self, stages: Sequence[str]) -> list[str]:
        """The way through `stages`.

        Where nothing is embedded yet, that comes before what learns, which takes much longer and
        wants the same vectors.
        """
        place = next(
            (place for place, stage in enumerate(stages) if stage not in SEARCH), len(stages)
        )
        with closing(self.project.store()) as store:
            embedded = (
                store.artifact(VectorsInfo) is not None
                or store.artifact(EvaluationInfo) is not None
            )
        if "embed" in stages[place:] and not embedded:
            first = ["embed"]
        else:
            first = []
        return [*stages[:place], *first, *stages[place:]]

    def _begin(self) -> None:
        with disk_errors(f"The run's folder {self.folder} could not be made."):
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            self.folder.mkdir(mode=0o700)
            self._log = EventLog(self.folder / "events.jsonl")
            self._record("running")

    def _record(self, state: str, error: dict[str, str] | None = None) -> None:
        data = {"run": self.id, "pid": os.getpid(), "state": state, "time": time.time()}
        write_text(
            self.folder / "run.json", json.dumps({**data, "error": error} if error else data)
        )

    def _end(self, state: str, seconds: float, error: dict[str, str]) -> None:
        self._log(RunFinished(run=self.id, state=state, seconds=round(seconds, 3)))
        self._log.close()
        # a full disk must not hide the error that is on its way to the user
        with suppress(OSError):
            self._record(state, error)
        follow(self.project)
        self.relay()

    def _emit(self, event: Event) -> None:
        self._log(event)
        self.relay()

    def _report_failure(self, stage: str, error: EngineError) -> None:
        error.stage = error.stage or stage
        self._emit(StageFailed(stage=stage, error=error.as_dict()))

    def relay(self) -> None:
        """Hand on every event that the log has gained, whoever wrote it."""
        for event, offset in events.read(self.folder / "events.jsonl", self._offset):
            self._offset = offset
            self._on_event(event)

    def _stopping(self) -> bool:
        return self._should_stop() or (self.folder / CANCEL).exists()

    def _preflight(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Report what would stop a later stage before hours are spent; a server that may not be
        used stops any.
        """
        from engine.endpoint.address import check_addresses

        check_addresses(self.project.settings())
        with closing(self.project.store()) as store:
            for stage in stages:
                try:
                    stage_of(stage).preflight(
                        ProjectSnapshot(self.project, self.project.settings(), store)
                    )
                except EngineError as error:
                    if stage not in forced and self._is_done(stage, store):
                        continue  # what it would take is not needed now
                    self._report_failure(stage, error)
                    raise

    def _look_at_languages(self) -> None:
        from engine.encoders.choosing.languages import language_finding
        from engine.encoders.kinds.chosen import encoder_source
        from engine.lexical.stage import renew_languages

        # of an encoder that only later stages want
        with (
            closing(self.project.store()) as store,
            suppress(EngineError),
        ):
            renew_languages(store, self._stopping)
            if found := language_finding(store, encoder_source(self.project.settings().encoder)):
                self._emit(
                    Warned(stage="run", text=f"{found.found}: {found.follows}.", code=found.code)
                )

    def _estimate(self, stages: Sequence[str], forced: frozenset[str]) -> None:
        """Report about how long the rest of the run will take, and whether an adapter could not
        come into use; a run does without where that cannot be found out.
        """
        from engine.evaluation.expected import expected_evidence
        from engine.runs.estimate import estimate

        with closing(self.project.store()) as store, suppress(EngineError):
            snapshot = ProjectSnapshot(self.project, self.project.settings(), store)
            made = "generate" not in (due := stages_due(snapshot, stages, forced))
            if "train" in due and snapshot.settings.evaluation.gate == "strict":
                most = max(expected_evidence(snapshot, made).values())
                if most < MIN_TO_DECIDE:
                    self._emit(
                        Warned(
                            stage="run",
                            text=_in_vain(snapshot.project, most),
                            code="too-few-questions",
                        )
                    )
            if due and (found := estimate(snapshot, due, self._stopping)):
                self._emit(found)

    def _files_left(self) -> int:
        with closing(self.project.store()) as store:
            return store.files_left()

    def _is_done(self, stage: str, store: Store) -> bool:
        try:
            statuses = all_status(ProjectSnapshot(self.project, self.project.settings(), store))
        except EngineError:
            return False
        return any(one.stage == stage and one.state == "done" for one in statuses)

    def run_stage(self, stage: str, forced: bool) -> None:
        """Run one stage, unless it is done and not forced. Raises EngineError."""
        if Gate(self.folder, stage, self._emit, self._stopping)():
            raise CancelledError("The run was cancelled.")
        store = self.project.store()
        try:
            snapshot = ProjectSnapshot(self.project, self.project.settings(), store)
            status = stage_status(snapshot, stage)
            if status.state == "done":
                status = verified(snapshot, status)
            if status.state == "done" and self._alone and stage_of(stage).is_outdated(snapshot):
                status = replace(status, state="stale", reason="the defaults have changed since")
        except EngineError as error:
            self._report_failure(stage, error)
            raise
        finally:
            store.close()
        if status.state == "done" and not forced and not stage_of(stage).always:
            self._emit(StageSkipped(stage=stage, reason=status.reason))
            return
        reasons = {"to do": "", "done": "looks for changes"}
        if forced:
            reason = "forced"
        else:
            reason = reasons.get(status.state, status.reason)
        self._emit(StageStarted(stage=stage, fingerprint=status.fingerprint, reason=reason))
        self.run_child(stage, status.fingerprint, forced)

    def run_child(self, stage: str, wanted: str, forced: bool) -> None:
        """Run a stage in a process of its own. Raises the error that ended it."""
        arguments = [str(self.project.path), stage, wanted, self.id, *["force"] * forced]
        pipe = subprocess.PIPE
        child = spawn(
            "engine.runs.stage_process", arguments, launch.inherited(), stdin=pipe, stdout=pipe
        )
        try:
            asked, answer = self._attend(child, stage)
        finally:
            end(child)
            if stage == "train":
                launch.spend()
        if asked and child.returncode == -signal.SIGTERM:
            raise CancelledError(
                "The run was cancelled."
            )  # the child was not yet ready to stop by itself
        self._judge(stage, child.returncode, answer)

    def _attend(self, child: subprocess.Popen[bytes], stage: str) -> tuple[bool, str]:
        """Hand on the child's events until it ends; returns whether it was asked to stop, and
        its answer.
        """
        write_text(self.folder / "stage.json", json.dumps({"stage": stage, "pid": child.pid}))
        asked = False
        while child.poll() is None:
            if self._stopping() and not asked:
                child.send_signal(signal.SIGTERM)
                asked = True
            if not self.folder.is_dir():
                raise run_folder_missing(stage, self.folder)
            self.relay()
            time.sleep(POLL_SECONDS)
        assert child.stdout is not None
        answer = child.stdout.read().decode("utf-8", "replace")
        self.relay()
        return asked, answer

    def _judge(self, stage: str, code: int, answer: str) -> None:
        """Raise the error that ended a child, if one did."""
        if code == 0:
            return
        try:
            raise EngineError.from_dict(json.loads(answer.splitlines()[-1]), code)
        except (ValueError, IndexError):
            # without the head of the cluster, or its node here, Ray ends the process
            if cluster_address() and code == 1:
                error: EngineError = lost(how_it_ended(code))
            else:
                error = crash(stage, code, self.folder)
        self._report_failure(stage, error)
        raise error

    def _tidy(self, stages: Sequence[str]) -> None:
        """Keep a good copy of the database; drop artifacts that nothing names and the oldest run
        records.
        """
        with closing(self.project.store()) as store:
            copy = self.project.path / COPY
            has_learnt = bool(set(stages) - set(SEARCH))  # which takes longest to make again
            if has_learnt or not store.is_fresh(store.path, copy):
                store.backup(copy)
            self.project.sweep(in_use(store))
        for folder in sorted((self.project.path / "runs").iterdir())[:-KEPT_RUNS]:
            if folder != self.folder:  # a clock that was set back gives this run an old name
                shutil.rmtree(folder, ignore_errors=True)


def in_use(store: Store) -> set[str]:
    """Artifact folders that search, or a later stage, may still read."""
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
    """Bring the stages up to date, in order; returns the run's id.

    Everything finished is kept whatever happens.

    Raises ProjectBusyError when another run holds the project, CancelledError, or the EngineError
    of the stage that failed.
    """
    wanted = checked_stages(stages)
    forced = frozenset(checked_stages(force))
    current = Run(project, on_event, should_stop)
    current.execute(wanted, forced)
    return current.id


def checked_stages(stages: Iterable[str]) -> tuple[str, ...]:
    """The stages in the order of a run.

    Raises UsageError for a bare text, and for a name that is none, with the nearest.
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
            raise unknown("stage", name, ORDER, code="stage-unknown")
    return tuple(stage for stage in ORDER if stage in names)


def _in_vain(project: ProjectFolder, most: int) -> str:
    """What to say before a training whose result cannot come into use."""
    if most:
        there = f"there are about {most}"
    else:
        there = "there are none"
    return (
        f"{FEWER.capitalize()}; {there}. To judge some first: engine judge {project.argument}"
        " --query 'your own question'"
    )


def how_to_resume(
    project: ProjectFolder, stages: Sequence[str], forced: Collection[str] = ()
) -> str:
    """The command that goes on with a run of these stages."""
    if len(stages) == 1:
        command = f"engine {stages[0]} {project.argument}"
    elif tuple(stages) == ORDER:
        command = f"engine adapt {project.argument}"
    else:
        command = f"engine run {project.argument}" + (
            "" if tuple(stages) == SEARCH else f" --only {','.join(stages)}"
        )
    if forced:  # what is up to date otherwise would be left as it is
        return (
            f"Run '{command} --force' to do it all again, or without --force to finish what is not"
            " up to date."
        )
    return f"Run '{command}' to resume."
