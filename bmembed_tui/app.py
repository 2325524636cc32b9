"""The application: its themes, its keys, and how it opens screens and projects."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.theme import Theme
from textual.widgets import Input

from bmembed_tui.dialogs.confirmations import QuestionDialog, ask
from bmembed_tui.garbage import PAUSE_SECONDS, IdleCollector
from bmembed_tui.home.screen import HomeScreen
from bmembed_tui.theme import read_theme, save_theme
from engine.core.errors import EngineError
from engine.core.platforms.stopping import TERMINAL_LOST, notice_closing
from engine.core.text import visible

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.widget import Widget

    from bmembed_tui.client.engine_client import EngineClient
    from bmembed_tui.project.screen import Then
    from engine.core.messages.search import Hit
    from engine.project.folder import ProjectFolder

LEAVE_SECONDS = 8.0  # for the app to leave after a signal, before its process is ended
# Keys that nobody types as text, such as f2 and ctrl+r.
COMMAND_KEY = re.compile(r"f\d+|ctrl\+.+")
DARK = Theme(
    name="bmembed-dark",
    primary="#5fa8d3",
    secondary="#88b04b",
    accent="#f0b429",
    foreground="#e4e7eb",
    background="#12181f",
    surface="#18212b",
    panel="#202c38",
    success="#7bc47f",
    warning="#f0b429",
    error="#ef6a6a",
    dark=True,
)
LIGHT = Theme(
    name="bmembed-light",
    primary="#1f6f9f",
    secondary="#4d7a1d",
    accent="#9a5b00",
    foreground="#1a222b",
    background="#f7f8fa",
    surface="#eef1f4",
    panel="#e1e7ed",
    success="#2c7a33",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
)


def _get_command_provider() -> type[Provider]:
    """Import the palette's commands, which are needed only once it is opened."""
    from bmembed_tui.palette import Commands

    return Commands


