"""Benchmarks are not run by the tests: what they import of the program must still be there."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).resolve().parents[1] / "benchmarks").glob("*.py"))


def imported_names(path: Path) -> Iterator[tuple[str, str]]:
    """Yield modules of the program that a benchmark imports from, each with the name imported."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.partition(".")[0] in ("engine", "bmembed_tui"):
            for alias in node.names:
                yield node.module, alias.name


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_imports_what_exists(path: Path) -> None:
    missing = []
    for module, name in imported_names(path):
        if hasattr(importlib.import_module(module), name):
            continue
        try:
            importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError:
            missing.append(f"{module}.{name}")
    assert not missing
