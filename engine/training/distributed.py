"""Training by several processes, started by `accelerate launch` or torchrun: one for each GPU,
on one machine or more.

The process of rank 0 is an ordinary run: it holds the project's lock, does every stage, and writes
events, checkpoints and results. The others wait until it trains; it sends them data and recipe, and
the model where they do not have it, and they leave when it is done. They need neither the project
nor the model's folder.
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
_APPEAR = timedelta(
    minutes=10
)  # how long the leader waits for the others, which were started with it
_PATIENCE = timedelta(days=30)  # a run may be paused, and what comes before training may take long
_LOCAL = ("localhost", "127.0.0.1", "::1")
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
_RELEASE = timedelta(seconds=10)
_WATCH_SECONDS = 1.0


class Group(Peers):
    """Several processes, joined by torch.distributed: CPU tensors go through gloo, those on GPUs
    through NCCL.
    """

    def __init__(self, launch: Launch, group: dist.ProcessGroup) -> None:
        self.rank = launch.rank
        self.count = launch.count
        self.local_count = launch.local_count
        self._group = group

    def add(self, tensors: Sequence[Tensor]) -> None:
        """As `Peers.add`. Raises StageError when a process is gone."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _partners():
            dist.all_reduce(flat, group=self._group)
        for tensor, part in zip(
            tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True
        ):
            tensor.copy_(part.view_as(tensor))

    def decide(self, value: T) -> T:
        """As `Peers.decide`. Raises StageError when a process is gone."""
        box = [value if self.leads else None]
        with _partners():
            dist.broadcast_object_list(box, src=0, group=self._group, device=torch.device("cpu"))
        return box[0]  # type: ignore[return-value]


def train_together(job: Job) -> TrainResult:
    """As `engine.training.trainer.train`, together with the other processes of this launch where
    there are any.

    The adapter is that of a single process up to rounding. Raises UsageError for more processes
    than GPUs, StageError when the others do not appear or go away.
    """
    launch = find_launch()
    if launch is None:
        return train(job)
    _check_devices(launch, job.hardware)
    why = "as launched; every process takes its share of a step's micro-batches"
    job.emit(Choice(stage=STAGE, setting="processes", value=str(launch.count), reason=why))
    with _joined(launch, _APPEAR) as peers, ExitStack() as kept:
        _agree_on_version(peers)
        peers.decide(replace(job, emit=ignore, should_stop=never, should_finish=never))
        return train(_own(job, launch, peers, kept), peers)


def follow() -> None:
    """Help the leading process of this launch to train; return when it has trained.

    The process ends, with exit code 0, as soon as the leader has ended without training. Raises
    what training raises.
    """
    launch = find_launch()
    if launch is None or launch.rank == 0:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_IGN
        )  # the leader hears them too, and stops all at the next safe point
    if launch.spans_machines:
        threading.Thread(target=_leave_when_released, daemon=True).start()
    else:
        threading.Thread(target=_leave_with, args=(_leader(),), daemon=True).start()
    with _joined(launch, _PATIENCE) as peers, ExitStack() as kept:
        _agree_on_version(peers)
        job: Job = peers.decide(None)  # type: ignore[assignment]  # the leader's value
        with suppress(CancelledError):
            train(_own(job, launch, peers, kept), peers)


def release() -> None:
    """Let the processes of this launch that wait on other machines go: the leading one ends."""
    with suppress(RuntimeError):  # of a launcher that is gone already
        _launchers_store().set(_released(), "")


@contextmanager
def _joined(launch: Launch, wait: timedelta) -> Iterator[Group]:
    """The processes of the launch, once all of them are there."""
    _stay_on_this_machine()
    on_gpus = torch.cuda.is_available() and dist.is_nccl_available()
    if on_gpus and launch.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(launch.local_rank)
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    try:
        dist.init_process_group(backend, rank=launch.rank, world_size=launch.count, timeout=wait)
    except (RuntimeError, ValueError) as error:  # torch's own errors are RuntimeErrors
        raise StageError(
            f"The {launch.count} processes of this training did not find each other.",
            first_line(error),
            "Start all of them together, on machines that reach each other's ports, or train in one"
            " process.",
            code="processes-not-connected",
        ) from error
    try:
        yield Group(launch, dist.new_group(backend=backend, timeout=_PATIENCE))
    finally:
        dist.destroy_process_group()


