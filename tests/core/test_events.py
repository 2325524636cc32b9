from __future__ import annotations

import json
import os
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import events
from engine.core.events import (
    KINDS,
    EventLog,
    Progress,
    RunStarted,
    StageFinished,
    Warned,
    decode,
    encode,
    read,
)
from engine.core.platforms.users import is_private

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(),
    float: NUMBERS,
    bool: st.booleans(),
    list[str]: st.lists(TEXT),
    dict[str, float]: st.dictionaries(TEXT, NUMBERS),
    dict[str, str]: st.dictionaries(TEXT, TEXT),
    dict[str, Any]: st.dictionaries(TEXT, JSON),
}


def any_event(kind: type[events.Event]) -> st.SearchStrategy[events.Event]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: VALUES[hints[field.name]] for field in fields(kind)})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_round_trips(kind: type[events.Event]) -> None:
    @given(event=any_event(kind))
    def check(event: events.Event) -> None:
        line = encode(event)
        assert "\n" not in line
        assert json.loads(line)["event"] == kind.name
        assert decode(line) == event

    check()


def test_kinds_have_names_of_their_own() -> None:
    assert len(KINDS) == len({kind.__name__ for kind in events.Event.__subclasses__()}) == 14
    assert all(getattr(events, kind.__name__) is kind for kind in KINDS.values())


def test_time_is_noted() -> None:
    assert json.loads(encode(Warned(stage="train", text="x")))["time"] > 1_700_000_000


def test_numbers_of_numpy_and_unknown_objects_do_not_end_a_run() -> None:
    summary = {
        "loss": np.float32(0.5),
        "n": np.int64(3),
        "folder": Path("a/b"),
        "many": np.arange(3),
    }
    back = decode(
        encode(StageFinished(stage="train", seconds=1.0, peak_memory_mb=1.0, summary=summary))
    )
    assert isinstance(back, StageFinished)
    assert back.summary == {"loss": 0.5, "n": 3, "folder": str(Path("a/b")), "many": "[0 1 2]"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"event"',
        "{}",
        '{"event": "from_the_future", "x": 1}',
        '{"event": []}',
        '{"event": null}',
        '{"event": "warning", "stage": "train"}',
        "[" * 100_000,
        '{"event": "progress", "stage": "tra',
    ],
)
def test_an_invalid_line_decodes_to_no_event(line: str) -> None:
    assert decode(line) is None


@given(line=st.text())
def test_decode_never_raises(line: str) -> None:
    assert decode(line) is None or isinstance(decode(line), events.Event)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert decode('{"event": "warning", "stage": "a", "text": "b", "colour": "red"}') == Warned(
        stage="a", text="b"
    )


def progress(count: int) -> Progress:
    return Progress(
        stage="embed",
        done=count,
        total=9,
        unit="chunks",
    )


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    log = EventLog(tmp_path / "events.jsonl")
    for count in range(3):
        log(progress(count))
    log.close()
    return tmp_path / "events.jsonl"


def test_log_is_private_and_read_in_order(log_path: Path) -> None:
    assert is_private(log_path.stat())
    assert [event for event, _ in read(log_path)] == [progress(0), progress(1), progress(2)]


def test_reading_goes_on_from_an_offset(log_path: Path) -> None:
    (_, first), (_, second), (_, last) = read(log_path)
    assert [event for event, _ in read(log_path, first)] == [progress(1), progress(2)]
    assert [event for event, _ in read(log_path, second)] == [progress(2)]
    assert list(read(log_path, last)) == list(read(log_path, last + 100)) == []
    assert last == log_path.stat().st_size


def test_a_torn_last_line_is_left_for_later(log_path: Path) -> None:
    line = (encode(Warned(stage="train", text="né")) + "\n").encode()
    whole = log_path.stat().st_size
    for cut in range(1, len(line)):
        with log_path.open("rb+") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(line[:cut])
        assert list(read(log_path, whole)) == []
    with log_path.open("ab") as file:
        file.write(line[cut:])
    assert list(read(log_path, whole)) == [(Warned(stage="train", text="né"), whole + len(line))]


def test_unknown_kinds_and_garbage_are_passed_over(log_path: Path) -> None:
    with log_path.open("ab") as file:
        file.write(b'{"event": "new_kind"}\n\xff\xfe\n\n')
    log = EventLog(log_path)
    log(progress(3))
    log.close()
    records = list(read(log_path))
    assert [event for event, _ in records] == [progress(count) for count in range(4)]
    assert records[-1][1] == log_path.stat().st_size


def test_a_log_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    assert list(read(tmp_path / "events.jsonl")) == []


def test_lone_surrogates_of_file_names_survive(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log")
    log(Warned(stage="ingest", text="caf\udce9.md was skipped"))
    log.close()
    log.close()
    log(progress(1))
    assert [event for event, _ in read(tmp_path / "log")] == [
        Warned(stage="ingest", text="caf\udce9.md was skipped")
    ]


def test_two_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    count = 400
    code = (
        "import sys\nfrom pathlib import Path\nfrom engine.core.events import EventLog,"
        " RunStarted\nlog = EventLog(Path(sys.argv[1]))\nsys.stdin.read(1)\nfor n in"
        f" range({count}): log(RunStarted(run=sys.argv[2], stages=[str(n)] * (n % 50 + 1)))"
    )
    root = str(Path(__file__).resolve().parents[2])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name],
            stdin=subprocess.PIPE,
            env=dict(os.environ, PYTHONPATH=root),
        )
        for name in ("a", "b")
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"x")
        child.stdin.close()
    assert [child.wait(30) for child in children] == [0, 0]
    logged = [event for event, _ in read(path)]
    for name in ("a", "b"):
        mine = [
            event.stages for event in logged if isinstance(event, RunStarted) and event.run == name
        ]
        assert mine == [[str(n)] * (n % 50 + 1) for n in range(count)]


def test_a_full_disk_loses_events_but_never_raises(
    small_disk: Path, disk_filler: Callable[..., None]
) -> None:
    log = EventLog(small_disk / "events.jsonl")
    log(progress(1))
    disk_filler(small_disk)
    for count in range(2, 200):
        log(progress(count))
    (small_disk / "ballast").unlink()
    log(progress(200))
    log(progress(201))
    log.close()
    logged = [event for event, _ in read(small_disk / "events.jsonl")]
    assert logged[0] == progress(1)
    assert logged[-2:] == [progress(200), progress(201)]


def test_a_warning_that_the_log_holds_is_not_repeated(tmp_path: Path) -> None:
    first = Warned(stage="ingest", text="a")
    other = Warned(stage="index", text="a")
    for _ in range(2):  # two processes of one run
        log = EventLog(tmp_path / "log")
        for event in (first, other, first):
            log(event)
        log.close()
    assert [event for event, _ in read(tmp_path / "log")] == [first, other]
