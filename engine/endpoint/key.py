"""The key that a server wants."""

from __future__ import annotations

import os

from engine.core.errors import SettingsError

KEY = "BMEMBED_ENDPOINT_KEY"
"""The environment variable."""
KEY_HINT = f"the variable {KEY}. It is sent only to servers that project.toml names, by https or within this machine."


def server_key() -> str:
    """The key, empty where there is none. Raises SettingsError for one that no header can hold; the error does not show it."""
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError(
            f"The key in the variable {KEY} cannot be sent.",
            "It holds a line break or a character outside ASCII.",
            f"Correct {KEY}, or leave it out.",
            code="endpoint-key-invalid",
        )
    return key
