"""An assistant's configuration file with this server in it: all else that stands in the file
stays.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from engine.core.assets import asset_path
from engine.core.disk import disk_errors, replaced
from engine.core.errors import InputError, UsageError, reason_of
from engine.gguf.places import lm_studio

NAME = "bmembed"
SKILL = "bmembed-search"


@dataclass(frozen=True)
class Change:
    """What a file is to become; `before` is None where there is none."""

    path: Path
    before: str | None
    after: str

    def diff(self) -> list[str]:
        """The lines that change, with few around them; empty where none does."""
        old = (self.before or "").splitlines()
        new = self.after.splitlines()
        return list(unified_diff(old, new, str(self.path), str(self.path), n=2, lineterm=""))

    def write(self) -> Path | None:
        """Write it whole or not at all; the file as it was is kept beside it, under the name
        that is given back.

        Raises UsageError where it has changed meanwhile.
        """
        path = self.path.resolve()  # what a link names is changed, not the link
        if _text(path) != self.before:
            raise UsageError(
                f"{path} has changed meanwhile.",
                "Another program has written it.",
                "Try again.",
                code="config-changed",
            )
        with disk_errors(f"{path} could not be written."):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            backup = None
            if self.before is not None:
                backup = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
                shutil.copy2(path, backup)
            temporary = path.with_name(f".tmp-{path.name}")
            with replaced(path, temporary) as file:
                file.write(self.after.encode())
                if backup:
                    shutil.copymode(path, temporary)
        return backup


def installation(client: str, projects: Sequence[Path]) -> Change:
    """What adds the server, over these projects, to an assistant's configuration.

    Raises InputError where that cannot be read.
    """
    path = config_path(client, Path.home())
    before = _text(path)
    program, *words = own_command()
    entry = {"command": program, "args": [*words, "mcp", *map(str, projects)]}
    try:
        after = (_in_toml if path.suffix == ".toml" else _in_json)(before or "", entry)
        after.encode()
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read.",
            reason_of(error),
            "Correct it, or add the server by hand.",
            code="config-invalid",
        ) from None
    return Change(path, before, after)


def own_command() -> list[str]:
    """What starts `engine` from anywhere."""
    program = Path(sys.executable).with_name("engine")
    if program.is_file():
        return [str(program)]
    return [sys.executable, "-m", "engine"]


def skill(folder: Path) -> Change:
    """What adds the skill to a folder of skills. Raises InputError."""
    path = folder.expanduser() / SKILL / "SKILL.md"
    return Change(
        path, _text(path), asset_path(f"assistants/{SKILL}/SKILL.md").read_text(encoding="utf-8")
    )


def config_path(client: str, home: Path) -> Path:
    """Where an assistant keeps the servers that a user has added."""
    if client == "claude":  # Claude Code
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    if client == "claude-desktop":
        settings = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
        return settings / "Claude" / "claude_desktop_config.json"
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    if client == "cursor":
        return home / ".cursor" / "mcp.json"
    return lm_studio(home) / "mcp.json"


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read.", reason_of(error), "Check the file.", code="config-invalid"
        ) from None


def _in_json(text: str, entry: dict[str, Any]) -> str:
    """With the indentation that the file has. Raises ValueError."""
    if text.strip():
        data = json.loads(text)
    else:
        data = {}
    if isinstance(data, dict):
        servers = data.setdefault("mcpServers", {})
    else:
        servers = None
    if not isinstance(servers, dict):
        raise ValueError("it is no object with an object mcpServers")
    _put(servers, entry)
    indent = re.match(r"\s*\{\s*?\n([ \t]+)", text)
    return json.dumps(data, ensure_ascii=False, indent=indent[1] if indent else 2) + "\n"


def _in_toml(text: str, entry: dict[str, Any]) -> str:
    """With comments and order as they are. Raises ValueError."""
    import tomlkit

    data = tomlkit.parse(text)
    if "mcp_servers" not in data:
        data["mcp_servers"] = tomlkit.table(is_super_table=True)
    servers: Any = data["mcp_servers"]
    if not isinstance(servers, dict):
        raise ValueError("mcp_servers is no table")
    _put(servers, entry)
    return tomlkit.dumps(data)


def _put(servers: dict[str, Any], entry: dict[str, Any]) -> None:
    """What the user has added to the entry, such as `env`, stays."""
    if isinstance(servers.get(NAME), dict):
        servers[NAME].update(entry)
    else:
        servers[NAME] = entry
