"""A project's screen: the steps, a sidebar with the state of each, and the line of the run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.widgets import ContentSwitcher, OptionList

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.client.project_status import SEARCH, STAGES, STEPS, find_step
from bmembed_tui.project.run_line import RunLine
from bmembed_tui.project.sidebar import WIDE, Sidebar
from bmembed_tui.steps.base import StepHost, StepPane
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ReadStatus
from engine.project.folder import ProjectFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.widget import Widget

    from engine.core.messages.search import Hit

STYLES = Path(__file__).parent.parent / "styles"
Then: TypeAlias = "Callable[[ProjectScreen], object]"
"""What to do with a project's screen once the project's status is known."""


class ProjectScreen(StepHost):
    """The wizard.

    Panes reach the engine through this screen: `client` sends requests, `start_run` and `control`
    manage runs.
    """

    CSS_PATH: ClassVar[list[str | PurePath]] = [
        STYLES / "project.tcss",
        *(STYLES / f"{step.key}.tcss" for step in STEPS),
    ]
    # No focus at first: keys typed before the step is shown are kept for it.
    AUTO_FOCUS: ClassVar[str | None] = ""
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [  # noqa: RUF012
        (0, "-narrow"),
        (WIDE, "-wide"),
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

    def __init__(
        self,
        project: ProjectFolder,
        step: str | None = None,
        then: Then | None = None,
        keys: Iterable[events.Key] = (),
        client: EngineClient | None = None,
    ) -> None:
        """Show a project.

        `then`: called once the project's status is known. `keys`: keys pressed before this screen
        was shown. `client`: the project's engine, if it runs already.
        """
        super().__init__(project)
        self._then = then
        self._early_keys = list(keys)
        self.client = client or EngineClient(project.path)
        self.client.on_end = self._notice_engine_end
        self._first_step = step
        self._seen: set[str] = set()  # the steps that the user has been to and left
        self._is_status_stale = False
        self._is_loading = False
        self._run_line = RunLine(project.name, id="run-line")
        self._sidebar = Sidebar(id="sidebar")
        self._opening = SafeStatic(f"Opening {project.name} …", id="opening")
        self._steps = ContentSwitcher(id="steps", initial=None)

    def compose(self) -> ComposeResult:
        yield self._run_line
        with Horizontal(id="main"):
            yield self._sidebar
            yield self._opening
            yield self._steps
        yield KeyLine()

    def on_mount(self) -> None:
        self.load()

    async def on_unmount(self) -> None:
        self.unfollow()
        await self.client.close()

    # Steps

    @property
    def pane(self) -> StepPane | None:
        """The visible step, once its widgets are mounted."""
        return next((pane for pane in self._panes() if pane.step == self._steps.current), None)

    def go(self, step: str) -> None:
        """Show a step.

        Its widgets are made when it is first shown, since making all seven steps takes a second.
        """
        if step == self._steps.current:
            return
        former_pane = self.pane
        if former_pane is not None:
            former_pane.leave()
            self._seen.add(former_pane.step)
        self._opening.display = False
        self.set_focus(None)  # a hidden widget must not keep the focus
        if not self._steps.query_children(f"#{step}"):
            self._steps.mount(_import_pane(step)(id=step))
        self._steps.current = step
        self.draw_status()
        pane = self.pane
        if pane is not None:
            self._show(pane)

    def pane_mounted(self, pane: StepPane) -> None:
        """Show a step whose widgets have just been mounted."""
        if self.status.stages:
            pane.show_status(self.status)
        if pane is self.pane:
            self._show(pane)

    def _show(self, pane: StepPane) -> None:
        """Draw a step whose widgets are mounted, and give it the focus."""
        pane.show_run(self.run_state)
        self.call_after_refresh(self._enter, pane)

    def is_at(self, step: str) -> bool:
        return self.pane is not None and self.pane.step == step

    def _enter(self, pane: StepPane) -> None:
        """Give the step the focus, and the keys that were pressed before it was shown.

        If letters were typed while the project was being opened, go to the search.
        """
        if not pane.is_attached:
            return
        has_letters = any(key.character and key.character.isalpha() for key in self._early_keys)
        if has_letters and self._panes() == [pane] and pane.step != "search":
            self.action_go("search")
            return
        early_keys = self._early_keys
        self._early_keys = []
        for key in early_keys:
            if key.is_printable and key.character:
                self._type(key.character)
        pane.enter()
        for key in early_keys:
            if not key.is_printable:
                self.app.call_later(self.app.simulate_key, key.key)

    def action_go(self, step: str) -> None:
        self._shows_each_step = False
        if self.pane is not None and self.pane.step == step:
            self.pane.enter()
        self.go(step)

    def take_late_key(self, event: events.Key) -> bool:
        """Give the step a key that nothing took; return whether it was taken.

        Such a key was pressed while the step was still being shown, or outside of it.
        """
        is_bound = event.key in self.active_bindings
        if not is_bound and (self.pane is None or self._early_keys):
            if event.key == "backspace":
                del self._early_keys[-1:]
            else:
                self._early_keys.append(event)
            return True
        if event.is_printable and event.character:
            return self._type(event.character)
        is_outside = self.focused is None or self.pane not in self.focused.ancestors
        if self.pane is not None and is_outside and not is_bound:
            self.pane.focus_primary()
            self.app.call_later(
                self._press_in_pane,
                event.key,
                self.focused,
            )
        return False

    def _type(self, character: str) -> bool:
        """Give the step a character; return whether it was taken."""
        return self.pane is not None and self.pane.take_character(character)

    def _press_in_pane(self, key: str, former_focus: Widget | None) -> None:
        """Press a key in the step; if it has no meaning there, restore the focus."""
        if key in self.active_bindings:
            self.app.simulate_key(key)
        else:
            self.set_focus(former_focus)

    def search_for(self, text: str) -> None:
        """Show the search, and search for `text`."""
        from bmembed_tui.steps.search.pane import SearchPane

        self.go("search")
        pane = self.query_one(SearchPane)
        pane.call_later(pane.search_for, text)

    def action_steps(self) -> None:
        self._sidebar.focus()

    @on(OptionList.OptionSelected, "#sidebar")
    def _choose_step(self, event: OptionList.OptionSelected) -> None:
        self.action_go(str(event.option_id))

    def action_leave(self) -> None:
        """Go back to the list of projects; a run continues.

        Asks first if patterns were typed and not saved.
        """
        from bmembed_tui.dialogs.confirmations import ask
        from bmembed_tui.widgets.fields import PatternField

        if not any(field.is_changed for field in self.query(PatternField)):
            self.dismiss()
            return
        text = (
            "The patterns that you typed in Documents are not saved. Enter in the field saves them."
        )
        ask(
            self.app,
            "Leave without saving the patterns?",
            text,
            (("stay", "Stay"), ("leave", "Leave")),
            leave=self.dismiss,
        )

    def action_settings(self) -> None:
        from bmembed_tui.settings.screen import SettingsScreen

        self.app.push_screen(SettingsScreen(self.client, self.project), self._leave_settings)

    def _leave_settings(self, error: EngineError | None) -> None:
        """Show the error that closed the settings, if any, and read the status again."""
        if error:
            self.problem = str(error)  # otherwise the status would show it again
            self.show_error(error)
        self.load()

    def action_export(self) -> None:
        from bmembed_tui.dialogs.export import ExportScreen

        self.app.push_screen(ExportScreen(self.project))

    def action_improve(self) -> None:
        """Bring search up to date; if it is, offer to adapt the encoder."""
        if self.is_busy:
            self.notify("A run is in progress. Try again when it has ended.", markup=False)
        elif not self.status.done(*SEARCH):
            self.make_searchable()
        else:
            self.offer_adaptation()

    @work(exclusive=True, group="improve")
    async def offer_adaptation(self) -> None:
        """Show what an adaptation takes and could gain, and start it if the user agrees."""
        from bmembed_tui.dialogs.adapt import BY_STEPS, NOW, STEP_BY_KEY, AdaptDialog

        answer = await self.app.push_screen_wait(AdaptDialog(self.project))
        if answer == NOW:
            self.start_run(follow=True)
        elif answer == BY_STEPS:
            self.go("model")
        elif answer in STEP_BY_KEY.values():
            self.go(answer)

    @work(exclusive=True, group="remove")
    async def action_remove(self) -> None:
        """Remove the project after a question, and leave it.

        The search process ends first, since it has files of the project open.
        """
        from bmembed_tui.home.removal import REMOVE, RemovalScreen, build_removal_question

        if await self.app.push_screen_wait(build_removal_question(self.project)) != REMOVE:
            return
        await self.client.restart()
        if await self.app.push_screen_wait(RemovalScreen(self.project)):
            self.dismiss()

    # Status

    def load(self) -> None:
        """Read the project's status and show it in every step.

        If the status is being read already, read it once more afterwards.
        """
        self._is_status_stale = True
        if not self._is_loading:
            self._load()

    @work(group="status")
    async def _load(self) -> None:
        """Read the status, and again as long as `load` was called meanwhile."""
        self._is_loading = True
        try:
            while self._is_status_stale and self.is_attached:
                self._is_status_stale = False
                await self.refresh_status()
        finally:
            self._is_loading = False

    async def refresh_status(self) -> None:
        """Read the project's status and show it in every step.

        The same error is shown only once.
        """
        try:
            status = await self.client.ask(ReadStatus())
        except EngineError as error:
            self._is_status_known = True
            self.is_settling = False
            if self.is_alive:
                self._show_problem(error)
                self._enter_first()
                self.draw_run()
            return
        if not self.is_alive:
            return
        if status.problem and not status.stages:
            # The stages could not be read: show what was known of them.
            status = replace(status, stages=self.status.stages)
        self.status = status
        # Now the status shows the end of the run, unless it was requested again meanwhile.
        self.is_settling = self.is_settling and self._is_status_stale
        self._show_problem(status.problem)
        self._follow_newest()
        self._is_status_known = True
        self._enter_first()
        self.draw_status()
        for pane in self._panes():
            with suppress(NoMatches):  # the widgets of a closing screen are removed one by one
                pane.show_status(self.status)

    def _show_problem(self, error: EngineError | None) -> None:
        """Show the status's error, unless the same error was shown before."""
        former_problem = self.problem
        self.problem = str(error or "")
        if error and self.problem != former_problem:
            self.show_error(error)

    def _notice_engine_end(self) -> None:
        """Tell the steps that the search process has died; the next request restarts it."""
        if self.is_alive:
            for pane in self._panes():
                pane.forget_engine()

    def _panes(self) -> list[StepPane]:
        return [pane for pane in self._steps.query_children(StepPane) if pane.is_ready]

    def _enter_first(self) -> None:
        """Show the requested or the likeliest step, unless a step is shown already.

        If a run is in progress and no step was requested, its steps are shown as it goes on.
        """
        if self._steps.current is not None:
            return
        if self.status.running and self._first_step is None:
            self._shows_each_step = True
        self.go(self._first_step or self._find_likely_step())
        if self._then is not None:
            self._then(self)

    def show_hit(self, query: str, hit: Hit) -> None:
        """Show the document of a hit, on top of the search for `query`."""
        from bmembed_tui.steps.search.model import collect_terms
        from bmembed_tui.steps.search.preview import PreviewScreen

        self.search_for(query)
        self.app.push_screen(PreviewScreen(self.client.ask, hit, collect_terms(query, (hit,))))

    def _find_likely_step(self) -> str:
        """Return the step of the run in progress, else the step with something to do."""
        status = self.status
        if status.running and self.run_state.current:
            return find_step(self.run_state.current)
        if status.done(*STAGES) or (status.built("index") and not status.built("generate")):
            return "search"
        if not status.built("ingest"):
            return "documents"
        first = next((stage for stage in STAGES if status.state(stage) != "done"), "ingest")
        if first in ("index", "generate"):
            return "queries"
        return find_step(first)

    # Drawing

    def draw_status(self) -> None:
        current = self._steps.current or STEPS[0].key
        self._sidebar.draw(
            self.status,
            self.run_state,
            current,
            frozenset(self._seen),
        )
        self._run_line.draw(
            self.status,
            self.run_state,
            self.activity,
        )

    def draw_run(self) -> None:
        self._run_line.draw(
            self.status,
            self.run_state,
            self.activity,
        )
        if self.pane is not None:
            self.pane.show_run(self.run_state)


def _import_pane(step: str) -> type[StepPane]:
    """Import and return the class of a step, such as `SearchPane` for `search`."""
    module = import_module(f"bmembed_tui.steps.{step}.pane")
    pane_class: type[StepPane] = getattr(module, f"{step.capitalize()}Pane")
    return pane_class
