"""Which encoder of the catalogue suits the languages, length of chunks and machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.text import size_text
from engine.models.catalogue import CatalogueModel, read_catalogue
from engine.models.installed import free_space, list_installed

MIN_LANGUAGE = 0.05
"""Minimum share of the text for a language to count: smaller ones are often misdetected."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides between models: free bytes of memory and disk, and whether there is a GPU."""

    memory: int
    disk: int
    has_gpu: bool


def measure_machine() -> Machine:
    """Measure this machine without importing anything heavy."""
    import psutil

    memory = int(psutil.virtual_memory().available)
    has_gpu = Path("/dev/nvidiactl").exists()  # made by NVIDIA's driver
    return Machine(memory, free_space(), has_gpu)


def format_proposal(model: CatalogueModel, is_here: bool) -> str:
    """Say in a note how to use an encoder, and whether it must be fetched first."""
    if is_here:
        return f"{model.name} knows it and is here: set encoder.model to {model.name}"
    return (
        f"'engine models get {model.name}' fetches one that knows it ({size_text(model.disk)});"
        f" then set encoder.model to {model.name}"
    )


def propose_encoder(
    shares: Mapping[str, float],
    machine: Machine,
    chunk_tokens: int = 0,
    here: Collection[str] | None = None,
) -> CatalogueModel | None:
    """Choose the encoder of the catalogue that suits best, or None.

    It must know every language of `shares` (language → share of the text) with 5 % or more, read
    chunks of `chunk_tokens` whole, and fit into memory and disk. Models that are `here` are
    preferred to those that must be fetched. Then the smallest is taken on a CPU, and on a GPU the
    largest that needs no account.
    """
    if here is None:
        here = {model.name for model in list_installed()}
    languages = [language for language, share in shares.items() if share >= MIN_LANGUAGE]
    suitable = []
    for model in read_catalogue():
        knows_all = all(map(model.knows, languages))
        if model.kind == "encoder" and knows_all and model.max_tokens >= chunk_tokens:
            suitable.append(model)
    suitable = [model for model in suitable if fits(model, machine, model.name in here)]
    present = [model for model in suitable if model.name in here]
    if present:
        return _choose_size(present, machine)
    return _choose_size([model for model in suitable if not model.needs_account], machine)


def fits(
    model: CatalogueModel,
    machine: Machine,
    is_here: bool,
) -> bool:
    """Return whether a model fits into memory and, if it must be fetched, onto the disk."""
    return model.memory <= machine.memory and (is_here or model.disk <= machine.disk)


def _choose_size(models: list[CatalogueModel], machine: Machine) -> CatalogueModel | None:
    """Return the largest model if there is a GPU, else the smallest; None without models."""
    if not models:
        return None
    by_size = sorted(models, key=lambda model: model.parameters)
    return by_size[-1] if machine.has_gpu else by_size[0]
