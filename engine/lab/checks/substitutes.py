"""Keywords of queries and substitutes for their words, from the project's language model.

Answers are cached in `cache/substitutes-RECIPE.jsonl` and `cache/keywords-RECIPE.jsonl`, one query
per line. They contain words of queries and thus of documents, so they are deleted once unused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.disk import write_text
from engine.core.errors import CancelledError, EngineError
from engine.core.platforms.files import delete_file
from engine.llm.chat import ChatModel
from engine.llm.prompts import load_prompt
from engine.llm.requests import Request, UnansweredError
from engine.llm.shapes import BadAnswerError, Entry, Shape, Text
from engine.project.stage import ProjectSnapshot, StageContext, fingerprint
from engine.queries.choosing import MODELS, backend_of, with_backend
from engine.queries.opening import model_identity, open_chat
from engine.queries.rules.tokens import fold

MAX_TOKENS = 384
"""Maximum number of tokens of an answer."""
MAX_LENGTH = 60
"""Maximum number of characters of a substitute."""
MAX_PASSAGE = 4_000
"""Maximum number of characters of the passage that the model sees."""

Answer = dict[str, str]
"""Lower-case word of a query → its substitute, or an empty text for a keyword."""


class Word(Entry):
    """A word of a query."""

    word: Text


class Substitute(Word):
    """A word of a query, and another that means the same."""

    other: Text


@dataclass(frozen=True, slots=True)
class Task:
    """What the model is asked about at most `max_words` words of each query.

    `name` is the name of its prompt and of its cache. `unit` names the queries in the progress.
    """

    name: str
    shape: Shape[Any]
    max_words: int
    unit: str


SUBSTITUTES = Task(
    "substitutes", Shape("words", Substitute), 12, "queries whose words are replaced"
)
KEYWORDS = Task(
    "keywords",
    Shape("words", Word),
    30,
    "queries whose keywords are looked for",
)


@dataclass(frozen=True, slots=True)
class Question:
    """A query, the words that the model is asked about, and the passage that answers the query."""

    query: str
    words: Sequence[str]
    passage: str = ""


def fingerprint_language_model(snapshot: ProjectSnapshot, task: Task = SUBSTITUTES) -> str:
    """Return a fingerprint of the model and how it is asked; empty if no model writes queries.

    Raises SettingsError or ModelError if the model in the settings does not exist.
    """
    if backend_of(snapshot) not in MODELS:
        return ""
    seed = snapshot.settings.training.seed
    prompt = load_prompt(task.name).version
    return fingerprint(
        model=model_identity(snapshot),
        prompt=prompt,
        limit=MAX_TOKENS,
        seed=seed,
    )


def has_language_model(snapshot: ProjectSnapshot) -> bool:
    """Return whether a language model writes the project's queries, though it may be unavailable.

    False if the model in the settings does not exist.
    """
    try:
        return bool(fingerprint_language_model(snapshot))
    except EngineError:
        return False


def choose_keywords(context: StageContext, questions: Sequence[Question]) -> list[frozenset[str]]:
    """Return which words of each query the model calls keywords of its passage, in lower case.

    A set is empty if the model names no keyword. If the model cannot be asked, warns and returns
    only empty sets. Raises CancelledError; the answers up to then stay in the cache.
    """
    try:
        answers = _ask_about(context, KEYWORDS, questions)
    except CancelledError:
        raise
    except EngineError as error:
        context.warn(
            "All words that a query shares with its answer count as keywords, without the"
            f" language model: {error.what} {error.why}"
        )
        return [frozenset() for _ in questions]
    return [frozenset(answer) for answer in answers]


def ask_for_substitutes(
    context: StageContext, questions: Sequence[Question]
) -> tuple[list[Answer], str]:
    """Return the model's substitutes for words of each query, and the model's name.

    If the model cannot be asked, warns and returns ([], ""). Raises CancelledError; the answers up
    to then stay in the cache.
    """
    try:
        return _ask_about(context, SUBSTITUTES, questions), _name_model(context)
    except CancelledError:
        raise
    except EngineError as error:
        context.warn(
            "Words are replaced without the language model, by words that your documents use"
            f" alike: {error.what} {error.why}"
        )
        return [], ""


def _name_model(snapshot: ProjectSnapshot) -> str:
    """Return the model's name for reports: of its file, of the server's model, or the address."""
    settings = with_backend(snapshot).queries
    if backend_of(snapshot) == "endpoint":
        return settings.endpoint_model or f"at {settings.endpoint}"
    from engine.gguf.file import find_gguf_file

    return find_gguf_file(snapshot.project.path, settings.model).name


def _ask_about(
    context: StageContext,
    task: Task,
    questions: Sequence[Question],
) -> list[Answer]:
    """Return the model's answer to each question; cached answers are not requested again.

    Raises SettingsError, ModelError or StageError if the model cannot be asked, CancelledError.
    """
    recipe = fingerprint_language_model(context, task)
    path = context.project.path / "cache" / f"{task.name}-{recipe}.jsonl"
    cached = _read_cache(path)
    used: dict[str, Answer] = {}
    model: ChatModel | None = None
    answers = []
    try:
        for number, question in enumerate(questions, 1):
            if context.should_stop():
                raise CancelledError("Cancelled.")
            words = list(dict.fromkeys(word.lower() for word in question.words))[: task.max_words]
            shortened = Question(
                question.query,
                words,
                question.passage[:MAX_PASSAGE],
            )
            key = _hash_question(shortened)
            answer = used.get(key, cached.get(key))
            if answer is None:
                model = model or open_chat(context, context, context.should_stop)
                answer = _ask(
                    model,
                    task,
                    shortened,
                    context.settings.training.seed,
                )
                if answer is not None:
                    _write_cache(path, {**cached, **used, key: answer})
            if answer is not None:
                used[key] = answer
            answers.append(answer or {})
            context.progress(
                number,
                len(questions),
                task.unit,
            )
    finally:
        if model is not None:
            model.close()
    if cached.keys() - used.keys():
        _write_cache(path, used)
    _delete_caches(
        context.project.path,
        task,
        but=path,
    )
    return answers


def _ask(
    model: ChatModel,
    task: Task,
    question: Question,
    seed: int,
) -> Answer | None:
    """Return the model's answer, empty if it is unusable.

    Returns None if the model did not answer but may at another attempt, as a busy server does.
    """
    words = question.words
    if not words:
        return {}
    values = {
        # The prompt puts the query between lines of equal signs.
        "query": question.query.replace("=", " "),
        "words": ", ".join(words),
        "passage": question.passage,
    }
    message = load_prompt(task.name).fill(values)
    try:
        reply = model.complete(Request(message, task.shape, len(words), MAX_TOKENS, seed))
        entries = task.shape.read(reply.text)
    except UnansweredError as error:
        return {} if error.lasting else None
    except BadAnswerError:
        return {}
    if reply.cut:
        # The answer reached its limit, so its last entry may be incomplete.
        entries = entries[:-1]
    answer = {}
    for entry in entries:
        word = entry.word.strip().lower()
        if word not in words:
            continue
        if task is KEYWORDS:
            answer[word] = ""
            continue
        substitute = " ".join(entry.other.split())
        if _is_usable(substitute, word):
            answer[word] = substitute
    return answer


def _is_usable(substitute: str, word: str) -> bool:
    """Return whether a substitute is a short printable text without the word itself."""
    if not substitute.isprintable() or not 0 < len(substitute) <= MAX_LENGTH:
        return False
    return word not in fold(substitute)


def drop_unused_substitutes(snapshot: ProjectSnapshot, *, robustness: bool) -> None:
    """Delete a language model's cached answers if the measurement does not use them.

    `robustness`: perturbed queries are measured. The answers contain words of queries, so they must
    not outlive their use.
    """
    try:
        is_used = robustness and fingerprint_language_model(snapshot)
    except EngineError:
        # The configured model may only be missing for now.
        return
    if not is_used:
        forget_substitutes(snapshot.project.path)


def forget_substitutes(project: Path) -> None:
    """Delete all cached answers in a project's folder."""
    for task in (SUBSTITUTES, KEYWORDS):
        _delete_caches(project, task)


def _delete_caches(
    project: Path,
    task: Task,
    but: Path | None = None,
) -> None:
    """Delete the cache files of a task, except the file `but`."""
    for path in (project / "cache").glob(f"{task.name}-*.jsonl"):
        if path != but:
            delete_file(path)


def _read_cache(path: Path) -> dict[str, Answer]:
    """Return the cached answers by key; unreadable lines are left out and so asked for again."""
    answers = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                answers[entry["key"]] = {
                    str(word): str(other) for word, other in entry["words"].items()
                }
    return answers


def _write_cache(path: Path, answers: Mapping[str, Answer]) -> None:
    """Write answers by key (`_hash_question`), in place of those in the file."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    lines = [json.dumps({"key": key, "words": words}) + "\n" for key, words in answers.items()]
    write_text(path, "".join(lines))


def _hash_question(question: Question) -> str:
    """Return the cache key of a question: a hash, so that the cache does not contain the query."""
    parts = [question.query, *question.words]
    if question.passage:
        parts = [question.passage, *parts]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
