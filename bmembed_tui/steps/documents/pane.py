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
from bmembed_tui.widgets.dropped import find_dropped_path
from bmembed_tui.widgets.fields import PatternField
from bmembed_tui.widgets.folder_tree import FolderTree
from engine.core.errors import EngineError
from engine.core.messages.documents import ReadSkipped, Retry, Scan
from engine.core.messages.project import ProjectStatus
from engine.settings.schema import CorpusSettings

if TYPE_CHECKING:
    from engine.settings.schema import Settings

QUIET_SECONDS = 0.3  # pause in typing after which the files are counted again


class DocumentsPane(DocumentsView):
    """Counts the files while the user types, saves changes, and has the documents read."""

    step = "documents"
    title = "Documents"
    lead = (
        "Which files are searched. They are only read: nothing is changed, and nothing leaves this"
        " machine."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", "try unreadable files again", id="documents.retry", show=False),
        Binding("a", "add", "add a folder", id="documents.add"),
        Binding("x", "remove", "remove a folder", id="documents.remove", show=False),
    ]

    # Status and settings

    def enter(self) -> None:
        # The parent's width, since the pane's own is not known while it is hidden.
        self.set_class(cast(Widget, self.parent).size.width >= WIDE, "wide")
        super().enter()
        self.scanned = None
        self.load()

    def show_status(self, status: ProjectStatus) -> None:
        self.draw()
        if self.display and self.host.pane is self:
            if not self.host.is_busy:
                self.scanned = None  # count the files again after a run
            self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        """Read the settings and the list of unread files, and draw both."""
        try:
            settings = await asyncio.to_thread(self.host.project.settings)
            self._settings_error = None
            self._show_settings(settings)
            if self.host.status.built("ingest"):
                self._unread = await self.ask(ReadSkipped())
        except EngineError as error:
            self._settings_error = error
        if self.is_attached:
            self._draw_skipped()
            self.draw()

    def _show_settings(self, settings: Settings) -> None:
        """Show the folders and patterns of the settings that have changed."""
        if not self.is_attached:
            return
        former_corpus = self.corpus
        corpus = settings.corpus
        self.corpus = corpus
        if former_corpus is None or former_corpus.paths != corpus.paths:
            full_paths = self.host.project.sources(settings)
            self.query_one(FolderTree).show_roots(list(zip(corpus.paths, full_paths, strict=True)))
        for name in ("include", "exclude"):
            if former_corpus is None or getattr(former_corpus, name) != getattr(corpus, name):
                self.query_one(f"#{name}", PatternField).show(getattr(corpus, name))
        self._count()

    # Counting

    @on(Input.Changed, "PatternField")
    def _count_again(self) -> None:
        self._count()

    def _count(self) -> None:
        """Count the files that the folders and patterns on the screen select."""
        if self.corpus is None:
            return
        include = self.query_one("#include", PatternField).patterns
        exclude = self.query_one("#exclude", PatternField).patterns
        self._wanted_scan = Scan(
            tuple(self.corpus.paths), tuple(include or CorpusSettings().include), tuple(exclude)
        )
        self._draw_note()
        if not self._is_scanning and self._wanted_scan != self.scanned:
            self.scan()

    @work(group="scan")
    async def scan(self) -> None:
        """Count the files, and again if the patterns have changed meanwhile."""
        self._is_scanning = True
        try:
            while self._wanted_scan != self.scanned and self._wanted_scan is not None:
                request = self._wanted_scan
                await asyncio.sleep(QUIET_SECONDS if self.scanned else 0)
                if request == self._wanted_scan:
                    await self._scan_once(request)
        finally:
            self._is_scanning = False

    async def _scan_once(self, request: Scan) -> None:
        """Count the files that `request` selects, and draw the counts or the error."""
        try:
            self._counts = await self.ask(request)
            self._scan_error = None
        except EngineError as error:
            self._counts = None
            self._scan_error = error
        self.scanned = request
        if not self.is_attached:
            return
        self._draw_formats()
        self._draw_skipped()
        self._draw_note()
        self.draw()

    # Changing

    @on(Input.Submitted, "PatternField")
    def _submit_patterns(self) -> None:
        """Save changed patterns; without a change, go to the first button."""
        if self._is_changed():
            self.save()
        else:
            self.focus_primary()

    def save(self, then: Callable[[], object] | None = None) -> None:
        """Save the patterns. `then`: called once they are saved."""
        if self._scan_error is not None and self.scanned == self._wanted_scan:
            self.host.show_error(self._scan_error)
            return
        fields = [field for field in self.query(PatternField) if field.is_changed]
        self._change(
            {f"corpus.{field.id}": field.patterns or None for field in fields},
            then or self.focus_primary,
        )

    def _change(
        self, changes: dict[str, Any], then: Callable[[], object], explanation: str = ""
    ) -> None:
        self.query_one(ChangeLine).propose(changes, explanation, then)

    @on(ChangeLine.Written)
    def _finish_change(self, event: ChangeLine.Written) -> None:
        self.host.load()
        if event.then:
            event.then()

    def leave(self) -> None:
        self.query_one(ChangeLine).clear()

    def action_add(self) -> None:
        from bmembed_tui.dialogs.folder_picker import FolderPicker

        text = "Another folder or file to read. It stays where it is."
        self.app.push_screen(FolderPicker("Add a folder", text, "Add"), self._add_path)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.take_dropped(event.text)

    @work(exclusive=True, group="dropped")
    async def take_dropped(self, text: str) -> None:
        path = await asyncio.to_thread(find_dropped_path, text)
        if path is not None and self.is_attached:
            self._add_path(path)

    def _add_path(self, path: Path | None) -> None:
        if path is not None and self.corpus is not None and str(path) not in self.corpus.paths:
            paths = [*self.corpus.paths, str(path)]
            self._change({"corpus.paths": paths}, self.query_one(FolderTree).focus)

    def action_remove(self) -> None:
        """Stop reading the folder that contains the tree's cursor."""
        tree = self.query_one(FolderTree)
        number = tree.root_number()
        if self.corpus is None or number is None or number >= len(self.corpus.paths):
            self.notify("There is no folder to remove.", markup=False)
            return
        paths = list(self.corpus.paths)
        removed = paths.pop(number)
        explanation = f"This project stops reading {removed}. The folder itself is not changed.\n"
        self._change(
            {"corpus.paths": paths},
            tree.focus,
            explanation,
        )

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
            self.read(retry=True)

    def read(self, *, retry: bool = False) -> None:
        """Read the documents, with the patterns that were typed.

        `retry`: also read unchanged files that could not be read before.
        """
        if self._is_changed():
            self.save(partial(self._start, retry))
        else:
            self._start(retry)

    @work(exclusive=True, group="reading")
    async def _start(self, retry: bool) -> None:
        """Start a run that reads the documents. `retry`: also those that failed before."""
        self._is_starting = True
        self.draw()
        try:
            if retry:
                await self.ask(Retry())
            self.host.make_searchable()
        except EngineError as error:
            self.host.show_error(error)
        finally:
            self._is_starting = False
            self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("again", "retry") and self.is_reading():
            return False
        if action == "retry" and not self._unread.retryable:
            return False
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        if not self.is_reading():
            self.read()
