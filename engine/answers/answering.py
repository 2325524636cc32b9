"""Answers the user's question from found passages, by the language model that writes queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from engine.answers.checking import SHAPE, check_sentences, number_passage, read_partial
from engine.core.errors import CancelledError, EngineError, SettingsError, StageError, UsageError
from engine.core.extras import check_llm
from engine.core.messages.answers import Answer
from engine.core.records import Chunk
from engine.gguf.file import find_gguf_file
from engine.gguf.places import own_models
from engine.llm.chat import ChatModel
from engine.llm.prompts import load_prompt, place_of
from engine.llm.requests import NullReporter, Request, UnansweredError
from engine.llm.shapes import BadAnswerError
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.store import Store
from engine.queries.choosing import AUTO, MODELS, resolve_backend, with_choice
from engine.queries.llm.prompted import passage_room
from engine.queries.llm.windows import split_to_fit
from engine.queries.opening import open_chat
from engine.settings.schema import Settings

PROMPT = "answer"
SENTENCES = 12
"""Maximum number of sentences in an answer."""
OnPartial = Callable[[Answer], None]
"""Callback for the answer so far."""
Stop = Callable[[], bool]


def choose_model(project: ProjectFolder) -> tuple[Settings, str]:
    """Choose the language model that answers.

    Returns the settings with this model as the backend of [queries], and its name. It is the model
    that writes queries, or else one that project.toml names or the user has added. Raises
    SettingsError if there is no model, ModelError if its file is missing, UsageError if llama.cpp
    is not installed.
    """
    settings = project.settings()
    if settings.queries.backend not in MODELS:
        auto = settings.queries.model_copy(update={"backend": AUTO})
        settings = settings.model_copy(update={"queries": auto})
    choice = resolve_backend(settings)
    settings = with_choice(settings, choice)
    if choice.backend == "endpoint":
        return settings, settings.queries.endpoint_model or settings.queries.endpoint
    if choice.backend == "gguf" or own_models():
        check_llm()
        return settings, find_gguf_file(project.path, settings.queries.model).name
    raise SettingsError(
        "There is no language model to answer with.",
        f"{choice.reason[0].upper()}{choice.reason[1:]}.",
        "Name one in queries.model, or a server in queries.endpoint, or add one with 'engine models"
        " add FILE'.",
        code="language-model-not-chosen",
    )


def answer(
    project: ProjectFolder,
    question: str,
    chunk_ids: Sequence[int],
    on_partial: OnPartial = lambda _: None,
    stop: Stop = lambda: False,
) -> Answer:
    """Answer a question from chunks, which are numbered from 1.

    `on_partial` is called with the answer as it grows; `stop` tells whether to end it. If the
    answer is stopped or fails, what has been written is returned. Without chunks, no model is
    asked. Raises what `choose_model` raises.
    """
    settings, name = choose_model(project)
    last = Answer(name)

    def keep(partial: Answer) -> None:
        nonlocal last
        if partial != last:
            last = partial
            on_partial(partial)

    try:
        if not chunk_ids:
            return replace(last, state="done")
        return _answer(
            project,
            settings,
            last,
            question,
            chunk_ids,
            keep,
            stop,
        )
    except CancelledError:
        return replace(last, state="stopped")
    except EngineError as error:
        return replace(
            last,
            state="failed",
            problem=error,
        )


def _answer(
    project: ProjectFolder,
    settings: Settings,
    empty: Answer,
    question: str,
    chunk_ids: Sequence[int],
    on_partial: OnPartial,
    stop: Stop,
) -> Answer:
    """Answer as `answer` does, but raise EngineError and CancelledError.

    `empty`: an answer with the name of the model, still without sentences.
    """
    with closing(project.store()) as store:
        chunks = _read_chunks(store, chunk_ids)
        passages = [_format_passage(store, number, chunk) for number, chunk in enumerate(chunks, 1)]
        snapshot = ProjectSnapshot(project, settings, store)
        with closing(open_chat(snapshot, NullReporter(), stop)) as model:
            limit = settings.queries.answer_tokens
            passages = _fit_into_context(
                model,
                question,
                passages,
                limit,
            )
            texts = [chunk.text for chunk in chunks[: len(passages)]]
            begun = replace(empty, passages=len(passages))
            on_partial(begun)

            def report(text: str) -> None:
                sentences = read_partial(text, texts)
                if sentences:
                    on_partial(replace(begun, sentences=sentences))

            values = {
                "passages": "\n\n".join(passages),
                "question": question,
                "count": SENTENCES,
            }
            message = load_prompt(PROMPT).fill(values)
            request = Request(
                message,
                SHAPE,
                SENTENCES,
                limit,
                settings.training.seed,
                report,
            )
            try:
                reply = model.complete(request)
                if reply.cut:
                    sentences = read_partial(reply.text, texts)
                else:
                    sentences = check_sentences(SHAPE.read(reply.text), texts)
            except UnansweredError as error:
                raise _build_failure(settings, error) from None
            except BadAnswerError as error:
                raise StageError(
                    "The language model's answer does not have the form that was asked for.",
                    f"Reason: {error}.",
                    "Ask again, or take a server that follows response_format, or another model.",
                    code="answer-unreadable",
                ) from None
            return replace(
                begun,
                sentences=sentences,
                state="cut" if reply.cut else "done",
            )


def _read_chunks(store: Store, chunk_ids: Sequence[int]) -> list[Chunk]:
    """Return chunks in the given order. Raises UsageError if one is missing."""
    chunks = store.chunks_by_id(chunk_ids)
    for chunk_id in chunk_ids:
        if chunk_id not in chunks:
            raise UsageError(
                f"There is no chunk {chunk_id}.",
                "Its document may have been deleted.",
                "Search again.",
                code="chunk-missing",
            )
    return [chunks[chunk_id] for chunk_id in chunk_ids]


def _format_passage(
    store: Store,
    number: int,
    chunk: Chunk,
) -> str:
    """Return a passage with its number, title and headings, as the prompt has it."""
    place = place_of(store.document_card(chunk.document_id).title, chunk.headings)
    if chunk.headings:
        return number_passage(
            number,
            f"{place['title']} > {place['section']}",
            chunk.text,
        )
    return number_passage(
        number,
        place["title"],
        chunk.text,
    )


def _build_failure(settings: Settings, error: UnansweredError) -> StageError:
    """Build the error for an answer that failed, with what to do about the model in use."""
    if settings.queries.backend == "endpoint":
        to_do = "Check that the server runs and that queries.endpoint names it, then ask again."
    else:
        to_do = (
            "Ask again. If the question and its passages are too long for the model, lower"
            " queries.context_tokens."
        )
    return StageError(
        "The language model's answer failed or broke off.",
        f"Reason: {error}.",
        to_do,
        code="answer-failed",
    )


def _fit_into_context(
    model: ChatModel, question: str, passages: list[str], limit: int
) -> list[str]:
    """Return as many of the first passages as fit into the model's context.

    If not even the first one fits, its beginning. `limit`: maximum tokens of the answer.
    """
    model.count("\n\n".join(passages))  # a server may thereby report the size of its context
    room = passage_room(
        model,
        (PROMPT,),
        SENTENCES,
        limit,
        question,
    )
    while len(passages) > 1 and model.count("\n\n".join(passages)) > room:
        passages = passages[:-1]
    return [split_to_fit(passages[0], room, model.count)[0], *passages[1:]]
