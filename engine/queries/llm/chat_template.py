"""A model's own chat template, with the document's text kept apart from the template's control
tokens.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from engine.core.subprocesses import import_path
from engine.queries.llm.prompts import Message

SECONDS = 20.0  # that a template may take
MEMORY = 1 << 30


class Piece(NamedTuple):
    """A part of a prompt. Control tokens are recognised in the template's own parts only."""

    text: str
    control: bool


class Frame(NamedTuple):
    """What a template puts before the system's text, between it and the user's, and after; and
    `turns`, what it puts around an answer and a further message.
    """

    head: str
    between: str
    tail: str
    turns: str = ""


PLAIN = Frame("", "\n\n", "\n\nAnswer:\n")


def rendered(template: str | None, message: Message, bos: str, eos: str) -> list[Piece]:
    """The prompt in pieces.

    A template without a system role gets both texts in the user's; a model without a template, or
    with one that cannot be followed, gets them as plain text. Marks of turns in the texts are the
    caller's to take apart.
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
    """What a template puts around two texts, whatever they are; None where it cannot be
    followed.

    It comes with the model file: it is followed in a sandbox, in a process of its own, with limits
    of time and memory.
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
    """Empty where the template takes no conversation."""
    answer, further = (f"part{secrets.token_hex(12)}" for _ in range(2))
    more = [{"role": "assistant", "content": answer}, {"role": "user", "content": further}]
    _, _, rest = _render(template, [*messages, *more], bos, eos).partition(messages[-1]["content"])
    return rest.replace(answer, "\n").replace(further, "\n")


def _render(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    """The template's text, empty where it fails."""
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
    """What templates call for messages that they do not take."""
    raise ValueError(str(reason))


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # not every system has it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    json.dump(_frame(*json.load(sys.stdin)), sys.stdout)