def _stay_on_this_machine() -> None:
    loopback = _LOOPBACK.get(sys.platform)
    if loopback is not None and os.environ["MASTER_ADDR"] in _LOCAL:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", loopback)


def _check_devices(launch: Launch, hardware: Hardware) -> None:
    if hardware.device == "cpu":
        return
    gpus = torch.cuda.device_count()
    if launch.local_count > gpus:
        raise UsageError(
            f"{launch.local_count} processes cannot share {gpus} GPU{'' if gpus == 1 else 's'}.",
            "Each process needs its own GPU.",
            f"Launch {gpus} processes, or set encoder.device to cpu.",
            code="processes-too-many",
        )


def _agree_on_version(peers: Peers) -> None:
    """Raises UsageError where another process leads by another version of the program."""
    if (leaders := peers.decide(__version__)) != __version__:
        raise UsageError(
            f"The processes of this training have different versions of the program: {leaders} and"
            f" {__version__}.",
            "They would not compute the same.",
            "Install the same version on all machines.",
            code="versions-differ",
        )


def _own(job: Job, launch: Launch, peers: Peers, kept: ExitStack) -> Job:
    """The job of one process: its own GPU, or its share of the CPU's cores; and the leader's
    model, which is sent, and `kept` in a temporary folder, where a process does not have it.
    """
    _check_devices(launch, job.hardware)
    hardware = job.hardware
    model = job.model
    if hardware.device != "cpu":
        hardware = replace(hardware, device=f"cuda:{launch.local_rank}")
    elif not os.environ.get("OMP_NUM_THREADS"):  # with it, the launcher has shared out the cores
        hardware = replace(hardware, threads=max(1, hardware.threads // launch.local_count))
    lacking = not _is_here(model)
    wanted = torch.tensor([float(lacking)])
    peers.add([wanted])
    if wanted.item():
        files = peers.decide(read_tree(model.path, LOADED) if peers.leads else {})
    else:
        files = {}
    if lacking:
        model = replace(model, path=Path(kept.enter_context(TemporaryDirectory(prefix="bmembed-"))))
        write_tree(files, model.path)
    return replace(job, hardware=hardware, model=model)


def _is_here(model: ModelFolder) -> bool:
    """Whether the folder that another process found is on this machine, too, with the same
    content.
    """
    try:
        found = resolve_model(str(model.path)).with_prompts(
            model.query_prompt, model.document_prompt
        )
        return with_pooling(found, model.pooling or "").fingerprint == model.fingerprint
    except EngineError:
        return False


@contextmanager
def _partners() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        print(error, file=sys.stderr)  # into the stage's log
        raise StageError(
            "Another process of this training has ended.",
            "Its connection broke.",
            "Look for its error, here or on its machine, and run again. Training resumes from its"
            " last checkpoint.",
            code="processes-not-connected",
            command="run",
        ) from error


def _leader() -> psutil.Process | None:
    """The process of rank 0: a child of the same launcher.

    None where it is gone, or not to be seen.
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for process in psutil.Process(os.getppid()).children():
            try:
                if process.environ().get("RANK") == "0":
                    return process
            except psutil.Error:
                continue
        time.sleep(_WATCH_SECONDS / 4)
    return None


def _launchers_store() -> Store:
    """The launcher's, which is on the machine of rank 0. Raises RuntimeError where it is gone."""
    return TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=_RELEASE
    )


def _released() -> str:
    return f"bmembed/released/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _leave_when_released() -> None:
    """As `_leave_with`, for a leader on another machine: it says so, or the launcher there is
    gone with it.
    """
    try:
        store = _launchers_store()
        while not store.check([_released()]):
            time.sleep(_WATCH_SECONDS)
    except RuntimeError:
        print(
            "The launcher of the leading process (RANK 0) has ended: this process ends, too.",
            file=sys.stderr,
        )
        os._exit(1)
    os._exit(0)


def _leave_with(leader: psutil.Process | None) -> None:
    if leader is None:
        print("There is no leading process (RANK 0) beside this one: it ends.", file=sys.stderr)
    while leader is not None and leader.is_running() and leader.status() != psutil.STATUS_ZOMBIE:
        time.sleep(_WATCH_SECONDS)
    os._exit(0)  # the main thread waits in torch, deaf to everything
