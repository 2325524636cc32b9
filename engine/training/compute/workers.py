"""Micro-batches in parallel: how many, and the threads that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

import torch

from engine.encoders.hardware import Hardware
from engine.training.config import TrainingConfig

T = TypeVar("T")
R = TypeVar("R")


class GraphModel(Protocol):
    """A model whose graphs' memory is known."""

    has_dropout: bool

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        """Estimate a graph's memory per token, for texts that are `longest` tokens long."""


class Workers:
    """Runs `count` micro-batches at a time, each on `threads` threads, while its context is open.

    Results are returned in the order of the items. Afterwards torch has its former threads.
    """

    def __init__(self, count: int, threads: int = 1) -> None:
        self.count = max(1, count)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        self._before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        if self.count > 1:
            self._pool = ThreadPoolExecutor(
                self.count, initializer=torch.set_num_threads, initargs=(self._threads,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        torch.set_num_threads(self._before)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return the function's results, in the order of the items."""
        return list(self.in_order(function, items))

    def in_order(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield results as `map`, each as soon as it and those before it are ready."""
        if self._pool is None:
            return map(function, items)
        return self._pool.map(function, items)


class WorkerChoice(NamedTuple):
    """How many micro-batches run at a time, the threads for each, and why."""

    workers: int
    threads: int
    reason: str


def choose_workers(
    student: GraphModel, config: TrainingConfig, hardware: Hardware, available: int
) -> WorkerChoice:
    """Decide how many micro-batches run at a time.

    On a CPU one per core, as far as their graphs fit in half of the free memory (`available`
    bytes). A single one on a GPU, and with dropout, whose random numbers come from one generator in
    a fixed order.
    """
    cores = hardware.threads
    if hardware.device != "cpu":
        return WorkerChoice(1, cores, "a GPU computes them one after another")
    if student.has_dropout:
        return WorkerChoice(1, cores, "dropout draws its random numbers in a fixed order")
    tokens = max(config.max_tokens, config.micro_batch_tokens)
    graph_bytes = student.bytes_per_token(config.max_tokens) * tokens
    fitting = max(1, int(available / 2 / graph_bytes))
    if fitting < cores:
        threads = cores if fitting == 1 else 1
        return WorkerChoice(fitting, threads, "as many as fit in half of the free memory")
    if cores == 1:
        return WorkerChoice(1, 1, "there is a single core")
    return WorkerChoice(
        cores,
        1,
        "small matrices run faster side by side on one core each than on all cores one after"
        " another",
    )
