"""Which list is better: the lists of two encoders side by side, without a word on which is
whose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.steps.judging.asking import AskingScreen, common_keys
from bmembed_tui.steps.search.hit_list import INDENT, snippet_rows
from bmembed_tui.steps.search.hit_text import place_of
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fitted
from engine.core.errors import EngineError
from engine.core.messages.preferences import (
    CompareLists,
    ListedPassage,
    Prefer,
    PreferenceAnswer,
    ReadPreferences,
    ReadQuestionsToCompare,
    TwoLists,
    need_no_look,
)

MIN_SIDE_BY_SIDE = 100
"""Columns of the screen from which both lists stand side by side."""
GAP = 2
"""Columns between them."""


class ListsScreen(AskingScreen[str]):
    """Asks which of two lists is better: 1, 2, or = for the same."""

    TITLE_TEXT = "Which list is better?"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "answer('first')", "list 1", id="lists.first"),
        Binding("2", "answer('second')", "list 2", id="lists.second"),
        Binding("equals_sign,0", "answer('same')", "same", id="lists.same", key_display="="),
        Binding("n", "skip", "next", id="lists.skip"),
        *common_keys(),
        Binding("e", "evidence", "what answers show", id="lists.evidence"),
    ]
    DEFAULT_CSS = """
    ListsScreen #lists { layout: horizontal; height: auto; }
    ListsScreen.-narrow #lists { layout: vertical; }
    ListsScreen .list { width: 1fr; height: auto; margin-right: 2; }
    ListsScreen.-narrow .list { width: 100%; margin-bottom: 1; }
    """
    HELP = """Both lists answer the same question. One is of the encoder before adaptation, the other of the adapted one; which is \
which is not said, and chance decides which stands first. Press 1 or 2 for the better one, = where neither is, n for the next.

Passages at the same rank in both lists are grey. Questions with the same list twice are not asked.

Every answer is kept at once; u takes the last one back. You may stop whenever you like, and go on later: the test that counts the \
answers allows for looking at any time. e says what they show so far; it is better to look at that in the end.

i takes you to the field for a question of your own: your own ones are the best."""  # noqa: E501

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self._lists: TwoLists | None = None
        self._systems: dict[str, str] = {}

    def compose_item(self) -> ComposeResult:
        with Container(id="lists"):
            yield SafeStatic("", id="first-list", classes="list")
            yield SafeStatic("", id="second-list", classes="list")

    def on_resize(self) -> None:
        self.set_class(self.size.width < MIN_SIDE_BY_SIDE, "-narrow")
        self.call_after_refresh(self._draw)

    async def find_items(self) -> list[str]:
        found = await self.ask(ReadQuestionsToCompare())
        mode = f"Lists of {found.mode} search."
        self.heading = " ".join(
            part for part in (mode, need_no_look(found.same, found.total), *found.notes) if part
        )
        return [one.query for one in found.questions if one.answer is None]

    async def find_own(self, query: str) -> list[str]:
        found = await self.ask(CompareLists(query))
        return [] if found.same else [found.query]

    def question_of(self, item: str) -> str:
        return item

    async def show_item(self, item: str) -> None:
        self._lists = await self.ask(CompareLists(item))
        self._systems[item] = self._lists.systems
        if self.is_attached:
            self.query_one("#lists").display = True
            self._draw()

    def _draw(self) -> None:
        if self._lists is None or not self.is_attached:
            return
        width = self.query_one("#asking-body").scrollable_content_region.width
        if self.size.width >= MIN_SIDE_BY_SIDE:
            width = width // 2 - GAP
        for name, title, passages in (
            ("#first-list", "List 1", self._lists.first),
            ("#second-list", "List 2", self._lists.second),
        ):
            self.query_one(name, SafeStatic).update(list_content(title, passages, width))

    def hide_item(self) -> None:
        self.query_one("#lists").display = False

    async def keep(self, item: str, answer: str | None) -> None:
        systems = self._systems.get(item, "")
        await self.ask(Prefer(item, cast("PreferenceAnswer | None", answer), systems=systems))

    async def end_note(self) -> str:
        shown = await self.ask(ReadPreferences())
        if self.items:
            end = "No lists are left to compare."
        else:
            end = "There are no other lists to compare."
        return f"{end}\n\n{shown.sentence()}\n\nPress i to type a question of your own."

    @work(exclusive=True, group="evidence")
    async def action_evidence(self) -> None:
        try:
            shown = await self.ask(ReadPreferences())
        except EngineError as error:
            self.fail(error)
            return
        if self.is_attached:
            self.say(shown.sentence())


def list_content(title: str, passages: Sequence[ListedPassage], width: int) -> Content:
    """A list under its title: ranks, titles and snippets; grey where a passage has the same rank
    in both lists.
    """
    room = max(8, width - len(INDENT))
    rows = [plain(title, "bold $primary")]
    for one in passages:
        hit = one.hit
        if place_of(hit):
            place = f" · {place_of(hit)}"
        else:
            place = ""
        name = fitted(hit.title or hit.path, max(4, room - len(place)))
        head = plain(f"{hit.rank:>2} {name}{place}", "bold" if one.differs else "")
        row = Content.assemble(head, *snippet_rows(hit, room))
        rows.append(row if one.differs else row.stylize("$text-muted"))
    if not passages:
        rows.append(plain("Nothing was found.", "$text-muted"))
    return Content("\n").join(rows)
