"""A model's own chat template, with the document's text kept apart from the template's control tokens."""

from __future__ import annotations

import datetime
import json
import re
import secrets
from typing import Any, NamedTuple

from engine.queries.prompts import Message

_CONTROL = re.compile(r"<(?=[|/a-zA-Z_｜])|(?<=[|｜])>|\[(?=/?g?[A-Z_]{3,}\])")


def neutral(text: str) -> str:
    """A document's text with a space in what a chat template could take for control tokens, such as <|im_end|>."""
    return _CONTROL.sub(lambda found: " >" if found[0] == ">" else f"{found[0]} ", text)


class Piece(NamedTuple):
    """A part of a prompt. Control tokens are recognised in the template's own parts only."""

    text: str
    control: bool


def rendered(template: str | None, message: Message, bos: str, eos: str) -> list[Piece]:
    """The prompt in pieces. A template without a system role gets both texts in the user's; a model without a template,
    or with one that cannot be followed, gets them as plain text."""
    system, user = (f"part{secrets.token_hex(12)}" for _ in range(2))
    attempts = (
        [{"role": "system", "content": system}, {"role": "user", "content": user}],
        [{"role": "user", "content": f"{system}\n\n{user}"}],
    )
    for messages in attempts if template else ():
        text = _render(str(template), messages, bos, eos)
        if text.count(system) == 1 and text.count(user) == 1 and text.index(system) < text.index(user):
            head, _, rest = text.partition(system)
            between, _, tail = rest.partition(user)
            return [
                Piece(head, True), Piece(message.system, False), Piece(between, True), Piece(message.user, False),
                Piece(tail, True),
            ]  # fmt: skip
    return [Piece(f"{message.system}\n\n{message.user}\n\nAnswer:\n", False)]


def _render(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    """The template's text, empty where it fails. It comes with the model file: it runs in a sandbox."""
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
            messages=messages, add_generation_prompt=True, bos_token=bos, eos_token=eos, enable_thinking=False
        )
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return ""


def _refuse(reason: Any) -> None:
    """What templates call for messages that they do not take."""
    raise ValueError(str(reason))
