from __future__ import annotations

from typing import Any

import pytest

from engine.project import stage
from engine.project.stage import ThrottledProgress


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, str]] = []

    def progress(
        self,
        count: int,
        total: int,
        unit: str,
    ) -> None:
        self.seen.append((count, total, unit))


def test_each_hundredth_and_each_second_are_reported_with_what_was_done_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder: Any = Recorder()
    clock = iter([0.0, 0.5, 1.2, 1.3, 1.4])
    monkeypatch.setattr(
        stage.time,
        "monotonic",
        lambda: next(clock),
    )
    report = ThrottledProgress(
        recorder,
        9_000,
        "chunks",
        before=1_000,
    )
    for count in (8, 16, 24, 32, 100):  # of 10,000: 10 % until the last, which is 11 %
        report(count)
    assert recorder.seen == [
        (1_008, 10_000, "chunks"),
        (1_024, 10_000, "chunks"),
        (1_100, 10_000, "chunks"),
    ]
