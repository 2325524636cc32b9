"""Adding this server to an assistant's configuration file, without changing anything else in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from engine.core.assets import asset_path
from engine.core.disk import disk_errors, expand_home, replace_file
from engine.core.errors import InputError, UsageError, reason_of
from engine.core.platforms import SYSTEM
from engine.core.platforms.processes import program_file
from engine.gguf.places import lm_studio

NAME = "bmembed"
"""Name of the server's entry in an assistant's configuration."""
SKILL = "bmembed-search"
"""Name of the skill's folder."""


@dataclass(frozen=True)
class Change:
    """A change of a file's text."""

    path: Path
    before: str | None
    """The former text; None if there is no file."""
    after: str

    def diff(self) -> list[str]:
        """Return the changed lines with some context; empty if nothing changes."""
        old = (self.before or "").splitlines()
        new = self.after.splitlines()
        return list(unified_diff(old, new, str(self.path), str(self.path), n=2, lineterm=""))

    def write(self) -> Path | None:
        """Write the file atomically, and return the path of the backup of the former file.

        Raises UsageError if the file has changed meanwhile.
        """
        path = self.path.resolve()  # the target of a link is changed, not the link
        if _read_text(path) != self.before:
            raise UsageError(
                f"{path} has changed meanwhile.",
                "Another program has written it.",
                "Try again.",
                code="config-changed",
            )
        with disk_errors(f"{path} could not be written."):
            path.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            backup = None
            if self.before is not None:
                backup = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
                shutil.copy2(path, backup)
            temporary = path.with_name(f".tmp-{path.name}")
            with replace_file(path, temporary) as file:
                file.write(self.after.encode())
                if backup:
                    shutil.copymode(path, temporary)
        return backup


def installation(client: str, projects: Sequence[Path]) -> Change:
    """Return the change that adds the server to an assistant's configuration.

    `client`: the assistant, such as `claude`. `projects`: folders that the server searches. Raises
    InputError if the configuration cannot be read.
    """
    path = config_path(client, Path.home())
    before = _read_text(path)
    program, *words = own_command()
    entry = {"command": program, "args": [*words, "mcp", *map(str, projects)]}
    try:
        if path.suffix == ".toml":
            after = _add_to_toml(before or "", entry)
        else:
            after = _add_to_json(before or "", entry)
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
    """Return the command that starts `engine` from any folder."""
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        program = folder / program_file("engine")
        if program.is_file():
            return [str(program)]
    # With -P, a folder `engine` in the current one does not hide the installed package.
    return [sys.executable, "-P", "-m", "engine"]


def skill(folder: Path) -> Change:
    """Return the change that adds the search skill to an assistant's folder of skills.

    Raises InputError.
    """
    path = expand_home(folder) / SKILL / "SKILL.md"
    text = asset_path(f"assistants/{SKILL}/SKILL.md").read_text(encoding="utf-8")
    return Change(
        path,
        _read_text(path),
        text,
    )


def config_path(client: str, home: Path) -> Path:
    """Return the configuration file in which an assistant lists its servers.

    `client`: `claude` (Claude Code), `claude-desktop`, `codex`, `cursor`, otherwise LM Studio.
    """
    if client == "claude":  # Claude Code
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    if client == "claude-desktop":
        if SYSTEM == "macos":
            settings = home / "Library/Application Support"
        elif SYSTEM == "windows":
            settings = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
        else:
            settings = home / ".config"
        return settings / "Claude" / "claude_desktop_config.json"
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    if client == "cursor":
        return home / ".cursor" / "mcp.json"
    return lm_studio(home) / "mcp.json"


def _read_text(path: Path) -> str | None:
    """Return a file's text, None if there is no file. Raises InputError."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read.", reason_of(error), "Check the file.", code="config-invalid"
        ) from None


def _add_to_json(text: str, entry: dict[str, Any]) -> str:
    """Return JSON text with the server's entry added, indented as before. Raises ValueError."""
    data = json.loads(text) if text.strip() else {}
    servers = data.setdefault("mcpServers", {}) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ValueError("it is no object with an object mcpServers")
    _put_entry(servers, entry)
    # The white space before the first key, which begins the second line.
    indentation = re.match(r"\s*\{\s*?\n([ \t]+)", text)
    indent = indentation[1] if indentation else 2
    return json.dumps(data, ensure_ascii=False, indent=indent) + "\n"


def _add_to_toml(text: str, entry: dict[str, Any]) -> str:
    """Return TOML text with the server's entry added; comments and order stay.

    Raises ValueError.
    """
    import tomlkit

    data = tomlkit.parse(text)
    if "mcp_servers" not in data:
        data["mcp_servers"] = tomlkit.table(is_super_table=True)
    servers: Any = data["mcp_servers"]
    if not isinstance(servers, dict):
        raise ValueError("mcp_servers is no table")
    _put_entry(servers, entry)
    return tomlkit.dumps(data)


def _put_entry(servers: dict[str, Any], entry: dict[str, Any]) -> None:
    """Add or update the server's entry; keys that the user has added, such as `env`, stay."""
    if isinstance(servers.get(NAME), dict):
        servers[NAME].update(entry)
    else:
        servers[NAME] = entry
