"""docs/SETTINGS.md, made from the schema of project.toml: `python tests/lint/settings_page.py`
writes it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.settings.described import describe_sections
from engine.settings.load import format_toml_value
from engine.settings.values import LISTS, Setting, list_settings
from engine.training.config import PRESETS, WRITTEN_QUERIES

PAGE = Path(__file__).parents[2] / "docs" / "SETTINGS.md"
DEPENDS = (
    "adapter_scope",
    "everyday_share",
    "max_tokens",
    "shared_chunks",
    "augmentation",
    "graph_memory_mb",
)  # on others
KINDS = {
    "text": "string",
    "texts": "strings",
    "numbers": "numbers",
    "choices": "any of",
    "flag": "true or false",
}
HEAD = """\
<!-- Made by tests/lint/settings_page.py from engine/settings. -->
# Settings

A project's settings are in `project.toml` in its folder. Change them in the app (`Ctrl+S`), in the file, or on the command line:

    engine config list handbook                    # what is set; --all: every setting
    engine config get handbook training.steps      # the value, or its default
    engine config set handbook corpus.exclude 'drafts/**, *.tmp'
    engine config unset handbook corpus.exclude    # back to the default

A new `project.toml` shows the settings in **bold**, those that people change. It may hold any other, too. An unknown key
or a wrong value is an error that names the key and, for a slip, what was meant. A change holds for the next search or run.
`engine config set` and the app say which stages it makes stale. Relative paths start at the project folder; that of an
encoder is best given whole.
"""  # noqa: E501


def code(value: Any) -> str:
    return f"`{format_toml_value(value)}`"


def row(name: str, *cells: str) -> str:
    return f"| {' | '.join((name, *(cell.replace('|', chr(92) + '|') for cell in cells)))} |"


def type_of(setting: Setting) -> str:
    key = setting.key
    if key.kind in ("choice", "choices"):
        choices = ", ".join(f"`{choice}`" for choice in key.choices)
        if key.kind == "choices":
            return f"any of {choices}"
        return choices
    bounds = setting.range_text if key.kind != "flag" else ""
    named = KINDS.get(key.kind, "integer" if key.kind == "integer" else "number")
    return f"{'list of ' if key.kind in LISTS else ''}{named}{f', {bounds}' if bounds else ''}"


def default_of(setting: Setting) -> str:
    section, name = setting.name.split(".")
    if setting.key.default is not None:
        return code(setting.key.default)
    if section != "training":
        return "the model's"
    values = {getattr(preset, name) for preset in PRESETS.values()}
    if name in DEPENDS:
        return "unset"
    if len(values) == 1:
        return code(*values)
    return "[by preset](#presets)"


def described(setting: Setting) -> str:
    """With the values and keys in it set as code."""
    text = re.sub(
        r"(?<!\w)'([^']+)'(?!\w)|(https?:\S+[^\s;,])",
        lambda found: f"`{found[1] or found[2]}`",
        setting.key.help,
    )
    return re.sub(r"(?<![\w`./])([a-z]+[._][a-z_.]+[a-z]|\$BMEMBED_\w+)(?![\w`(])", r"`\1`", text)


def page() -> str:
    every = list_settings()
    lines = [HEAD]
    for section in describe_sections():
        lines += [
            f"## [{section.name}]",
            "",
            section.help,
            "",
            "| key | value | default | |",
            "|---|---|---|---|",
        ]
        for key in section.keys:
            setting = every[f"{section.name}.{key.name}"]
            if key.common:
                shown = f"**`{key.name}`**"
            else:
                shown = f"`{key.name}`"
            lines.append(row(shown, type_of(setting), default_of(setting), described(setting)))
        lines.append("")
    lines += ["## Presets", "", "Values of `[training]` that differ between presets:", ""]
    lines += [row("key", *PRESETS), "|---" * (len(PRESETS) + 1) + "|"]
    for name, setting in every.items():
        if default_of(setting).startswith("["):
            key = name.removeprefix("training.")
            lines.append(
                row(f"`{key}`", *(code(getattr(preset, key)) for preset in PRESETS.values()))
            )
    lines += [
        "",
        "Where the training queries are worded as questions (imported, or by a language model):",
        "",
    ]
    lines += [row("key", *WRITTEN_QUERIES), "|---" * (len(WRITTEN_QUERIES) + 1) + "|"]
    for key in sorted({key for numbers in WRITTEN_QUERIES.values() for key in numbers}):
        values = [
            numbers.get(key, getattr(PRESETS[preset], key))
            for preset, numbers in WRITTEN_QUERIES.items()
        ]
        lines.append(row(f"`{key}`", *map(code, values)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
