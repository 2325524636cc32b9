"""What a model's chat template writes around the texts of a message."""

from __future__ import annotations

import datetime
import faulthandler
import json
import os
import secrets
import subprocess
import sys
from typing import Any, NamedTuple

from engine.core.platforms.jobs import Job, start_in_job
from engine.core.platforms.processes import limit_memory, python_environment
from engine.core.subprocesses import import_path, python_command

SECONDS = 20.0  # Time limit for rendering a template.
MEMORY = 1 << 30  # Bytes that rendering may take.


class Frame(NamedTuple):
    """The text that a template puts before, between and after the system's and the user's text.

    `turns` is what it puts around an answer and a further message.
    """

    head: str
    between: str
    tail: str
    turns: str = ""


PLAIN = Frame("", "\n\n", "\n\nAnswer:\n")
"""The frame of a model without a template that can be rendered."""


def render_frame(
    template: str,
    bos: str,
    eos: str,
    seconds: float = SECONDS,
) -> Frame | None:
    """Return what a template puts around any two texts, or None if it cannot be rendered.

    If the template has no system role, both texts go into the user's. The template comes with the
    model file, and a malicious template can hang the renderer. It is therefore rendered in a
    sandbox, in a separate process with limits of time (`seconds`) and memory.
    """
    job = Job(MEMORY)
    pipe = subprocess.PIPE
    environ = {
        **os.environ,
        **python_environment(),
        "PYTHONPATH": import_path(),
    }
    try:
        process = start_in_job(
            python_command("engine.llm.chat_template"),
            job,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        request = json.dumps([template, bos, eos]).encode()
        parts = json.loads(_exchange(process, request, seconds))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    finally:
        job.close()
    if parts is None:
        return None
    return Frame(*parts)


def _exchange(
    process: subprocess.Popen[bytes],
    request: bytes,
    seconds: float,
) -> bytes:
    """Return what a process answers; raise SubprocessError if it fails or takes too long."""
    with process:
        try:
            answer, _ = process.communicate(request, seconds)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return answer


def _render_around_texts(
    template: str,
    bos: str,
    eos: str,
) -> Frame | None:
    """Return what `render_frame` does, in the process that renders."""
    system = _make_mark()
    user = _make_mark()
    attempts = (
        [{"role": "system", "content": system}, {"role": "user", "content": user}],
        [{"role": "user", "content": f"{system}\n\n{user}"}],
    )
    for messages in attempts:
        text = _render(
            template,
            messages,
            bos,
            eos,
        )
        head, _, after_system = text.partition(system)
        between, _, tail = after_system.partition(user)
        # Each text must be there once, the user's after the system's.
        if text.count(system) == after_system.count(user) == text.count(user) == 1:
            return Frame(
                head,
                between,
                tail,
                _render_turns(template, messages, bos, eos),
            )
    return None


def _make_mark() -> str:
    """Return a text that occurs in no template."""
    return f"part{secrets.token_hex(12)}"


def _render_turns(
    template: str,
    messages: list[dict[str, str]],
    bos: str,
    eos: str,
) -> str:
    """Return what the template puts between turns, or an empty text if it allows only one turn."""
    answer = _make_mark()
    further = _make_mark()
    more = [{"role": "assistant", "content": answer}, {"role": "user", "content": further}]
    text = _render(
        template,
        [*messages, *more],
        bos,
        eos,
    )
    _, _, after_user = text.partition(messages[-1]["content"])
    return after_user.replace(answer, "\n").replace(further, "\n")


def _render(
    template: str,
    messages: list[dict[str, str]],
    bos: str,
    eos: str,
) -> str:
    """Render the template, or return an empty text if that fails."""
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
    except Exception:  # A template can raise anything.
        return ""


def _refuse(reason: Any) -> None:
    """Reject messages; templates call this as `raise_exception`."""
    raise ValueError(str(reason))


if __name__ == "__main__":
    # The process ends by itself even if its parent has been killed.
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    limit_memory(MEMORY)
    json.dump(_render_around_texts(*json.load(sys.stdin)), sys.stdout)
