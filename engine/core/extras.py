"""Optional packages, which pip installs as extras: whether they are installed, how to add them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from engine.core.errors import UsageError

EXTRAS = {
    "llm": {
        "llama_cpp": "llama-cpp-python",
        "uvicorn": "uvicorn",
        "fastapi": "fastapi",
        "sse_starlette": "sse-starlette",
        "starlette_context": "starlette-context",
        "pydantic_settings": "pydantic-settings",
    },
    "desktop": {"webview": "pywebview", "textual_serve": "textual-serve"},
    "parquet": {"pyarrow": "pyarrow"},
    "qdrant": {"qdrant_client": "qdrant-client"},
    "lancedb": {"lancedb": "lancedb"},
    "age": {"pyrage": "pyrage"},
    "gguf": {"gguf": "gguf"},
    "ray": {"ray": "ray"},
}
"""Extra → module → the package that provides it."""
_ROOT = Path(__file__).resolve().parents[2]


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, without importing any."""
    return [
        package
        for module, package in EXTRAS[extra].items()
        if importlib.util.find_spec(module) is None
    ]


def install_command(
    extra: str,
    root: Path = _ROOT,
    prefix: Path = Path(sys.prefix),
) -> str:
    """Return the command that adds an extra to the environment in `prefix`.

    From a clone in `root`, it installs the versions that were tested.
    """
    is_clone = (root / "pyproject.toml").is_file() and (root / "constraints.txt").is_file()
    if is_clone and extra == "llm" and prefix.resolve() == (root / ".venv").resolve():
        return f'make -C "{root}" llm'
    if is_clone:
        packages = f'-c "{root / "constraints.txt"}" -e "{root}[{extra}]"'
    else:
        packages = f'"bmembed-tui[{extra}]"'
    # `uv tool` puts no pip into its environments.
    if (prefix / "uv-receipt.toml").is_file():
        return f'uv pip install --python "{sys.executable}" {packages}'
    return f'"{sys.executable}" -m pip install {packages}'


def describe_missing(extra: str) -> str:
    """Return what is missing of an extra and how to install it; empty if nothing is."""
    missing = missing_packages(extra)
    if missing:
        return f"{missing[0]} is not installed; to install it: {install_command(extra)}"
    return ""


def check_extra(
    extra: str, what: str, why: str = "It is large, and nothing else needs it."
) -> None:
    """Raise UsageError if a package of an extra is missing.

    `what`: what cannot be done then, such as `GGUF models cannot be used`. `why`: the reason why
    the extra is not always installed.
    """
    if missing := missing_packages(extra):
        to_do = f"To install it: {install_command(extra)}"
        raise UsageError(
            f"{what}: {missing[0]} is not installed.", why, to_do, code="package-missing"
        )


def check_llm() -> None:
    """Raise UsageError if llama.cpp is missing."""
    check_extra(
        "llm",
        "GGUF models cannot be used",
        "It is optional: installing it takes minutes and a C++ compiler.",
    )
