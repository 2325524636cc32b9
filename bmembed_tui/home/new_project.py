"""The screen for a new project: its documents, name, folder and training preset."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.dialogs.confirmations import ask
from bmembed_tui.dialogs.folder_picker import list_roots
from bmembed_tui.home.here import suggest_name
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
    "mafin": "for a small model that helps one that cannot be trained",
    "pipelines": "for the study of noise in queries, for comparison",
}
OFFERED_PRESETS = ("standard", "quick")  # the step Encoder has all
CHECK_SECONDS = 0.15  # pause in typing after which the fields are checked


class Problems(NamedTuple):
    """What is wrong with the documents, and with the project's folder."""

    documents: EngineError | None = None
    folder: EngineError | None = None


@dataclass(frozen=True)
class NewProject:
    """A project to create, as the screen's fields describe it.

    The values may be invalid: `check_documents`, `find_folder` and `create` raise errors.
    """

    documents: Path | None  # the absolute path that `typed` stands for
    typed: str  # the text of the documents' field
    name: str  # or the path of the project's folder
    parent: Path | None  # the folder for the project's folder
    preset: str

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        return {"corpus": {"paths": [str(self.documents)]}, "training": {"preset": self.preset}}

    def find_folder(self) -> Path:
        """Return the project's folder. Raises UsageError for an invalid name."""
        if not self.name:
            raise UsageError(
                "The project has no name yet.",
                "",
                "Type one, or choose the documents first.",
                code="project-name-invalid",
            )
        folder = locate(self.name)
        is_path = folder.parent != projects_root()  # a path was typed as the name
        if is_path or self.parent is None:
            return folder
        return self.parent / self.name

    def check_documents(self) -> None:
        """Raise InputError where the documents cannot be read."""
        if not self.typed:
            raise InputError(
                "No documents are chosen yet.",
                "",
                "Type a folder, or pick one in the tree.",
                code="documents-not-chosen",
            )
        # Python writes a byte of a name that is not UTF-8 as a lone surrogate.
        if any("\ud800" <= char <= "\udfff" for char in str(self.documents)):
            why = "It has bytes that are not text, which project.toml cannot store."
            raise InputError(
                "The folder's name cannot be stored.", why, "Rename it.", code="text-not-storable"
            )
        try:
            if self.documents is None or not self.documents.exists():
                raise InputError(
                    f"{self.documents or self.typed} does not exist.",
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
        return ProjectFolder.create(self.find_folder(), self.settings)

    def find_problems(self) -> Problems:
        """Check the documents and the folder; return the errors instead of raising them."""
        return Problems(
            _catch_error(self.check_documents),
            _catch_error(lambda: ProjectFolder.check_new(self.find_folder(), self.settings)),
        )


def _catch_error(check: Callable[[], object]) -> EngineError | None:
    """Return the error that a check raises, as an EngineError."""
    try:
        check()
    except EngineError as error:
        return error
    except (OSError, ValueError) as error:
        return UsageError(
            "This folder cannot be used.",
            reason_of(error),
            "Choose another one.",
            code="project-folder-invalid",
        )
    return None


class NewProjectScreen(Screen[str | None]):
    """Asks for a new project; closes with its path, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "back", id="new.back")]
    HELP_NAME = "new-project"

    def __init__(self, documents: Path | None = None) -> None:
        super().__init__()
        self._first_documents = documents
        self._suggested_name = ""
        self._is_picked = False  # whether the documents were picked in the tree, which then stays
        self._is_typing = False  # whether a path may be half typed, and is not yet called wrong
        self.problems = Problems()

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
                if self.app.is_web:  # in a window, the system has a dialog
                    yield SafeButton(
                        "Browse …",
                        id="browse",
                        action="screen.browse",
                    )
            yield SafeStatic(
                "",
                id="new-documents-note",
                classes="new-note",
            )
            yield FolderTree(id="new-tree")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Name")
                yield Field(placeholder="a short name", id="new-name")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Kept in")
                yield PathField(str(projects_root()), id="new-place")
            yield SafeStatic(
                "",
                id="new-place-note",
                classes="new-note",
            )
            with Horizontal(classes="new-row", id="new-training"):
                yield SafeLabel("Training")
                yield SafeOptions(id="new-preset")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Create",
                    id="create",
                    variant="primary",
                    action="screen.create",
                )
                yield SafeButton(
                    "Cancel",
                    id="cancel",
                    action="screen.close",
                )
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(FolderTree).show_roots(list_roots())
        self._draw_presets()
        field = self.query_one("#new-documents", PathField)
        field.focus()
        if self._first_documents is not None:
            field.pick(self._first_documents)

    @on(OptionList.OptionHighlighted, "#new-preset")
    def _draw_presets(self) -> None:
        """Draw the presets, with a ● at the highlighted one."""
        options = self.query_one("#new-preset", SafeOptions)
        chosen = OFFERED_PRESETS[options.highlighted or 0]
        lines = [(name, _format_preset(name, name == chosen)) for name in OFFERED_PRESETS]
        with self.prevent(OptionList.OptionHighlighted):
            options.show(lines)

    def read_fields(self) -> NewProject:
        """Return the project that the fields describe."""
        documents = self.query_one("#new-documents", PathField)
        number = self.query_one("#new-preset", SafeOptions).highlighted or 0
        return NewProject(
            documents=documents.path,
            typed=documents.value.strip(),
            name=self.query_one("#new-name", Field).value.strip(),
            parent=self.query_one("#new-place", PathField).path,
            preset=OFFERED_PRESETS[number],
        )

    @property
    def _is_shown(self) -> bool:
        """Whether all widgets are mounted: those of a closing screen are removed one by one."""
        return self.is_attached and not self._pruning

    # Typing

    @on(FolderTree.Picked)
    def _pick(self, event: FolderTree.Picked) -> None:
        event.stop()
        self._is_picked = True
        self.query_one("#new-documents", PathField).pick(event.path)

    @on(FolderTree.Typed)
    def _take_typed(self, event: FolderTree.Typed) -> None:
        self.query_one("#new-documents", PathField).type_on(event.character)

    @on(Input.Changed)
    def _check_changed(self, event: Input.Changed) -> None:
        """Check the fields after a change, and suggest a name for other documents."""
        event.stop()
        if event.input.id == "new-documents":
            self._is_typing = event.input.has_focus
            self._suggest_name()
        self.check()

    def _suggest_name(self) -> None:
        """Fill in a name for the documents, unless the user has typed another one."""
        name = self.query_one("#new-name", Field)
        path = self.query_one("#new-documents", PathField).path
        if path is not None and name.value in ("", self._suggested_name):
            self._suggested_name = suggest_name(path)
            name.value = self._suggested_name

    def on_descendant_blur(self) -> None:
        self._is_typing = False
        self.check()

    @work(exclusive=True, group="check")
    async def check(self) -> None:
        """Show what is wrong, in the engine's words, and list the documents' folder in the tree."""
        await asyncio.sleep(CHECK_SECONDS)
        if not self._is_shown:
            return
        new_project = self.read_fields()
        self.problems = await asyncio.to_thread(new_project.find_problems)
        if not self._is_shown:
            return
        problems = self.problems
        is_typed = bool(new_project.typed) and not self._is_typing
        self._show_problem("#new-documents-note", problems.documents if is_typed else None)
        if problems.folder is None:
            note = f"Its folder will be {new_project.find_folder()}"
            self._show_problem("#new-place-note", None, note)
        else:
            self._show_problem("#new-place-note", problems.folder if new_project.name else None)
        documents = new_project.documents
        if problems.documents is None and not self._is_picked and documents is not None:
            folder = documents if documents.is_dir() else documents.parent
            self.query_one(FolderTree).show_roots(list_roots(folder))
        self._is_picked = False

    def _show_problem(
        self,
        selector: str,
        error: EngineError | None,
        note: str = "",
    ) -> None:
        """Show an error in the line that `selector` names, or `note` if there is none."""
        if error is None:
            self.query_one(selector, SafeStatic).update(plain(note, "$text-muted"))
            return
        text = " ".join(filter(None, (error.what, error.why, error.to_do)))
        self.query_one(selector, SafeStatic).update(plain(f"✗ {text}", "$text-error"))

    # Creating

    @on(Input.Submitted)
    def _go_to_next_field(self, event: Input.Submitted) -> None:
        event.stop()
        order = ["new-documents", "new-name", "new-place", "new-preset"]
        self.query_one(f"#{order[order.index(str(event.input.id)) + 1]}").focus()

    def action_browse(self) -> None:
        self.query_one("#new-documents", PathField).browse()

    @on(OptionList.OptionSelected, "#new-preset")
    @work(exclusive=True, group="check")
    async def action_create(self) -> None:
        new_project = self.read_fields()
        self.problems = await asyncio.to_thread(new_project.find_problems)
        problem = self.problems.documents or self.problems.folder
        if problem is None:
            try:
                project = await asyncio.to_thread(new_project.create)
            except EngineError as error:
                problem = error
        if problem is not None:
            if self._is_shown and problem is self.problems.documents:
                self._show_problem("#new-documents-note", problem)
                self.query_one("#new-documents").focus()
            elif self._is_shown:
                self._show_problem("#new-place-note", problem)
                self.query_one("#new-name").focus()
            return
        if self.is_active:
            self.dismiss(str(project.path))

    def action_close(self) -> None:
        new_project = self.read_fields()
        is_first = new_project.documents == self._first_documents is not None
        is_documents_typed = bool(new_project.typed) and not is_first
        is_name_typed = new_project.name not in ("", self._suggested_name)
        if not (is_documents_typed or is_name_typed):
            self.dismiss(None)
            return
        ask(
            self.app,
            "Discard this project?",
            "What you typed would be lost.",
            (("stay", "Keep editing"), ("leave", "Discard")),
            leave=lambda: self.dismiss(None),
        )


def _format_preset(name: str, is_chosen: bool) -> Content:
    """Return the line of a preset, with a ● if it is chosen."""
    return Content.assemble(
        plain("● " if is_chosen else "○ "),
        plain(f"{name:<9}", "bold"),
        plain(f" {PRESETS[name]}", "$text-muted"),
    )
