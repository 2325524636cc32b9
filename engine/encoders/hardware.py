"""The device, precision and threads of a model, each choice with its reason."""

from __future__ import annotations

import platform
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core.errors import UsageError
from engine.core.processors import available_cores, read_or_empty
from engine.encoders.deferred import pause_collection

Purpose = Literal["encode", "train"]
AMX = "AMX-BF16"
AMD = "AMD's AVX512-BF16"
AVX512 = "AVX512-BF16"
FAST = frozenset({AMX, AMD})
"""Instruction sets that make bfloat16 faster than float32 (docs/log/encoding.md, "Encoding")."""
DTYPES = ("float32", "bfloat16", "float16")
# PCI vendor, and below it the PCI class of display controllers.
_NVIDIA = "0x10de"
_DISPLAY = "0x03"
PCI_DEVICES = Path("/sys/bus/pci/devices")
_AMD = "AuthenticAMD"


@dataclass(frozen=True, slots=True)
class HardwareChoice:
    """One choice, automatic or set by the user; `setting` is device, dtype or threads."""

    setting: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """Where a model runs."""

    device: str
    """Device as in torch, such as `cuda:0`."""
    dtype: str
    """Precision as in torch, such as `bfloat16`."""
    threads: int
    """Number of threads for operators on the CPU."""
    choices: tuple[HardwareChoice, ...]
    """The choices as they are reported to the user."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware of this machine."""

    cores: int
    """Number of threads to use."""
    cores_reason: str
    """Why so many threads are used."""
    cpu_bf16: str | None = None
    """The CPU's bfloat16 instruction set, such as `AMX`."""
    cuda: str | None = None
    """Name of the first GPU, None without one."""
    cuda_bf16: bool = False
    """Whether that GPU has bfloat16 units."""
    cuda_count: int = 0


def choose_hardware(
    device: str = "auto", dtype: str = "auto", purpose: Purpose = "encode"
) -> Hardware:
    """Choose the device, precision and threads on this machine.

    `device` is auto, cpu, cuda or cuda:N; `dtype` is auto, float32, bfloat16 or float16. Raises
    UsageError if one of them is not available.
    """
    return decide(
        detect_machine(look_for_cuda=device != "cpu"),
        device,
        dtype,
        purpose,
    )


def foresee_device(
    device: str,
    dtype: str,
    purpose: Purpose = "encode",
) -> str:
    """Return the device that `choose_hardware` would choose, without using memory of a GPU.

    Raises UsageError as `choose_hardware` does, except for bfloat16 on a GPU without it.
    """
    return decide(_detect_cuda(device), device, dtype, purpose).device


def _detect_cuda(device: str) -> Machine:
    """Return the number of GPUs, found without using their memory.

    They are assumed to have bfloat16 units. The number of cores is not measured.
    """
    if device == "cpu":
        return Machine(1, "")
    with pause_collection():
        import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return Machine(1, "", cuda_bf16=True)
    return Machine(
        1,
        "",
        cuda="a CUDA GPU",
        cuda_bf16=True,
        cuda_count=count,
    )


def decide(
    machine: Machine,
    device: str,
    dtype: str,
    purpose: Purpose,
) -> Hardware:
    """Choose the device, precision and threads on a given machine (see `choose_hardware`)."""
    chosen_device = _decide_device(machine, device)
    chosen_dtype = _decide_dtype(
        machine,
        chosen_device.value,
        dtype,
        purpose,
    )
    threads = HardwareChoice(
        "threads",
        str(machine.cores),
        machine.cores_reason,
    )
    return Hardware(
        chosen_device.value,
        chosen_dtype.value,
        machine.cores,
        (chosen_device, chosen_dtype, threads),
    )


def _decide_device(machine: Machine, device: str) -> HardwareChoice:
    """Choose the device of a setting. Raises UsageError for one that is unknown or not there."""
    cuda = re.fullmatch(r"cuda(?::(\d{1,3}))?", device)
    if device not in ("auto", "cpu") and cuda is None:
        raise UsageError(
            f"There is no device {device!r}.",
            "Devices are auto, cpu, cuda and cuda:N.",
            "Set encoder.device to auto.",
            code="device-unknown",
        )
    if cuda and machine.cuda is None:
        raise UsageError(
            "encoder.device is cuda, but there is no CUDA GPU.",
            "torch finds no CUDA GPU here: no card, no driver, or a CPU build of torch.",
            "Set encoder.device to auto or cpu, or install a CUDA build of torch.",
            code="device-missing",
        )
    if cuda and int(cuda[1] or 0) >= machine.cuda_count:
        raise UsageError(
            f"There is no device {device}.",
            f"This machine has {machine.cuda_count} GPU(s).",
            "Set encoder.device to cuda.",
            code="device-missing",
        )
    if device != "auto":
        return HardwareChoice("device", device, "as set")
    if machine.cuda is not None:
        return HardwareChoice(
            "device",
            "cuda",
            f"a CUDA GPU is present: {machine.cuda}",
        )
    return HardwareChoice("device", "cpu", "no CUDA GPU was found")