class BmembedApp(App[None]):
    """bmembed in a terminal.

    `project`: a project's name or path to open at once. `early_engine`: an engine that was started
    ahead for the project that will probably be opened.
    """

    TITLE = "bmembed"
    CSS_PATH = Path(__file__).parent / "styles" / "app.tcss"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    COMMANDS: ClassVar[set[Any]] = {_get_command_provider}
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [  # noqa: RUF012
        (0, "-short"),
        (30, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "quit", id="app.quit", priority=True),
        Binding("question_mark,f1", "help", "help", id="app.help"),
        Binding("f12", "diagnostics", "diagnostics", show=False, id="app.diagnostics"),
        Binding("ctrl+o", "jump", "jump", show=False, id="app.jump"),
        Binding("ctrl+t", "switch_theme", "light/dark", show=False, id="app.theme", priority=True),
    ]

    def __init__(
        self, project: str | None = None, early_engine: EngineClient | None = None
    ) -> None:
        super().__init__()
        self._project_to_open = project
        self._early_engine = early_engine
        self.collector = IdleCollector()
        self.keys_pressed = 0  # tells ChangeLine whether the user has typed meanwhile
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        saved_theme = read_theme()
        if saved_theme in (DARK.name, LIGHT.name):
            self.theme = saved_theme
        elif _has_light_background():
            self.theme = LIGHT.name
        else:
            self.theme = DARK.name

    def get_default_screen(self) -> HomeScreen:
        return HomeScreen(self._project_to_open)

    def on_mount(self) -> None:
        """Load the user's key map once the first screen is painted, and start background tasks."""
        self.call_after_refresh(self._load_keymap)
        self.set_interval(PAUSE_SECONDS, self.collector.collect_if_idle)
        self.theme_changed_signal.subscribe(self, self._colour_window)
        self._colour_window(self.current_theme)
        if not self.is_headless:
            leave_on_signals(self.exit)

    async def on_unmount(self) -> None:
        self.collector.close()
        await self.end_early_engine()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self.collector.note_input()
            if isinstance(event, events.Key):
                self.keys_pressed += 1
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Handle a key that no widget took, before bindings are looked up.

        Such keys arrive here in the order in which they were pressed.
        """
        take_late_key = getattr(
            self.screen,
            "take_late_key",
            None,
        )
        if take_late_key is not None and take_late_key(event):
            event.stop()
            event.prevent_default()
        elif event.is_printable and event.character and isinstance(self.focused, Input):
            # The key was pressed before the field had the focus.
            self.focused.insert_text_at_cursor(event.character)
            event.stop()
            event.prevent_default()
        elif COMMAND_KEY.fullmatch(event.key) and event.key not in self.screen.active_bindings:
            self._explain_dead_key(event.key)

    def _explain_dead_key(self, key: str) -> None:
        """Notify the user when a key works only on a screen below the current one."""
        from bmembed_tui.dialogs.help import format_key

        if any(key in screen.active_bindings for screen in self.screen_stack[:-1]):
            self.notify(f"{format_key(key)} does not work here. Esc goes back.", markup=False)

    def _load_keymap(self) -> None:
        """Apply the user's key map, if there is one; show the error if it is invalid."""
        from bmembed_tui.keymap import collect_bindings, keymap_file, load_keymap

        if not keymap_file().exists():
            return
        try:
            self.set_keymap(load_keymap(collect_bindings()))
        except EngineError as error:
            self.show_error(error)

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        """Warn once that the user's key map gives one key two meanings."""
        names = ", ".join(sorted(str(binding.id) for binding in clashed_bindings))
        self.notify(
            f"Your key map uses one key twice: {names} have no key now.",
            markup=False,
            severity="warning",
        )

    def copy_to_clipboard(self, text: str) -> None:
        """Copy `text` to the clipboard (OSC 52).

        File names may contain bytes that are not UTF-8: they become `?`, since the sequence carries
        only text.
        """
        super().copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))

    def action_command_palette(self) -> None:
        """Open the command palette, unless one is already open below another screen."""
        from textual.command import CommandPalette

        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            super().action_command_palette()

    def show_error(self, error: EngineError) -> None:
        """Show an error in a dialog, unless an error is shown already."""
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        if not isinstance(self.screen, ErrorDialog):
            self.push_screen(ErrorDialog(error))

    def action_search_all(self) -> None:
        from bmembed_tui.steps.search.all_projects import AllProjectsScreen

        self.push_screen(AllProjectsScreen())

    def open_hit(
        self,
        project: Path,
        query: str,
        hit: Hit,
    ) -> None:
        """Show the document of a hit in its project."""
        from engine.project.folder import ProjectFolder

        self.open_project(
            ProjectFolder(project), "search", lambda screen: screen.show_hit(query, hit)
        )

    def open_project(
        self,
        project: ProjectFolder,
        step: str | None = None,
        then: Then | None = None,
        keys: Iterable[events.Key] = (),
    ) -> None:
        """Show a project, with the arguments of `ProjectOpener.open_project`.

        An engine that was started ahead is used if it belongs to this project, else ended.
        """
        from bmembed_tui.home.recents import remember
        from bmembed_tui.project.screen import ProjectScreen

        remember(project.path)
        client = self._early_engine
        if client is not None and client.project == project.path:
            self._early_engine = None
        else:
            client = None
            self.run_worker(self.end_early_engine(), group="early-engine")
        screen = ProjectScreen(
            project,
            step,
            then,
            keys,
            client,
        )
        self.push_screen(screen, lambda _result: self._reload_home())

    async def end_early_engine(self) -> None:
        """End the engine that was started ahead, since it keeps files of its project open."""
        client = self._early_engine
        self._early_engine = None
        if client:
            await client.close()

    def _reload_home(self) -> None:
        if isinstance(self.screen, HomeScreen):
            self.screen.load()

    def _handle_exception(self, error: Exception) -> None:
        """Ignore missing widgets while the app closes; report every other exception."""
        # Textual removes a closing screen's widgets one by one: an answer that arrives meanwhile
        # may find half a pane.
        if not self._running and isinstance(getattr(error, "error", error), NoMatches):
            return
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave with a message instead of a traceback."""
        # Textual's method prints a traceback with the values of variables, such as document text.
        from bmembed_tui.faults import report_fault

        if self._exception is not None and not self._exit_renderables:
            message = report_fault(self._exception)
            self._exit_renderables.append(
                Text(visible(message, lines=True), no_wrap=True, overflow="ignore")
            )
        self._close_messages_no_wait()

    def action_help(self) -> None:
        from bmembed_tui.dialogs.help import HelpDialog, list_keys, read_help

        if isinstance(self.screen, HelpDialog):
            return
        pane = getattr(
            self.screen,
            "pane",
            None,
        )
        if pane is not None:
            title = pane.title
            help_name = pane.step
        else:
            title = "bmembed"
            help_name = getattr(
                self.screen,
                "HELP_NAME",
                "",
            )
        self.push_screen(HelpDialog(title, read_help(help_name), list_keys(self.screen)))

    def action_jump(self) -> None:
        from bmembed_tui.dialogs.jump import JumpScreen, find_targets

        if not isinstance(self.screen, JumpScreen):
            targets = find_targets(self.screen.focus_chain)
            self.push_screen(JumpScreen(targets), self._focus_target)

    def _focus_target(self, target: Widget | None) -> None:
        if target is not None and target.is_attached:
            target.focus()

    def action_diagnostics(self) -> None:
        from bmembed_tui.dialogs.diagnostics import DiagnosticsScreen
        from bmembed_tui.project.screen import ProjectScreen

        if isinstance(self.screen, DiagnosticsScreen):
            return
        projects = [screen for screen in self.screen_stack if isinstance(screen, ProjectScreen)]
        if projects:
            self.push_screen(DiagnosticsScreen(projects[-1].status, projects[-1].run_state))
        else:
            self.push_screen(DiagnosticsScreen())

    def action_edit_keymap(self) -> None:
        from bmembed_tui.keymap import collect_bindings, write_template

        try:
            path = write_template(collect_bindings())
        except EngineError as error:
            self.show_error(error)
            return
        self.notify(
            f"Edit {path} and start the app again.",
            markup=False,
            timeout=20,
        )

    async def action_install_shortcut(self) -> None:
        from bmembed_tui.shortcut import check_extra, install_shortcut

        try:
            check_extra()
            # In a thread, since Windows' PowerShell takes a second to start.
            path, *_ = await asyncio.to_thread(install_shortcut)
        except EngineError as error:
            self.show_error(error)
            return
        self.notify(f"Made {path}.", markup=False)

    async def action_quit(self) -> None:
        """Close the app; while a run is in progress, first say that it continues."""
        from bmembed_tui.project.screen import ProjectScreen

        is_run_active = any(
            isinstance(screen, ProjectScreen) and screen.is_busy for screen in self.screen_stack
        )
        if not is_run_active or isinstance(self.screen, QuestionDialog):
            self.exit()
            return
        ask(
            self,
            "A run is in progress. It continues after the app closes.",
            "Open the app again to see its progress, or to stop it.",
            [("quit", "Close the app"), ("stay", "Stay")],
            quit=self.exit,
        )

    def action_help_quit(self) -> None:
        """Say how to quit, since Ctrl+C copies the selection instead."""
        self.notify("Press Ctrl+Q to quit. A run continues.", markup=False)

    def _colour_window(self, theme: Theme) -> None:
        """Tell the window the theme's background, for the rim that the terminal's cells leave."""
        if self.is_web:
            from bmembed_tui.window_driver import send_to_window

            send_to_window(
                self,
                type="background",
                color=theme.background,
            )

    def action_switch_theme(self) -> None:
        if self.theme == LIGHT.name:
            self.theme = DARK.name
        else:
            self.theme = LIGHT.name
        save_theme(self.theme)


def leave_on_signals(leave: Callable[[], object]) -> None:
    """Call `leave` when the terminal is lost or the process is asked to end.

    Unlike the signal alone, `leave` lets the app end its engine processes.
    """
    loop = asyncio.get_running_loop()

    def end_soon(_signal: int, _frame: object) -> None:
        """Leave the app; end the process if that takes longer than `LEAVE_SECONDS`."""
        # The loop can block forever on a terminal that was lost during painting, so the last
        # resort must not depend on it.
        timer = threading.Timer(
            LEAVE_SECONDS,
            os._exit,
            (1,),
        )
        timer.daemon = True
        timer.start()
        with suppress(RuntimeError):  # the loop is closed: the app is leaving already
            loop.call_soon_threadsafe(leave)

    notice_closing()
    for number in (TERMINAL_LOST, signal.SIGTERM):
        with suppress(ValueError):  # no signals outside the main thread
            signal.signal(number, end_soon)


def _has_light_background() -> bool:
    """Return whether the terminal reports a white background, by COLORFGBG="0;15".

    The last part is the number of the background colour: 7 and 15 are white.
    """
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background in ("7", "15")
