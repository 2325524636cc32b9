"""Training by several processes, started by `accelerate launch` or torchrun, one for each GPU.

The process of rank 0 is an ordinary run: it holds the project's lock, does every stage, and writes
events, checkpoints and results. The others wait until it trains, get data, recipe and if necessary
the model from it, and leave when it is done; they need neither the project nor the model's folder.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import psutil
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from engine.core.disk import read_tree, write_tree
from engine.core.errors import CancelledError, EngineError, StageError, UsageError, first_line
from engine.core.events import Choice
from engine.core.platforms.sockets import loopback_interface
from engine.core.text import format_count
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import LOADED, ModelFolder, resolve_model
from engine.encoders.pooling import with_pooling
from engine.training.compute.launch import Launch, find_launch
from engine.training.compute.peers import Peers
from engine.training.job import Job, ignore, never
from engine.training.loop import STAGE, TrainResult
from engine.training.trainer import train
from engine.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_START_TIMEOUT = timedelta(minutes=10)
"""How long the leader waits for the other processes, which were started with it."""
_WAIT_TIMEOUT = timedelta(days=30)
"""How long the others wait: a run may be paused, and earlier stages may take long."""
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_STORE_TIMEOUT = timedelta(seconds=10)
"""How long the launcher's store may take to answer."""
_WATCH_SECONDS = 1.0
"""How often a process looks whether the leader has ended."""


class Group(Peers):
    """Several processes joined by torch.distributed, through gloo for CPUs and NCCL for GPUs."""

    def __init__(self, launch: Launch, group: dist.ProcessGroup) -> None:
        self.rank = launch.rank
        self.count = launch.count
        self.local_count = launch.local_count
        self._group = group

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Sum as `Peers.add`. Raises StageError if a process is gone."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _connection_errors():
            dist.all_reduce(flat, group=self._group)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def decide(self, value: T) -> T:
        """Return the value as `Peers.decide`. Raises StageError if a process is gone."""
        values = [value if self.leads else None]  # torch replaces the entry by the leader's
        with _connection_errors():
            dist.broadcast_object_list(
                values,
                src=0,
                group=self._group,
                device=torch.device("cpu"),
            )
        return values[0]  # type: ignore[return-value]


def train_together(job: Job) -> TrainResult:
    """Train as `engine.training.trainer.train`, together with other processes of the launch.

    The adapter is that of a single process up to rounding. Raises UsageError for more processes
    than GPUs, StageError if the others do not appear or go away.
    """
    launch = find_launch()
    if launch is None:
        return train(job)
    _check_devices(launch, job.hardware)
    why = "as launched; every process takes its share of a step's micro-batches"
    job.emit(Choice(stage=STAGE, setting="processes", value=str(launch.count), reason=why))
    with _join(launch, _START_TIMEOUT) as peers, ExitStack() as resources:
        _check_version(peers)
        peers.decide(replace(job, emit=ignore, should_stop=never, should_finish=never))
        return train(_adapt_job(job, launch, peers, resources), peers)


def follow() -> None:
    """Help the leading process of this launch to train, and return when it has trained.

    If the leader ends without training, the process exits with code 0. Raises what training raises.
    """
    launch = find_launch()
    if launch is None or launch.rank == 0:
        return
    # The leader gets these signals, too, and stops all processes at the next safe point.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if launch.spans_machines:
        threading.Thread(target=_exit_when_released, daemon=True).start()
    else:
        threading.Thread(target=exit_after, args=(_find_leader(),), daemon=True).start()
    with _join(launch, _WAIT_TIMEOUT) as peers, ExitStack() as resources:
        _check_version(peers)
        job: Job = peers.decide(None)  # type: ignore[assignment]  # the leader's value
        with suppress(CancelledError):
            train(_adapt_job(job, launch, peers, resources), peers)


def release() -> None:
    """Release the launch's processes that wait on other machines, because the leader ends."""
    # The launcher may be gone already.
    with suppress(RuntimeError):
        _open_launcher_store().set(_release_key(), "")


@contextmanager
def _join(launch: Launch, wait: timedelta) -> Iterator[Group]:
    """Yield the processes of the launch, once all of them have appeared."""
    _stay_on_this_machine()
    on_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    if on_gpus and launch.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(launch.local_rank)
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    # torch's own errors are RuntimeErrors.
    try:
        dist.init_process_group(
            backend,
            rank=launch.rank,
            world_size=launch.count,
            timeout=wait,
        )
    except (RuntimeError, ValueError) as error:
        raise StageError(
            f"The {launch.count} processes of this training did not find each other.",
            first_line(error),
            "Start all of them together, on machines that reach each other's ports, or train in one"
            " process.",
            code="processes-not-connected",
        ) from error
    try:
        yield Group(launch, dist.new_group(backend=backend, timeout=_WAIT_TIMEOUT))
    finally:
        dist.destroy_process_group()


