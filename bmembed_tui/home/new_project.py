"""A new project: which documents, how it is called, where it is kept, how thoroughly it is
trained.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.dialogs.confirmations import ask
from bmembed_tui.dialogs.folder_picker import roots
from bmembed_tui.home.here import suggested_name
from bmembed_tui.widgets.fields import Field, PathField
from bmembed_tui.widgets.folder_tree import FolderTree
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeOptions, SafeStatic
from engine.core.errors import EngineError, InputError, UsageError, reason_of
from engine.project.folder import ProjectFolder, locate, projects_root

PRESETS = {
    "standard": "the best search; takes minutes to hours",
    "quick": "a first look in minutes; gains less",
    "paper": "BMEmbed as published, for comparison; seldom the best",
    "cl": "contrastive learning, the baseline of that paper, for comparison",
    "mafin": "for a small model beside one that cannot be trained",
    "pipelines": "for the study of noise in queries, for comparison",
}
OFFERED = ("standard", "quick")  # of these; the step Encoder has all
CHECK_SECONDS = 0.15  # of quiet typing before what was typed is checked


@dataclass(frozen=True)
class Wanted:
    """What is to be made. Raises nothing; `check` and `create` do."""

    documents: Path | None
    typed: str
    name: str
    kept_in: Path | None
    preset: str

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        return {"corpus": {"paths": [str(self.documents)]}, "training": {"preset": self.preset}}

    def place(self) -> Path:
        """The project's folder. Raises UsageError for a name that cannot be one."""
        if not self.name:
            raise UsageError(
                "The project has no name yet.",
                "",
                "Type one, or choose the documents first.",
                code="project-name-invalid",
            )
        named = locate(self.name)
        if named.parent != projects_root() or self.kept_in is None:  # a path was typed as name
            return named
        return self.kept_in / self.name

    def check_documents(self) -> None:
        """Raises InputError where nothing can be read."""
        if not self.typed:
            raise InputError(
                "No documents are chosen yet.",
                "",
                "Type a folder, or pick one in the tree.",
                code="documents-not-chosen",
            )
        if any("\ud800" <= char <= "\udfff" for char in str(self.documents)):
            why = "It has bytes that are not text, which project.toml cannot store."
            raise InputError(
                "The folder's name cannot be stored.", why, "Rename it.", code="text-not-storable"
            )
        try:
            if self.documents is None or not self.documents.exists():
                what = f"{self.documents or self.typed} does not exist."
                raise InputError(
                    what,
                    "The project would have no documents there.",
                    "Check the path.",
                    code="path-missing",
                )
            if self.documents.is_dir():
                os.scandir(self.documents).close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"{self.typed} cannot be read.",
                f"{why}.",
                "Choose another folder.",
                code="file-access",
            ) from None

    def create(self) -> ProjectFolder:
        self.check_documents()
        return ProjectFolder.create(self.place(), self.chosen)

    def problems(self) -> tuple[EngineError | None, EngineError | None]:
        return _caught(self.check_documents), _caught(
            lambda: ProjectFolder.check_new(self.place(), self.chosen)
        )


def _caught(check: Any) -> EngineError | None:
    try:
        check()
    except EngineError as error:
        return error
    except (OSError, ValueError) as error:
        what = "This folder cannot be used."
        to_do = "Choose another one."
        return UsageError(what, reason_of(error), to_do, code="project-folder-invalid")
    return None


class NewProjectScreen(Screen[str | None]):
    """Closes with the path of the new project, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "back", id="new.back")]
    HELP = """Documents: the folder to search, with PDFs, office files, mails, notes and more. They stay where they are. \
