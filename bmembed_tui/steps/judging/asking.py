"""What both judging screens share: questions one after the other, with answers saved at once."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Input

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError

Item = TypeVar("Item")
ANSWER_ACTIONS = ("answer", "skip", "undo", "own")


def build_common_keys() -> list[BindingType]:
    """Return the keys that both screens have, shown in the key line after a screen's own."""
    return [
        Binding("u", "undo", "undo", id="judging.undo"),
        Binding("i", "own", "own question", id="judging.own"),
        Binding("escape", "back", "back", id="judging.back"),
    ]


class AskingScreen(Screen[bool], Generic[Item]):
    """Asks about `items`, one at a time. Closes with whether anything was answered.

    An item is a question with two lists to compare, or a passage to judge. Subclasses find items
    (`find_items`, `find_own`), show one (`show_item`), and save or take back an answer (`keep`).
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown,space", "page(1)", "page down", show=False, id="judging.page-down"),
        Binding("pageup", "page(-1)", "page up", show=False, id="judging.page-up"),
    ]
    TITLE_TEXT: ClassVar[str] = ""
    DEFAULT_CSS = """
    AskingScreen .asking-title { text-style: bold; color: $primary; padding: 0 1; }
    AskingScreen #asking-own { margin: 0 1; }
    AskingScreen #asking-status { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
    AskingScreen #asking-question { height: auto; max-height: 3; padding: 0 1; text-style: bold; }
    AskingScreen #asking-body { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    AskingScreen #asking-note { height: auto; padding: 1 1 0 1; }
    """

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self.ask = ask
        self.items: list[Item] = []
        self.place = 0  # the index of the item that is shown
        self.heading = ""
        self._is_busy = True
        self._answered: set[int] = set()  # the indices of the items that were answered
        self._has_answers = False  # whether items were answered before `begin` found others

    def compose(self) -> ComposeResult:
        yield SafeStatic(self.TITLE_TEXT, classes="asking-title")
        yield Field(placeholder="your own question, then Enter", id="asking-own")
        yield SafeStatic("", id="asking-status")
        yield SafeStatic("", id="asking-question")
        with VerticalScroll(id="asking-body"):
            yield from self.compose_item()
            yield SafeStatic("", id="asking-note")
        yield KeyLine()

    def compose_item(self) -> ComposeResult:
        """Compose the widgets that show an item."""
        yield from ()

    async def find_items(self) -> list[Item]:
        """Return the items to ask about, and set `heading`. Raises EngineError."""
        raise NotImplementedError

    async def find_own(self, query: str) -> list[Item]:
        """Return the items of a question that the user has typed.

        Empty where no answer would change anything. Raises EngineError.
        """
        raise NotImplementedError

    async def show_item(self, item: Item) -> None:
        """Show an item. Raises EngineError."""
        raise NotImplementedError

    def hide_item(self) -> None:
        """Show no item."""
        raise NotImplementedError

    def question_of(self, item: Item) -> str:
        """Return the query that an item is about."""
        raise NotImplementedError

    async def keep(self, item: Item, answer: str | None) -> None:
        """Save an answer; None takes it back. Raises EngineError."""
        raise NotImplementedError

    async def end_note(self) -> str:
        """Return what to say when no items are left. Raises EngineError."""
        raise NotImplementedError

    @property
    def _is_over(self) -> bool:
        return self.place >= len(self.items)

    def on_mount(self) -> None:
        self.query_one("#asking-body").focus()
        self.begin()

    def begin(self) -> None:
        """Find the items, and ask about the first."""
        self._is_busy = True
        self.items = []
        self.place = 0
        if self._answered:
            self._has_answers = True
        self._answered = set()
        self.hide_item()
        self._show_question("")
        self.query_one("#asking-note", SafeStatic).update("")
        self.say("Searching …")
        self._begin()

    @work(exclusive=True, group="asking")
    async def _begin(self) -> None:
        """Find the items and show the first, or the error."""
        try:
            self.items = await self.find_items()
            await self._show_current()
        except EngineError as error:
            self.fail(error)

    async def _show_current(self) -> None:
        """Show the item at the current place, or the note at the end."""
        if not self.is_attached:
            return
        note = self.query_one("#asking-note", SafeStatic)
        if self._is_over:
            text = await self.end_note()
            self.hide_item()
            self._show_question("")
            note.update(plain(text, lines=True))
            self.say(self.heading)
        else:
            item = self.items[self.place]
            await self.show_item(item)
            self._show_question(self.question_of(item))
            note.update("")
            count = f"{self.place + 1} of {len(self.items)}"
            self.say(" · ".join(filter(None, (count, self.heading))))
        self._is_busy = False
        self.query_one("#asking-body").scroll_home(animate=False)
        self.refresh_bindings()

    def _show_question(self, query: str) -> None:
        self.query_one("#asking-question", SafeStatic).update(plain(query))

    def say(self, text: str) -> None:
        """Show a sentence above the question."""
        self.query_one("#asking-status", SafeStatic).update(text)

    def fail(self, error: EngineError) -> None:
        """Show an error in place."""
        if self.is_attached:
            self.say("")
            self.query_one("#asking-note", SafeStatic).update(format_error(error))
            self._is_busy = False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow answers only while there is an item, and not while the user types in the field."""
        if action not in ANSWER_ACTIONS:
            return True
        if not self.is_attached or isinstance(self.focused, Input):
            return False
        if action == "undo":
            return self.place > 0
        return action == "own" or not self._is_over

    def action_answer(self, answer: str | None) -> None:
        if not self._is_busy:  # a key pressed twice is not an answer to the next item
            self._is_busy = True
            self._answer(answer)

    def action_skip(self) -> None:
        self.action_answer(None)

    @work(group="asking")
    async def _answer(self, answer: str | None) -> None:
        """Save an answer, unless it is None, and show the next item."""
        try:
            if answer is not None:
                await self.keep(self.items[self.place], answer)
                self._answered.add(self.place)
            self.place += 1
            await self._show_current()
        except EngineError as error:
            self.fail(error)

    def action_undo(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._take_back()

    @work(group="asking")
    async def _take_back(self) -> None:
        """Go back to the item before the current one, and take its answer back."""
        try:
            if self.place - 1 in self._answered:
                await self.keep(self.items[self.place - 1], None)
                self._answered.discard(self.place - 1)
            self.place -= 1
            await self._show_current()
        except EngineError as error:
            self.fail(error)

    def action_own(self) -> None:
        self.query_one("#asking-own", Field).focus()

    @on(Input.Submitted, "#asking-own")
    def _ask_own(self, event: Input.Submitted) -> None:
        """Ask about the question that the user has typed."""
        event.stop()
        query = event.value.strip()
        if query and not self._is_busy:
            self._is_busy = True
            self.say("Searching …")
            self._begin_own(query)

    @work(group="asking")
    async def _begin_own(self, query: str) -> None:
        """Insert the items of the user's question before the current one, and show them."""
        try:
            new_items = await self.find_own(query)
            self._insert_items(new_items)
            if not self.is_attached:
                return
            self.query_one("#asking-own", Field).value = ""
            self.query_one("#asking-body").focus()
            await self._show_current()
            if not new_items:
                self.say(
                    f"“{query}” needs no look: there is nothing that could tell the lists apart."
                )
        except EngineError as error:
            self.fail(error)

    def _insert_items(self, new_items: list[Item]) -> None:
        """Insert items at the current place, and shift the indices of answered items after it."""
        self.items[self.place : self.place] = new_items
        answered_before = {index for index in self._answered if index < self.place}
        answered_after = self._answered - answered_before
        self._answered = answered_before | {index + len(new_items) for index in answered_after}

    def action_page(self, direction: int) -> None:
        body = self.query_one("#asking-body")
        if direction > 0:
            body.scroll_page_down(animate=False)
        else:
            body.scroll_page_up(animate=False)

    def action_back(self) -> None:
        """Leave the field, or close the screen."""
        if isinstance(self.focused, Input):
            self.query_one("#asking-body").focus()
        else:
            self.dismiss(self._has_answers or bool(self._answered))
