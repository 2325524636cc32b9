"""Items done ahead by threads: each once, in order, and nobody waits for what does not come."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, suppress

import pytest

from engine.corpus.sandbox import ahead as module
from engine.corpus.sandbox.ahead import Ahead

SECONDS = 20.0


class Stopped(Exception):
    """What a test raises."""


@pytest.fixture(autouse=True)
def nobody_looks_by_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes is woken in time, or a test takes too long."""
    monkeypatch.setattr(module, "WAKE_SECONDS", 2 * SECONDS)


def going(
    work: Callable[[int], int],
    items: Iterable[int],
    threads: int,
    weight: Callable[[int], int] = lambda _: 0,
    while_waiting: Callable[[], None] = lambda: None,
) -> tuple[Ahead[int, int], Iterator[int], list[threading.Thread]]:
    work_ahead = Ahead(work, items, weight, threads)
    helpers = [threading.Thread(target=work_ahead.help, daemon=True) for _ in range(threads)]
    for helper in helpers:
        helper.start()
    return work_ahead, work_ahead.results(while_waiting), helpers


def ended(helpers: list[threading.Thread]) -> bool:
    for helper in helpers:
        helper.join(SECONDS)
    return not any(helper.is_alive() for helper in helpers)


def nap(rng: random.Random, share: float) -> None:
    if rng.random() < share:
        time.sleep(rng.random() / 500)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_takes_long_each_item_is_done_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, threads: int, seed: int
) -> None:
    """Slow and fast work, items and takers by turns; results that weigh more than may be held."""
    rng = random.Random(seed)
    monkeypatch.setattr(module, "MAX_HELD", rng.choice([0, 3, 2**26]))
    shares = [rng.choice([0.0, 0.05, 0.9]) for _ in range(3)]
    done: list[int] = []
    count = rng.choice([0, 1, 7, 100, 300])

    def work(item: int) -> int:
        nap(rng, shares[0])
        done.append(item)
        return item

    def items() -> Iterator[int]:
        for item in range(count):
            nap(rng, shares[1])
            yield item

    started = time.monotonic()
    _, results, helpers = going(work, items(), threads, lambda _: 1)
    taken: list[int] = []
    for result in results:
        nap(rng, shares[2])
        taken.append(result)
    assert taken == [*range(count)]
    assert sorted(done) == taken
    assert ended(helpers)
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("where", ["work", "items", "waiting", "weight", "taker"])
def test_what_is_raised_anywhere_lets_all_go(threads: int, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(here: str, item: int = 150) -> None:
        if here == where and item == 150:
            raise Stopped

    def work(item: int) -> int:
        time.sleep(0.0005)
        fail("work", item)
        return item

    def items() -> Iterator[int]:
        for item in range(300):
            fail("items", item)
            yield item

    def weight(item: int) -> int:
        fail("weight", item)
        return 0

    monkeypatch.setattr(module, "WAKE_SECONDS", 0.0001 if where == "waiting" else 2 * SECONDS)
    _, results, helpers = going(work, items(), threads, weight, lambda: fail("waiting"))
    taken: list[int] = []
    with closing(results), suppress(Stopped):  # type: ignore[type-var]
        for result in results:
            fail("taker", result)
            taken.append(result)
    assert taken == [*range(len(taken))]
    assert len(taken) == 150 if where in ("work", "weight", "taker") else len(taken) < 150
    assert ended(helpers)


@pytest.mark.parametrize("threads", [1, 3])
def test_stopped_from_elsewhere_it_does_not_wait_for_what_nobody_begins(threads: int) -> None:
    begun = threading.Event()

    def work(item: int) -> int:
        if item == 20:
            begun.set()
            time.sleep(0.05)
        return item

    work_ahead, results, helpers = going(work, range(1000), threads)

    def stop() -> None:
        begun.wait(SECONDS)
        work_ahead.stop()

    threading.Thread(target=stop, daemon=True).start()
    taken: list[int] = []
    with pytest.raises(CancelledError):
        taken.extend(results)
    assert ended(helpers)
    assert len(taken) < 1000
