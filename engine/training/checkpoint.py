"""Checkpoints of a training: written atomically, read without pickle, resumed to the same result.

A checkpoint is a folder `step-00000050` with `tensors.safetensors` (adapter, optimizer, best
adapter) and `state.json` (step, history, the tensors' sha256). Random choices are seeded by step,
so no generator state has to be kept, and any checkpoint of a step is as good as another.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.disk import disk_errors, publish_folder
from engine.core.platforms.files import try_remove_tree

if TYPE_CHECKING:
    from torch import Tensor

    from engine.training.heldout import HeldOutFigures

VERSION = 2
"""Increase when earlier checkpoints cannot be resumed."""
KEPT = 2
"""Number of checkpoints on disk."""


@dataclass(slots=True)
class TrainingState:
    """The state of a training after `step` steps."""

    step: int = 0
    best_step: int | None = None
    """None before the first held-out check."""
    best_metric: float = -1.0
    """nDCG@10 of the best step, in percent."""
    stale: int = 0
    """Number of held-out checks since the best one."""
    history: list[dict[str, float | int]] = field(default_factory=list)
    """An entry per held-out check; without checks, some entries with the losses alone."""
    loss_sum: float = 0.0
    """Sum of the losses of the `summed` steps since the last entry of `history`."""
    entropy_sum: float = 0.0
    """Sum of the target entropies of the same steps, in nats."""
    summed: int = 0
    stopped: bool = False
    """Whether the patience is used up."""
    first_ndcg: list[float] = field(default_factory=list)
    """nDCG@10 of each held-out query in the first check, at step 0; from 0 to 1."""
    seconds: float = 0.0
    """Time over all runs."""

    def add(self, loss: float, entropy: float) -> None:
        """Count a step's loss and target entropy towards the means of the next history entry."""
        self.loss_sum += loss
        self.entropy_sum += entropy
        self.summed += 1

    def note(self, **figures: float) -> None:
        """Add an entry to the history, with further figures."""
        count = max(1, self.summed)
        means = {"loss": self.loss_sum / count, "target_entropy": self.entropy_sum / count}
        self.history.append({"step": self.step, **means, **figures})
        self.loss_sum = 0.0
        self.entropy_sum = 0.0
        self.summed = 0

    def record(self, figures: HeldOutFigures) -> bool:
        """Note a held-out check, and return whether this step is the best so far.

        Step 0, where training begins, is the best only as long as each later step is clearly worse.
        Of the later steps the one with the highest nDCG@10 is the best, and the earlier of equals.
        """
        from engine.training.heldout import is_clearly_worse

        ndcg = figures.ndcg_at_10
        self.note(hit_at_10=figures.hit_at_10, ndcg_at_10=ndcg)
        if self.best_step is None:
            self.first_ndcg = figures.ndcg.tolist()
            better = True
        elif is_clearly_worse(figures.ndcg, self.first_ndcg):
            better = False
        else:
            better = self.best_step == 0 or ndcg > self.best_metric
        if better:
            self.best_step = self.step
            self.best_metric = ndcg
            self.stale = 0
        else:
            self.stale += 1
        return better


def save(
    folder: Path,
    key: str,
    state: TrainingState,
    tensors: dict[str, Tensor],
) -> None:
    """Write a checkpoint of the training named by `key`, and delete all but the newest two.

    A valid checkpoint of the same step is kept. Raises ResourceError if the disk is full.
    """
    from safetensors.torch import save as serialise

    with disk_errors(f"The training checkpoint in {folder} could not be written."):
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".writing-*"):
            try_remove_tree(unfinished)
        final = folder / f"step-{state.step:08d}"
        if _load(final, key) is not None:
            return
        # What may be there is damaged, or belongs to another training.
        try_remove_tree(final)
        cpu_tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        payload = serialise(cpu_tensors)
        digest = hashlib.sha256(payload).hexdigest()
        content = {
            "version": VERSION,
            "key": key,
            "sha256": digest,
            "state": asdict(state),
        }
        with publish_folder(folder / f".writing-{os.getpid()}", final) as temporary:
            (temporary / "tensors.safetensors").write_bytes(payload)
            (temporary / "state.json").write_text(json.dumps(content), encoding="utf-8")
        # Checkpoints of later steps are damaged, or belong to another training.
        checkpoints = _find_folders(folder)
        retained = [path for path in checkpoints if path.name <= final.name][:KEPT]
        for old in set(checkpoints) - set(retained):
            try_remove_tree(old)


def load_newest(folder: Path, key: str) -> tuple[TrainingState, dict[str, Tensor]] | None:
    """Read the newest whole checkpoint of the training named by `key`, or return None.

    Damaged checkpoints and those of other trainings are skipped.
    """
    for candidate in _find_folders(folder):
        loaded = _load(candidate, key)
        if loaded is not None:
            return loaded
    return None


def newest_step(folder: Path) -> int | None:
    """Return the step of the newest checkpoint whose state can be read, without its tensors."""
    for candidate in _find_folders(folder):
        try:
            return int(json.loads((candidate / "state.json").read_text("utf-8"))["state"]["step"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _load(folder: Path, key: str) -> tuple[TrainingState, dict[str, Tensor]] | None:
    """Read a checkpoint, or return None if it is damaged, of another version or training."""
    from safetensors.torch import load as deserialise

    try:
        content: dict[str, Any] = json.loads((folder / "state.json").read_text("utf-8"))
        payload = (folder / "tensors.safetensors").read_bytes()
        expected = (
            VERSION,
            key,
            hashlib.sha256(payload).hexdigest(),
        )
        if (content["version"], content["key"], content["sha256"]) != expected:
            return None
        return TrainingState(**content["state"]), deserialise(payload)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find_folders(folder: Path) -> list[Path]:
    """Return the folders of checkpoints, the newest first."""
    if folder.is_dir():
        return sorted(folder.glob("step-*"), reverse=True)
    return []
