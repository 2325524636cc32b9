"""The application: themes, keys, the first screen, and the way to a project."""

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
from bmembed_tui.theme import chosen_theme, keep_theme
from engine.core.errors import EngineError
from engine.core.text import visible

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.widget import Widget

    from bmembed_tui.client.engine_client import EngineClient
    from bmembed_tui.project.screen import Then
    from engine.core.messages.search import Hit
    from engine.project.folder import ProjectFolder

LEAVE_SECONDS = 8.0
COMMAND_KEY = re.compile(r"f\d+|ctrl\+.+")  # that nobody types as text
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


def _commands() -> type[Provider]:
    from bmembed_tui.palette import Commands

    return Commands


class BmembedApp(App[None]):
    """bmembed in a terminal.

    `project`: a project's name or path to open at once. `begun`: the engine of the likely one.
    """

    TITLE = "bmembed"
    CSS_PATH = Path(__file__).parent / "styles" / "app.tcss"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    COMMANDS: ClassVar[set[Any]] = {_commands}
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

    def __init__(self, project: str | None = None, begun: EngineClient | None = None) -> None:
        super().__init__()
        self._wanted = project
        self._begun = begun
        self.collector = IdleCollector()
        self.keys_pressed = 0
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        fitting = LIGHT.name if _light_terminal() else DARK.name
        chosen = chosen_theme()
        if chosen in (DARK.name, LIGHT.name):
            self.theme = chosen
        else:
            self.theme = fitting

    def get_default_screen(self) -> HomeScreen:
        return HomeScreen(self._wanted)

    def on_mount(self) -> None:
        """Take the user's keys once the first screen is painted."""
        self.call_after_refresh(self._load_keymap)
        self.set_interval(PAUSE_SECONDS, self.collector.look)
        self.theme_changed_signal.subscribe(self, self._colour_window)
        self._colour_window(self.current_theme)
        if not self.is_headless:
            leave_on_signals(self.exit)

    async def on_unmount(self) -> None:
        self.collector.close()
        await self.end_begun()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self.collector.touched()
            self.keys_pressed += isinstance(event, events.Key)
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Keys arrive here that no widget took, in the order in which they were pressed, before
        they are looked up.
        """
        take = getattr(self.screen, "take_late_key", None)
        if take is not None and take(event):
            event.stop()
            event.prevent_default()
        elif event.is_printable and event.character and isinstance(self.focused, Input):
            self.focused.insert_text_at_cursor(
                event.character
            )  # it was pressed before the field had the focus
            event.stop()
            event.prevent_default()
        elif COMMAND_KEY.fullmatch(event.key) and event.key not in self.screen.active_bindings:
            self._say_covered(event.key)

    def _say_covered(self, key: str) -> None:
        """A key that works on a screen below this one is not dead without a word."""
        from bmembed_tui.dialogs.help import key_name

        if any(key in screen.active_bindings for screen in self.screen_stack[:-1]):
            self.notify(f"{key_name(key)} does not work here. Esc goes back.", markup=False)

    def _load_keymap(self) -> None:
        from bmembed_tui.keymap import keymap_file, known_bindings, load_keymap

        if not keymap_file().exists():
            return
        try:
            self.set_keymap(load_keymap(known_bindings()))
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
        """Copy `text` (OSC 52).

        A file's name may hold bytes that are no text: they become `?`, as nothing else can be sent.
        """
        super().copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))

    def action_command_palette(self) -> None:
        """What can be done here.

        One at a time: another screen may have come over one that is open.
        """
        from textual.command import CommandPalette

        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            super().action_command_palette()

    def show_error(self, error: EngineError) -> None:
        from bmembed_tui.dialogs.confirmations import ErrorDialog

        if not isinstance(self.screen, ErrorDialog):
            self.push_screen(ErrorDialog(error))

    def action_search_all(self) -> None:
        from bmembed_tui.steps.search.all_projects import AllProjectsScreen

        self.push_screen(AllProjectsScreen())

    def open_hit(self, project: Path, query: str, hit: Hit) -> None:
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
        from bmembed_tui.home.recents import remember
        from bmembed_tui.project.screen import ProjectScreen

        remember(project.path)
        if (client := self._begun) and client.project == project.path:
            self._begun = None
        else:
            client = None
            self.run_worker(self.end_begun(), group="begun")
        self.push_screen(
            ProjectScreen(project, step, then, keys, client), lambda _none: self._home()
        )

    async def end_begun(self) -> None:
        """End the engine that was started for a project that nobody opened: it has files of it
        open.
        """
        client = self._begun
        self._begun = None
        if client:
            await client.close()

    def _home(self) -> None:
        if isinstance(self.screen, HomeScreen):
            self.screen.load()

    def _handle_exception(self, error: Exception) -> None:
        # An app that closes takes its screens apart from the leaves: an answer may find a pane half
        # gone.
        if not self._running and isinstance(getattr(error, "error", error), NoMatches):
            return
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print a traceback with the values of variables, document text among them.
        from bmembed_tui.faults import fault_message

        if self._exception is not None and not self._exit_renderables:
            text = Text(
                visible(fault_message(self._exception), lines=True), no_wrap=True, overflow="ignore"
            )
            self._exit_renderables.append(text)
        self._close_messages_no_wait()

    def action_help(self) -> None:
        from bmembed_tui.dialogs.help import HelpDialog, keys_of

        if isinstance(self.screen, HelpDialog):
            return
        pane = getattr(self.screen, "pane", None)
        title, text = (
            (pane.title, pane.help_text)
            if pane
            else ("bmembed", getattr(self.screen, "HELP", "") or "")
        )
        self.push_screen(HelpDialog(title, text, keys_of(self.screen)))

    def action_jump(self) -> None:
        from bmembed_tui.dialogs.jump import JumpScreen, targets

        if not isinstance(self.screen, JumpScreen):
            self.push_screen(JumpScreen(targets(self.screen.focus_chain)), self._jumped)

    def _jumped(self, target: Widget | None) -> None:
        if target is not None and target.is_attached:
            target.focus()

    def action_diagnostics(self) -> None:
        from bmembed_tui.dialogs.diagnostics import DiagnosticsScreen
        from bmembed_tui.project.screen import ProjectScreen

        if not isinstance(self.screen, DiagnosticsScreen):
            found = [screen for screen in self.screen_stack if isinstance(screen, ProjectScreen)]
            self.push_screen(
                DiagnosticsScreen(*((found[-1].status, found[-1].run_state) if found else ()))
            )

    def action_edit_keymap(self) -> None:
        from bmembed_tui.keymap import known_bindings, write_template

        try:
            path = write_template(known_bindings())
        except EngineError as error:
            self.show_error(error)
            return
        self.notify(f"Edit {path} and start the app again.", markup=False, timeout=20)

    async def action_quit(self) -> None:
        """Close the app. A run goes on: that is said first."""
        from bmembed_tui.project.screen import ProjectScreen

        going = any(
            isinstance(screen, ProjectScreen) and screen.going for screen in self.screen_stack
        )
        if not going or isinstance(self.screen, QuestionDialog):
            self.exit()
            return
        text = "Open the app again to see its progress, or to stop it."
        answers = [("quit", "Close the app"), ("stay", "Stay")]
        ask(
            self,
            "A run is in progress. It continues after the app closes.",
            text,
            answers,
            quit=self.exit,
        )

    def action_help_quit(self) -> None:
        """Ctrl+C copies in a terminal app; say how to quit."""
        self.notify("Press Ctrl+Q to quit. A run continues.", markup=False)

    def _colour_window(self, theme: Theme) -> None:
        """Give the rim of a window, which is less than a letter wide, the colour of what it is
        around.
        """
        if self.is_web:
            from bmembed_tui.window_driver import send_to_window

            send_to_window(self, type="background", color=theme.background)

    def action_switch_theme(self) -> None:
        if self.theme == LIGHT.name:
            self.theme = DARK.name
        else:
            self.theme = LIGHT.name
        keep_theme(self.theme)


def leave_on_signals(leave: Callable[[], object]) -> None:
    """Leave as by a key when the terminal is lost or the app is to end: the processes behind it
    end, too.
    """
    loop = asyncio.get_running_loop()

    def end_soon(_signal: int, _frame: object) -> None:
        # The loop waits for ever on a terminal that was lost in mid-paint: what ends the app then
        # must not be of the loop.
        end = threading.Timer(LEAVE_SECONDS, os._exit, (1,))
        end.daemon = True
        end.start()
        with suppress(RuntimeError):  # the loop is closed: the app is leaving already
            loop.call_soon_threadsafe(leave)

    for number in (signal.SIGHUP, signal.SIGTERM):
        with suppress(ValueError):  # no signals outside the main thread
            signal.signal(number, end_soon)


def _light_terminal() -> bool:
    """Whether the terminal says that its background is light: the last part of COLORFGBG is its
    colour's number.
    """
    try:
        return int(os.environ.get("COLORFGBG", "").rpartition(";")[2]) in (7, 15)
    except ValueError:
        return False
