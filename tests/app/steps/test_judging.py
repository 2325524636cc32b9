"""The judging screens: which list is better, and which passages are right.

The engine's part is played by a small class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from fixtures.app import drive, screen_text, text_of, until, until_text
from fixtures.found import build_hit
from textual.pilot import Pilot

from bmembed_tui.steps.judging.asking import AskingScreen
from bmembed_tui.steps.judging.lists import ListsScreen
from bmembed_tui.steps.judging.passages import PassagesScreen
from engine.core.errors import NotBuiltError
from engine.core.messages.preferences import (
    ONLY_AGAINST,
    CompareLists,
    ListedPassage,
    PassageToJudge,
    Prefer,
    PreferencesShown,
    QuestionsToCompare,
    QuestionsToJudge,
    QuestionToCompare,
    QuestionToJudge,
    ReadPreferences,
    ReadQuestionsToCompare,
    ReadQuestionsToJudge,
    TwoLists,
)
from engine.core.messages.search import Hit, Judge, Judged
from engine.core.messages.wire import Request

HOSTILE = "[/] [@click=app.quit]quit[/] \x1b[31mred"


def hit(rank: int, name: str) -> Hit:
    text = f"The text of {name}. {HOSTILE}"
    return build_hit(
        rank,
        f"{name}.md",
        title=f"About {name}",
        snippet=text,
    )


@dataclass
class Engine:
    """Answers about the `questions`, and remembers what it was asked to keep."""

    questions: tuple[str, ...] = ("one", "two", "three")
    kept: list[tuple[str, Any]] = field(default_factory=list)
    modes: list[Any] = field(default_factory=list)
    generated: bool = False
    fails: bool = False

    async def __call__(self, request: Request[Any], /) -> Any:
        if self.fails:
            raise NotBuiltError(
                "Nothing was trained.",
                "",
                "Run 'engine adapt'.",
                code="nothing-to-compare",
                command="adapt",
            )
        match request:
            case ReadQuestionsToCompare(mode=mode):
                self.modes.append(mode)
                questions = tuple(QuestionToCompare(one, self.generated) for one in self.questions)
                done = QuestionToCompare("done", answer="same")
                return QuestionsToCompare(
                    mode or "hybrid",
                    71,
                    41,
                    (done, *questions),
                )
            case CompareLists(query=query):
                common = ListedPassage(hit(1, "common"), differs=False)
                first = ListedPassage(hit(2, f"{query} left"), differs=True)
                second = ListedPassage(hit(2, f"{query} right"), differs=True)
                return TwoLists(
                    query,
                    (common, first),
                    (common, second),
                    same=query == "alike",
                )
            case Prefer(query=query, better=answer, mode=mode):
                self.modes.append(mode)
                self.kept.append((query, answer))
                return self.shown()
            case ReadPreferences():
                return self.shown()
            case ReadQuestionsToJudge(query=query):
                passages = tuple(
                    PassageToJudge(n, f"{n}.md", "", (), f"passage {n} {HOSTILE}") for n in (1, 2)
                )
                asked = (query,) if query else self.questions
                return QuestionsToJudge(
                    71, 41, True, tuple(QuestionToJudge(one, False, passages) for one in asked)
                )
            case Judge(query=query, chunk_id=chunk_id, relevant=relevant):
                self.kept.append((f"{query} {chunk_id}", relevant))
                return Judged(1)
        raise AssertionError(request)

    def shown(self) -> PreferencesShown:
        answers = {query: answer for query, answer in self.kept if answer}
        return PreferencesShown(
            "hybrid", len(answers), len(answers), 0, 0, 1.0, 1.0, 20.0, "neither"
        )


async def opened(
    pilot: Pilot[Any],
    screen: AskingScreen[Any],
    text: str,
) -> list[Any]:
    closed: list[Any] = []
    pilot.app.push_screen(screen, closed.append)
    await until_text(pilot, text)
    return closed


def test_answers_are_kept_in_order_and_taken_back() -> None:
    engine = Engine()

    async def story(pilot: Pilot[Any]) -> None:
        closed = await opened(
            pilot,
            ListsScreen(engine),
            "About one left",
        )
        assert "41 of 71" in text_of(pilot, "#asking-status")
        assert text_of(pilot, "#asking-question") == "one"
        await pilot.press("1")
        await until_text(pilot, "About two right")
        await pilot.press("u")
        await until_text(pilot, "About one left")
        await pilot.press("2")
        await until_text(pilot, "About two left")
        await pilot.press("n")
        await until_text(pilot, "About three left")
        assert not closed
        await pilot.press("equals_sign")
        await until(
            pilot,
            lambda: not pilot.app.screen.query_one("#lists").display,
            "the end",
        )
        assert engine.shown().sentence() in text_of(pilot, "#asking-note")
        await pilot.press("1")
        await pilot.press("escape")
        await until(
            pilot,
            lambda: closed,
            "that the screen is closed",
        )
        assert closed == [True]

    drive(story)
    assert engine.kept == [("one", "first"), ("one", None), ("one", "second"), ("three", "same")]


def test_lists_of_either_search_mode_are_compared() -> None:
    engine = Engine()

    async def story(pilot: Pilot[Any]) -> None:
        closed = await opened(
            pilot,
            ListsScreen(engine),
            "Lists of hybrid search",
        )
        await until_text(pilot, "About one left")
        await pilot.press("1")
        await until_text(pilot, "About two left")
        await pilot.press("m")
        await until_text(pilot, "Lists of semantic search")
        await until_text(pilot, "About one left")
        await pilot.press("2")
        await until_text(pilot, "About two left")
        await pilot.press("m")
        await until_text(pilot, "Lists of hybrid search")
        await until_text(pilot, "About one left")
        await pilot.press("escape")
        await until(
            pilot,
            lambda: closed,
            "that the screen is closed",
        )
        assert closed == [True], "answers were given before the mode was changed"

    drive(story)
    assert engine.modes == [None, "hybrid", "semantic", "semantic", "hybrid"]


def test_it_says_that_generated_queries_can_only_speak_against() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            ListsScreen(Engine(generated=True)),
            "About one left",
        )
        assert ONLY_AGAINST in text_of(pilot, "#asking-status")
        pilot.app.pop_screen()
        await opened(
            pilot,
            ListsScreen(Engine()),
            "About one left",
        )
        assert ONLY_AGAINST not in text_of(pilot, "#asking-status")

    drive(story)


def test_nothing_says_what_the_answers_show_until_it_is_asked_for() -> None:
    engine = Engine()

    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            ListsScreen(engine),
            "About one left",
        )
        await pilot.press("1")
        await until_text(pilot, "About two left")
        sentence = engine.shown().sentence()
        assert sentence not in " ".join(screen_text(pilot.app).split())  # type: ignore[arg-type]
        await pilot.press("f")
        await until(
            pilot, lambda: sentence in text_of(pilot, "#asking-status"), "what the answers show"
        )

    drive(story)


@pytest.mark.parametrize(
    ("size", "side_by_side"), [((120, 40), True), ((100, 30), True), ((80, 24), False)]
)
def test_lists_stand_side_by_side_if_they_fit(size: tuple[int, int], side_by_side: bool) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            ListsScreen(Engine()),
            "About one left",
        )
        first = pilot.app.screen.query_one("#first-list").region
        second = pilot.app.screen.query_one("#second-list").region
        assert (first.y == second.y) == side_by_side
        assert (first.right <= second.x) == side_by_side
        assert side_by_side or second.y >= first.bottom

    drive(story, size=size)


def test_text_of_documents_is_shown_as_it_is() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            ListsScreen(Engine()),
            "About one left",
        )
        assert "[@click=app.quit]quit[/]" in text_of(pilot, "#first-list")
        assert "\x1b" not in screen_text(pilot.app)  # type: ignore[arg-type]
        pilot.app.pop_screen()
        await opened(
            pilot,
            PassagesScreen(Engine()),
            "passage 1",
        )
        assert "[@click=app.quit]quit[/]" in text_of(pilot, "#passage-text")

    drive(story)


def test_a_question_of_ones_own_is_asked_next_and_one_that_needs_no_look_is_not() -> None:
    engine = Engine()

    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            ListsScreen(engine),
            "About one left",
        )
        await pilot.press(
            "i",
            *"alike",
            "enter",
        )
        await until(
            pilot, lambda: "alike" in text_of(pilot, "#asking-status"), "that it needs no look"
        )
        assert text_of(pilot, "#asking-question") == "one"
        await pilot.press(
            "i",
            *"2nd",
            "enter",
        )
        await until_text(pilot, "About 2nd left")
        await pilot.press("1")
        await until_text(pilot, "About one left")
        await pilot.press(
            "i",
            *"12",
            "escape",
        )
        assert pilot.app.screen.query_one("#asking-own").value == "12"  # type: ignore[attr-defined]

    drive(story)
    assert engine.kept == [("2nd", "first")], "in the field, digits are letters"


def test_passages_are_right_or_wrong() -> None:
    engine = Engine(questions=("one", "two"))

    async def story(pilot: Pilot[Any]) -> None:
        closed = await opened(
            pilot,
            PassagesScreen(engine),
            "passage 1",
        )
        assert "41 of 71" in text_of(pilot, "#asking-status")
        for key, following in (
            ("y", "passage 2"),
            ("n", "passage 1"),
            ("u", "passage 2"),
            ("s", "passage 1"),
        ):
            await pilot.press(key)
            await until(
                pilot, lambda wanted=following: wanted in text_of(pilot, "#passage-text"), following
            )
        assert text_of(pilot, "#asking-question") == "two"
        await pilot.press("escape")
        await until(
            pilot,
            lambda: closed,
            "that the screen is closed",
        )

    drive(story)
    assert engine.kept == [("one 1", True), ("one 2", False), ("one 2", None)]


def test_an_error_is_shown_in_place_and_esc_leaves() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        closed = await opened(
            pilot,
            ListsScreen(Engine(fails=True)),
            "Nothing was trained.",
        )
        await pilot.press("1", "e", "escape")
        await until(
            pilot,
            lambda: closed,
            "that the screen is closed",
        )
        assert closed == [False]

    drive(story)
