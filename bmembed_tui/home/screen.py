"""The first screen: try the sample, make a project, open one, or go to a run in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList

from bmembed_tui.home.here import (
    find_current_folder,
    find_documents_folder,
    find_projects_over,
    open_project_over,
)
from bmembed_tui.home.recents import KnownProject, read_recents
from bmembed_tui.widgets.hanging import wrap_hanging
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic

if TYPE_CHECKING:
    from engine.core.errors import EngineError
    from engine.core.messages.search import Hit
    from engine.project.folder import ProjectFolder

PITCH = "Searches your documents offline, and fetches nothing unless you ask."
# The ids of the offers in the list.
SAMPLE = "sample"
HERE = "here"
NEW = "new"
OTHER = "other"
ALL = "all"
PROJECT_PREFIX = "at:"  # begins the id of a project's line; its path follows
INDENT = 4  # columns of continuation rows
REFRESH_SECONDS = 2.0  # while a run is in progress in some project


class ProjectOpener(Protocol):
    """What the first screen, and the search in all projects, require of the app."""

    def open_project(
        self,
        project: ProjectFolder,
        step: str | None = None,
        then: Callable[[Any], object] | None = None,
        keys: Iterable[events.Key] = (),
    ) -> None:
        """Show a project, at `step` or else where the user left off.

        `then`: called with its screen once its status is known. `keys`: keys that were pressed
        while it was being opened.
        """

    def open_hit(
        self,
        project: Path,
        query: str,
        hit: Hit,
    ) -> None: ...
    def action_search_all(self) -> None: ...
    async def end_early_engine(self) -> None: ...
    def show_error(self, error: EngineError) -> None: ...


class HomeScreen(Screen[None]):
    """The projects of this machine, and ways to begin."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "new project", id="home.new"),
        Binding("o", "other", "open a folder", id="home.open"),
        Binding("f3", "everywhere", "search all", id="home.everywhere"),
        Binding("delete", "remove", "remove a project", show=False, id="home.remove"),
    ]
    HELP_NAME = "home"

    def __init__(self, project: str | None = None) -> None:
        """Open the project with this name or path at once, if one is given.

        Over a folder that holds no project, a new one is offered.
        """
        super().__init__()
        self._project_to_open = project
        # Whether the projects still exist, and what runs in them, is read by `load`.
        self._projects = _index_by_key(map(KnownProject, read_recents()))
        self._is_opening = False
        # The keys pressed while a project is being opened, which are meant for its search.
        self._typed: list[events.Key] = []
        self._current_folder = find_current_folder()

    def compose(self) -> ComposeResult:
        with Vertical(id="home"), Vertical(id="home-column"):
            yield SafeStatic("bmembed", id="home-title")
            yield SafeStatic(PITCH, id="home-pitch")
            yield SafeOptions(id="home-choices")
            yield SafeStatic("", id="home-note")
        yield KeyLine()

    def on_mount(self) -> None:
        self._draw()
        self.query_one("#home-choices").focus()
        self.call_after_refresh(self.load)
        self.set_interval(REFRESH_SECONDS, self._refresh_runs)
        if self._project_to_open:
            self._open_or_create(self._project_to_open)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    @property
    def bmembed(self) -> ProjectOpener:
        return cast(ProjectOpener, self.app)

    @work(exclusive=True, group="known")
    async def load(self) -> None:
        """Read the projects of this machine in a thread, and draw them."""
        projects = await asyncio.to_thread(_list_projects)
        if self.is_attached and self.query("#home-choices"):
            self._projects = _index_by_key(projects)
            self._draw()
            self.refresh_bindings()

    def _refresh_runs(self) -> None:
        if self.is_current and any(project.running for project in self._projects.values()):
            self.load()

    def _draw(self) -> None:
        """Show the projects and offers.

        The first run in progress takes the line kept free above the offers, so that nothing moves
        under the user's eyes.
        """
        running_first = sorted(self._projects.items(), key=lambda item: not item[1].running)
        lines = [(key, _format_project(project)) for key, project in running_first]
        is_running = any(project.running for project in self._projects.values())
        number_above = 1 if is_running else 0
        choices = self.query_one("#home-choices", SafeOptions)
        width = choices.scrollable_content_region.width - 2  # a blank at both sides of an option
        options = [
            (key, wrap_hanging(line, width, INDENT))
            for key, line in [*lines[:number_above], *self._list_offers(), *lines[number_above:]]
        ]
        with self.app.batch_update():
            has_new_run = is_running and not choices.has_class("-running")
            highlighted = self._find_highlighted(choices, has_new_run=has_new_run)
            choices.set_class(is_running, "-running")
            choices.show(options, highlighted)

    def _list_offers(self) -> list[tuple[str, Content]]:
        """Return (id, line) of each way to begin: the sample, a new project and so on."""
        offers = [(SAMPLE, _format_offer("Try the sample", "132 documents of an invented company"))]
        if self._current_folder:
            text = self._describe_folder(self._current_folder)
            offers.append((HERE, _format_offer("Search this folder", text)))
        other = _format_offer("Open another folder …", "a project that is not in this list")
        offers += [(NEW, _format_offer("New project", "over your own documents")), (OTHER, other)]
        if len(self._projects) > 1:
            text = f"{len(self._projects)} at once"
            offers.append((ALL, _format_offer("Search all projects", text)))
        return offers

    def _describe_folder(self, folder: Path) -> str:
        """Return the project that will be opened for the folder, and the folder's path."""
        paths = find_projects_over(folder, self._projects.values())
        if not paths:
            return str(folder)
        text = f"opens its project {paths[0].name}"
        if len(paths) > 1:
            text += f", the last used of {len(paths)}"
        return f"{text}: {folder}"

    @staticmethod
    def _find_highlighted(choices: SafeOptions, *, has_new_run: bool) -> str | None:
        """Return the id of the choice to highlight: the present one, in most cases.

        None, which stands for the first line, if that is highlighted and `has_new_run`: the first
        line then shows a run that has just begun.
        """
        index = choices.highlighted
        if index is None or (has_new_run and index == 0):
            return None
        return choices.get_option_at_index(index).id

    @on(OptionList.OptionSelected, "#home-choices")
    def _choose_option(self, event: OptionList.OptionSelected) -> None:
        self._choose(str(event.option_id))

    def _choose(self, key: str) -> None:
        """Do what the option with the id `key` says."""
        if key == SAMPLE:
            self.open_sample()
        elif key == HERE and self._current_folder:
            self._open_folder(self._current_folder)
        elif key == NEW:
            self.action_new()
        elif key == OTHER:
            self.action_other()
        elif key == ALL:
            self.action_everywhere()
        elif key in self._projects:
            self.open(str(self._projects[key].path))

    def _open_folder(self, folder: Path) -> None:
        """Open the project over the folder alone, and make it searchable."""
        self._begin_opening(
            str(folder),
            lambda: open_project_over(folder),
            "search",
            lambda screen: screen.make_searchable(),
        )

    def action_new(self) -> None:
        self._create_project()

    def _create_project(self, documents: Path | None = None) -> None:
        from bmembed_tui.home.new_project import NewProjectScreen

        self.app.push_screen(NewProjectScreen(documents), self._open_created)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.take_dropped(event.text)

    @work(exclusive=True, group="dropped")
    async def take_dropped(self, text: str) -> None:
        """Open the project in a dropped folder, or make a project over what was dropped."""
        from bmembed_tui.widgets.dropped import find_dropped_path

        path = await asyncio.to_thread(find_dropped_path, text)
        if path is None or not self.is_current:
            return
        if await asyncio.to_thread((path / "project.toml").is_file):
            self.open(str(path))
        else:
            self._create_project(path)

    def _open_created(self, name: str | None) -> None:
        self.load()
        if name:
            self.open(name, "documents")

    def action_other(self) -> None:
        from bmembed_tui.dialogs.folder_picker import FolderPicker

        picker = FolderPicker(
            "Open another folder", "The folder of a project, or of documents to search.", "Open"
        )
        self.app.push_screen(picker, self._open_picked)

    @work(exclusive=True, group="remove")
    async def action_remove(self) -> None:
        from bmembed_tui.home.removal import REMOVE, RemovalScreen, build_removal_question
        from engine.project.folder import ProjectFolder

        choices = self.query_one("#home-choices", SafeOptions)
        key = self._find_highlighted(choices, has_new_run=False)
        if key not in self._projects:
            self.notify("Select a project in the list first.", markup=False)
            return
        project = ProjectFolder(self._projects[key].path)
        await self.bmembed.end_early_engine()
        if await self.app.push_screen_wait(build_removal_question(project)) == REMOVE:
            await self.app.push_screen_wait(RemovalScreen(project))
            self.load()

    def _open_picked(self, path: Path | None) -> None:
        if path is not None:
            self._open_or_create(str(path))

    @work(group="given")
    async def _open_or_create(self, name: str) -> None:
        """Open a project by its name or path, or offer a new one over a folder of documents."""
        documents = await asyncio.to_thread(find_documents_folder, name)
        if documents is None:
            self.open(name)
        elif self.is_attached:
            self._create_project(documents)

    def open_sample(self) -> None:
        """Open the sample project, and import its questions once it is shown."""
        from bmembed_tui.home.sample import open_sample_project

        self._begin_opening(
            "the sample",
            open_sample_project,
            then=lambda screen: self.give_questions(screen.project),
        )

    @work(group="questions")
    async def give_questions(self, sample: ProjectFolder) -> None:
        """Import the sample's questions in the background, since that takes a process."""
        from bmembed_tui.home.sample import import_questions
        from engine.core.errors import EngineError

        try:
            await import_questions(sample)
        except EngineError as error:
            self.bmembed.show_error(error)

    def open(self, name: str, step: str | None = None) -> None:
        self._begin_opening(
            name,
            lambda: _open_checked(name),
            step,
        )

    def _begin_opening(
        self,
        label: str,
        find: Callable[[], ProjectFolder],
        step: str | None = None,
        then: Callable[[Any], object] | None = None,
    ) -> None:
        """Show the project that `find` returns, unless another one is being opened.

        `find` runs in a thread. `label`: the project's name for the user. `step`, `then`: as in
        `ProjectOpener.open_project`.
        """
        if not self._is_opening:
            self._is_opening = True
            self._typed.clear()
            self._find_and_open(
                label,
                find,
                step,
                then,
            )

    @work(group="open")
    async def _find_and_open(
        self,
        label: str,
        find: Callable[[], ProjectFolder],
        step: str | None,
        then: Callable[[Any], object] | None,
    ) -> None:
        """Find the project in a thread and open it, or show the error."""
        from engine.core.errors import EngineError

        note = self.query_one("#home-note", SafeStatic)
        note.update(f"Opening {label} …")
        try:
            self.bmembed.open_project(
                await asyncio.to_thread(find),
                step,
                then,
                self._typed,
            )
        except EngineError as error:
            self.bmembed.show_error(error)
            self.load()
        finally:
            self._is_opening = False
            if note.is_attached:
                note.update("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the search in all projects only if there are several."""
        if action == "everywhere":
            return len(self._projects) > 1
        return super().check_action(action, parameters)

    def action_everywhere(self) -> None:
        self.bmembed.action_search_all()

    def take_late_key(self, event: events.Key) -> bool:
        """Handle a key that no widget took, and return whether it was taken.

        Enter chooses. What is typed while a project is being opened is kept for its search.
        """
        choices = self.query_one("#home-choices", SafeOptions)
        if event.key == "enter" and choices.has_focus:
            key = self._find_highlighted(choices, has_new_run=False)
            if key:
                self._choose(key)
                return True
        if self._is_opening and event.is_printable:
            self._typed.append(event)
            return True
        if self._is_opening and event.key == "backspace":
            del self._typed[-1:]
            return True
        return False

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        commands = {
            "New project": ("adapt to your own documents", "new"),
            "Open another folder": ("a project given by its folder", "other"),
        }
        if len(self._projects) > 1:
            commands["Search all projects"] = ("their best hits in one list", "everywhere")
        text = "the one selected in the list; its documents stay"
        commands["Remove a project"] = (text, "remove")
        return commands


def _index_by_key(projects: Iterable[KnownProject]) -> dict[str, KnownProject]:
    return {f"{PROJECT_PREFIX}{project.path}": project for project in projects}


def _list_projects() -> list[KnownProject]:
    """Return what `list_projects` returns; in a thread, its import does not delay the screen."""
    from bmembed_tui.home.projects import list_projects

    return list_projects()


def _open_checked(name: str) -> ProjectFolder:
    """Return the project with that name or path.

    Raises SettingsError for invalid settings, except during a run, which can be watched all the
    same.
    """
    from engine.core.errors import SettingsError
    from engine.project.folder import ProjectFolder

    project = ProjectFolder.open(name)
    try:
        project.settings()
    except SettingsError:
        if not project.is_running():
            raise
    return project


def _format_offer(action: str, text: str) -> Content:
    return Content.assemble(plain(f"  {action}  "), plain(text, "$text-muted"))


def _format_project(project: KnownProject) -> Content:
    """Return the line of a project, with its run, its problem, or its parent folder."""
    name = plain(project.path.name, "bold")
    if project.running:
        activity = plain(f"  {project.activity}")
        return Content.assemble(
            plain("▶ Go to the run in progress  "),
            name,
            activity,
        )
    if project.problem:
        problem = plain(f"  {project.problem}", "$text-error")
        return Content.assemble(
            plain("✗ Open  ", "$text-error"),
            name,
            problem,
        )
    parent = plain(f"  {project.path.parent}", "$text-muted")
    return Content.assemble(
        plain("  Open  "),
        name,
        parent,
    )
