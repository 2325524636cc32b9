"""What every step of the wizard shares: a head, a body that scrolls, a row of buttons, and what
it asks of its screen.
"""

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
from bmembed_tui.dialogs.help import key_name
from bmembed_tui.steps.runs import RunScreen
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.messages.project import ProjectStatus
from engine.core.messages.wire import Request

A = TypeVar("A")


class StepHost(RunScreen):
    """What a step may ask of the project screen that it is on, which it answers."""

    client: EngineClient

    @property
    def pane(self) -> StepPane | None:
        """The visible step, once its widgets are there."""
        raise NotImplementedError

    def pane_mounted(self, pane: StepPane) -> None: ...

    def search_for(self, text: str) -> None: ...

    def action_improve(self) -> None: ...

    def offer_adaptation(self) -> object: ...

    def action_export(self) -> None: ...

    def action_leave(self) -> None: ...


class StepPane(Vertical):
    """A step.

    Subclasses give `title`, `help_text`, `compose_body` and `buttons`, and answer the hooks below.

    The hooks run in the app's event loop and must return at once; slow things are workers.
    """

    step: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]
    """One sentence under the title: what this step is for."""
    help_text: ClassVar[str] = ""
    """What F1 shows for this step."""
    buttons: ClassVar[dict[str, str]] = {}
    """The labels of the buttons by the names of their actions.

    `primary` is what Enter does for a newcomer.
    """
    is_ready = False
    """Whether its widgets are there."""

    def compose(self) -> ComposeResult:
        yield SafeStatic(self.title, classes="step-title")
        yield SafeStatic(self.lead, classes="step-lead")
        with Vertical(classes="step-body"):
            yield from self.compose_body()
        with Horizontal(classes="step-buttons"):
            for name, label in self.buttons.items():
                yield SafeButton(
                    label, id=name, variant="primary" if name == "primary" else "default"
                )

    def compose_body(self) -> ComposeResult:
        yield from ()

    @on(Button.Pressed, ".step-buttons > Button")
    async def _button_pressed(self, event: Button.Pressed) -> None:
        await self.run_action(str(event.button.id).replace("-", "_"))

    @property
    def host(self) -> StepHost:
        return cast(StepHost, self.screen)

    @property
    def is_attached(self) -> bool:
        """Whether its widgets are there: a project that is being left is taken apart from its
        leaves.
        """
        return super().is_attached and not self._pruning

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """As usual; never once the project is being left."""

        def call() -> Any:
            if self.is_attached:
                return callback(*args, **kwargs)
            return None

        return super().call_after_refresh(call)

    async def ask(self, request: Request[A], /) -> A:
        """A request to the engine about this project. Raises EngineError."""
        return await self.host.client.ask(request)

    def draw(self) -> None:
        """Show what the host knows.

        Called at the beginning, and by the two hooks below unless they are overridden.
        """

    def on_mount(self) -> None:
        self.draw()
        self.is_ready = True
        self.host.pane_mounted(self)

    def show_status(self, status: ProjectStatus) -> None:
        """The project's status was read anew. Called also while another step is shown."""
        self.draw()

    def show_run(self, state: RunState) -> None:
        """A run has made progress: at most five times a second, and only while this step is
        visible.
        """
        self.draw()

    def entered(self) -> None:
        """The step has become visible."""
        self.focus_primary()

    def left(self) -> None:
        """Another step is shown."""

    def engine_ended(self) -> None:
        """The process that answers requests has died: what it had loaded is gone."""

    def typed(self, character: str) -> bool:
        """A character that came before the step's field had the focus; returns whether the step
        takes it.
        """
        return False

    def focus_primary(self) -> None:
        """Put the focus on what Enter should do; where that cannot be done now, on the first
        thing that takes keys.
        """
        wanted = [*self.query("#primary").results(Widget), *self.query("*").results(Widget)]
        for widget in wanted:
            if widget.focusable:
                widget.focus()
                return

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        """What the command palette offers: name → (help, action).

        The keys of this step that work here and now.
        """
        offers = {}
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.description:
                _, name, parameters = parse(binding.action)
                if self.check_action(name, parameters):
                    offers[f"{self.title}: {binding.description}"] = (
                        f"key {key_name(binding.key)}",
                        binding.action,
                    )
        return offers
