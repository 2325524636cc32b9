"""What reaches a terminal cannot steer it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from fixtures.shown_numbers import numbers
from fixtures.training_events import step
from rich.console import Console

from engine.cli import console
from engine.cli.app import print_json
from engine.cli.run_view import RunView, summary_line
from engine.core import events
from engine.core.errors import CancelledError, InputError
from engine.core.figures import Difference, Differences, FigureTable, Interval, Verdict
from engine.core.messages.report import (
    Bar,
    Expectation,
    GateRow,
    GateTable,
    ModeVerdict,
    NextStep,
    ReportVerdict,
)
from engine.core.platforms.pipes import accept_any_text
from engine.core.systems import label_of, own_systems, sort_systems
from engine.core.text import harmless, language_name, visible

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
    shown = "a␛[2J␛]0;title␇�31m�gpj.exe�␡�\u200b"
    assert visible(EVIL, lines=True) == shown
    assert visible("a\nb\tc\u2028d", lines=True) == "a\nb\tc\nd"
    assert is_harmless(shown)


def test_nothing_moves_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with RunView() as shown:
        shown(events.Progress(stage="embed", done=1, total=2, unit="chunks"))
        shown(events.StageFinished(stage="embed", seconds=1.0, peak_memory_mb=1.0, summary={}))
    assert console.progress_console().color_system is None
    written = capsys.readouterr().err
    assert "embed" in written
    assert "\x1b" not in written


@pytest.mark.parametrize(
    "event",
    [
        events.Warned(stage="ingest", text=EVIL),
        events.StageStarted(stage="ingest", fingerprint="f", reason=EVIL),
        events.StageSkipped(stage="ingest", reason=EVIL),
        events.Choice(stage="ingest", setting="judgments", value=EVIL, reason=EVIL),
        events.StageFinished(
            stage="ingest", seconds=1.0, peak_memory_mb=1.0, summary={"reason why": EVIL}
        ),
    ],
    ids=lambda event: event.name,
)
def test_no_event_steers_the_terminal(event: events.Event) -> None:
    reported = io.StringIO()
    with RunView(Console(file=reported, highlight=False, soft_wrap=True), verbose=True) as snapshot:
        snapshot(event)
    assert "gpj.exe" in reported.getvalue()
    assert is_harmless(reported.getvalue())


def test_why_a_stage_failed_is_left_to_the_commands_last_words() -> None:
    reported = io.StringIO()
    with RunView(Console(file=reported, highlight=False, soft_wrap=True)) as snapshot:
        snapshot(
            events.StageFailed(
                stage="ingest", error={"what": "No document was found.", "why": "b", "to_do": "c"}
            )
        )
    assert reported.getvalue() == "✗ ingest failed\n"


def test_a_run_shows_stages_and_warnings_and_choices_only_if_verbose() -> None:
    reported = {}
    for verbose in (True, False):
        out = io.StringIO()
        with RunView(Console(file=out, soft_wrap=True), verbose=verbose) as snapshot:
            snapshot(events.StageStarted(stage="train", fingerprint="f", reason="r"))
            for _ in range(2):
                snapshot(
                    events.Choice(stage="train", setting="precision", value="float32", reason="r")
                )
            snapshot(events.Warned(stage="train", text="slow"))
        reported[verbose] = out.getvalue().splitlines()
    assert [len(lines) for lines in reported.values()] == [3, 2]
    assert all("float32" not in line for line in reported[False])


def test_a_bar_goes_when_the_next_begins() -> None:
    terminal = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=100,
    )
    with RunView(terminal) as shown:
        for unit, done in (("files", 9), ("chunks", 1)):
            shown(events.Progress(stage="ingest", done=done, total=9, unit=unit))
            last = terminal.file.getvalue().rpartition("\x1b[2K")[2]  # type: ignore[attr-defined]
            assert [name in last for name in ("files", "chunks")] == [
                unit == "files",
                unit == "chunks",
            ]


def test_a_bar_has_the_time_that_is_left() -> None:
    clock = [0.0]
    terminal = Console(
        file=io.StringIO(), force_terminal=True, width=100, get_time=lambda: clock[0]
    )
    with RunView(terminal) as shown:
        for clock[0], done in ((0, 3), (10, 20), (20, 30)):  # 3 were done before, 27 took 20 s
            shown(events.Progress(stage="embed", done=done, total=100, unit="chunks"))
    assert "52 s left" in terminal.file.getvalue().rpartition("30/100")[2]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("done", "seconds_left"), [(99, 2.0), (100, 0.0)])
def test_after_its_last_step_a_training_has_no_time_left(done: int, seconds_left: float) -> None:
    terminal = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=100,
    )
    with RunView(terminal) as shown:
        shown(step(done, seconds_left=seconds_left))
    last = terminal.file.getvalue().rpartition("steps")[2]  # type: ignore[attr-defined]
    assert ("2.0 s left" in last) == (done == 99)
    assert (" left" in last) == (done == 99)


def test_a_stage_is_summed_up_without_what_only_experts_know() -> None:
    summary = {
        "chunks": 30_000,
        "k": 50,
        "dimension": 384,
        "language": "de",
        "rejected": {},
        "kept": 0,
    }
    parts = summary_line(summary).split(" · ")
    assert [part.split(": ")[1] for part in parts] == ["30,000", language_name("de"), "0"]
    assert "none" not in summary_line({"language": "none"}), "which reads as if something were off"
    assert len(summary_line(summary, verbose=True).split(" · ")) == 5


def test_a_pause_is_shown() -> None:
    reported = io.StringIO()
    with RunView(Console(file=reported, highlight=False, soft_wrap=True)) as snapshot:
        snapshot(events.Paused(stage="train"))
        snapshot(events.Resumed(stage="train"))
    first, last = reported.getvalue().splitlines()
    assert first.startswith("‖ train ")
    assert last.startswith("▸ train ")


def test_no_error_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(InputError(EVIL, EVIL, EVIL))
    reported = capsys.readouterr().err
    assert reported.count("gpj.exe") == 3
    assert is_harmless(reported)


def test_to_be_stopped_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(CancelledError("a", "b", "c"))
    assert capsys.readouterr().err == "a\nb\nc\n"


def test_json_is_the_same_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"path": EVIL, "text": "Straße"})
    reported = capsys.readouterr().out
    assert json.loads(reported) == {"path": EVIL, "text": "Straße"}
    assert "Straße" in reported
    assert not set("\x1b\x07\x9b\x7f\udcff") & set(reported)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_whole_in_every_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    output = io.TextIOWrapper(written, encoding=encoding)
    accept_any_text(output)
    monkeypatch.setattr(sys, "stdout", output)
    print_json({"text": "Straße ✓ 😀"})
    output.flush()
    assert json.loads(written.getvalue().decode(encoding)) == {"text": "Straße ✓ 😀"}


@pytest.mark.parametrize(("verbose", "shown"), [(False, [603]), (True, [603, 574])])
def test_what_a_resumed_run_embedded_itself_is_a_detail(verbose: bool, shown: list[float]) -> None:
    assert numbers(summary_line({"chunks": 603, "embedded": 574}, verbose)) == shown


def gap(
    value: float, verdict: Verdict = "better", p: float = 0.01, needed: int | None = None
) -> dict[str, Difference]:
    return {"ndcg@10": Difference(value, value - 1, value + 1, 0.5, verdict, p, needed)}


def table(
    differences: Differences,
    pairs: Differences,
    **values: float,
) -> FigureTable:
    systems = {
        name: {"ndcg@10": Interval(value, value - 1, value + 1)} for name, value in values.items()
    }
    return FigureTable(
        "base",
        60,
        0,
        systems,
        differences,
        pairs,
    )


def test_what_is_in_use_stands_once_and_is_marked() -> None:
    values = {
        "base": 40.0,
        "adapted": 39.0,
        "in_use": 40.0,
        "rrf_base": 50.0,
        "rrf_adapted": 49.0,
        "rrf_in_use": 50.0,
    }
    cells = {
        name: {metric: Interval(value, value, value) for metric in console.METRICS}
        for name, value in values.items()
    }
    found = FigureTable(
        "base",
        60,
        0,
        cells,
        {},
    )
    shown = {}
    for own in ("base", "in_use"):
        out = Console(
            file=io.StringIO(),
            width=200,
            legacy_windows=False,
        )
        console.show_tables(
            {"judged": found},
            out,
            own_systems(own, own),
        )
        rows = [
            line.split("│")[1].strip() for line in out.file.getvalue().splitlines() if "│" in line
        ]  # type: ignore[attr-defined]
        shown[own] = rows
    assert shown["in_use"] == [label_of(name) for name in sort_systems(values)]
    marked = [
        f"{label_of(name)} (in use)" if name.endswith("base") else label_of(name)
        for name in sort_systems(values)
    ]
    assert shown["base"] == [
        name for name in marked if name not in (label_of("in_use"), label_of("rrf_in_use"))
    ]


def test_each_mode_may_have_another_encoder_in_use() -> None:
    values = {
        "base": 40.0,
        "adapted": 45.0,
        "in_use": 45.0,
        "rrf_base": 50.0,
        "rrf_adapted": 49.0,
        "rrf_in_use": 50.0,
    }
    cells = {
        name: dict.fromkeys(console.METRICS, Interval(value, value, value))
        for name, value in values.items()
    }
    out = Console(
        file=io.StringIO(),
        width=200,
        legacy_windows=False,
    )
    console.show_tables(
        {"judged": FigureTable("base", 60, 0, cells, {})}, out, own_systems("adapted", "base")
    )
    rows = [line.split("│")[1].strip() for line in out.file.getvalue().splitlines() if "│" in line]  # type: ignore[attr-defined]
    names = [label_of(name) for name in ("base", "adapted", "rrf_base", "rrf_adapted")]
    assert rows == [names[0], f"{names[1]} (in use)", f"{names[2]} (in use)", names[3]]


@pytest.mark.parametrize(("of_one", "lines"), [(12, 1), (11, 0)])
def test_intervals_are_explained_where_a_fifth_of_the_queries_is_about_one_document(
    of_one: int, lines: int
) -> None:
    found = replace(table({}, {}), one_document=of_one)
    out = Console(
        file=io.StringIO(),
        width=200,
        legacy_windows=False,
    )
    console.show_tables(
        {"judged": found},
        out,
        own_systems("base", "base"),
    )
    shown = [line for line in out.file.getvalue().splitlines() if numbers(line)[:2] == [of_one, 60]]  # type: ignore[attr-defined]
    assert len(shown) == lines


def test_where_base_is_in_use_the_adapted_encoder_is_compared() -> None:
    values = {
        "base": 40.0,
        "adapted": 39.0,
        "in_use": 40.0,
        "rrf_base": 50.0,
        "rrf_adapted": 49.0,
        "rrf_in_use": 50.0,
    }
    differences = {"adapted": gap(-0.8), "in_use": gap(0)}
    pairs = {f"rrf_{name} − rrf_base": gap(0) for name in ("in_use", "adapted")}
    found = table(
        differences,
        {**pairs, "rrf_in_use − bm25": gap(5)},
        **values,
    )
    rows = ["adapted − base", "rrf_adapted − rrf_base", "rrf_in_use − bm25"]
    assert list(console.differences_in_use(found, "rrf")) == rows
    adapted = table(
        differences,
        pairs,
        **{**values, "in_use": 39.0},
    )
    assert list(console.differences_in_use(adapted, "rrf")) == [
        "in_use − base",
        "rrf_adapted − rrf_base",
    ]
    alone = table(
        {"in_use": gap(0)},
        {},
        base=40,
        in_use=40,
    )
    assert list(console.differences_in_use(alone, "rrf")) == ["in_use − base"], (
        "there is no adapted encoder"
    )


def test_what_is_in_use_is_compared_with_p_and_the_queries_that_would_show_a_difference() -> None:
    pairs = {"rrf_in_use − rrf_base": gap(0.5, "no difference shown", 0.25, 1_250)}
    found = table({"bm25": gap(9), "in_use": gap(2.4, p=0.0001)}, pairs)
    out = Console(
        file=io.StringIO(),
        width=200,
        legacy_windows=False,
    )
    console.show_differences(console.differences_in_use(found, "rrf"), out)
    first, second = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert numbers(first) == [2.4, 1.4, 3.4, 0.001]  # difference, its interval, p
    assert numbers(second) == [0.5, 0.5, 1.5, 0.25, 1_300]  # and the queries that would show it
    assert all(one in second for one in ("+0.50", "-0.50", "+1.50", "no difference shown"))


def printed(show: Callable[[Console], None]) -> list[str]:
    out = Console(
        file=io.StringIO(),
        width=200,
        legacy_windows=False,
    )
    show(out)
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_each_mode_of_the_verdict_has_a_sentence_with_its_bars() -> None:
    bars = (
        Bar("Keywords", "bm25", Interval(50.0, 48.0, 52.0)),
        Bar("Now in use", "in_use", Interval(55.0, 53.0, 57.0)),
    )
    modes = (
        ModeVerdict("hybrid", "stays", "base", "One stays."),
        ModeVerdict("semantic", "proved", "adapted", "One is proved.", "judged", 60, bars),
    )
    steps = (NextStep("lists", "First"), NextStep("adapt", "Then", ("engine adapt own",)))
    lines = printed(
        lambda out: console.show_verdict(ReportVerdict(modes, ("A note.",), steps), out)
    )
    assert lines[:2] == ["One stays.", "One is proved."]
    assert [numbers(line) for line in lines[2:4]] == [[50.0], [55.0]]
    assert lines[-3:] == ["A note.", "  1. First.", "  2. Then: 'engine adapt own'."]
    (last,) = printed(
        lambda out: console.show_verdict(ReportVerdict(modes[:1], (), steps[:1]), out)
    )[1:]
    assert last.endswith("First.")
    assert len(printed(lambda out: console.show_verdict(ReportVerdict(modes[:1]), out))) == 1


def test_what_the_gate_compared_has_expectation_and_risk() -> None:
    expected = Expectation(
        2.0,
        0.04,
        3.96,
        0.011,
        6,
        5,
        2.5,
    )
    rows = (
        GateRow("adapted 0.5", "adapted", 0.5, gap(1.25)["ndcg@10"], 0.2, "not shown"),
        GateRow(
            "adapted 0.6", "adapted", 0.6, None, 1.0, "expected", in_use=True, expectation=expected
        ),
    )
    lines = printed(
        lambda out: console.show_gate(
            GateTable("hybrid", "document", 1_234, rows, decided=False), out
        )
    )
    assert numbers(lines[0])[0] == 1_234
    first, second = (
        [cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "share" in line
    )
    assert [numbers(cell) for cell in first[:2]] == [[0.5], [1.25, 0.25, 2.25]]
    assert first[2:] == ["–", "–", "not shown"]
    assert [numbers(cell) for cell in second[2:4]] == [[2.0, 0.04, 3.96], [1]]
    assert (second[1], second[4]) == ("–", "expected, in use")
