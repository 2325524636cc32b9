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
"""Environment variable of a run's processes: the cluster's address, as given to `--ray`."""
_POLL_SECONDS = 0.1
"""How often a wait asks whether the run was cancelled."""
_ANSWER_SECONDS = 5.0
"""How long the cluster's address may take to answer at all."""
_CONNECT_SECONDS = 30.0
"""How long a process without a token may try to join the cluster."""
_WHY = "'ray status' lists the nodes that are left."
_TO_DO = "Run again: what was finished is kept."


def cluster_address() -> str:
    """Return the cluster that the user wants to use; empty for this machine alone."""
    return os.environ.get(VARIABLE, "")


def check_ray() -> None:
    """Raise UsageError if Ray is not installed."""
    check_extra(
        "ray",
        "Work cannot be given out to other machines",
        "It is large, and one machine does without it.",
    )


class Nodes(Generic[Shard, Result]):
    """A function that is loaded on every node, to be called with shards from any thread.

    `capacity`: how many shards all nodes together process at once. `count`: the number of nodes.
    Call `close` at the end.
    """

    def __init__(
        self,
        opener: Callable[[Any], Callable[[Shard], Result]],
        shared: object,
        check: Callable[[], None],
        *,
        one_a_core: bool = False,
    ) -> None:
        """Load the function on each node.

        `opener` is called once on each node with `shared`, and returns the function; it must be
        importable there, so it is defined at the top level of a module. `check` is called while
        this waits for the cluster, and may raise. `one_a_core`: process as many shards at once as a
        node has cores, instead of one. Raises UsageError if there is no cluster, its token differs,
        its nodes require no token, or versions differ; and whatever `opener` raises.
        """
        check_ray()
        self._check = check
        self._closed = False
        # Actors with free slots. An actor is in the queue once for each of its free slots.
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ray = _connect(cluster_address())
        try:
            # Stored by Ray, so that workers that it restarts can read it, too.
            self._packed = self._ray.put(pickle.dumps((opener, shared)))
            alive = [node for node in self._ray.nodes() if node["Alive"]]
            # Nodes started with `--num-cpus 0` do no work, unless all nodes were started so.
            nodes = [node for node in alive if _count_cores(node)] or alive
            # Shards that each node processes at once.
            slots = [max(1, _count_cores(node)) if one_a_core else 1 for node in nodes]
            self._actors = [
                self._start_actor(node, count) for node, count in zip(nodes, slots, strict=True)
            ]
            self._check_nodes([node["NodeManagerAddress"] for node in nodes])
        except BaseException:
            self._ray.shutdown()
            raise
        # First one slot of every node, then the second slots, so that shards spread over nodes.
        for slot in range(max(slots)):
            for actor, count in zip(self._actors, slots, strict=True):
                if slot < count:
                    self._free.put(actor)
        self.capacity = sum(slots)
        self.count = len(nodes)
        self._threads = ThreadPoolExecutor(self.capacity, thread_name_prefix="nodes")

    def __call__(self, shard: Shard) -> Result:
        """Return the result of a shard.

        Raises the EngineError that the function raised, StageError for an internal fault or a lost
        cluster, CancelledError once `close` was called.
        """
        actor = self._take_actor()
        try:
            answer = self._ray.get(actor.work.remote(shard))
        except self._ray.exceptions.RayError as error:
            if self._closed:
                raise CancelledError("The run was cancelled.") from None
            raise self._explain_fault(error) from None
        finally:
            self._free.put(actor)
        _raise_failed(answer)
        result: Result = answer
        return result

    def in_order(self, shards: Iterable[Shard]) -> Iterator[Result]:
        """Yield the results of shards in their order.

        `shards` is read ahead: up to one shard per node waits in addition to those in progress.
        """
        pending: deque[Future[Result]] = deque()
        for shard in shards:
            pending.append(self._threads.submit(self, shard))
            if len(pending) >= self.capacity + self.count:
                yield self._wait_for(pending.popleft())
        while pending:
            yield self._wait_for(pending.popleft())

    def close(self) -> None:
        """End the workers, and leave the cluster."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for actor in self._actors:
            self._ray.kill(actor)
        # Ray must not shut down while a thread waits for it. A thread gives its slot back when it
        # has finished, so wait until all slots are free.
        for _ in range(self.capacity):
            self._free.get()
        self._ray.shutdown()

    def _start_actor(self, node: Any, slots: int) -> Any:
        """Start a `Worker` on a node; it takes up to `slots` shards at once."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # `num_cpus` 0: actors of a lost node can restart on a node whose cores are all taken.
        options = {
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
            "num_cpus": 0,
            # −1: without a limit.
            "max_restarts": -1,
            "max_task_retries": -1,
            "max_concurrency": slots + 1,
        }
        actor = self._ray.remote(Worker).options(**options)
        return actor.remote(
            __version__,
            max(1, _count_cores(node)),
            self._packed,
        )

    def _check_nodes(self, addresses: list[str]) -> None:
        """Raise UsageError for an unfit node or one without a token, or the `opener`'s error.

        `addresses` are the nodes' addresses, in the order of the actors.
        """
        answers = [actor.describe.remote() for actor in self._actors]
        for node, answer in zip(addresses, answers, strict=True):
            while not self._ray.wait([answer], timeout=_POLL_SECONDS)[0]:
                self._check()
            try:
                version, authentication, problem = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                # A node that requires no token may be unable to answer one that sends it.
                if _is_open(self._ray.get_runtime_context().gcs_address):
                    raise _explain_open(node) from error
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
                raise _explain_open(node)
            _raise_failed(problem)

    def _take_actor(self) -> Any:
        """Wait for a free slot, and return its actor. Raises CancelledError after `close`."""
        while not self._closed:
            try:
                return self._free.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        raise CancelledError("The run was cancelled.")

    def _wait_for(self, future: Future[Result]) -> Result:
        """Return the result of `future`; meanwhile, call `check`, which may raise."""
        while not wait_for([future], _POLL_SECONDS).done:
            self._check()
        return future.result()

    def _explain_fault(self, error: Exception) -> StageError:
        """Return the error for a shard without a result: a fault in its function, or no node."""
        name = type(getattr(error, "cause", error)).__name__
        if not isinstance(error, self._ray.exceptions.RayTaskError):
            return lost(name)
        return StageError(
            f"An internal fault on a node of the cluster ({name}).",
            _WHY,
            _TO_DO,
            code="internal-fault",
            command="run",
        )


