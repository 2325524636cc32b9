"""Whether models may be fetched on this machine: the environment and the administrator decide."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from engine.core.errors import UsageError
from engine.core.platforms.users import system_folders

VARIABLE = "BMEMBED_OFFLINE"
POLICY = "policy.toml"
"""File in the system's configuration folder: `[models]` with `fetch = false`."""


def policy_files() -> tuple[Path, ...]:
    """Return the places of the administrator's policy, whether files exist or not."""
    from platformdirs import site_config_path

    site = site_config_path("bmembed", appauthor=False)
    return tuple(dict.fromkeys(folder / POLICY for folder in (*system_folders(), site)))


def check_fetching_allowed(name: str) -> None:
    """Raise UsageError if the environment or a policy forbids fetching the model `name`."""
    if os.environ.get(VARIABLE, "") not in ("", "0"):
        raise _forbidden_error(name, f"{VARIABLE} is set in the environment.")
    for file in policy_files():
        reason = find_prohibition(file)
        if reason:
            raise _forbidden_error(name, reason)


def find_prohibition(file: Path) -> str:
    """Return why a policy file forbids fetching, empty if it does not or is missing.

    An unreadable policy forbids fetching, since it was meant to do something.
    """
    try:
        policy = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"The policy {file} cannot be read: {error}."
    models = policy.get("models", {})
    if isinstance(models, dict) and models.get("fetch", True) is True:
        return ""
    if isinstance(models, dict) and models["fetch"] is False:
        return f"The administrator of this machine forbids it in {file}."
    return f"In the policy {file}, models.fetch is neither true nor false."


def _forbidden_error(name: str, why: str) -> UsageError:
    return UsageError(
        f"The model {name} was not fetched: this machine fetches no models.",
        why,
        f"Where fetching is allowed, run 'engine models get {name} --to FOLDER'. Copy the file that"
        " it writes here, and run 'engine models add FILE'.",
        code="fetch-forbidden",
        command="models",
    )
