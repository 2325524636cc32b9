"""Step Documents: which files are searched, what they are, and reading them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Input

from bmembed_tui.steps.documents.view import WIDE, DocumentsView
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.dropped import dropped_path
from bmembed_tui.widgets.fields import PatternField
from bmembed_tui.widgets.folder_tree import FolderTree
from engine.core.errors import EngineError
from engine.core.messages.documents import ReadSkipped, Retry, Scan
from engine.core.messages.project import ProjectStatus
from engine.settings.schema import CorpusSettings

if TYPE_CHECKING:
    from engine.settings.schema import Settings

QUIET_SECONDS = 0.3  # of quiet typing before the files are counted anew


class DocumentsPane(DocumentsView):
    """Counts the files while the user types, keeps what was changed, and has the documents read."""

    step = "documents"
    title = "Documents"
    lead = (
        "Which files are searched. They are only read: nothing is changed, and nothing leaves this"
        " machine."
    )
    help_text = """The documents are read and cut into chunks: passages of about 200 words, which are what search finds.

Formats: how many files can be read, by format. Files that cannot be read are listed with the reason, and so is what cannot be \
read inside others, such as attachments.
Include and Exclude: patterns as in a .gitignore file, with commas between. "drafts/" is a folder, "*.html" an ending. The \
counts show at once what a change would do; Enter saves the patterns, Esc reverts them.
Folders: a project may read several folders and files; one that is dropped here is added. \
Enter or → opens a folder, ← closes it. Of a large folder \
the first 1,000 entries are shown; all of its files are read.
Reading again looks for new, changed and removed files; what did not change is not read twice.
After reading, search by keywords works at once, and by meaning as the documents are embedded."""  # noqa: E501
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", "try unreadable files again", id="documents.retry", show=False),
        Binding("a", "add", "add a folder", id="documents.add"),
        Binding("x", "remove", "remove a folder", id="documents.remove", show=False),
    ]

    # What the project says

    def entered(self) -> None:
        self.set_class(
            cast(Widget, self.parent).size.width >= WIDE, "wide"
        )  # its own is not known while it is hidden
        super().entered()
        self.scanned = None
        self.load()

    def show_status(self, status: ProjectStatus) -> None:
        self.draw()
        if self.display and self.host.pane is self:
            self.scanned = (
                self.scanned if self.host.going else None
            )  # after a run the files are counted anew
            self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        try:
            settings = await asyncio.to_thread(self.host.project.settings)
            self._settings_error = None
            self._take(settings)
            if self.host.status.built("ingest"):
                self._unread = await self.ask(ReadSkipped())
        except EngineError as error:
            self._settings_error = error
        if self.is_attached:
            self._draw_skipped()
            self.draw()

    def _take(self, settings: Settings) -> None:
        if not self.is_attached:
            return
        before = self.corpus
        corpus = settings.corpus
        self.corpus = corpus
        if before is None or before.paths != corpus.paths:
            places = self.host.project.sources(settings)
            self.query_one(FolderTree).show_roots(list(zip(corpus.paths, places, strict=True)))
        for name in ("include", "exclude"):
            if before is None or getattr(before, name) != getattr(corpus, name):
                self.query_one(f"#{name}", PatternField).show(getattr(corpus, name))
        self._count()

    # Counting

    @on(Input.Changed, "PatternField")
    def _pattern_typed(self) -> None:
        self._count()

    def _count(self) -> None:
        if self.corpus is None:
            return
        include, exclude = (
            tuple(self.query_one(f"#{name}", PatternField).patterns)
            for name in ("include", "exclude")
        )
        self._wanted = Scan(
            tuple(self.corpus.paths), include or tuple(CorpusSettings().include), exclude
        )
        self._draw_note()
        if not self._scanning and self._wanted != self.scanned:
            self.scan()

    @work(group="scan")
    async def scan(self) -> None:
        """Count, and again while the wish has changed meanwhile: one count at a time."""
        self._scanning = True
        try:
            while self._wanted != self.scanned and self._wanted is not None:
                wanted = self._wanted
                await asyncio.sleep(QUIET_SECONDS if self.scanned else 0)
                if wanted == self._wanted:
                    await self._scan_once(wanted)
        finally:
            self._scanning = False

    async def _scan_once(self, wanted: Scan) -> None:
        try:
            self._scan = await self.ask(wanted)
            self._scan_error = None
        except EngineError as error:
            self._scan = None
            self._scan_error = error
        self.scanned = wanted
        if not self.is_attached:
            return
        self._draw_formats()
        self._draw_skipped()
        self._draw_note()
        self.draw()

    # Changing

    @on(Input.Submitted, "PatternField")
    def _kept(self) -> None:
        if self._is_changed():
            self.keep()
        else:
            self.focus_primary()

    def keep(self, then: Callable[[], object] | None = None) -> None:
        """Save the patterns. `then`: what to do once they are."""
        if self._scan_error is not None and self.scanned == self._wanted:
            self.host.show_error(self._scan_error)
            return
        fields = [field for field in self.query(PatternField) if field.is_changed]
        self._change(
            {f"corpus.{field.id}": field.patterns or None for field in fields},
            then or self.focus_primary,
        )

    def _change(self, changes: dict[str, Any], then: Callable[[], object], what: str = "") -> None:
        self.query_one(ChangeLine).propose(changes, what, then)

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        self.host.load()
        if event.then:
            event.then()

    def left(self) -> None:
        self.query_one(ChangeLine).clear()

    def action_add(self) -> None:
        from bmembed_tui.dialogs.folder_picker import FolderPicker

        text = "Another folder or file to read. It stays where it is."
        self.app.push_screen(FolderPicker("Add a folder", text, "Add"), self._added)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.take_dropped(event.text)

    @work(exclusive=True, group="dropped")
    async def take_dropped(self, text: str) -> None:
        path = await asyncio.to_thread(dropped_path, text)
        if path is not None and self.is_attached:
            self._added(path)

    def _added(self, path: Path | None) -> None:
        if path is not None and self.corpus is not None and str(path) not in self.corpus.paths:
            self._change(
                {"corpus.paths": [*self.corpus.paths, str(path)]}, self.query_one(FolderTree).focus
            )

    def action_remove(self) -> None:
        """Read a folder no longer: the one that the tree's cursor is in."""
        tree = self.query_one(FolderTree)
        number = tree.root_number()
        if self.corpus is None or number is None or number >= len(self.corpus.paths):
            self.notify("There is no folder to remove.", markup=False)
            return
        paths = list(self.corpus.paths)
        what = (
            f"This project stops reading {paths.pop(number)}. The folder itself is not changed.\n"
        )
        self._change({"corpus.paths": paths}, tree.focus, what)

    # Reading

    def action_primary(self) -> None:
        if self.is_reading():
            self.notify("The documents are being read.", markup=False)
        elif self.is_read():
            self.host.go("model")
        else:
            self.read()

    def action_stop(self) -> None:
        self.host.control("cancel")

    @on(Button.Pressed, "#retry")
    def action_retry(self) -> None:
        if not self.is_reading():
            self.read(anew=True)

    def read(self, *, anew: bool = False) -> None:
        """Start reading, with the patterns that were typed.

        `anew`: also those that could not be read and did not change.
        """
        if self._is_changed():
            self.keep(partial(self._start, anew))
        else:
            self._start(anew)

    @work(exclusive=True, group="reading")
    async def _start(self, anew: bool) -> None:
        self._starting = True
        self.draw()
        try:
            if anew:
                await self.ask(Retry())
            self.host.make_searchable()
        except EngineError as error:
            self.host.show_error(error)
        finally:
            self._starting = False
            self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("again", "retry") and self.is_reading():
            return False
        return super().check_action(action, parameters) and (
            action != "retry" or bool(self._unread.known)
        )

    def action_again(self) -> None:
        if not self.is_reading():
            self.read()