def lost(how: str) -> StageError:
    """Return the error for a cluster of which no node is left; `how` names what Ray reported."""
    return StageError(
        f"The cluster is lost ({how}).", _WHY, _TO_DO, code="cluster-lost", command="run"
    )


def _explain_open(node: str) -> UsageError:
    """Return the error for a node that accepts requests without a token."""
    return UsageError(
        f"The node {node} asks nobody for a token.",
        "Whoever reaches its ports could read the documents.",
        f"Start all nodes with {AUTHENTICATION}=token (docs/CLUSTER.md).",
        code="cluster-open",
    )


def _is_open(address: str) -> bool:
    """Return whether a process without a token can join the cluster at `address`, by trying it."""
    code = (
        "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False,"
        " configure_logging=False)"
    )
    environ = dict(os.environ)
    environ.pop("RAY_AUTH_TOKEN", None)
    environ[AUTHENTICATION] = "disabled"
    command = [
        sys.executable,
        "-P",
        "-c",
        code,
        address,
    ]
    with suppress(subprocess.TimeoutExpired):
        joined = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            timeout=_CONNECT_SECONDS,
        )
        return joined.returncode == 0
    return False


def _count_cores(node: Any) -> int:
    """Return the cores that a node, as Ray lists it, offers for work."""
    return int(node["Resources"].get("CPU", 0))


def _connect(address: str) -> Any:
    """Connect to the cluster and return the module `ray`. Raises UsageError."""
    # Ray reads these variables when it is imported.
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", AUTHENTICATION: "token"})
    import ray

    if address != "auto":
        _check_answers(address)
    stop_handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address, log_to_driver=False, configure_logging=False, include_dashboard=False
        )
        # Ray's own handler would abort a run that is cancelled.
        signal.signal(signal.SIGTERM, stop_handler)
    except (RuntimeError, OSError, ValueError, ray.exceptions.AuthenticationError) as error:
        ray.shutdown()
        raise _explain_unconnected(address, error) from error
    return ray


def _check_answers(address: str) -> None:
    """Raise UsageError at once if nothing answers: Ray would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        why = "An address is HOST:PORT, or auto."
        if isinstance(error, OSError):
            why = reason_of(error)
        raise UsageError(
            f"There is no Ray cluster at {address}.",
            why,
            "Start one, and make this machine one of its nodes (docs/CLUSTER.md).",
            code="cluster-not-found",
        ) from error


def _explain_unconnected(address: str, error: Exception) -> UsageError:
    """Return the error for a cluster that answers, but that Ray cannot join.

    Ray raises RuntimeError for other versions of Python or Ray.
    """
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


def _raise_failed(answer: Any) -> None:
    """Raise the error that a worker returned in place of a result."""
    if isinstance(answer, Failed):
        raise EngineError.from_dict(answer.error)
