"""The GPUs of this machine, as torch and the system see them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core.processors import read_or_empty

_NVIDIA, _DISPLAY = "0x10de", "0x03"  # PCI vendor, and the class of display controllers
PCI_DEVICES = Path("/sys/bus/pci/devices")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that torch can use; bytes of memory. `bfloat16`: whether it has units for it."""

    name: str
    memory: int
    free: int
    bfloat16: bool


@dataclass(frozen=True, slots=True)
class Gpus:
    """`usable` ones; whether torch was `built_for_cuda`; how many NVIDIA `cards` the system lists (0 where it cannot)."""

    usable: tuple[Gpu, ...]
    built_for_cuda: bool
    cards: int


def find_gpus() -> Gpus:
    """Look for GPUs. Imports torch."""
    import torch

    usable = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            with torch.cuda.device(number):
                free, total = torch.cuda.mem_get_info()
                fast = bool(torch.cuda.is_bf16_supported(including_emulation=False))
            usable.append(Gpu(torch.cuda.get_device_name(number), int(total), int(free), fast))
    built = bool(torch.version.cuda or torch.version.hip)
    return Gpus(tuple(usable), built, nvidia_cards())


def nvidia_cards(devices: Path = PCI_DEVICES) -> int:
    """NVIDIA display controllers on the PCI bus, as Linux lists them."""
    return sum(read_or_empty(device / "vendor").strip() == _NVIDIA and read_or_empty(device / "class").startswith(_DISPLAY)
               for device in (devices.iterdir() if devices.is_dir() else ()))  # fmt: skip
