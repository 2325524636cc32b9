"""A project's screen: sidebar and steps; starts runs and follows them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer

from bmembed_tui.engine_client import Desk, order, revive
from bmembed_tui.project_status import STAGES, STEPS, ProjectStatus, step_of
from bmembed_tui.run_history import History, read_history
from bmembed_tui.run_state import RunState
from bmembed_tui.run_watch import RunWatch, error_of, is_held, newest_run
from bmembed_tui.widgets.run_line import STOPPED, RunLine
from bmembed_tui.widgets.sidebar import Sidebar
from engine.errors import EngineError
from engine.project import ProjectFolder

if TYPE_CHECKING:
    from bmembed_tui.steps.base import StepPane

STYLES = Path(__file__).parent.parent / "styles"
LOOK_SECONDS = 1.0  # between two looks at whether a run goes on
ASKED = {"pause": "pausing …", "resume": "going on …", "finish": "ending the training …", "cancel": "stopping …"}
RECORD_SECONDS = 2.0  # that a failed run may take to write its record after its last event


class ProjectScreen(Screen[None]):
    """The wizard. Panes reach the engine through it: `desk` for questions, `start_run` and `control` for runs."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        STYLES / "project.tcss",
        *(STYLES / f"{step.key}.tcss" for step in STEPS),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"go('{step.key}')", step.title, show=False, id=f"step.{step.key}")
            for n, step in enumerate(STEPS, 1)
        ),
        Binding("ctrl+r", "run_all", "run all", id="run.all"),
        Binding("ctrl+s", "settings", "settings", id="project.settings"),
        Binding("escape", "steps", "steps", id="project.steps"),
        Binding("ctrl+w", "leave", "projects", id="project.leave"),
    ]

    def __init__(self, project: ProjectFolder, step: str | None = None) -> None:
        super().__init__()
        self.project = project
        self.desk = Desk(project.path)
        self.status = ProjectStatus(project=str(project.path), name=project.name)
        self.run_state = RunState()
        self.history = History()
        self.asked = ""
        self._first_step, self._following = step, False
        self._starting, self._live, self._looking, self._known = False, False, False, False
        self._seen: set[str] = set()
        self._problem: object = None
        self._stale, self._loading = False, False
        self._signature: tuple[object, ...] = ()
        self._watch: RunWatch | None = None

    def compose(self) -> ComposeResult:
        """Head line, sidebar, steps, keys."""
        from bmembed_tui.steps.registry import panes

        yield RunLine(self.project.name, id="run-line")
        with Horizontal(id="main"):
            yield Sidebar(id="sidebar")
            with ContentSwitcher(id="steps", initial=None):
                yield from panes()
        yield Footer()

    def on_mount(self) -> None:
        """Ask where the project stands."""
        self.load()
        self.set_interval(LOOK_SECONDS, self._look)

    async def on_unmount(self) -> None:
        """Leave the run going; end the search process."""
        if self._watch is not None:
            self._watch.stop()
        await self.desk.close()

    @property
    def alive(self) -> bool:
        """Whether the screen's widgets are there: an answer may come after the screen has been left."""
        return (
            self.is_attached and bool(self.query(Sidebar)) and bool(self.query(RunLine)) and bool(self.query("#steps"))
        )

    # Steps

    @property
    def pane(self) -> StepPane | None:
        """The visible step."""
        from bmembed_tui.steps.base import StepPane

        switcher = next(iter(self.query("#steps").results(ContentSwitcher)), None)
        current = switcher.visible_content if switcher else None
        return current if isinstance(current, StepPane) else None

    def go(self, step: str) -> None:
        """Show a step."""
        before, switcher = self.pane, self.query_one("#steps", ContentSwitcher)
        if before is not None and before.step == step:
            return
        if before is not None:
            before.left()
            self._seen.add(before.step)
        self.set_focus(None)  # what is hidden must not keep the keys
        switcher.current = step
        self._draw_sidebar()
        pane = self.pane
        if pane is not None:
            pane.show_run(self.run_state)
            self.call_after_refresh(pane.entered)

    def action_go(self, step: str) -> None:
        """A step's number was pressed."""
        self._following = False
        if self.pane is not None and self.pane.step == step:
            self.pane.entered()
        self.go(step)

    def action_steps(self) -> None:
        """To the sidebar."""
        self.query_one(Sidebar).focus()

    @on(Sidebar.Chosen)
    def _chosen(self, event: Sidebar.Chosen) -> None:
        self._following = False
        if self.pane is not None and self.pane.step == event.step:
            self.pane.entered()
        self.go(event.step)

    def action_leave(self) -> None:
        """Back to the list of projects; a run goes on."""
        self.dismiss()

    def action_settings(self) -> None:
        """All settings."""
        from bmembed_tui.screens.settings import SettingsScreen

        self.app.push_screen(SettingsScreen(self.desk, self.project), self._settings_closed)

    def _settings_closed(self, _changed: bool | None) -> None:
        self.load()

    # Status

    def load(self) -> None:
        """Read the project's status anew, and tell every step. Asked for while it is being read: once more."""
        self._stale = True
        if not self._loading:
            self._load()

    @work(group="status")
    async def _load(self) -> None:
        self._loading = True
        try:
            while self._stale and self.is_attached:
                self._stale = False
                await self.refresh_status()
        finally:
            self._loading = False

    async def refresh_status(self) -> None:
        """Read the project's status anew, and tell every step. Shows an error once, however often it is read."""
        try:
            status = ProjectStatus.from_answer(await self.desk.ask("status"))
        except EngineError as error:
            self._known = True
            if self.alive:
                if error.as_dict() != self._problem:
                    self._problem = error.as_dict()
                    self.tell(error)
                self._enter_first()
            return
        if not self.alive:
            return
        self.status = status
        if status.problem and status.problem != self._problem:
            self.tell(revive(status.problem))
        self._problem = status.problem
        self._follow_newest()
        self._known = True
        self._enter_first()
        self._draw_sidebar()
        for pane in self._panes():
            with suppress(NoMatches):  # a screen that is left is taken apart from its leaves
                pane.show_status(self.status)

    def _panes(self) -> list[StepPane]:
        from bmembed_tui.steps.base import StepPane

        return list(self.query(StepPane))

    def _enter_first(self) -> None:
        """Once: the step that the user left off at."""
        if self.pane is None:
            self.go(self._first_step or self._likely_step())

    def _likely_step(self) -> str:
        status = self.status
        if status.running and self.run_state.current:
            return step_of(self.run_state.current)
        if status.done(*STAGES):
            return "search"
        if not status.built("ingest"):
            return "documents"
        first = next((stage for stage in STAGES if status.state(stage) != "done"), "ingest")
        return "queries" if first in ("index", "generate") else step_of(first)

    def _draw_sidebar(self) -> None:
        current = self.pane.step if self.pane else STEPS[0].key
        self.query_one(Sidebar).draw(self.status, self.run_state, current, frozenset(self._seen))
        self.query_one(RunLine).draw(self.status, self.run_state, self._doing)

    # Runs

    @property
    def going(self) -> bool:
        """Whether a run goes on now, or is being started."""
        return self._starting or self.run_state.running or (self.status.running and not self.run_state.over)

    def _follow_newest(self) -> None:
        """Follow the newest run, going on or not: its history is part of what steps show."""
        record = self.status.run
        folder = Path(str(record["folder"])) if record else None
        if folder is not None and self._is_newer(folder):
            self.follow_run(folder, live=self.status.running)

    def _is_newer(self, folder: Path) -> bool:
        return self._watch is None or folder.name > self._watch.folder.name

    def follow_run(self, folder: Path, *, live: bool = True) -> None:
        """Follow the run whose records are in `folder`. `live`: it began, or goes on, while the app looks on; only of such
        a run is a failure told in a dialog."""
        if self._watch is not None:
            self._watch.stop()
        watch = RunWatch(folder, lambda state: self.call_later(self._run_changed, state))
        self._watch, self._signature, self._live, self.asked = watch, (), live, ""
        self.run_state = watch.state
        watch.start()
        self._read_history(folder)

    @work(exclusive=True, group="history")
    async def _read_history(self, folder: Path) -> None:
        history = await asyncio.to_thread(read_history, folder.parent, folder.name)
        if self.alive and self._watch is not None and self._watch.folder == folder:
            self.history = history
            self._show_run()

    def _run_changed(self, state: RunState) -> None:
        """The run has told something: a few times a second at most."""
        if not self.alive or state is not self.run_state:
            return
        signature = (state.current, state.state, state.paused, sum(s.state == "done" for s in state.stages.values()))
        if signature != self._signature:
            self._signature = signature
            self._turned(state)
        self._show_run()

    def _show_run(self) -> None:
        self.query_one(RunLine).draw(self.status, self.run_state, self._doing)
        if self.pane is not None:
            self.pane.show_run(self.run_state)

    @property
    def _doing(self) -> str:
        """What was asked for and has not come about yet."""
        return "starting …" if self._starting else self.asked

    def _turned(self, state: RunState) -> None:
        """A stage or the run has begun or ended, waits or goes on."""
        self.asked = ""
        if state.running:
            self._draw_sidebar()
        if not self._live:
            return
        self.load()
        if self._following and state.current:
            self.go(step_of(state.current))
        if not state.over:
            return
        following, self._following, self._live = self._following, False, False
        if state.state == "done" and following and "evaluate" in state.stages:
            self.go("result")
        if state.state == "failed" and self._watch is not None:
            self._offer_after_failure(self._watch.folder, state, following)

    @work(group="failure")
    async def _offer_after_failure(self, folder: Path, state: RunState, following: bool) -> None:
        """Show the error that ended a run, once, with what can be done."""
        from bmembed_tui.screens.dialogs import ErrorDialog

        end = asyncio.get_running_loop().time() + RECORD_SECONDS
        error = state.error
        while error is None and asyncio.get_running_loop().time() < end:  # it failed between two stages
            error = await asyncio.to_thread(error_of, folder)
            await asyncio.sleep(0.1)
        if not self.alive:
            return
        state.error = error or {"type": "StageError", "what": "The run failed.", "why": "", "to_do": "Run again."}
        self._show_run()
        choices = [("retry", "Run again"), ("settings", "Settings")]
        answer = await self.app.push_screen_wait(ErrorDialog(revive(state.error), choices))
        if answer == "retry":
            self.start_run(tuple(state.stages) or STAGES, follow=following)
        elif answer == "settings":
            self.action_settings()

    def _look(self) -> None:
        """Notice a run that was started elsewhere, and one that has ended without a word."""
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
        if not self.alive or self._starting or not self._known:
            return  # before the first answer nobody can tell what is new
        if newest is not None and self._is_newer(newest):
            self.follow_run(newest)
            self.load()
        elif self.run_state.running:
            await self._check_alive()
        elif self.status.running:
            self.load()

    async def _check_alive(self) -> None:
        watch, state = self._watch, self.run_state
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
        """Bring every stage up to date."""
        self.start_run(follow=True)

    def start_run(self, stages: Sequence[str] = STAGES, *, follow: bool = False, force: bool = False) -> None:
        """Start a run of `stages` in a process of its own, and follow it. `follow`: show the step of each stage.

        Asked for once more while a run is being started: nothing.
        """
        if not self._starting:
            self._starting = True
            self._show_run()
            self._start(stages, follow, force)

    @work(group="run")
    async def _start(self, stages: Sequence[str], follow: bool, force: bool) -> None:
        arguments = ["run", str(self.project.path), "--only", ",".join(stages), "--detach", "--json"]
        try:
            started = await order(*arguments, *(["--force"] if force else []))
            if self.alive:
                self._following = follow
                self.follow_run(Path(str(started["folder"])))
                await self.refresh_status()
        except EngineError as error:
            self.tell(error)
        finally:
            self._starting = False
            if self.alive:
                self._show_run()

    @work(group="control")
    async def control(self, what: str) -> None:
        """`pause`, `resume`, `finish` or `cancel` the run. What was asked for is shown until it has come about."""
        state, self.asked = self.run_state, ASKED.get(what, "")
        if self.alive:
            self._show_run()
        try:
            await order(what, str(self.project.path))
        except EngineError as error:
            self.tell(error)
            if state is self.run_state:
                self.asked = ""
        if self.alive:
            self._show_run()

    # Telling

    def tell(self, error: EngineError) -> None:
        """Show an error of the engine."""
        from bmembed_tui.screens.dialogs import ErrorDialog

        if not self.alive:
            return
        if isinstance(self.app.screen, ErrorDialog):
            self.notify(error.what, markup=False, severity="error")
            return
        with suppress(LookupError):
            self.app.push_screen(ErrorDialog(error))
