"""The whole run on an emulated GPU gives what the CPU gives: no tensor is where another one of its operation is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import SAMPLE, SETTINGS, engine_here, environment, import_path
from safetensors.numpy import load_file

from engine.project.folder import ProjectFolder

ON_GPU = """
import sys
from fixtures.emulated_gpu import OnGpu, emulate
emulate()
from fixtures.pipeline import engine_here
engine_here("adapt", sys.argv[1])
print(OnGpu.made)
"""
RECIPES: dict[str, dict[str, Any]] = {
    "GradCache, hyperbolic": {"adapter_scope": "both", "graph_memory_mb": 0.01, "similarity": "lorentz"},
    "all weights pre-trained": {"method": "PT-FT", "pretrain_steps": 3, "pretrain_weights": "all"},
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_on_a_gpu_gives_what_the_cpu_gives(tmp_path: Path, tiny_model: Path, recipe: str) -> None:
    (tmp_path / "documents").mkdir()
    for document in sorted((SAMPLE / "documents").rglob("*.md"))[:20]:
        shutil.copy(document, tmp_path / "documents")
    found = []
    for device in ("cpu", "cuda"):
        settings = {
            **SETTINGS, "encoder": {"model": str(tiny_model), "device": device, "dtype": "float32"},
            "corpus": {"paths": [str(tmp_path / "documents")]},
            "training": {**SETTINGS["training"], "steps": 4, "eval_every": 2, **RECIPES[recipe]},
        }  # fmt: skip
        project = ProjectFolder.create(tmp_path / device, settings)
        if device == "cpu":
            engine_here("adapt", str(project.path))
        else:
            on_gpu(project)
        found.append(adapter(project))
    here, there = found
    assert here.keys() == there.keys()
    for name, values in here.items():
        np.testing.assert_allclose(there[name], values, atol=2e-4, err_msg=name)


def on_gpu(project: ProjectFolder) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_GPU, str(project.path)], env={**environment(), "PYTHONPATH": import_path()},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 1000


def adapter(project: ProjectFolder) -> dict[str, Any]:
    (weights,) = project.path.glob("adapters/*/adapter_model.safetensors")
    return load_file(weights)
