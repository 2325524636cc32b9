"""The offer to adapt: what it says must be seen before it is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import drive, until, until_screen
from textual.pilot import Pilot

from bmembed_tui.client import project_status
from bmembed_tui.client.in_app import HELP_KEYS
from bmembed_tui.dialogs.adapt import AdaptDialog
from bmembed_tui.dialogs.confirmations import QuestionDialog
from engine.core.messages.offer import SHELL_WAYS, AdaptationOffer, Help, QueryEvidence
from engine.core.messages.wire import to_json

STEPS = {
    "index": 400.0,
    "generate": 4000.0,
    "rank": 500.0,
    "train": 40_000.0,
    "embed": 900.0,
    "evaluate": 4000.0,
}
STEPS_BY_NUMBER = {str(number): step.key for number, step in enumerate(project_status.STEPS, 1)}
HELPS: tuple[Help, ...] = ("language-model", "judge", "encoder")


SEVERAL_KINDS = (
    QueryEvidence("document", 71, 219, counted=False),
    QueryEvidence("imported", 318, 219, flattery=9.9),
)


@pytest.mark.parametrize(
    "offer",
    [
        AdaptationOffer(STEPS, ("train",), "model", 1017, 2220, 4.0, 2220, HELPS),
        # As that of the sample.
        AdaptationOffer(
            STEPS, (), "judged", 130, 219, 4.0, 219, HELPS[1:], further=SEVERAL_KINDS, judged=130
        ),
    ],
)
def test_all_of_it_is_seen_on_a_small_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offer: AdaptationOffer
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def estimate(*_: str) -> Any:
        return to_json(offer)

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)

    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.push_screen(AdaptDialog(pictures.RecordedProject(pictures.PROJECT)))
        dialog = await until_screen(pilot, AdaptDialog)
        await until(
            pilot,
            lambda: dialog.query_one("#answer-no").has_focus,
            "the estimate",
        )
        body = dialog.query_one(".dialog-body")
        button = dialog.query_one("#answer-no")
        assert body.region.height > 8
        assert body.max_scroll_y == 0
        assert (button.region.height, button.region.bottom < 24) == (1, True)

    drive(story, size=(80, 24))


def test_a_long_text_is_paged_through_from_its_buttons() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        text = "\n".join(map(str, range(60)))
        pilot.app.push_screen(QuestionDialog("Really?", text, [("yes", "Yes"), ("no", "No")]))
        dialog = await until_screen(pilot, QuestionDialog)
        body = dialog.query_one(".dialog-body")
        await until(
            pilot,
            lambda: dialog.query_one("#answer-yes").has_focus,
            "the first answer",
        )
        await pilot.press("pagedown")
        await until(
            pilot,
            lambda: body.scroll_offset.y == body.region.height,
            "the next page",
        )
        await pilot.press("pageup")
        await until(
            pilot,
            lambda: body.scroll_offset.y == 0,
            "the first page",
        )
        assert dialog.query_one("#answer-yes").has_focus

    drive(story, size=(80, 24))


def test_what_is_expected_to_help_is_advised_and_keys_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    offer = AdaptationOffer(
        STEPS, (), "judged", 20, 220, 4.0, 220, HELPS, expects=True, index_megabytes=12
    )

    async def estimate(*_: str) -> Any:
        return to_json(offer)

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)

    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.push_screen(AdaptDialog(pictures.RecordedProject(pictures.PROJECT)))
        dialog = await until_screen(pilot, AdaptDialog)
        await until(
            pilot,
            lambda: dialog.query_one("#answer-now").has_focus,
            "the estimate",
        )
        shown = " ".join(str(dialog.query_one(".dialog-body > SafeStatic").render()).split())
        assert "12 MB" in shown
        assert dialog.query_one(".dialog-body").max_scroll_y == 0
        for name in ("language-model", "encoder"):
            assert HELP_KEYS[name] in shown
            assert SHELL_WAYS[name] not in shown

    drive(story, size=(80, 24))


@pytest.mark.parametrize("name", ["language-model", "encoder"])
def test_a_key_that_the_advice_names_closes_it_with_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Help
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def estimate(*_: str) -> Any:
        return to_json(AdaptationOffer(STEPS, (), "judged", 20, 220, 4.0, 220, HELPS))

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)
    answers: list[str | None] = []

    async def story(pilot: Pilot[Any]) -> None:
        dialog = AdaptDialog(pictures.RecordedProject(pictures.PROJECT))
        pilot.app.push_screen(dialog, answers.append)
        await until_screen(pilot, AdaptDialog)
        key = HELP_KEYS[name].removeprefix("press ")
        await pilot.press(key)
        await until(
            pilot,
            lambda: answers,
            "the answer",
        )
        assert answers == [STEPS_BY_NUMBER[key]]

    drive(story, size=(80, 24))


def test_without_changes_nothing_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def estimate(*_: str) -> Any:
        return to_json(
            AdaptationOffer({}, (), "document", 300, 200, 4.0, 200, HELPS, up_to_date=True)
        )

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)

    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.push_screen(AdaptDialog(pictures.RecordedProject(pictures.PROJECT)))
        dialog = await until_screen(pilot, AdaptDialog)
        await until(
            pilot,
            lambda: dialog.query_one("#answer-no").has_focus,
            "the answer",
        )
        assert [button.id for button in dialog.query("SafeButton") if button.display] == [
            "answer-steps",
            "answer-no",
        ]

    drive(story, size=(80, 24))
