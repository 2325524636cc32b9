"""The nodes of a Ray cluster, as the machine with the project sees them."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from typing import Any, Generic, TypeVar

from engine.cluster.worker import AUTHENTICATION, Failed, Worker
from engine.core.errors import CancelledError, EngineError, StageError, UsageError, reason_of
from engine.core.extras import check_extra
from engine.version import __version__

Shard = TypeVar("Shard")
Result = TypeVar("Result")
VARIABLE = "BMEMBED_RAY"
"""Of a run's processes: the address of the cluster, as `--ray` has it."""
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
_CONNECT_SECONDS = 30.0
_AFTER = ("'ray status' lists the nodes that are left.", "Run again: what was finished is kept.")


def cluster_address() -> str:
    """Where the user wants work to be given out to; empty where it stays on this machine."""
    return os.environ.get(VARIABLE, "")


def check_ray() -> None:
    """Raises UsageError where Ray is not installed."""
    check_extra(
        "ray",
        "Work cannot be given out to other machines",
        "It is large, and one machine does without it.",
    )


class Nodes(Generic[Shard, Result]):
    """A function that is open on every node, and is called with a shard from any thread.

    `capacity`: shards at once, on `count` nodes. Close it.
    """

    def __init__(
        self,
        opener: Callable[[Any], Callable[[Shard], Result]],
        shared: object,
        check: Callable[[], None],
        *,
        one_a_core: bool = False,
    ) -> None:
        """`opener`, a function of a module, is called on each node with what is `shared`, which
        travels once to each. `check` is called while this waits, and may raise. `one_a_core`: as
        many shards at once as a node has cores, not one.

        Raises UsageError where there is no cluster, its token is another, its nodes ask for none,
        or have other versions; what `opener` raises.
        """
        check_ray()
        self._check = check
        self._closed = False
        # an actor stands there once for each shard that it may take
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ray = _connected(cluster_address())
        try:
            self._packed = self._ray.put(
                pickle.dumps((opener, shared))
            )  # for workers that begin anew, too
            alive = [node for node in self._ray.nodes() if node["Alive"]]
            nodes = [node for node in alive if _cores(node)] or alive
            rooms = [max(1, _cores(node)) if one_a_core else 1 for node in nodes]
            self._actors = [
                self._begun(node, room) for node, room in zip(nodes, rooms, strict=True)
            ]
            self._check_nodes([node["NodeManagerAddress"] for node in nodes])
        except BaseException:
            self._ray.shutdown()
            raise
        for turn in range(max(rooms)):
            for actor, room in zip(self._actors, rooms, strict=True):
                if turn < room:
                    self._free.put(actor)
        self.capacity = sum(rooms)
        self.count = len(nodes)
        self._threads = ThreadPoolExecutor(self.capacity, thread_name_prefix="nodes")

    def __call__(self, shard: Shard) -> Result:
        """What comes of a shard.

        Raises the EngineError that it came to, StageError for a fault and where the cluster is
        lost, CancelledError once this is closed.
        """
        actor = self._taken()
        try:
            found = self._ray.get(actor.work.remote(shard))
        except self._ray.exceptions.RayError as error:
            if self._closed:
                raise CancelledError("The run was cancelled.") from None
            raise self._fault(error) from None
        finally:
            self._free.put(actor)
        _raise_failed(found)
        result: Result = found
        return result

    def in_order(self, shards: Iterable[Shard]) -> Iterator[Result]:
        """The results of shards in their order, no more begun than the nodes take at once and
        one for each beside.
        """
        turns: deque[Future[Result]] = deque()
        for shard in shards:
            turns.append(self._threads.submit(self, shard))
            if len(turns) >= self.capacity + self.count:
                yield self._awaited(turns.popleft())
        while turns:
            yield self._awaited(turns.popleft())

    def close(self) -> None:
        """End the workers, and leave the cluster."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for actor in self._actors:
            self._ray.kill(actor)
        for _ in range(self.capacity):
            self._free.get()  # Ray must not go while a thread waits for it
        self._ray.shutdown()

    def _begun(self, node: Any, room: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
        # no core is asked for: those of a lost node must find room beside others
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": -1,
            "max_concurrency": room + 1,
        }
        made = self._ray.remote(Worker).options(scheduling_strategy=there, **options)
        return made.remote(__version__, max(1, _cores(node)), self._packed)

    def _check_nodes(self, addresses: list[str]) -> None:
        for node, answer in zip(
            addresses, [actor.says.remote() for actor in self._actors], strict=True
        ):
            while not self._ray.wait([answer], timeout=_POLL_SECONDS)[0]:
                self._check()
            try:
                version, authentication, problem = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                # then it cannot even answer
                if _is_open(self._ray.get_runtime_context().gcs_address):
                    raise _open(node) from error
                raise UsageError(
                    f"The node {node} of the cluster cannot work.",
                    str(error).strip().splitlines()[-1],
                    "Install the same version of the program on all machines, for the Python that"
                    " Ray runs in.",
                    code="cluster-node-unfit",
                ) from error
            if version != __version__:
                raise UsageError(
                    f"The node {node} has version {version} of the program; this is {__version__}.",
                    "Results could differ.",
                    "Install the same version on all machines.",
                    code="versions-differ",
                )
            if authentication != "token":
                raise _open(node)
            _raise_failed(problem)

    def _taken(self) -> Any:
        while not self._closed:
            try:
                return self._free.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        raise CancelledError("The run was cancelled.")

    def _awaited(self, turn: Future[Result]) -> Result:
        while not wait_for([turn], _POLL_SECONDS).done:
            self._check()
        return turn.result()

    def _fault(self, error: Exception) -> StageError:
        name = type(getattr(error, "cause", error)).__name__
        if not isinstance(error, self._ray.exceptions.RayTaskError):
            return lost(name)
        return StageError(
            f"An internal fault on a node of the cluster ({name}).",
            *_AFTER,
            code="internal-fault",
            command="run",
        )


def lost(how: str) -> StageError:
    """The error where no node is left that could work."""
    return StageError(f"The cluster is lost ({how}).", *_AFTER, code="cluster-lost", command="run")


def _open(node: str) -> UsageError:
    return UsageError(
        f"The node {node} asks nobody for a token.",
        "Whoever reaches its ports could read the documents.",
        f"Start all nodes with {AUTHENTICATION}=token (docs/CLUSTER.md).",
        code="cluster-open",
    )


def _is_open(address: str) -> bool:
    """Whether a process without a token is let into the cluster."""
    code = (
        "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False,"
        " configure_logging=False)"
    )
    environ = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_TOKEN"} | {
        AUTHENTICATION: "disabled"
    }
    with suppress(subprocess.TimeoutExpired):
        command = [sys.executable, "-c", code, address]
        return not subprocess.run(
            command, env=environ, capture_output=True, timeout=_CONNECT_SECONDS
        ).returncode
    return False


def _cores(node: Any) -> int:
    return int(node["Resources"].get("CPU", 0))


def _connected(address: str) -> Any:
    """Ray, connected. Raises UsageError."""
    os.environ.update(
        {"RAY_USAGE_STATS_ENABLED": "0", AUTHENTICATION: "token"}
    )  # which it reads when it is imported
    import ray

    if address != "auto":
        _check_answers(address)
    asks_to_stop = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address, log_to_driver=False, configure_logging=False, include_dashboard=False
        )
        signal.signal(
            signal.SIGTERM, asks_to_stop
        )  # Ray's own handler would abort a run that is cancelled
    except (RuntimeError, OSError, ValueError, ray.exceptions.AuthenticationError) as error:
        ray.shutdown()
        raise _unconnected(address, error) from error
    return ray


def _check_answers(address: str) -> None:
    """Raises UsageError at once where nothing answers: Ray would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            why = reason_of(error)
        else:
            why = "An address is HOST:PORT, or auto."
        raise UsageError(
            f"There is no Ray cluster at {address}.",
            why,
            "Start one, and make this machine one of its nodes (docs/CLUSTER.md).",
            code="cluster-not-found",
        ) from error


def _unconnected(address: str, error: Exception) -> UsageError:
    why = " ".join(str(error).split())
    if isinstance(error, RuntimeError):
        return UsageError(
            f"The Ray cluster at {address} cannot be used from here.",
            why,
            "Install the same versions of Python and Ray on all machines.",
            code="versions-differ",
        )
    return UsageError(
        f"The Ray cluster at {address} does not let this machine in.",
        why,
        "Give all machines the same token, in ~/.ray/auth_token (docs/CLUSTER.md).",
        code="cluster-refused",
    )


def _raise_failed(found: Any) -> None:
    if isinstance(found, Failed):
        raise EngineError.from_dict(found.error)
