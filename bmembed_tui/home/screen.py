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

from bmembed_tui.home.here import here, over, project_over
from bmembed_tui.home.recents import Known, listed
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic

if TYPE_CHECKING:
    from engine.core.errors import EngineError
    from engine.core.messages.search import Hit
    from engine.project.folder import ProjectFolder

PITCH = "Searches your documents on this machine, offline."
SAMPLE = "sample"
HERE = "here"
NEW = "new"
OTHER = "other"
ALL = "all"
AT = "at:"  # then a project's path: the id of its line
LOOK_AGAIN_SECONDS = 2.0  # while a run goes on somewhere


class ProjectOpener(Protocol):
    """What the first screen, and the search in all projects, ask of the app."""

    def open_project(
        self,
        project: ProjectFolder,
        step: str | None = None,
        then: Callable[[Any], object] | None = None,
        keys: Iterable[events.Key] = (),
    ) -> None:
        """Show a project.

        `then`: what to do once its status is known. `keys`: typed for it while it was being opened.
        """

    def open_hit(self, project: Path, query: str, hit: Hit) -> None: ...
    def action_search_all(self) -> None: ...
    async def end_begun(self) -> None: ...
    def show_error(self, error: EngineError) -> None: ...


class HomeScreen(Screen[None]):
    """What to do first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "new project", id="home.new"),
        Binding("o", "other", "open a folder", id="home.open"),
        Binding("a", "everywhere", "search all", id="home.everywhere"),
        Binding("delete", "remove", "remove a project", show=False, id="home.remove"),
    ]
    HELP = """A project is a folder that holds what bmembed makes of your documents: an index, an adapted encoder, \
reports. The documents themselves stay where they are, and nothing leaves this machine.

