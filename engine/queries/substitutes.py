"""Substitutes for words of a query, by the language model that writes the project's queries.

Answers are kept in `cache/substitutes-RECIPE.jsonl`, one query per line, so that nothing is asked
twice. As they contain words of queries, answers that are no longer needed are deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.disk import write_text
from engine.core.errors import CancelledError
from engine.project.stage import ProjectSnapshot, StageContext, fingerprint
from engine.queries.choosing import MODELS, backend_of, with_backend
from engine.queries.llm.chat_model import ChatModel, Request, UnansweredError
from engine.queries.llm.prompts import load_prompt
from engine.queries.llm.shapes import BadAnswerError, Shape
from engine.queries.opening import model_identity, open_chat
from engine.queries.rules.tokens import fold

PROMPT = "substitutes"
PATTERN = "substitutes-*.jsonl"
SHAPE = Shape("words", (("word", "text"), ("other", "text")))
LIMIT = 384
"""Maximum number of tokens in an answer."""
MAX_LENGTH = 60
"""Maximum number of characters of a substitute."""
MAX_WORDS = 12
"""Maximum number of words that are asked about in a query."""
Substitutes = dict[str, str]
"""Word in lower case → another word."""


def language_model(snapshot: ProjectSnapshot) -> str:
    """Return the fingerprint of the language model and of how it is asked.

    Empty if no language model writes the project's queries. Raises SettingsError or ModelError if
    the named one is missing.
    """
    if backend_of(snapshot) not in MODELS:
        return ""
    seed = snapshot.settings.training.seed
    return fingerprint(
        model=model_identity(snapshot), prompt=load_prompt(PROMPT).version, limit=LIMIT, seed=seed
    )


def substitutes(
    context: StageContext,
    queries: Sequence[tuple[str, Sequence[str]]],
    progress: Callable[[int], None],
) -> tuple[list[Substitutes], str]:
    """Return the known substitutes for the words of each query, and the model's name.

    Raises SettingsError, ModelError or StageError if the model cannot be asked, CancelledError;
    answers so far are kept.
    """
    path = context.project.path / "cache" / f"substitutes-{language_model(context)}.jsonl"
    cached = _read(path)
    used: dict[str, Substitutes] = {}
    model: ChatModel | None = None
    results = []
    try:
        for number, (query, words) in enumerate(queries, 1):
            if context.should_stop():
                raise CancelledError("Cancelled.")
            distinct = list(dict.fromkeys(word.lower() for word in words))[:MAX_WORDS]
            key = _key(query, distinct)
            answer = used.get(key, cached.get(key))
            if answer is None:
                model = model or open_chat(context, context, context.should_stop)
                answer = _ask(model, query, distinct, context.settings.training.seed)
                if answer is not None:
                    _write(path, {**cached, **used, key: answer})
            if answer is not None:
                used[key] = answer
            results.append(answer or {})
            progress(number)
    finally:
        if model is not None:
            model.close()
    if cached.keys() - used.keys():
        _write(path, used)
    forget_substitutes(context.project.path, but=path)
    return results, _model_name(context)


def forget_substitutes(project: Path, but: Path | None = None) -> None:
    """Delete all answers in a project's folder, except one file."""
    for path in (project / "cache").glob(PATTERN):
        if path != but:
            path.unlink(missing_ok=True)


def _model_name(snapshot: ProjectSnapshot) -> str:
    """Return the name of the model's file or of the model, or else the server's address."""
    settings = with_backend(snapshot).queries
    if backend_of(snapshot) == "endpoint":
        return settings.endpoint_model or f"at {settings.endpoint}"
    from engine.gguf.file import gguf_file

    return gguf_file(snapshot.project.path, settings.model).name


def _ask(model: ChatModel, query: str, words: Sequence[str], seed: int) -> Substitutes | None:
    """Ask for substitutes; None if it may help to ask again, such as after a busy server."""
    if not words:
        return {}
    values = {"query": query.replace("=", " "), "words": ", ".join(words)}
    message = load_prompt(PROMPT).filled(values)
    try:
        reply = model.complete(Request(message, SHAPE, len(words), LIMIT, seed))
        entries = SHAPE.read(reply.text)
    except UnansweredError as error:
        return {} if error.lasting else None
    except BadAnswerError:
        return {}
    if reply.cut:
        entries = entries[:-1]  # the last one may be incomplete
    return _select_usable(entries, set(words))


def _select_usable(entries: Sequence[Mapping[str, Any]], words: set[str]) -> Substitutes:
    usable = {}
    for entry in entries:
        word = entry["word"].strip().lower()
        other = " ".join(entry["other"].split())
        if word not in words or word in fold(other):
            continue
        if other and other.isprintable() and len(other) <= MAX_LENGTH:
            usable[word] = other
    return usable


def _read(path: Path) -> dict[str, Substitutes]:
    """Read the answers by key; malformed lines are skipped and asked about again."""
    answers = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                words = {str(word): str(other) for word, other in entry["words"].items()}
                answers[entry["key"]] = words
    return answers


def _write(path: Path, answers: Mapping[str, Substitutes]) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    lines = [json.dumps({"key": key, "words": words}) for key, words in answers.items()]
    write_text(path, "".join(f"{line}\n" for line in lines))


def _key(query: str, words: Sequence[str]) -> str:
    """Return a hash of a query and its words, so that the cache does not contain the query."""
    return hashlib.blake2b(json.dumps([query, *words]).encode(), digest_size=16).hexdigest()
