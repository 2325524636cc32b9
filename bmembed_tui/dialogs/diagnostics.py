"""Facts for a bug report: the app, the terminal, the machine, the project's state.

No document text, no queries.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import TextArea

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine import __version__
from engine.core.errors import EngineError
from engine.core.messages.project import Finding, ProjectStatus
from engine.core.text import visible

TERMINAL = (
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TMUX",
    "NO_COLOR",
    "LANG",
    "LC_ALL",
)
DOCTOR_CODES = (0, 3)  # exit codes of `engine doctor` without and with problems
NOTE = "Errors and paths may contain file and folder names: read this before you send it."


class DiagnosticsScreen(ModalScreen[None]):
    """The facts as text, to read and to copy.

    `status`: the status of the open project, if there is one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f12", "dismiss", "close", id="dialog.close-diagnostics"),
        Binding("c", "copy", "copy", id="dialog.copy-diagnostics"),
    ]

    def __init__(self, status: ProjectStatus | None = None, run: RunState | None = None) -> None:
        super().__init__()
        self._status = status
        self._run = run or RunState()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog diagnostics-dialog"):
            yield SafeStatic("Diagnostics", classes="dialog-title")
            yield SafeStatic(NOTE)
            yield TextArea(
                "looking …",
                read_only=True,
                id="diagnostics",
            )
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Copy",
                    id="copy",
                    variant="primary",
                    action="screen.copy",
                )
                yield SafeButton(
                    "Close",
                    id="close",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self._show(["looking at the machine …"])
        self.query_one("#copy").focus()
        self.examine()

    @work(exclusive=True)
    async def examine(self) -> None:
        """Show what `engine doctor` finds."""
        arguments = [self._status.project] if self._status else []
        try:
            output = await run_command(
                "doctor",
                *arguments,
                "--json",
                good=DOCTOR_CODES,
            )
            findings = parse_answer(tuple[Finding, ...], output)
            lines = [
                f"{finding.state:<8} {finding.topic}: {finding.found} ({finding.follows})"
                for finding in findings
            ]
        except EngineError as error:
            lines = [f"engine doctor failed: {error}"]
        if self.is_attached:
            self._show(lines)

    def _show(self, machine: Iterable[str]) -> None:
        """Show all facts. `machine`: the lines on the machine."""
        parts = [
            _format_part("App", self._list_app_facts()),
            _format_part("Project", list_project_facts(self._status, self._run)),
            _format_part("Machine", machine),
        ]
        self.query_one(TextArea).load_text(visible("\n\n".join(parts), lines=True))

    def _list_app_facts(self) -> list[str]:
        """Return lines on versions, the system, the terminal and its environment variables."""
        size = self.app.size
        python = platform.python_version()
        ssh = "yes" if "SSH_CONNECTION" in os.environ else "no"
        return [
            f"bmembed {__version__}, textual {version('textual')}, Python {python}",
            f"{platform.platform()}; terminal {size.width}x{size.height}; theme {self.app.theme}",
            *(f"{name}={os.environ[name]}" for name in TERMINAL if name in os.environ),
            f"SSH: {ssh}",
        ]

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.query_one(TextArea).text)
        self.notify("Copied.", markup=False)


def list_project_facts(status: ProjectStatus | None, run: RunState) -> list[str]:
    """Return a line on each stage of the project and each choice of its newest run."""
    if status is None:
        return ["none is open"]
    counts = ", ".join(f"{name}: {count}" for name, count in status.counts.items())
    lines = [f"{status.project}; {counts}"]
    lines += [f"{stage.stage}: {stage.state} ({stage.reason})" for stage in status.stages]
    lines.append(f"run {run.run or 'none'}: {run.state}; going on: {status.running}")
    for stage_run in run.stages.values():
        for choice in stage_run.choices.values():
            lines.append(f"  {choice.stage}/{choice.setting}: {choice.value} ({choice.reason})")
    errors = filter(None, (run.error, status.problem))
    return lines + [f"  error: {_format_error_line(error)}" for error in errors]


def _format_part(title: str, lines: Iterable[str]) -> str:
    return f"{title}\n" + "\n".join(f"  {line}" for line in lines)


def _format_error_line(error: EngineError) -> str:
    parts = error.as_dict()
    return " | ".join(parts[name] for name in ("type", "what", "why", "to_do"))
