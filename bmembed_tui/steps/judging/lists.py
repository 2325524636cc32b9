"""The comparison of two encoders' lists, side by side, without telling which is whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.steps.judging.asking import AskingScreen, build_common_keys
from bmembed_tui.steps.search.hit_list import INDENT, build_snippet_rows
from bmembed_tui.steps.search.hit_text import format_place
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fit_text
from engine.core.errors import EngineError
from engine.core.messages.preferences import (
    CompareLists,
    ListedPassage,
    ListMode,
    Prefer,
    PreferenceAnswer,
    ReadPreferences,
    ReadQuestionsToCompare,
    TwoLists,
    count_only_against,
    need_no_look,
)

MIN_SIDE_BY_SIDE = 100
"""Columns of the screen from which the lists are shown side by side."""
GAP = 2
"""Columns between the lists."""


class ListsScreen(AskingScreen[str]):
    """Asks which of two lists is better: 1, 2, or = for the same.

    `mode`: the search mode whose lists are compared; None for the project's default.
    """

    TITLE_TEXT = "Which list is better?"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "answer('first')", "list 1", id="lists.first"),
        Binding("2", "answer('second')", "list 2", id="lists.second"),
        Binding("equals_sign,0", "answer('same')", "same", id="lists.same", key_display="="),
        Binding("n", "skip", "next", id="lists.skip"),
        *build_common_keys(),
        Binding("m", "mode", "semantic/hybrid", id="lists.mode"),
        Binding("f", "evidence", "what answers show", id="lists.evidence"),
    ]
    DEFAULT_CSS = """
    ListsScreen #lists { layout: horizontal; height: auto; }
    ListsScreen.-narrow #lists { layout: vertical; }
    ListsScreen .list { width: 1fr; height: auto; margin-right: 2; }
    ListsScreen.-narrow .list { width: 100%; margin-bottom: 1; }
    """
    HELP_NAME = "compare-lists"

    def __init__(self, ask: Ask, mode: ListMode | None = None) -> None:
        super().__init__(ask)
        self._mode: ListMode | None = mode
        self._lists: TwoLists | None = None
        self._systems: dict[str, str] = {}  # by query, the systems whose lists were shown

    def compose_item(self) -> ComposeResult:
        with Container(id="lists"):
            yield SafeStatic(
                "",
                id="first-list",
                classes="list",
            )
            yield SafeStatic(
                "",
                id="second-list",
                classes="list",
            )

    def on_resize(self) -> None:
        self.set_class(self.size.width < MIN_SIDE_BY_SIDE, "-narrow")
        self.call_after_refresh(self._draw)

    async def find_items(self) -> list[str]:
        answer = await self.ask(ReadQuestionsToCompare(self._mode))
        self._mode = answer.mode
        unanswered = [question for question in answer.questions if question.answer is None]
        parts = [f"Lists of {answer.mode} search.", need_no_look(answer.same, answer.total)]
        generated = sum(question.generated for question in unanswered)
        if generated:
            parts.append(f"{count_only_against(generated)}.")
        self.heading = " ".join(filter(None, (*parts, *answer.notes)))
        return [question.query for question in unanswered]

    async def find_own(self, query: str) -> list[str]:
        lists = await self.ask(CompareLists(query, self._mode))
        if lists.same:
            return []
        return [lists.query]

    def question_of(self, item: str) -> str:
        return item

    async def show_item(self, item: str) -> None:
        self._lists = await self.ask(CompareLists(item, self._mode))
        self._systems[item] = self._lists.systems
        if self.is_attached:
            self.query_one("#lists").display = True
            self._draw()

    def _draw(self) -> None:
        """Draw both lists of the current question at the present width."""
        if self._lists is None or not self.is_attached:
            return
        width = self.query_one("#asking-body").scrollable_content_region.width
        if self.size.width >= MIN_SIDE_BY_SIDE:
            width = width // 2 - GAP
        first = format_list(
            "List 1",
            self._lists.first,
            width,
        )
        second = format_list(
            "List 2",
            self._lists.second,
            width,
        )
        self.query_one("#first-list", SafeStatic).update(first)
        self.query_one("#second-list", SafeStatic).update(second)

    def hide_item(self) -> None:
        self.query_one("#lists").display = False

    async def keep(self, item: str, answer: str | None) -> None:
        systems = self._systems.get(item, "")
        better = cast("PreferenceAnswer | None", answer)
        await self.ask(Prefer(item, better, self._mode, systems))

    async def end_note(self) -> str:
        preferences = await self.ask(ReadPreferences(self._mode))
        if self.items:
            end = "No lists are left to compare."
        else:
            end = "There are no lists to compare yet."
        return f"{end}\n\n{preferences.sentence()}\n\nPress i to type a question of your own."

    def action_mode(self) -> None:
        """Compare the lists of the other search mode."""
        if not self._is_busy:
            self._mode = "hybrid" if self._mode == "semantic" else "semantic"
            self.begin()

    @work(exclusive=True, group="evidence")
    async def action_evidence(self) -> None:
        try:
            preferences = await self.ask(ReadPreferences(self._mode))
        except EngineError as error:
            self.fail(error)
            return
        if self.is_attached:
            self.say(preferences.sentence())


def format_list(
    title: str,
    passages: Sequence[ListedPassage],
    width: int,
) -> Content:
    """Return a list under its title: ranks, titles and snippets.

    Passages at the same rank in both lists are grey.
    """
    rows = [plain(title, "bold $primary")]
    rows += [_format_passage(passage, max(8, width - len(INDENT))) for passage in passages]
    if not passages:
        rows.append(plain("Nothing was found.", "$text-muted"))
    return Content("\n").join(rows)


def _format_passage(passage: ListedPassage, room: int) -> Content:
    """Return the rows of a passage: its rank, title and place, then its snippet."""
    hit = passage.hit
    place = format_place(hit)
    if place:
        place = f" · {place}"
    title = fit_text(hit.title or hit.path, max(4, room - len(place)))
    head = f"{hit.rank:>2} {title}{place}"
    snippet = build_snippet_rows(hit, room)
    if passage.differs:
        return Content.assemble(plain(head, "bold"), *snippet)
    return Content.assemble(plain(head), *snippet).stylize("$text-muted")
