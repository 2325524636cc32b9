"""Reading a server's answers: the model's text, or what went wrong."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from engine.core.errors import EngineError
from engine.llm.prompts import PLACES, Message, load_prompt
from engine.llm.requests import Reply, UnansweredError
from engine.llm.shapes import Shape

# Words that an error message may share with a document.
_SERVERS_TEXT = (
    "api available batch busy context cuda error exceed exceeded exceeds failed found gpu http"
    " input internal invalid key large length limit loaded loading long maximum memory message"
    " messages missing model models not output prompt quota request requested response server"
    " service size slot timeout token tokens too try unavailable unknown"
)
MAX_LINE = 300  # Characters of an error message that are shown.
SERVERS_WORDS = frozenset(_SERVERS_TEXT.split())
MAX_NUMBERS = 8  # More numbers in an error message may be the token ids of a text.
# Wordings of llama.cpp, vLLM, SGLang, LM Studio and TGI.
_EXCEEDED = re.compile(
    r"context[ _](length|size|window)|context the overflows|maximum model length|`inputs`"
    r" tokens \+",
    re.IGNORECASE,
)
# An escape of JSON, such as \u00e4, however often its backslash was escaped.
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")


class _Message(BaseModel):
    """A message of a completion, or the next piece of it in an event."""

    content: str | None = None


class _Choice(BaseModel):
    """The choice of a completion, or of one of its events."""

    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Completion(BaseModel):
    """A chat completion, or one of its server-sent events."""

    choices: Annotated[list[_Choice], Field(min_length=1)]


def read_reply(body: bytes, shape: Shape[Any]) -> Reply:
    """Return the first choice of a chat completion, sent as a whole or in events.

    Raises UnansweredError if the body is not a chat completion.
    """
    if b"\ndata:" in b"\n" + body:
        text, reason = _read_events(body)
        if not reason:
            raise UnansweredError("the answer broke off")
    else:
        try:
            choice = _Completion.model_validate_json(body).choices[0]
        except ValueError:
            choice = _Choice()
        if choice.message is None:
            raise UnansweredError("the answer is not a chat completion", lasting=True)
        if choice.message.content is None:
            raise UnansweredError("the answer holds no text", lasting=True)
        text = choice.message.content
        reason = choice.finish_reason or ""
    if reason != "length":
        return Reply(text)
    closed = shape.close_truncated(text)
    if closed is None:
        return Reply(text, cut=True)
    return Reply(closed.text, closed.cut)


def read_partial_text(body: bytes) -> str:
    """Return the text so far of a chat completion in server-sent events."""
    return _read_events(body)[0]


def _read_events(body: bytes) -> tuple[str, str]:
    """Return the text so far of server-sent events, and why it ended.

    The reason is empty while the completion goes on.
    """
    text = ""
    reason = ""
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            reason = reason or "stop"
        with suppress(ValueError):
            choice = _Completion.model_validate_json(data).choices[0]
            if choice.delta and choice.delta.content:
                text += choice.delta.content
            reason = choice.finish_reason or reason
    return text, reason


def exceeds_context(body: bytes) -> bool:
    """Return whether a refusal says that the message is longer than the model's context."""
    return _EXCEEDED.search(body.decode("utf-8", "replace")) is not None


def error_text(body: bytes, message: Message) -> str:
    """Return a server's error message in one short line.

    The line is empty if the message may repeat some of the text that the server was sent.
    """
    answer: Any = body.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        answer = json.loads(answer)
    # Servers nest it: {"error": {"message": …}}, or FastAPI's {"detail": [{"msg": …}]}.
    for field in ("error", "message", "detail", 0, "msg"):
        if isinstance(answer, dict):
            answer = answer.get(field, answer)
        elif isinstance(answer, list) and answer and field == 0:
            answer = answer[0]
    if not isinstance(answer, str):
        answer = json.dumps(answer, ensure_ascii=False)
    line = " ".join(answer.split())[:MAX_LINE]
    if _repeats(line, message.user):
        return ""
    return line


def _repeats(line: str, sent: str) -> bool:
    """Return whether a line may contain part of a document that was sent.

    What a server says is logged; documents must not be. A part is a word, a number, or two
    characters of a script without spaces that occur in the document but neither in our prompts nor
    in `SERVERS_WORDS`, however the line joins them. Many numbers may be token ids.
    """
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), line)
    numbers = sum(word.isdigit() for word in re.findall(r"\w+", plain))
    if numbers >= MAX_NUMBERS:
        return True
    repeated = _split_pieces(plain) & _split_pieces(sent)
    harmless = SERVERS_WORDS | collect_prompt_words()
    return not repeated <= harmless


@cache
def collect_prompt_words() -> frozenset[str]:
    """Return the words of our own prompts.

    Prompts that cannot be loaded are left out; their users get the error.
    """
    texts = []
    for name in PLACES:
        with suppress(EngineError):
            prompt = load_prompt(name)
            texts.append(f"{prompt.system} {prompt.user.template}")
    return _split_pieces(" ".join(texts))


def _split_pieces(text: str) -> frozenset[str]:
    """Return the words of three characters or more, the numbers, and pairs of wide characters."""
    pieces = set()
    for word in re.findall(r"[^\W_]+", text.casefold()):
        if len(word) > 2 or word.isdigit():
            pieces.add(word)
        if not word.isascii():
            pieces.update(word[start : start + 2] for start in range(len(word) - 1))
    return frozenset(pieces)
