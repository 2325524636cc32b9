"""What every step of the wizard shares: its layout, its hooks, and its requests to the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast

from textual import on
from textual.actions import parse
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Button

from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.client.run_state import RunState
from bmembed_tui.dialogs.help import format_key
from bmembed_tui.steps.runs import RunScreen
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.messages.project import ProjectStatus
from engine.core.messages.wire import Request

A = TypeVar("A")


class StepHost(RunScreen):
    """What a step may ask of the project screen that shows it."""

    client: EngineClient

    @property
    def pane(self) -> StepPane | None:
        """The visible step, once its widgets are mounted."""
        raise NotImplementedError

    def pane_mounted(self, pane: StepPane) -> None: ...

    def search_for(self, text: str) -> None: ...

    def action_improve(self) -> None: ...

    def offer_adaptation(self) -> object: ...

    def action_export(self) -> None: ...

    def action_leave(self) -> None: ...


class StepPane(Vertical):
    """A step.

    Subclasses set `title` and `buttons`, define `compose_body`, and override the hooks below. The
    hooks run in the app's event loop and must return at once; slow work goes to workers. The help
    text is in `bmembed_tui/help`, under the name of the step.
    """

    step: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]
    """One sentence under the title: what this step is for."""
    buttons: ClassVar[dict[str, str]] = {}
    """The labels of the buttons by their actions; `primary` has the focus at first."""
    is_ready = False
    """Whether the widgets are mounted."""

    def compose(self) -> ComposeResult:
        yield SafeStatic(self.title, classes="step-title")
        yield SafeStatic(self.lead, classes="step-lead")
        with Vertical(classes="step-body"):
            yield from self.compose_body()
        with Horizontal(classes="step-buttons"):
            for name, label in self.buttons.items():
                variant = "primary" if name == "primary" else "default"
                yield SafeButton(
                    label,
                    id=name,
                    variant=variant,
                )

    def compose_body(self) -> ComposeResult:
        yield from ()

    @on(Button.Pressed, ".step-buttons > Button")
    async def _run_button_action(self, event: Button.Pressed) -> None:
        await self.run_action(str(event.button.id).replace("-", "_"))

    @property
    def host(self) -> StepHost:
        return cast(StepHost, self.screen)

    @property
    def is_attached(self) -> bool:
        """Whether all widgets are mounted: those of a closing screen are removed one by one."""
        return super().is_attached and not self._pruning

    def call_after_refresh(
        self,
        callback: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        """Call as Textual does, unless the project is being left by then."""

        def call_if_attached() -> Any:
            if self.is_attached:
                return callback(*args, **kwargs)
            return None

        return super().call_after_refresh(call_if_attached)

    async def ask(self, request: Request[A], /) -> A:
        """Send a request about this project and return the answer. Raises EngineError."""
        return await self.host.client.ask(request)

    def draw(self) -> None:
        """Draw the step from the status and the run of `host`.

        Called when the step is mounted, and by `show_status` and `show_run` unless overridden.
        """

    def on_mount(self) -> None:
        self.draw()
        self.is_ready = True
        self.host.pane_mounted(self)

    def show_status(self, status: ProjectStatus) -> None:
        """Show the project's new status. Called also while another step is visible."""
        self.draw()

    def show_run(self, state: RunState) -> None:
        """Show a run's progress.

        Called at most five times a second, and only while this step is visible.
        """
        self.draw()

    def enter(self) -> None:
        """Prepare the step when it has become visible: give it the focus."""
        self.focus_primary()

    def leave(self) -> None:
        """Clean up when another step is shown."""

    def forget_engine(self) -> None:
        """Forget what the engine's process had loaded, since that process has died."""

    def take_character(self, character: str) -> bool:
        """Insert a character typed before the step had the focus; return whether it was used."""
        return False

    def focus_primary(self) -> None:
        """Focus what Enter should do, or else the first widget that can have the focus."""
        candidates = [*self.query("#primary").results(Widget), *self.query("*").results(Widget)]
        for widget in candidates:
            if widget.focusable:
                widget.focus()
                return

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        """Return the step's commands for the palette: name → (help, action).

        They are the keys of this step that work at present.
        """
        commands = {}
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.description:
                _, name, parameters = parse(binding.action)
                if self.check_action(name, parameters):
                    keys = " ".join(map(format_key, binding.key.split(",")))
                    help_text = f"key {keys}"
                    commands[f"{self.title}: {binding.description}"] = (help_text, binding.action)
        return commands
