"""Removing a project: the question, and a report on what was removed and what may remain."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen

from bmembed_tui.client.engine_client import parse_answer, run_detached_command
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import Purged
from engine.project.folder import ProjectFolder

REMOVE = "remove"


def build_removal_question(project: ProjectFolder) -> QuestionDialog:
    """Return a dialog that closes with `REMOVE` if the user wants to remove the project."""
    text = (
        f"{project.path}\nThe index, the adapted encoder, queries, judgments, reports and settings"
        " are deleted for good. Your documents and your exports stay."
    )
    return QuestionDialog(
        f"Remove the project {project.name}?", text, [("keep", "Keep it"), (REMOVE, "Remove it")]
    )


class RemovalScreen(ModalScreen[bool]):
    """Removes a project and shows the outcome; closes with whether it is gone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", id="dialog.close-removal")
    ]

    def __init__(self, project: ProjectFolder) -> None:
        super().__init__()
        self._project = project
        self.outcome: Purged | EngineError | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield SafeStatic(
                f"Removing {self._project.name} …", classes="dialog-title", id="removal-title"
            )
            with VerticalScroll(classes="dialog-body", id="removal-body"):
                yield SafeStatic("", id="removal-outcome")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Close",
                    id="close",
                    variant="primary",
                    action="screen.close",
                )

    def on_mount(self) -> None:
        self.remove_project()

    @work(exclusive=True, group="removal")
    async def remove_project(self) -> None:
        """Remove the project with `engine purge`, and show the outcome."""
        try:
            output = await run_detached_command(
                "purge",
                str(self._project.path),
                "--yes",
                "--json",
            )
            self.outcome = parse_answer(Purged, output)
            title = f"{self._project.name} is removed."
            text = plain("\n".join(self.outcome.lines()), lines=True)
        except EngineError as error:
            self.outcome = error
            title = f"{self._project.name} was not removed."
            text = format_error(error)
        if self.is_attached:
            self.query_one("#removal-title", SafeStatic).update(title)
            self.query_one("#removal-outcome", SafeStatic).update(text)
            self.query_one("#removal-body").focus()

    def action_close(self) -> None:
        if self.outcome is not None:
            self.dismiss(isinstance(self.outcome, Purged))
