"""What reaches a terminal cannot steer it."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from engine import console, events
from engine.cli.app import print_json
from engine.errors import InputError

EVIL = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202egpj.exe\u2066\x7f\udcff\u200b"


def is_harmless(text: str) -> bool:
    return all(char == "\n" or char.isprintable() or char in "\u200b" for char in text)


def test_one_character_for_one_and_what_scripts_need_stays() -> None:
    assert console.harmless(EVIL) == "a�[2J�]0;title��31m�gpj.exe���\u200b"
    kept = "می\u200cخواهم क्\u200dष Donau\u00addampf שלום\u200f ℝ"
    assert console.harmless(kept) == kept
    assert console.harmless("a\nb\tc\u00a0d\u2028e") == "a b c d e"
    for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)):
        assert console.harmless(chr(code)) == "�"


@pytest.mark.parametrize(
    "event",
    [
        events.Warned(stage="ingest", text=EVIL),
        events.StageStarted(stage="ingest", fingerprint="f", reason=EVIL),
        events.StageSkipped(stage="ingest", reason=EVIL),
        events.Choice(stage="ingest", setting="judgments", value=EVIL, reason=EVIL),
        events.StageFinished(stage="ingest", seconds=1.0, peak_memory_mb=1.0, summary={"reason why": EVIL}),
    ],
    ids=lambda event: event.name,
)
def test_no_event_steers_the_terminal(event: events.Event) -> None:
    told = io.StringIO()
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as view:
        view(event)
    assert "gpj.exe" in told.getvalue()
    assert is_harmless(told.getvalue())


def test_why_a_stage_failed_is_left_to_the_commands_last_words() -> None:
    told = io.StringIO()
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as view:
        view(events.StageFailed(stage="ingest", error={"what": "No document was found.", "why": "b", "to_do": "c"}))
    assert told.getvalue() == "✗ ingest failed\n"


def test_a_pause_is_shown() -> None:
    told = io.StringIO()
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as view:
        view(events.Paused(stage="train"))
        view(events.Resumed(stage="train"))
    assert told.getvalue() == "‖ train waits: the run is paused\n▸ train goes on\n"


def test_no_error_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(InputError(EVIL, EVIL, EVIL))
    told = capsys.readouterr().err
    assert told.count("gpj.exe") == 3
    assert is_harmless(told)


def test_json_says_the_same_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"path": EVIL, "text": "Straße"})
    told = capsys.readouterr().out
    assert json.loads(told) == {"path": EVIL, "text": "Straße"}
    assert "Straße" in told
    assert not set("\x1b\x07\x9b\x7f\udcff") & set(told)