Search this folder: reads the folder that the app was started in, and searches it.
Try the sample: a small invented company's documents, to see every step in a few minutes.
New project: choose the folder with your documents, or drop it.
Open another folder: a project that is not in the list, given by its folder.
Search all projects: their best hits in one list.
A run in progress stands first: closing the app does not end it."""  # noqa: E501

    def __init__(self, wanted: str | None = None) -> None:
        super().__init__()
        self._wanted = wanted
        # What they do, and whether they are still there, is found out later.
        self._known = _by_key(map(Known, listed()))
        self._opening = False
        self._typed = list[events.Key]()
        self._here = here()

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
        self.set_interval(LOOK_AGAIN_SECONDS, self._look_again)
        if self._wanted:
            self.open(self._wanted)

    @property
    def bmembed(self) -> ProjectOpener:
        return cast(ProjectOpener, self.app)

    @work(exclusive=True, group="known")
    async def load(self) -> None:
        found = await asyncio.to_thread(_look)
        if self.is_attached and self.query("#home-choices"):
            self._known = _by_key(found)
            self._draw()
            self.refresh_bindings()

    def _look_again(self) -> None:
        if self.is_current and any(known.running for known in self._known.values()):
            self.load()

    def _draw(self) -> None:
        """A run in progress takes the place kept free above the offers: nothing moves under the
        user's eyes.
        """
        found = sorted(self._known.items(), key=lambda item: not item[1].running)
        first = [(key, _line(known)) for key, known in found[:1] if known.running]
        others = [(key, _line(known)) for key, known in found[len(first) :]]
        offers = [
            (SAMPLE, _offer("Try the sample", "132 documents of an invented company")),
            *([(HERE, _offer("Search this folder", self._over(self._here)))] if self._here else []),
            (NEW, _offer("New project", "over your own documents")),
            (OTHER, _offer("Open another folder …", "a project that is not in this list")),
            *(
                [(ALL, _offer("Search all projects", f"{len(found)} at once"))]
                if len(found) > 1
                else []
            ),
        ]
        choices = self.query_one("#home-choices", SafeOptions)
        with self.app.batch_update():
            stood_on = self._stood_on(
                choices, came=bool(first) and not choices.has_class("-running")
            )
            choices.set_class(bool(first), "-running")
            choices.show([*first, *offers, *others], stood_on)

    def _over(self, folder: Path) -> str:
        """The folder, and the project that there is for it."""
        paths = over(folder, self._known.values())
        if len(paths) > 1:
            last = f", the last used of {len(paths)}"
        else:
            last = ""
        if paths:
            return f"{folder}: opens its project {paths[0].name}{last}"
        return str(folder)

    @staticmethod
    def _stood_on(choices: SafeOptions, came: bool) -> str | None:
        """The choice to stay at; none, so the first line, where that is where the user stood
        when a run `came`.
        """
        place = choices.highlighted
        if place is None or (came and place == 0):
            return None
        return choices.get_option_at_index(place).id

    @on(OptionList.OptionSelected, "#home-choices")
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self._choose(str(event.option_id))

    def _choose(self, key: str) -> None:
        if key == SAMPLE:
            self.open_sample()
        elif key == HERE and (folder := self._here):
            self._open(
                str(folder),
                lambda: project_over(folder),
                "search",
                lambda screen: screen.make_searchable(),
            )
        elif key == NEW:
            self.action_new()
        elif key == OTHER:
            self.action_other()
        elif key == ALL:
            self.action_everywhere()
        elif key in self._known:
            self.open(str(self._known[key].path))

    def action_new(self) -> None:
        self._make()

    def _make(self, documents: Path | None = None) -> None:
        from bmembed_tui.home.new_project import NewProjectScreen

        self.app.push_screen(NewProjectScreen(documents), self._made)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.take_dropped(event.text)

    @work(exclusive=True, group="dropped")
    async def take_dropped(self, text: str) -> None:
        """Open a project's folder; of others make a project."""
        from bmembed_tui.widgets.dropped import dropped_path

        path = await asyncio.to_thread(dropped_path, text)
        if path is None or not self.is_current:
            return
        if await asyncio.to_thread((path / "project.toml").is_file):
            self.open(str(path))
        else:
            self._make(path)

    def _made(self, name: str | None) -> None:
        self.load()
        if name:
            self.open(name, "documents")

    def action_other(self) -> None:
        from bmembed_tui.dialogs.folder_picker import FolderPicker

        picker = FolderPicker(
            "Open another folder", "The folder of a project: it holds a project.toml.", "Open"
        )
        self.app.push_screen(picker, self._picked)

    @work(exclusive=True, group="remove")
    async def action_remove(self) -> None:
        from bmembed_tui.home.removal import REMOVE, RemovalScreen, removal_question
        from engine.project.folder import ProjectFolder

        place = self._stood_on(self.query_one("#home-choices", SafeOptions), came=False)
        if place not in self._known:
            self.notify("Select a project in the list first.", markup=False)
            return
        project = ProjectFolder(self._known[place].path)
        await self.bmembed.end_begun()
        if await self.app.push_screen_wait(removal_question(project)) == REMOVE:
            await self.app.push_screen_wait(RemovalScreen(project))
            self.load()

    def _picked(self, path: Path | None) -> None:
        if path is not None:
            self.open(str(path))

    def open_sample(self) -> None:
        from bmembed_tui.home.sample import sample_project

        self._open(
            "the sample", sample_project, then=lambda screen: self.give_questions(screen.project)
        )

    @work(group="questions")
    async def give_questions(self, sample: ProjectFolder) -> None:
        """It takes a process, and nobody needs to wait for it."""
        from bmembed_tui.home.sample import import_questions
        from engine.core.errors import EngineError

        try:
            await import_questions(sample)
        except EngineError as error:
            self.bmembed.show_error(error)

    def open(self, name: str, step: str | None = None) -> None:
        self._open(name, lambda: _opened(name), step)

    def _open(
        self,
        what: str,
        find: Callable[[], ProjectFolder],
        step: str | None = None,
        then: Callable[[Any], object] | None = None,
    ) -> None:
        """Show the project that `find` gives, in a thread. `then`: as `open_project` has it."""
        if not self._opening:
            self._opening = True
            self._typed.clear()
            self._show(what, find, step, then)

    @work(group="open")
    async def _show(
        self,
        what: str,
        find: Callable[[], ProjectFolder],
        step: str | None,
        then: Callable[[Any], object] | None,
    ) -> None:
        from engine.core.errors import EngineError

        note = self.query_one("#home-note", SafeStatic)
        note.update(f"Opening {what} …")
        try:
            self.bmembed.open_project(await asyncio.to_thread(find), step, then, self._typed)
        except EngineError as error:
            self.bmembed.show_error(error)
            self.load()
        finally:
            self._opening = False
            if note.is_attached:
                note.update("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One project is searched in its step Search."""
        if action == "everywhere":
            return len(self._known) > 1
        return super().check_action(action, parameters)

    def action_everywhere(self) -> None:
        self.bmembed.action_search_all()

    def take_late_key(self, event: events.Key) -> bool:
        """What is typed while a project is being opened is for its search, from the letter right
        after Enter on.
        """
        choices = self.query_one("#home-choices", SafeOptions)
        if (
            event.key == "enter"
            and choices.has_focus
            and (chosen := self._stood_on(choices, came=False))
        ):
            self._choose(chosen)
        elif self._opening and event.is_printable:
            self._typed.append(event)
        elif self._opening and event.key == "backspace":
            del self._typed[-1:]
        else:
            return False
        return True

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        return {
            "New project": ("adapt to your own documents", "new"),
            "Open another folder": ("a project given by its folder", "other"),
            **(
                {"Search all projects": ("their best hits in one list", "everywhere")}
                if len(self._known) > 1
                else {}
            ),
            "Remove a project": ("the one selected in the list; its documents stay", "remove"),
        }


def _by_key(found: Iterable[Known]) -> dict[str, Known]:
    return {f"{AT}{known.path}": known for known in found}


def _look() -> list[Known]:
    from bmembed_tui.home.projects import known

    return known()


def _opened(name: str) -> ProjectFolder:
    """The project of that name or path, its settings checked; while a run goes on in it, it can
    be watched all the same.
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


def _offer(action: str, text: str) -> Content:
    return Content.assemble(plain(f"  {action}  "), plain(text, "$text-muted"))


def _line(known: Known) -> Content:
    name = plain(known.path.name, "bold")
    place = plain(f"  {known.path.parent}", "$text-muted")
    if known.running:
        return Content.assemble(
            plain("▶ Go to the run in progress  "), name, plain(f"  {known.doing}")
        )
    if known.problem:
        return Content.assemble(
            plain("✗ Open  ", "$text-error"), name, plain(f"  {known.problem}", "$text-error")
        )
    return Content.assemble(plain("  Open  "), name, place)
