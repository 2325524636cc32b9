"""The judgment of passages that can change a comparison, one at a time: right or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from bmembed_tui.steps.judging.asking import AskingScreen, build_common_keys
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.messages.preferences import (
    PassageToJudge,
    QuestionsToJudge,
    ReadQuestionsToJudge,
    need_no_look,
)
from engine.core.messages.search import Judge


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
        *build_common_keys(),
    ]
    HELP_NAME = "judge-passages"

    def compose_item(self) -> ComposeResult:
        yield SafeStatic("", id="passage-place")
        yield SafeStatic("", id="passage-text")

    async def find_items(self) -> list[AskedPassage]:
        answer = await self.ask(ReadQuestionsToJudge())
        notes = list(answer.notes)
        if answer.focused:
            notes.insert(0, need_no_look(answer.settled, answer.total))
        self.heading = " ".join(filter(None, notes))
        return list_passages(answer)

    async def find_own(self, query: str) -> list[AskedPassage]:
        return list_passages(await self.ask(ReadQuestionsToJudge(query)))

    def question_of(self, item: AskedPassage) -> str:
        return item.query

    async def show_item(self, item: AskedPassage) -> None:
        passage = item.passage
        place_text = " › ".join(filter(None, (passage.path, passage.place, *passage.headings)))
        self.query_one("#passage-place", SafeStatic).update(
            plain(f"{place_text}\n", "$text-accent", lines=True)
        )
        self.query_one("#passage-text", SafeStatic).update(plain(passage.text, lines=True))

    def hide_item(self) -> None:
        self.query_one("#passage-place", SafeStatic).update("")
        self.query_one("#passage-text", SafeStatic).update("")

    async def keep(self, item: AskedPassage, answer: str | None) -> None:
        relevant = None
        if answer is not None:
            relevant = answer == "right"
        await self.ask(Judge(item.query, item.passage.chunk_id, relevant))

    async def end_note(self) -> str:
        return "No passages are left to judge.\n\nPress i to type a question of your own."


def list_passages(answer: QuestionsToJudge) -> list[AskedPassage]:
    """Return the passages in the order in which to ask about them."""
    passages = []
    for question in answer.questions:
        passages += [AskedPassage(question.query, passage) for passage in question.passages]
    return passages
