"""What reaches a terminal cannot steer it."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from engine.cli import console
from engine.cli.app import print_json
from engine.core import events
from engine.core.errors import InputError
from engine.core.text import harmless, visible

EVIL = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202egpj.exe\u2066\x7f\udcff\u200b"


def is_harmless(text: str) -> bool:
    return all(char == "\n" or char.isprintable() or char in "\u200b" for char in text)


def test_one_character_for_one_and_what_scripts_need_stays() -> None:
    assert harmless(EVIL) == "a�[2J�]0;title��31m�gpj.exe���\u200b"
    kept = "می\u200cخواهم क्\u200dष Donau\u00addampf שלום\u200f ℝ"
    assert harmless(kept) == kept
    assert harmless("a\nb\tc\u00a0d\u2028e") == "a b c d e"
    for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)):
        assert harmless(chr(code)) == "�"


def test_whole_texts_show_what_would_steer_the_terminal_and_keep_their_lines() -> None:
    shown = "a␛[2J␛]0;title␇<U+009B>31m<U+202E>gpj.exe<U+2066>␡<U+DCFF>\u200b"
    assert visible(EVIL) == shown
    assert visible("a\r\nb\tc\rd\n�") == "a\nb c␍d\n�"
    assert is_harmless(shown)


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
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as snapshot:
        snapshot(event)
    assert "gpj.exe" in told.getvalue()
    assert is_harmless(told.getvalue())


def test_why_a_stage_failed_is_left_to_the_commands_last_words() -> None:
    told = io.StringIO()
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as snapshot:
        snapshot(events.StageFailed(stage="ingest", error={"what": "No document was found.", "why": "b", "to_do": "c"}))
    assert told.getvalue() == "✗ ingest failed\n"


def test_a_pause_is_shown() -> None:
    told = io.StringIO()
    with console.RunView(Console(file=told, highlight=False, soft_wrap=True)) as snapshot:
        snapshot(events.Paused(stage="train"))
        snapshot(events.Resumed(stage="train"))
    first, last = told.getvalue().splitlines()
    assert first.startswith("‖ train ")
    assert last.startswith("▸ train ")


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


def test_a_row_for_each_recipe_with_its_intervals() -> None:
    def gap(value: float) -> dict[str, object]:
        return {"ndcg@10": {"value": value, "low": value - 1, "high": value + 1, "verdict": "better"}}

    def figure(value: float) -> dict[str, object]:
        return {"ndcg@10": {"value": value, "low": value - 1, "high": value + 1}}

    unsure = {"ndcg@10": {**gap(-0.5)["ndcg@10"], "verdict": "no difference shown", "needed": 1_234}}  # type: ignore[dict-item]
    trained = {
        "systems": {"base": figure(37.2), "adapted": figure(39.6), "weighted_served": figure(41.0)},
        "differences": {"adapted": gap(2.4)},
        "pairs": {"weighted_served − weighted_base": unsure},
        "fusion": {"method": "weighted"},
        "stages": {"train": {"seconds": 75.0}},
    }
    untrained = {
        "systems": {"base": figure(37.2), "rrf_served": figure(41.5)},
        "differences": {}, "pairs": {}, "fusion": {"method": "rrf"}, "stages": {}, "served": {"reason": "No text."},
    }  # fmt: skip
    out = Console(file=io.StringIO(), width=140)
    rows = {
        "listnet": trained, "none": untrained, "4-bit": {"skipped": "It runs on a CUDA GPU alone."},
        "listmle": {"failed": "Training went astray."}, "twin": {**untrained, "same_as": "none"},
    }  # fmt: skip
    console.show_recipes(rows, out)
    console.show_differences({"adapted − base": gap(2.4)}, out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert cells == [
        ["listnet", "39.6", "+2.40 (+1.40 to +3.40)", "weighted", "41.0", "-0.50 (-1.50 to +0.50)", "1 min 15 s"],
        ["", "", "better", "", "", "no difference shown,", ""],
        ["", "", "", "", "", "would need 1,234 queries", ""],
        ["none", "none", "No text.", "RRF", "41.5", "", ""],
        ["4-bit", "skipped", "It runs on a CUDA GPU alone.", "", "", "", ""],
        ["listmle", "failed", "Training went astray.", "", "", "", ""],
        ["twin", "none", "No text.", "RRF", "41.5", "", "as 'none'"],
    ]
    assert "adapted − base: +2.40 (+1.40 to +3.40) nDCG@10: better" in shown


def test_what_is_served_is_compared_with_its_chance_and_the_queries_that_would_tell() -> None:
    def gap(value: float, verdict: str, **more: object) -> dict[str, object]:
        return {"ndcg@10": {"value": value, "low": value - 1, "high": value + 1, "verdict": verdict, **more}}

    table = {
        "base": "base",
        "differences": {"bm25": gap(9, "better"), "served": gap(2.4, "better", p_value=0.0001, needed=None)},
        "pairs": {"rrf_served − rrf_base": gap(0.5, "no difference shown", p_value=0.25, needed=1_250)},
    }
    out = Console(file=io.StringIO(), width=160)
    console.show_differences(console.served_differences(table), out)
    served, hybrid = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "+2.40 (+1.40 to +3.40) nDCG@10: better (p < 0.001)" in served
    assert "+0.50 (-0.50 to +1.50) nDCG@10: no difference shown (p = 0.250)" in hybrid
    assert "1,250" in hybrid
