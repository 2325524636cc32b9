"""Right or wrong: the passages that can change a comparison, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from bmembed_tui.steps.judging.asking import AskingScreen, common_keys
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.messages.preferences import (
    PassageToJudge,
    QuestionsToJudge,
    ReadQuestionsToJudge,
    need_no_look,
)
from engine.core.messages.search import Judge

RIGHT = "right"
WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class AskedPassage:
    """A passage and the question that it may answer."""

    query: str
    passage: PassageToJudge


class PassagesScreen(AskingScreen[AskedPassage]):
    """Asks whether a passage answers a question."""

    TITLE_TEXT = "Does this passage answer the question?"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,plus", "answer('right')", "yes", id="passages.right", key_display="y"),
        Binding("n,minus", "answer('wrong')", "no", id="passages.wrong", key_display="n"),
        Binding("s", "skip", "next", id="passages.skip"),
        *common_keys(),
    ]
    HELP = """Press y where the passage answers the question, n where it does not, s for the next one without an answer.

Once an encoder is adapted, only passages are asked about that it lists and the base encoder does not, or at another rank: others \
change no comparison. What found a passage is not said.

Every answer is kept at once; u takes the last one back. i takes you to the field for a question of your own."""  # noqa: E501

    def compose_item(self) -> ComposeResult:
        yield SafeStatic("", id="passage-place")
        yield SafeStatic("", id="passage-text")

    async def find_items(self) -> list[AskedPassage]:
        found = await self.ask(ReadQuestionsToJudge())
        if found.focused:
            settled = need_no_look(found.settled, found.total)
        else:
            settled = ""
        self.heading = " ".join(part for part in (settled, *found.notes) if part)
        return asked_passages(found)

    async def find_own(self, query: str) -> list[AskedPassage]:
        return asked_passages(await self.ask(ReadQuestionsToJudge(query)))

    def question_of(self, item: AskedPassage) -> str:
        return item.query

    async def show_item(self, item: AskedPassage) -> None:
        where = " › ".join(
            part for part in (item.passage.path, item.passage.place, *item.passage.headings) if part
        )
        self.query_one("#passage-place", SafeStatic).update(
            plain(f"{where}\n", "$text-accent", lines=True)
        )
        self.query_one("#passage-text", SafeStatic).update(plain(item.passage.text, lines=True))

    def hide_item(self) -> None:
        self.query_one("#passage-place", SafeStatic).update("")
        self.query_one("#passage-text", SafeStatic).update("")

    async def keep(self, item: AskedPassage, answer: str | None) -> None:
        relevant = None if answer is None else answer == RIGHT
        await self.ask(Judge(item.query, item.passage.chunk_id, relevant))

    async def end_note(self) -> str:
        return "No passages are left to judge.\n\nPress i to type a question of your own."


def asked_passages(found: QuestionsToJudge) -> list[AskedPassage]:
    """Passages in the order in which they are asked about."""
    return [AskedPassage(one.query, passage) for one in found.questions for passage in one.passages]
