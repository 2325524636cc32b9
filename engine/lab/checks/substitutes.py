"""Keywords of queries and substitutes for their words, from the project's language model.

Answers are cached in `cache/substitutes-RECIPE.jsonl` and `cache/keywords-RECIPE.jsonl`, one query
per line. They hold words of queries, and so of documents; answers no longer needed are deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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

LIMIT = 384  # Tokens of an answer.
MAX_LENGTH = 60  # Characters of a substitute.
MAX_PASSAGE = 4_000  # Characters of the passage that the model sees.
Found = dict[str, str]


class Word(Entry):
    """A word of a query."""

    word: Text


class Substitute(Word):
    """A word of a query, and another that means the same."""

    other: Text


@dataclass(frozen=True, slots=True)
class Task:
    """A question to the model about at most `max_words` words of each query.

    `name` is the name of its prompt and of its cache.
    """

    name: str
    shape: Shape[Any]
    max_words: int

    @property
    def pattern(self) -> str:
        """A glob pattern for the files that cache its answers."""
        return f"{self.name}-*.jsonl"


SUBSTITUTES = Task("substitutes", Shape("words", Substitute), 12)
KEYWORDS = Task("keywords", Shape("words", Word), 30)


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
    return fingerprint(model=model_identity(snapshot), prompt=prompt, limit=LIMIT, seed=seed)


def substitutes(
    context: StageContext,
    queries: Sequence[tuple[str, Sequence[str]]],
    progress: Callable[[int], None],
) -> tuple[list[Found], str]:
    """Ask for substitutes, and return those of each query, and the model's name.

    Each dict maps lower-case words to substitutes, for the words of which the model knows one.
    Raises SettingsError, ModelError or StageError if the model cannot be asked, and CancelledError;
    answers so far are kept.
    """
    questions = [Question(query, words) for query, words in queries]
    return _ask_about(context, SUBSTITUTES, questions, progress), _name(context)


def keywords(
    context: StageContext, questions: Sequence[Question], progress: Callable[[int], None]
) -> list[frozenset[str]]:
    """Ask which words of each query are keywords of its passage, and return them in lower case.

    The set is empty if the model names none. Raises what `substitutes` raises.
    """
    return [frozenset(found) for found in _ask_about(context, KEYWORDS, questions, progress)]


def _ask_about(
    context: StageContext,
    task: Task,
    questions: Sequence[Question],
    progress: Callable[[int], None],
) -> list[Found]:
    """Return the model's answer to each question; cached answers are not requested again."""
    path = (
        context.project.path
        / "cache"
        / f"{task.name}-{fingerprint_language_model(context, task)}.jsonl"
    )
    former = _read(path)
    kept: dict[str, Found] = {}
    model: ChatModel | None = None
    answers = []
    try:
        for number, question in enumerate(questions):
            if context.should_stop():
                raise CancelledError("Cancelled.")
            words = list(dict.fromkeys(word.lower() for word in question.words))[: task.max_words]
            wanted = Question(question.query, words, question.passage[:MAX_PASSAGE])
            key = _hash_question(wanted)
            answer = kept.get(key, former.get(key))
            if answer is None:
                model = model or open_chat(context, context, context.should_stop)
                answer = _ask(model, task, wanted, context.settings.training.seed)
                if answer is not None:
                    _write(path, {**former, **kept, key: answer})
            if answer is not None:
                kept[key] = answer
            answers.append(answer or {})
            progress(number + 1)
    finally:
        if model is not None:
            model.close()
    if former.keys() - kept.keys():
        _write(path, kept)
    _forget(context.project.path, task, but=path)
    return answers


def has_language_model(snapshot: ProjectSnapshot) -> bool:
    """Return whether a language model writes the project's queries, though it may be unavailable.

    False if the model in the settings does not exist.
    """
    try:
        return bool(fingerprint_language_model(snapshot))
    except EngineError:
        return False


def choose_keywords(context: StageContext, questions: Sequence[Question]) -> list[frozenset[str]]:
    """Return a language model's choice of keywords; if it cannot be asked, warn and return none."""

    def progress(done: int) -> None:
        context.progress(done, len(questions), "queries whose keywords are looked for")

    try:
        return keywords(context, questions, progress)
    except CancelledError:
        raise
    except EngineError as error:
        context.warn(
            "All words that a query shares with its answer count as keywords, without the"
            f" language model: {error.what} {error.why}"
        )
        return [frozenset() for _ in questions]


def ask_for_substitutes(
    context: StageContext, queries: Sequence[tuple[str, Sequence[str]]]
) -> tuple[list[Found], str]:
    """Return a language model's substitutes; if it fails, warn and return none."""

    def progress(done: int) -> None:
        context.progress(done, len(queries), "queries whose words are replaced")

    try:
        return substitutes(context, queries, progress)
    except CancelledError:
        raise
    except EngineError as error:
        context.warn(
            "Words are replaced without the language model, by words that your documents use"
            f" alike: {error.what} {error.why}"
        )
        return [], ""


def drop_unused_substitutes(snapshot: ProjectSnapshot, *, robustness: bool) -> None:
    """Delete a language model's substitutes from former measurements if none is asked any more.

    They are words of queries, so they must not outlive their use.
    """
    try:
        model = robustness and fingerprint_language_model(snapshot)
    except EngineError:
        # The configured model may only be missing for now.
        return
    if not model:
        forget_substitutes(snapshot.project.path)


def forget_substitutes(project: Path) -> None:
    """Delete all cached answers in a project's folder."""
    for task in (SUBSTITUTES, KEYWORDS):
        _forget(project, task)


def _forget(project: Path, task: Task, but: Path | None = None) -> None:
    for path in (project / "cache").glob(task.pattern):
        if path != but:
            delete_file(path)


def _name(snapshot: ProjectSnapshot) -> str:
    """Return the model's name in reports: that of its file or model, or the server's address."""
    settings = with_backend(snapshot).queries
    if backend_of(snapshot) == "endpoint":
        return settings.endpoint_model or f"at {settings.endpoint}"
    from engine.gguf.file import find_gguf_file

    return find_gguf_file(snapshot.project.path, settings.model).name


def _ask(model: ChatModel, task: Task, question: Question, seed: int) -> Found | None:
    """Return the model's answer, or None if another attempt may succeed, as with a busy server."""
    words = question.words
    if not words:
        return {}
    values = {
        "query": question.query.replace("=", " "),
        "words": ", ".join(words),
        "passage": question.passage,
    }
    message = load_prompt(task.name).fill(values)
    try:
        reply = model.complete(Request(message, task.shape, len(words), LIMIT, seed))
        entries = task.shape.read(reply.text)
    except UnansweredError as error:
        return {} if error.lasting else None
    except BadAnswerError:
        return {}
    if reply.cut:  # The last word is incomplete.
        entries = entries[:-1]
    if task is KEYWORDS:
        named = [entry.word.strip().lower() for entry in entries]
        return {word: "" for word in named if word in words}
    return dict(_select_usable(entries, set(words)))


def _select_usable(entries: Sequence[Substitute], words: set[str]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        word = entry.word.strip().lower()
        other = " ".join(entry.other.split())
        if (
            word in words
            and other
            and other.isprintable()
            and len(other) <= MAX_LENGTH
            and word not in fold(other)
        ):
            yield word, other


def _read(path: Path) -> dict[str, Found]:
    """Return the cached answers by key; unreadable lines are left out and so asked for again."""
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


def _hash_question(question: Question) -> str:
    """Return a hash of a question, so that the cache does not hold the order of a query's words."""
    parts = [question.query, *question.words]
    if question.passage:
        parts = [question.passage, *parts]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
