"""Prompts in a model's own chat template.

The text of documents is kept apart from the control tokens of the template.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import subprocess
import sys
from functools import lru_cache
from typing import Any, NamedTuple

from engine.core.platforms.processes import limit_memory
from engine.core.subprocesses import import_path
from engine.queries.llm.prompts import Message

SECONDS = 20.0  # Time limit for rendering a template.
MEMORY = 1 << 30


class Piece(NamedTuple):
    """A part of a prompt; control tokens are recognised only in parts written by the template."""

    text: str
    control: bool


class Frame(NamedTuple):
    """The text that a template puts before, between and after the system's and the user's text.

    `turns` is what it puts around an answer and a further message.
    """

    head: str
    between: str
    tail: str
    turns: str = ""


PLAIN = Frame("", "\n\n", "\n\nAnswer:\n")


def rendered(template: str | None, message: Message, bos: str, eos: str) -> list[Piece]:
    """Return the prompt in pieces.

    If the template has no system role, both texts go into the user's. If the model has no template,
    or one that cannot be rendered, they are joined as plain text. Callers must break up marks of
    turns in the texts.
    """
    frame = (framed(template, bos, eos) if template else None) or PLAIN
    return [
        Piece(frame.head, True),
        Piece(message.system, False),
        Piece(frame.between, True),
        Piece(message.user, False),
        Piece(frame.tail, True),
    ]


@lru_cache(maxsize=64)
def framed(template: str, bos: str, eos: str) -> Frame | None:
    """Return what a template puts around any two texts, or None if it cannot be rendered.

    The template comes with the model file, and a malicious template can hang the renderer. It is
    therefore rendered in a sandbox, in a separate process with limits of time and memory.
    """
    command = [sys.executable, "-P", "-m", "engine.queries.llm.chat_template"]
    asked = json.dumps([template, bos, eos]).encode()
    try:
        done = subprocess.run(
            command,
            input=asked,
            capture_output=True,
            timeout=SECONDS,
            check=True,
            env=dict(os.environ, PYTHONPATH=import_path()),
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    if found:
        return Frame(*found)
    return None


def _frame(template: str, bos: str, eos: str) -> Frame | None:
    system, user = (f"part{secrets.token_hex(12)}" for _ in range(2))
    attempts = (
        [{"role": "system", "content": system}, {"role": "user", "content": user}],
        [{"role": "user", "content": f"{system}\n\n{user}"}],
    )
    for messages in attempts:
        text = _render(template, messages, bos, eos)
        if (
            text.count(system) == 1
            and text.count(user) == 1
            and text.index(system) < text.index(user)
        ):
            head, _, rest = text.partition(system)
            between, _, tail = rest.partition(user)
            return Frame(head, between, tail, _turns(template, messages, bos, eos))
    return None


def _turns(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    """Return what the template puts between turns, or an empty text if it allows only one turn."""
    answer, further = (f"part{secrets.token_hex(12)}" for _ in range(2))
    more = [{"role": "assistant", "content": answer}, {"role": "user", "content": further}]
    _, _, rest = _render(template, [*messages, *more], bos, eos).partition(messages[-1]["content"])
    return rest.replace(answer, "\n").replace(further, "\n")


def _render(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    """Render the template, or return an empty text if that fails."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            messages=messages,
            add_generation_prompt=True,
            bos_token=bos,
            eos_token=eos,
            enable_thinking=False,
        )
    except (
        jinja2.TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ):
        return ""


def _refuse(reason: Any) -> None:
    """Reject messages; templates call this as `raise_exception`."""
    raise ValueError(str(reason))


if __name__ == "__main__":
    limit_memory(MEMORY)
    json.dump(_frame(*json.load(sys.stdin)), sys.stdout)