def _decide_dtype(
    machine: Machine,
    device: str,
    dtype: str,
    purpose: Purpose,
) -> HardwareChoice:
    """Choose the precision on a device. Raises UsageError for one that it lacks."""
    if dtype not in ("auto", *DTYPES):
        raise UsageError(
            f"There is no precision {dtype!r}.",
            f"Precisions are auto, {', '.join(DTYPES)}.",
            "Set encoder.dtype to auto.",
            code="dtype-unknown",
        )
    if device == "cpu":
        return _decide_cpu_dtype(machine, dtype)
    if dtype == "float16" and purpose == "train":
        raise UsageError(
            "Training in float16 is not possible.",
            "Its small gradients vanish.",
            "Set encoder.dtype to auto, bfloat16 or float32.",
            code="dtype-unsupported",
        )
    if dtype == "bfloat16" and not machine.cuda_bf16:
        raise UsageError(
            "encoder.dtype is bfloat16, but this GPU lacks it.",
            f"{machine.cuda} has no bfloat16 units.",
            "Set encoder.dtype to auto.",
            code="dtype-unsupported",
        )
    if dtype != "auto":
        return HardwareChoice("dtype", dtype, "as set")
    if machine.cuda_bf16:
        return HardwareChoice("dtype", "bfloat16", "the GPU has bfloat16 units")
    if purpose == "encode":
        return HardwareChoice(
            "dtype", "float16", "the GPU has no bfloat16 units; float16 is enough for encoding"
        )
    return HardwareChoice(
        "dtype", "float32", "the GPU has no bfloat16 units, and training needs more than float16"
    )


def _decide_cpu_dtype(machine: Machine, dtype: str) -> HardwareChoice:
    """Choose the precision on a CPU: bfloat16 only where it is faster, unless it is set."""
    if dtype == "float16":
        raise UsageError(
            "float16 needs a CUDA GPU.",
            "CPUs are slow at it.",
            "Set encoder.dtype to auto, or encoder.device to cuda.",
            code="dtype-unsupported",
        )
    fast = machine.cpu_bf16 in FAST
    if dtype == "bfloat16" and not fast:
        return HardwareChoice(
            "dtype",
            dtype,
            f"as set, though it is slow on a CPU without {AMX}",
        )
    if dtype != "auto":
        return HardwareChoice("dtype", dtype, "as set")
    if fast:
        return HardwareChoice(
            "dtype",
            "bfloat16",
            f"the CPU has {machine.cpu_bf16}, some three times as fast as float32",
        )
    if machine.cpu_bf16 is not None:
        # With Intel's AVX512-BF16 alone, a linear layer was measured to take 1.5 times as long in
        # bfloat16 as in float32.
        return HardwareChoice(
            "dtype",
            "float32",
            f"the CPU has {machine.cpu_bf16} but not {AMX}, without which float32 is faster",
        )
    return HardwareChoice(
        "dtype",
        "float32",
        f"the CPU has no {AMX}, and bfloat16 is slow without",
    )


def detect_machine(look_for_cuda: bool = True) -> Machine:
    """Detect the CPU, the limits of this process and, which imports torch, the GPU."""
    cpuinfo = read_or_empty(Path("/proc/cpuinfo"))
    cores, reason = available_cores()
    # Only Linux has the file.
    bf16 = bf16_flag(cpuinfo) if cpuinfo else _bf16_by_torch(platform.processor())
    if look_for_cuda:
        with pause_collection():
            import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            fast = torch.cuda.is_bf16_supported(including_emulation=False)
            return Machine(
                cores,
                reason,
                bf16,
                name,
                fast,
                torch.cuda.device_count(),
            )
    return Machine(cores, reason, bf16)


def bf16_flag(cpuinfo: str) -> str | None:
    """Return the best bfloat16 instruction set in `/proc/cpuinfo`, or None."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[-1].split())
            return _choose_bf16(flags, is_amd=_AMD in cpuinfo)
    return None


def _choose_bf16(flags: Collection[str], *, is_amd: bool) -> str | None:
    """Return the best bfloat16 instruction set among a CPU's flags, or None."""
    if "amx_bf16" in flags:
        return AMX
    if "avx512_bf16" in flags:
        return AMD if is_amd else AVX512
    return None


def _bf16_by_torch(processor: str) -> str | None:
    """Return the best bfloat16 instruction set that torch finds. `processor`: its vendor's text."""
    import torch

    capabilities = torch.cpu.get_capabilities()
    flags = [name for name, is_present in capabilities.items() if is_present]
    return _choose_bf16(flags, is_amd=_AMD in processor)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that torch can use."""

    name: str
    memory: int
    """Bytes of memory in all."""
    free: int
    """Bytes of memory that are free."""
    bfloat16: bool
    """Whether it has bfloat16 units."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of this machine."""

    usable: tuple[Gpu, ...]
    """The GPUs that torch can use."""
    built_for_cuda: bool
    """Whether this build of torch supports CUDA or ROCm."""
    cards: int
    """Number of NVIDIA cards that Linux lists; 0 on other systems."""


def find_gpus() -> Gpus:
    """Find the GPUs of this machine. Imports torch."""
    import torch

    usable = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            with torch.cuda.device(number):
                free, total = torch.cuda.mem_get_info()
                fast = bool(torch.cuda.is_bf16_supported(including_emulation=False))
            usable.append(Gpu(torch.cuda.get_device_name(number), int(total), int(free), fast))
    built = bool(torch.version.cuda or torch.version.hip)
    return Gpus(
        tuple(usable),
        built,
        nvidia_cards(),
    )


def nvidia_cards(devices: Path = PCI_DEVICES) -> int:
    """Count the NVIDIA display controllers on the PCI bus, as listed by Linux."""
    if not devices.is_dir():
        return 0
    count = 0
    for device in devices.iterdir():
        is_nvidia = read_or_empty(device / "vendor").strip() == _NVIDIA
        if is_nvidia and read_or_empty(device / "class").startswith(_DISPLAY):
            count += 1
    return count