def _stay_on_this_machine() -> None:
    """Let gloo and NCCL use the loopback interface only, if all processes are on this machine."""
    loopback = loopback_interface()
    if loopback is not None and os.environ["MASTER_ADDR"] in _LOOPBACK_NAMES:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", loopback)


def _check_devices(launch: Launch, hardware: Hardware) -> None:
    """Raise UsageError for more processes on this machine than GPUs."""
    if hardware.device == "cpu":
        return
    gpus = torch.cuda.device_count()
    if launch.local_count > gpus:
        raise UsageError(
            f"{launch.local_count} processes cannot share {format_count(gpus, 'GPU')}.",
            "Each process needs its own GPU.",
            f"Launch {gpus} processes, or set encoder.device to cpu.",
            code="processes-too-many",
        )


def _check_version(peers: Peers) -> None:
    """Raise UsageError if the leader has another version of the program."""
    leaders_version = peers.decide(__version__)
    if leaders_version != __version__:
        raise UsageError(
            "The processes of this training have different versions of the program:"
            f" {leaders_version} and {__version__}.",
            "They would not compute the same.",
            "Install the same version on all machines.",
            code="versions-differ",
        )


def _adapt_job(
    job: Job,
    launch: Launch,
    peers: Peers,
    resources: ExitStack,
) -> Job:
    """Return the job for this process, with its own GPU or its share of the CPU's cores.

    A process that lacks the leader's model gets it in a temporary folder, as long as `resources`
    are open.
    """
    _check_devices(launch, job.hardware)
    hardware = job.hardware
    model = job.model
    if hardware.device != "cpu":
        hardware = replace(hardware, device=f"cuda:{launch.local_rank}")
    # If OMP_NUM_THREADS is set, the launcher has divided the cores.
    elif not os.environ.get("OMP_NUM_THREADS"):
        hardware = replace(hardware, threads=max(1, hardware.threads // launch.local_count))
    is_missing = not _is_here(model)
    missing = torch.tensor([float(is_missing)])
    peers.add([missing])
    if missing.item():
        files = peers.decide(read_tree(model.path, LOADED) if peers.leads else {})
        if is_missing:
            folder = resources.enter_context(TemporaryDirectory(prefix="bmembed-"))
            model = replace(model, path=Path(folder))
            write_tree(files, model.path)
    return replace(
        job,
        hardware=hardware,
        model=model,
    )


def _is_here(model: ModelFolder) -> bool:
    """Return whether this machine has the leader's folder, too, with the same content."""
    try:
        folder = resolve_model(str(model.path))
        folder = folder.with_prompts(model.query_prompt, model.document_prompt)
        return with_pooling(folder, model.pooling or "").fingerprint == model.fingerprint
    except EngineError:
        return False


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Turn a broken connection into a StageError."""
    try:
        yield
    except RuntimeError as error:
        # The stage's log shows torch's message.
        print(error, file=sys.stderr)
        raise StageError(
            "Another process of this training has ended.",
            "Its connection broke.",
            "Look for its error, here or on its machine, and run again. Training resumes from its"
            " last checkpoint.",
            code="processes-not-connected",
            command="run",
        ) from error


def _find_leader() -> psutil.Process | None:
    """Return the process of rank 0, a child of the same launcher, or None if it is not visible."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        siblings: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):  # the launcher is gone
            siblings = psutil.Process(os.getppid()).children()
        for process in siblings:
            try:
                if process.environ().get("RANK") == "0":
                    return process
            except psutil.Error:
                continue
        time.sleep(_WATCH_SECONDS / 4)
    return None


def _open_launcher_store() -> Store:
    """Open the launcher's store on the machine of rank 0. Raises RuntimeError if it is gone."""
    host = os.environ["MASTER_ADDR"]
    port = int(os.environ["MASTER_PORT"])
    # Torch for Windows has no libuv, which the store's server alone would need.
    return TCPStore(
        host,
        port,
        is_master=False,
        timeout=_STORE_TIMEOUT,
        use_libuv=False,
    )


def _release_key() -> str:
    """Return the key of the store that the leader sets; the launcher's restarts have their own."""
    return f"bmembed/released/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _exit_when_released() -> None:
    """Exit when a leader on another machine says so, or its launcher is gone."""
    try:
        store = _open_launcher_store()
        while not store.check([_release_key()]):
            time.sleep(_WATCH_SECONDS)
    except RuntimeError:
        print(
            "The launcher of the leading process (RANK 0) has ended: this process ends, too.",
            file=sys.stderr,
        )
        os._exit(1)
    os._exit(0)


def exit_after(leader: psutil.Process | None) -> None:
    """Wait until the leader on this machine has ended, and exit."""
    if leader is None:
        print("There is no leading process (RANK 0): this one ends.", file=sys.stderr)
    while leader is not None and _is_running(leader):
        time.sleep(_WATCH_SECONDS)
    # The main thread waits in torch and cannot be interrupted.
    os._exit(0)


def _is_running(process: psutil.Process) -> bool:
    """Return whether a process has not ended yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between both questions
        return False
