"""The runs of a project's screen: it starts them, and follows the newest one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from textual import work
from textual.screen import Screen
from textual.worker import Worker

from bmembed_tui.client.engine_client import parse_answer, run_detached_command
from bmembed_tui.client.progress import STOPPED
from bmembed_tui.client.project_status import SEARCH, STAGES, find_step
from bmembed_tui.client.run_history import History, read_history
from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import (
    RunWatch,
    find_newest_run,
    is_held,
    read_run_error,
    read_settings_time,
)
from engine.core.errors import EngineError, ProjectBusyError, StageError
from engine.core.messages.project import ProjectStatus, RunRecord
from engine.project.folder import ProjectFolder

CHECK_SECONDS = 1.0  # between two checks of the newest run
# What is shown after a request of the user until it takes effect.
REQUESTED = {
    "pause": "pausing …",
    "resume": "going on …",
    "finish": "ending the training …",
    "cancel": "stopping …",
    "wait": "waiting for the other program …",
}
RECORD_SECONDS = 2.0  # for a failed run to write its record after its last event


@dataclass
class FollowedRun:
    """The run whose events a screen draws."""

    watch: RunWatch
    is_live: bool
    """Whether it was in progress while the app was open, and its end was not handled yet."""
    drawn_state: tuple[object, ...] = ()
    """Its stage and state when it was last drawn, without its progress in the stage."""


class RunScreen(Screen[None]):
    """The part of a project's screen that starts and follows runs.

    The subclass draws, by overriding the hooks.
    """

    def __init__(self, project: ProjectFolder) -> None:
        super().__init__()
        self.project = project
        self.status = ProjectStatus(project=str(project.path), name=project.name)
        self._is_status_known = False
        self.problem = ""  # the status's error that was shown already
        self.run_state = RunState()
        self.history = History()
        self.requested = ""  # a control that has not taken effect yet
        self.is_starting = False
        self.is_settling = False  # whether the status does not yet show the end of a run
        self._shows_each_step = False  # whether the step of each stage is shown as the run goes on
        self._followed: FollowedRun | None = None
        self._project_check: Worker[None] | None = None
        self.settings_time = 0.0  # when project.toml was last written

    def on_mount(self) -> None:
        self.set_interval(CHECK_SECONDS, self._check_regularly)

    def unfollow(self) -> None:
        if self._followed is not None:
            self._followed.watch.stop()

    # Hooks for the subclass

    def load(self) -> None:
        """Load the status in the background."""

    async def refresh_status(self) -> None:
        """Load the status, and draw it."""

    def go(self, step: str) -> None:
        """Show a step."""

    def action_settings(self) -> None:
        """Open the settings."""

    def draw_status(self) -> None:
        """Draw what the status says."""

    def draw_run(self) -> None:
        """Draw how far the run is."""

    # The newest run

    @property
    def is_alive(self) -> bool:
        """Whether the widgets are mounted: an answer may arrive after the screen was left."""
        return self.is_attached and not self._pruning

    @property
    def is_busy(self) -> bool:
        """Whether a run is in progress, is being started, or has just ended.

        A run that has just ended is not in the status yet.
        """
        return (
            self.is_starting
            or self.is_settling
            or self.run_state.running
            or (self.status.running and not self.run_state.over)
        )

    @property
    def has_run(self) -> bool:
        return self.is_busy and not (self.is_starting or self.is_settling)

    def _follow_newest(self) -> None:
        """Follow the newest run, in progress or not, since steps show its history."""
        run = self.status.run
        if run is not None and self._is_newer(run.folder):
            self.follow_run(run.folder, live=self.status.running)

    def _is_newer(self, folder: Path) -> bool:
        return self._followed is None or folder.name > self._followed.watch.folder.name

    def follow_run(self, folder: Path, *, live: bool = True) -> None:
        """Follow the run in `folder`.

        `live`: whether it is in progress while the app is open; a failure of any other run is not
        shown in a dialog.
        """
        self.unfollow()
        watch = RunWatch(folder, lambda _: self.call_later(self._show_change, run))
        run = FollowedRun(watch, live)
        self._followed = run
        self.requested = ""
        self.run_state = watch.state
        watch.start()
        self._read_history(folder)

    @work(exclusive=True, group="history")
    async def _read_history(self, folder: Path) -> None:
        """Read the runs before the one in `folder` in a thread, and draw them."""
        history = await asyncio.to_thread(
            read_history,
            folder.parent,
            folder.name,
        )
        run = self._followed
        if self.is_alive and run is not None and run.watch.folder == folder:
            self.history = history
            self.draw_run()

    def _show_change(self, run: FollowedRun) -> None:
        """Draw a change of the followed run; first act on changes other than progress."""
        if not self.is_alive or run is not self._followed:
            return
        state = run.watch.state
        done_stages = sum(stage.state == "done" for stage in state.stages.values())
        new_state = (
            state.current,
            state.state,
            state.paused,
            done_stages,
        )
        if new_state != run.drawn_state:
            run.drawn_state = new_state
            self._handle_new_state(run)
        self.draw_run()

    @property
    def activity(self) -> str:
        """The requested control, or that a run is being started; else empty."""
        if self.requested in REQUESTED:
            return REQUESTED[self.requested]
        return "starting …" if self.is_starting else ""

    @property
    def is_paused(self) -> bool:
        """Whether the run is paused, or will be at its next safe point."""
        return self.run_state.paused or self.requested == "pause"

    def _handle_new_state(self, run: FollowedRun) -> None:
        """Act on another stage, a pause or the end of the run: read the status, show the step."""
        self.requested = ""
        state = run.watch.state
        # The status shows already what ended before the app was opened.
        if state.running or not run.is_live:
            self.draw_status()
        if not run.is_live:
            return
        self.is_settling = state.over
        self.load()
        if self._shows_each_step and state.current:
            # After an evaluation the user reads the result while the vectors are computed.
            is_measured = state.stage("evaluate").state in ("done", "skipped")
            if state.current != "embed" or not is_measured:
                self.go(find_step(state.current))
        if state.over:
            run.is_live = False
            self._show_end(run)

    def _show_end(self, run: FollowedRun) -> None:
        """Show the result of a run that has ended, or the error that ended it."""
        state = run.watch.state
        showed_each_step = self._shows_each_step
        self._shows_each_step = False
        if state.state == "done" and showed_each_step and "evaluate" in state.stages:
            self.go("result")
        if state.state == "failed":
            self._offer_after_failure(
                run.watch.folder,
                state,
                showed_each_step,
            )

    @work(group="failure")
    async def _offer_after_failure(
        self,
        folder: Path,
        state: RunState,
        follow: bool,
    ) -> None:
        """Show the error that ended a run, once, with what can be done.

        `follow`: whether the app was showing the step of each stage, and would for another run.
        """
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        deadline = time.monotonic() + RECORD_SECONDS
        error = state.error
        # A run that failed between two stages has no event of the error, only a record.
        while error is None and time.monotonic() < deadline:
            error = await asyncio.to_thread(
                read_run_error,
                self.project,
                folder,
            )
            await asyncio.sleep(0.1)
        if not self.is_alive:
            return
        state.error = error or StageError("The run failed.", "", "Run again.")
        self.draw_run()
        if self._is_shown(state.error):
            return
        self.problem = str(state.error)
        choices = [("retry", "Run again"), ("settings", "Settings")]
        answer = await self.app.push_screen_wait(ErrorDialog(state.error, choices, unprompted=True))
        if answer == "retry":
            self.start_run(tuple(state.stages) or STAGES, follow=follow)
        elif answer == "settings":
            self.action_settings()

    def _check_regularly(self) -> None:
        """Notice runs started elsewhere, runs whose process died, and edited settings."""
        if self._project_check is None or self._project_check.is_finished:
            self._project_check = self._check_project()

    @work(group="look")
    async def _check_project(self) -> None:
        """Follow a newer run, and read the status again if settings or runs have changed."""
        newest = await asyncio.to_thread(find_newest_run, self.project.path)
        settings_time = await asyncio.to_thread(read_settings_time, self.project.path)
        # Before the first status it is not known what is new.
        if not self.is_alive or self.is_starting or not self._is_status_known:
            return
        former_time = self.settings_time
        if settings_time:  # else the file cannot be read, perhaps because it is being replaced
            self.settings_time = settings_time
        if former_time and former_time != self.settings_time:
            self.load()
        if newest is not None and self._is_newer(newest):
            self.follow_run(newest)
            self.load()
        elif self.run_state.running:
            await self._check_process()
        elif self.status.running:
            self.load()

    async def _check_process(self) -> None:
        """Mark the run as lost if its process is gone."""
        run = self._followed
        if run is None or await asyncio.to_thread(is_held, self.project):
            return
        await run.watch.catch_up()  # read what the run wrote before it released the project
        if self.is_alive and run is self._followed and self.run_state.running:
            self.run_state.mark_lost()
            self._shows_each_step = False
            if run.is_live:
                self.notify(
                    f"The run {STOPPED}.",
                    markup=False,
                    severity="warning",
                )
            self._show_change(run)

    def action_run_all(self) -> None:
        if self.is_busy:
            self.notify("A run is in progress. Start another one when it has ended.", markup=False)
        else:
            self.start_run(follow=True)

    def make_searchable(self) -> None:
        """Read, index and embed the documents.

        The first time, the search is shown: it keeps what is typed meanwhile.
        """
        if not self.is_busy:
            self.start_run(SEARCH)
            if not self.status.built("index"):
                self.go("search")

    def start_run(
        self, stages: Sequence[str] = STAGES, *, follow: bool = False, force: bool = False
    ) -> None:
        """Start a run of `stages` in a process of its own, and follow it.

        `follow`: show the step of each stage. `force`: also run stages that are up to date. Does
        nothing while a run is being started.
        """
        if not self.is_starting:
            self.is_starting = True
            self.draw_run()
            self._start(stages, follow, force)

    @work(group="run")
    async def _start(
        self,
        stages: Sequence[str],
        follow: bool,
        force: bool,
    ) -> None:
        """Start a run; if another program holds the project, offer to wait for it."""
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        arguments = [
            "run",
            str(self.project.path),
            "--only",
            ",".join(stages),
        ]
        if force:
            arguments.append("--force")
        try:
            busy_error = await self._try_to_start(follow, arguments)
            while busy_error is not None:
                dialog = ErrorDialog(busy_error, [("wait", "Wait, then run")])
                if await self.app.push_screen_wait(dialog) != "wait":
                    break
                self.requested = "wait"
                self.draw_run()
                while await asyncio.to_thread(is_held, self.project):
                    await asyncio.sleep(CHECK_SECONDS)
                self.requested = ""
                busy_error = await self._try_to_start(follow, arguments)
        except EngineError as error:
            self.show_error(error)
        finally:
            self.is_starting = False
            if self.is_alive:
                self.draw_run()

    async def _try_to_start(
        self, follow: bool, arguments: Sequence[str]
    ) -> ProjectBusyError | None:
        """Start a run and follow it; return an error where another program holds the project."""
        try:
            output = await run_detached_command(
                *arguments,
                "--detach",
                "--json",
            )
        except ProjectBusyError as error:
            return error
        run = parse_answer(RunRecord, output)
        if self.is_alive:
            self._shows_each_step = follow
            self.follow_run(run.folder)
            await self.refresh_status()
        return None

    @work(group="control")
    async def control(self, command: str) -> None:
        """Send `pause`, `resume`, `finish` or `cancel` to the run.

        The request is shown until it takes effect.
        """
        state = self.run_state
        self.requested = command
        if self.is_alive:
            self.draw_run()
        try:
            await run_detached_command(command, str(self.project.path))
        except EngineError as error:
            self.show_error(error)
            if state is self.run_state:
                self.requested = ""
        if self.is_alive:
            self.draw_run()

    # Errors

    def show_error(self, error: EngineError) -> None:
        """Show an error in a dialog, or as a notification below another error."""
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        if not self.is_alive or self._is_shown(error):
            return
        if isinstance(self.app.screen, ErrorDialog):
            self.notify(
                error.what,
                markup=False,
                severity="error",
            )
            return
        with suppress(LookupError):
            self.app.push_screen(ErrorDialog(error))

    def _is_shown(self, error: EngineError) -> bool:
        """Return whether a dialog shows this error now."""
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        screen = self.app.screen
        return isinstance(screen, ErrorDialog) and str(screen.error) == str(error)
