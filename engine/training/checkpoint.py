"""Checkpoints of a training: written whole or not at all, read without pickle, resumed to the
same result.

A checkpoint is a folder `step-00000050` with `tensors.safetensors` (adapter, optimizer, best
adapter) and `state.json` (step, history, the tensors' sha256). Random choices are seeded by step,
so no generator state has to be kept, and one checkpoint of a step is as good as another.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.disk import complete_folder, disk_errors

if TYPE_CHECKING:
    from torch import Tensor

    from engine.training.heldout import HeldOutFigures

VERSION = 2
KEPT = 2


@dataclass(slots=True)
class TrainingState:
    """Where a training stands after `step` steps.

    `best_step` is None until a held-out check was made; `first_ndcg`: what that one, of step 0,
    found by query.

    `history`: one entry per held-out check, or some of the losses alone; the sums are of the losses
        and target entropies since the
    last one. `seconds`: how long it has trained, over all its runs.
    """

    step: int = 0
    best_step: int | None = None
    best_metric: float = -1.0
    stale: int = 0
    history: list[dict[str, float | int]] = field(default_factory=list)
    loss_sum: float = 0.0
    entropy_sum: float = 0.0
    summed: int = 0
    stopped: bool = False
    first_ndcg: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, loss: float, entropy: float) -> None:
        """Count one step's loss and target entropy towards the means of the next held-out check."""
        self.loss_sum = self.loss_sum + loss
        self.entropy_sum = self.entropy_sum + entropy
        self.summed = self.summed + 1

    def note(self, **found: float) -> None:
        """Add an entry to the history, with what else was `found`."""
        count = max(1, self.summed)
        means = {"loss": self.loss_sum / count, "target_entropy": self.entropy_sum / count}
        self.history.append({"step": self.step, **means, **found})
        self.loss_sum = 0.0
        self.entropy_sum = 0.0
        self.summed = 0

    def record(self, found: HeldOutFigures) -> bool:
        """Note a held-out check; whether this step is now the one to keep.

        Step 0, where training begins, is kept only as long as each later step is clearly worse. Of
        the others the one with the highest nDCG@10 is kept, the earlier one of equals.
        """
        from engine.training.heldout import is_clearly_worse

        ndcg = found.ndcg_at_10
        self.note(hit_at_10=found.hit_at_10, ndcg_at_10=ndcg)
        if self.best_step is None:
            self.first_ndcg = found.ndcg.tolist()
            better = True
        elif is_clearly_worse(found.ndcg, self.first_ndcg):
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


def save(folder: Path, key: str, state: TrainingState, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint for the training named by `key`, unless there is one of that step; drop
    all but the newest two.

    Raises ResourceError when the disk is full.
    """
    from safetensors.torch import save as serialise

    with disk_errors(f"The training checkpoint in {folder} could not be written."):
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob(".writing-*"):
            shutil.rmtree(torn, ignore_errors=True)
        final = folder / f"step-{state.step:08d}"
        if _load(final, key) is not None:
            return
        shutil.rmtree(final, ignore_errors=True)  # torn, or another training's
        payload = serialise(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        )
        digest = hashlib.sha256(payload).hexdigest()
        content = {"version": VERSION, "key": key, "sha256": digest, "state": asdict(state)}
        with complete_folder(folder / f".writing-{os.getpid()}", final) as temporary:
            (temporary / "tensors.safetensors").write_bytes(payload)
            (temporary / "state.json").write_text(json.dumps(content), encoding="utf-8")
        kept = [one for one in _folders(folder) if one.name <= final.name][
            :KEPT
        ]  # later ones: torn, or another training's
        for old in set(_folders(folder)) - set(kept):
            shutil.rmtree(old, ignore_errors=True)


def load_newest(folder: Path, key: str) -> tuple[TrainingState, dict[str, Tensor]] | None:
    """The newest whole checkpoint of the training named by `key`; torn and foreign ones are
    passed over.
    """
    for candidate in _folders(folder):
        found = _load(candidate, key)
        if found is not None:
            return found
    return None


def newest_step(folder: Path) -> int | None:
    """The step of the newest checkpoint in `folder` whose state can be read; its tensors are not
    looked at.
    """
    for candidate in _folders(folder):
        try:
            return int(json.loads((candidate / "state.json").read_text("utf-8"))["state"]["step"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _load(folder: Path, key: str) -> tuple[TrainingState, dict[str, Tensor]] | None:
    from safetensors.torch import load as deserialise

    try:
        content: dict[str, Any] = json.loads((folder / "state.json").read_text("utf-8"))
        payload = (folder / "tensors.safetensors").read_bytes()
        if (
            content["version"] != VERSION
            or content["key"] != key
            or content["sha256"] != hashlib.sha256(payload).hexdigest()
        ):
            return None
        return TrainingState(**content["state"]), deserialise(payload)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folders(folder: Path) -> list[Path]:
    if folder.is_dir():
        return sorted(folder.glob("step-*"), reverse=True)
    return []