Tab completes a path; the tree below picks one with Enter or a click; in a window, "Browse …" opens the system's dialog.
Name: what the project is called; it is also a folder's name.
Kept in: where the project's folder is made. It holds the index, the adapted encoder and the reports.
Training: everything can be changed later, in the steps and in the settings.
Enter goes from field to field; on the last one it makes the project."""  # noqa: E501

    def __init__(self, documents: Path | None = None) -> None:
        super().__init__()
        self._first = documents
        self._suggested = ""
        self._picked = False
        self._typing = False  # a path that is half typed is no mistake
        self.problems: tuple[EngineError | None, EngineError | None] = (None, None)
        """What stands against the documents, and against the place."""

    def compose(self) -> ComposeResult:
        with Vertical(id="new-project"):
            yield SafeStatic("New project", classes="dialog-title")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Documents")
                yield PathField(
                    placeholder="the folder with your documents: Tab completes",
                    files=True,
                    id="new-documents",
                )
                if self.app.is_web:  # in a window: what the system offers
                    yield SafeButton("Browse …", id="browse", action="screen.browse")
            yield SafeStatic("", id="new-documents-note", classes="new-note")
            yield FolderTree(id="new-tree")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Name")
                yield Field(placeholder="a short name", id="new-name")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Kept in")
                yield PathField(str(projects_root()), id="new-place")
            yield SafeStatic("", id="new-place-note", classes="new-note")
            with Horizontal(classes="new-row", id="new-training"):
                yield SafeLabel("Training")
                yield SafeOptions(id="new-preset")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Create", id="create", variant="primary", action="screen.create")
                yield SafeButton("Cancel", id="cancel", action="screen.close")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(FolderTree).show_roots(roots())
        self._draw_presets()
        field = self.query_one("#new-documents", PathField)
        field.focus()
        if self._first is not None:
            field.pick(self._first)

    @on(OptionList.OptionHighlighted, "#new-preset")
    def _draw_presets(self) -> None:
        options = self.query_one("#new-preset", SafeOptions)
        at = options.highlighted or 0
        with self.prevent(OptionList.OptionHighlighted):
            options.show(
                [(name, _preset(name, number == at)) for number, name in enumerate(OFFERED)]
            )

    def wanted(self) -> Wanted:
        documents = self.query_one("#new-documents", PathField)
        number = self.query_one("#new-preset", SafeOptions).highlighted or 0
        return Wanted(
            documents.path,
            documents.value.strip(),
            self.query_one("#new-name", Field).value.strip(),
            self.query_one("#new-place", PathField).path,
            OFFERED[number],
        )

    @property
    def _is_shown(self) -> bool:
        return self.is_attached and not self._pruning

    # Typing

    @on(FolderTree.Picked)
    def _pick(self, event: FolderTree.Picked) -> None:
        event.stop()
        self._picked = True
        self.query_one("#new-documents", PathField).pick(event.path)

    @on(FolderTree.Typed)
    def _typed_in_tree(self, event: FolderTree.Typed) -> None:
        self.query_one("#new-documents", PathField).type_on(event.character)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.id == "new-documents":
            self._typing = event.input.has_focus
            self._suggest_name()
        self.check()

    def _suggest_name(self) -> None:
        name = self.query_one("#new-name", Field)
        path = self.query_one("#new-documents", PathField).path
        if path is not None and name.value in ("", self._suggested):
            self._suggested = suggested_name(path)
            name.value = self._suggested

    def on_descendant_blur(self) -> None:
        self._typing = False
        self.check()

    @work(exclusive=True, group="check")
    async def check(self) -> None:
        """Say what is wrong, with the engine's own words; show what the folder holds."""
        await asyncio.sleep(CHECK_SECONDS)
        if not self._is_shown:
            return
        wanted = self.wanted()
        self.problems = documents, place = await asyncio.to_thread(wanted.problems)
        if not self._is_shown:
            return
        self._show_problem(
            "#new-documents-note", documents if wanted.typed and not self._typing else None
        )
        shown = place if wanted.name else None
        self._show_problem(
            "#new-place-note", shown, "" if place else f"Its folder will be {wanted.place()}"
        )
        if documents is None and not self._picked and wanted.documents is not None:
            if wanted.documents.is_dir():
                folder = wanted.documents
            else:
                folder = wanted.documents.parent
            self.query_one(FolderTree).show_roots(roots(folder))
        self._picked = False

    def _show_problem(self, where: str, error: EngineError | None, otherwise: str = "") -> None:
        if error is None:
            self.query_one(where, SafeStatic).update(plain(otherwise, "$text-muted"))
            return
        parts = " ".join(part for part in (error.what, error.why, error.to_do) if part)
        self.query_one(where, SafeStatic).update(plain(f"✗ {parts}", "$text-error"))

    # Making

    @on(Input.Submitted)
    def _next_field(self, event: Input.Submitted) -> None:
        event.stop()
        order = ["new-documents", "new-name", "new-place", "new-preset"]
        self.query_one(f"#{order[order.index(str(event.input.id)) + 1]}").focus()

    def action_browse(self) -> None:
        self.query_one("#new-documents", PathField).browse()

    @on(OptionList.OptionSelected, "#new-preset")
    @work(exclusive=True, group="check")
    async def action_create(self) -> None:
        wanted = self.wanted()
        self.problems = documents, place = await asyncio.to_thread(wanted.problems)
        try:
            if documents or place:
                raise documents or place or UsageError("")
            project = await asyncio.to_thread(wanted.create)
        except EngineError as error:
            if self._is_shown:
                where = "documents" if error is documents else "place"
                self._show_problem(f"#new-{where}-note", error)
                self.query_one("#new-documents" if error is documents else "#new-name").focus()
            return
        if self.is_active:
            self.dismiss(str(project.path))

    def action_close(self) -> None:
        wanted = self.wanted()
        if not (wanted.typed or wanted.name):
            self.dismiss(None)
            return
        answers = (("stay", "Keep editing"), ("leave", "Discard"))
        ask(
            self.app,
            "Discard this project?",
            "What you typed would be lost.",
            answers,
            leave=lambda: self.dismiss(None),
        )


def _preset(name: str, is_chosen: bool) -> Content:
    mark = plain("● " if is_chosen else "○ ")
    return Content.assemble(
        mark, plain(f"{name:<9}", "bold"), plain(f" {PRESETS[name]}", "$text-muted")
    )
