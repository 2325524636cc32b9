"""Other words of the same meaning for words of a query, by the language model that writes the
project's queries.

What a model has answered is kept in `cache/substitutes-RECIPE.jsonl`, a query a line, so that
nothing is asked twice. It holds words of queries, and so of documents: what is not asked for any
more is dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
LIMIT = 384  # tokens of an answer
MAX_LENGTH = 60  # characters of a replacement
MAX_WORDS = 12
Found = dict[str, str]


def language_model(snapshot: ProjectSnapshot) -> str:
    """What names the language model that would be asked, and how; empty where the project's
    queries come from none.

    Raises SettingsError or ModelError where the one that is named is not there.
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
) -> tuple[list[Found], str]:
    """For each query and its words: lower-case word → another, of those for which the model
    knows one; and the model's name.

    Raises SettingsError, ModelError or StageError where the model cannot be asked, CancelledError;
    answers so far are kept.
    """
    path = context.project.path / "cache" / f"substitutes-{language_model(context)}.jsonl"
    former = _read(path)
    kept = dict[str, Found]()
    model: ChatModel | None = None
    found = []
    try:
        for number, (query, words) in enumerate(queries):
            if context.should_stop():
                raise CancelledError("Cancelled.")
            wanted = list(dict.fromkeys(word.lower() for word in words))[:MAX_WORDS]
            key = _key(query, wanted)
            answer = kept.get(key, former.get(key))
            if answer is None:
                model = model or open_chat(context, context, context.should_stop)
                answer = _answered(model, query, wanted, context.settings.training.seed)
                if answer is not None:
                    _write(path, {**former, **kept, key: answer})
            if answer is not None:
                kept[key] = answer
            found.append(answer or {})
            progress(number + 1)
    finally:
        if model is not None:
            model.close()
    if former.keys() - kept.keys():
        _write(path, kept)
    forget_substitutes(context.project.path, but=path)
    return found, _name(context)


def forget_substitutes(project: Path, but: Path | None = None) -> None:
    """Drop all answers that are kept in a project's folder, `but` those of one file."""
    for path in (project / "cache").glob(PATTERN):
        if path != but:
            path.unlink(missing_ok=True)


def _name(snapshot: ProjectSnapshot) -> str:
    """As the report calls it: a file's or a model's name, or the server's address."""
    settings = with_backend(snapshot).queries
    if backend_of(snapshot) == "endpoint":
        return settings.endpoint_model or f"at {settings.endpoint}"
    from engine.gguf.file import gguf_file

    return gguf_file(snapshot.project.path, settings.model).name


def _answered(model: ChatModel, query: str, words: Sequence[str], seed: int) -> Found | None:
    """None where asking again may bring more, such as of a server that was busy."""
    if not words:
        return {}
    message = load_prompt(PROMPT).filled(
        {"query": query.replace("=", " "), "words": ", ".join(words)}
    )
    try:
        reply = model.complete(Request(message, SHAPE, len(words), LIMIT, seed))
        entries = SHAPE.read(reply.text)
    except UnansweredError as error:
        return {} if error.lasting else None
    except BadAnswerError:
        return {}
    return dict(
        _usable(entries[:-1] if reply.cut else entries, set(words))
    )  # a word that was cut is none


def _usable(entries: Sequence[Mapping[str, Any]], words: set[str]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        word = entry["word"].strip().lower()
        other = " ".join(entry["other"].split())
        if (
            word in words
            and other
            and other.isprintable()
            and len(other) <= MAX_LENGTH
            and word not in fold(other)
        ):
            yield word, other


def _read(path: Path) -> dict[str, Found]:
    """Answers by key. A line that makes no sense is asked for again."""
    found = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found[entry["key"]] = {
                    str(word): str(other) for word, other in entry["words"].items()
                }
    return found


def _write(path: Path, answers: Mapping[str, Found]) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_text(
        path,
        "".join(json.dumps({"key": key, "words": found}) + "\n" for key, found in answers.items()),
    )


def _key(query: str, words: Sequence[str]) -> str:
    """The order of a query's words stays out of the cache."""
    return hashlib.blake2b(json.dumps([query, *words]).encode(), digest_size=16).hexdigest()
