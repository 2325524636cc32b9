"""What a project's screen has to do with runs: starts them, and follows the newest one, whoever
started it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from textual import work
from textual.screen import Screen

from bmembed_tui.client.engine_client import order, parsed
from bmembed_tui.client.progress import STOPPED
from bmembed_tui.client.project_status import SEARCH, STAGES, step_of
from bmembed_tui.client.run_history import History, read_history
from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import RunWatch, error_of, is_held, newest_run, settings_time
from engine.core.errors import EngineError, ProjectBusyError, StageError
from engine.core.messages.project import ProjectStatus, RunRecord
from engine.project.folder import ProjectFolder

LOOK_SECONDS = 1.0  # between two looks at whether a run goes on
REQUESTED = {
    "pause": "pausing …",
    "resume": "going on …",
    "finish": "ending the training …",
    "cancel": "stopping …",
    "wait": "waiting for the other program …",
}
RECORD_SECONDS = 2.0  # that a failed run may take to write its record after its last event


class RunScreen(Screen[None]):
    """Of a project's screen, the part that starts and follows runs.

    What is shown is the subclass's: it answers the hooks.
    """

    def __init__(self, project: ProjectFolder) -> None:
        super().__init__()
        self.project = project
        self.status = ProjectStatus(project=str(project.path), name=project.name)
        self.run_state = RunState()
        self.history = History()
        self.requested = self.problem = ""  # the latter: of the status, shown already
        self._following = False
        self.is_starting = False
        self._live = False
        self._looking = False
        self._known = False
        self.is_settling = False  # a run has ended that the status does not show yet
        self._signature: tuple[object, ...] = ()
        self.settings_time = 0.0  # when project.toml was written last
        self._watch: RunWatch | None = None

    def on_mount(self) -> None:
        self.set_interval(LOOK_SECONDS, self._look)

    def unfollow(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    # Hooks

    def load(self) -> None: ...

    async def refresh_status(self) -> None: ...

    def go(self, step: str) -> None: ...

    def action_settings(self) -> None: ...

    def draw_status(self) -> None: ...

    def draw_run(self) -> None: ...

    # The newest run

    @property
    def alive(self) -> bool:
        """Whether the screen's widgets are there: an answer may come after the screen has been
        left.
        """
        return self.is_attached and not self._pruning

    @property
    def going(self) -> bool:
        """Whether a run goes on now, is being started, or has ended only just: what it left is
        not known yet.
        """
        return (
            self.is_starting
            or self.is_settling
            or self.run_state.running
            or (self.status.running and not self.run_state.over)
        )

    @property
    def has_run(self) -> bool:
        return self.going and not (self.is_starting or self.is_settling)

    def _follow_newest(self) -> None:
        """Follow the newest run, going on or not: its history is part of what steps show."""
        run = self.status.run
        if run is not None and self._is_newer(run.folder):
            self.follow_run(run.folder, live=self.status.running)

    def _is_newer(self, folder: Path) -> bool:
        return self._watch is None or folder.name > self._watch.folder.name

    def follow_run(self, folder: Path, *, live: bool = True) -> None:
        """Follow the run whose records are in `folder`.

        `live`: it began, or goes on, while the app looks on; only of such a run is a failure shown
        in a dialog.
        """
        self.unfollow()
        watch = RunWatch(folder, lambda state: self.call_later(self._run_changed, state))
        self._watch = watch
        self._signature = ()
        self._live = live
        self.requested = ""
        self.run_state = watch.state
        watch.start()
        self._read_history(folder)

    @work(exclusive=True, group="history")
    async def _read_history(self, folder: Path) -> None:
        history = await asyncio.to_thread(read_history, folder.parent, folder.name)
        if self.alive and self._watch is not None and self._watch.folder == folder:
            self.history = history
            self.draw_run()

    def _run_changed(self, state: RunState) -> None:
        if not self.alive or state is not self.run_state:
            return
        signature = (
            state.current,
            state.state,
            state.paused,
            sum(s.state == "done" for s in state.stages.values()),
        )
        if signature != self._signature:
            self._signature = signature
            self._state_changed(state)
        self.draw_run()

    @property
    def activity(self) -> str:
        return REQUESTED.get(self.requested) or ("starting …" if self.is_starting else "")

    @property
    def waits(self) -> bool:
        """Whether the run is paused, or will be at its next safe point."""
        return self.run_state.paused or self.requested == "pause"

    def _state_changed(self, state: RunState) -> None:
        self.requested = ""
        # of what ended before the app looked on, the status shows already
        if state.running or not self._live:
            self.draw_status()
        if not self._live:
            return
        self.is_settling = state.over
        self.load()
        measured = state.stage("evaluate").state in ("done", "skipped")
        # there the result is read
        if self._following and state.current and not (state.current == "embed" and measured):
            self.go(step_of(state.current))
        if not state.over:
            return
        following = self._following
        self._following = False
        self._live = False
        if state.state == "done" and following and "evaluate" in state.stages:
            self.go("result")
        if state.state == "failed" and self._watch is not None:
            self._offer_after_failure(self._watch.folder, state, following)

    @work(group="failure")
    async def _offer_after_failure(self, folder: Path, state: RunState, following: bool) -> None:
        """Show the error that ended a run, once, with what can be done."""
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        end = asyncio.get_running_loop().time() + RECORD_SECONDS
        error = state.error
        # it failed between two stages
        while error is None and asyncio.get_running_loop().time() < end:
            error = await asyncio.to_thread(error_of, self.project, folder)
            await asyncio.sleep(0.1)
        if not self.alive:
            return
        state.error = error or StageError("The run failed.", "", "Run again.")
        self.draw_run()
        if self._shows(state.error):
            return
        self.problem = str(state.error)
        choices = [("retry", "Run again"), ("settings", "Settings")]
        answer = await self.app.push_screen_wait(ErrorDialog(state.error, choices, unprompted=True))
        if answer == "retry":
            self.start_run(tuple(state.stages) or STAGES, follow=following)
        elif answer == "settings":
            self.action_settings()

    def _look(self) -> None:
        """Notice a run that was started elsewhere, one that has ended without a word, and
        settings edited by hand.
        """
        if not self._looking:
            self._looking = True
            self._look_once()

    @work(group="look")
    async def _look_once(self) -> None:
        try:
            await self._look_at_runs()
        finally:
            self._looking = False

    async def _look_at_runs(self) -> None:
        newest = await asyncio.to_thread(newest_run, self.project.path)
        written = await asyncio.to_thread(settings_time, self.project.path)
        before = self.settings_time
        if not self.alive or self.is_starting or not self._known:
            return  # before the first answer it is not known what is new
        self.settings_time = written or before
        if before and before != self.settings_time:
            self.load()
        if newest is not None and self._is_newer(newest):
            self.follow_run(newest)
            self.load()
        elif self.run_state.running:
            await self._check_alive()
        elif self.status.running:
            self.load()

    async def _check_alive(self) -> None:
        watch = self._watch
        state = self.run_state
        if watch is None or await asyncio.to_thread(is_held, self.project):
            return
        await watch.catch_up()  # what it wrote before it let the project go
        if self.alive and state is self.run_state and state.running:
            state.lose()
            self._following = False
            if self._live:
                self.notify(f"The run {STOPPED}.", markup=False, severity="warning")
            self._run_changed(state)

    def action_run_all(self) -> None:
        if self.going:
            self.notify("A run is in progress. Start another one when it has ended.", markup=False)
        else:
            self.start_run(follow=True)

    def make_searchable(self) -> None:
        """Read, index and embed.

        The first time, search is shown: it takes what is typed meanwhile.
        """
        if not self.going:
            self.start_run(SEARCH)
            if not self.status.built("index"):
                self.go("search")

    def start_run(
        self, stages: Sequence[str] = STAGES, *, follow: bool = False, force: bool = False
    ) -> None:
        """Start a run of `stages` in a process of its own, and follow it.

        `follow`: show the step of each stage.

        Does nothing while a run is being started.
        """
        if not self.is_starting:
            self.is_starting = True
            self.draw_run()
            self._start(stages, follow, force)

    @work(group="run")
    async def _start(self, stages: Sequence[str], follow: bool, force: bool) -> None:
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        arguments = [
            "run",
            str(self.project.path),
            "--only",
            ",".join(stages),
            "--detach",
            "--json",
        ]
        try:
            while busy := await self._started(follow, *arguments, *(["--force"] if force else [])):
                if (
                    await self.app.push_screen_wait(ErrorDialog(busy, [("wait", "Wait, then run")]))
                    != "wait"
                ):
                    break
                self.requested = "wait"
                self.draw_run()
                while await asyncio.to_thread(is_held, self.project):
                    await asyncio.sleep(LOOK_SECONDS)
                self.requested = ""
        except EngineError as error:
            self.show_error(error)
        finally:
            self.is_starting = False
            if self.alive:
                self.draw_run()

    async def _started(self, follow: bool, *arguments: str) -> ProjectBusyError | None:
        """Start a run; what keeps it from beginning now."""
        try:
            started = parsed(RunRecord, await order(*arguments))
        except ProjectBusyError as error:
            return error
        if self.alive:
            self._following = follow
            self.follow_run(started.folder)
            await self.refresh_status()
        return None

    @work(group="control")
    async def control(self, what: str) -> None:
        """`pause`, `resume`, `finish` or `cancel` the run.

        The request is shown until it takes effect.
        """
        state = self.run_state
        self.requested = what
        if self.alive:
            self.draw_run()
        try:
            await order(what, str(self.project.path))
        except EngineError as error:
            self.show_error(error)
            if state is self.run_state:
                self.requested = ""
        if self.alive:
            self.draw_run()

    # Errors

    def show_error(self, error: EngineError) -> None:
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        if not self.alive or self._shows(error):
            return
        if isinstance(self.app.screen, ErrorDialog):
            self.notify(error.what, markup=False, severity="error")
            return
        with suppress(LookupError):
            self.app.push_screen(ErrorDialog(error))

    def _shows(self, error: EngineError) -> bool:
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        return isinstance(shown := self.app.screen, ErrorDialog) and str(shown.error) == str(error)
