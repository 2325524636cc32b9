"""A question, put to the language model of [queries] with the passages that were found for it.

`python -m engine.answers.answering FOLDER` answers one in a process of its own, as a model's file
may crash llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.answers.checking import SHAPE, begun, checked, numbered
from engine.core import subprocesses
from engine.core.errors import CancelledError, EngineError, SettingsError, StageError, UsageError
from engine.core.extras import check_llm
from engine.core.messages.answers import Answer
from engine.core.messages.wire import from_json, to_json
from engine.gguf.file import gguf_file
from engine.gguf.places import own_models
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.queries.choosing import AUTO, MODELS, resolve_backend, with_choice
from engine.queries.llm.chat_model import ChatModel, NullReporter, Request, UnansweredError
from engine.queries.llm.prompted import space
from engine.queries.llm.prompts import load_prompt, place_of
from engine.queries.llm.shapes import BadAnswerError
from engine.queries.llm.windows import windows
from engine.queries.opening import open_chat
from engine.settings.schema import Settings

PROMPT = "answer"  # sentences of an answer, at most
SENTENCES = 12
Hear = Callable[[Answer], None]
Stop = Callable[[], bool]


def with_model(project: ProjectFolder) -> tuple[Settings, str]:
    """The settings with the language model that answers as the backend, and its name: the one
    that writes queries, else the one that is named or was added, whatever makes the queries.

    Raises SettingsError where there is none, ModelError where its file is missing, UsageError where
    llama.cpp is.
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
        return settings, gguf_file(project.path, settings.queries.model).name
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
    hear: Hear = lambda _: None,
    stop: Stop = bool,
) -> Answer:
    """An answer from the chunks, which are numbered from 1; `hear` gets it as it grows, `stop`
    says whether no more is wanted.

    What has come stays when it is stopped or fails. Without chunks no model is asked. Raises as
    `with_model`.
    """
    settings, name = with_model(project)
    last = Answer(name)

    def note(found: Answer) -> None:
        nonlocal last
        if found != last:
            last = found
            hear(found)

    try:
        if not chunk_ids:
            return replace(last, state="done")
        if settings.queries.backend == "endpoint":
            return answer_here(project, question, chunk_ids, note, stop)
        found = subprocesses.run_in_subprocess(
            "engine.answers.answering",
            [str(project.path)],
            "The answer",
            stop,
            sent=json.dumps([question, chunk_ids]),
            hear=lambda part: note(from_json(Answer, part)),
        )
        return from_json(Answer, found)
    except CancelledError:
        return replace(last, state="stopped")
    except EngineError as error:
        return replace(last, state="failed", problem=error)


def answer_here(
    project: ProjectFolder, question: str, chunk_ids: Sequence[int], hear: Hear, stop: Stop
) -> Answer:
    """As `answer`, in this process. Raises what `problem` would be, and CancelledError."""
    settings, name = with_model(project)
    with closing(project.store()) as store:
        chunks = store.chunks_by_id(chunk_ids)
        if missing := [row for row in chunk_ids if row not in chunks]:
            raise UsageError(
                f"There is no chunk {missing[0]}.",
                "Its document may have been deleted.",
                "Search again.",
                code="chunk-missing",
            )
        texts = [chunks[row].text for row in chunk_ids]
        shown = []
        for number, chunk in enumerate((chunks[row] for row in chunk_ids), 1):
            place = place_of(store.document_card(chunk.document_id).title, chunk.headings)
            if chunk.headings:
                where = f"{place['title']} > {place['section']}"
            else:
                where = place["title"]
            shown.append(numbered(number, where, chunk.text))
        with closing(
            open_chat(ProjectSnapshot(project, settings, store), NullReporter(), stop)
        ) as model:
            limit = settings.queries.answer_tokens
            shown = _fitting(model, question, shown, limit)
            texts = texts[: len(shown)]
            so_far = Answer(name, len(shown))
            hear(so_far)

            def grown(text: str) -> None:
                if sentences := begun(text, texts):
                    hear(replace(so_far, sentences=sentences))

            values = {"passages": "\n\n".join(shown), "question": question, "count": SENTENCES}
            message = load_prompt(PROMPT).filled(values)
            try:
                reply = model.complete(
                    Request(message, SHAPE, SENTENCES, limit, settings.training.seed, grown)
                )
                if reply.cut:
                    sentences = begun(reply.text, texts)
                else:
                    sentences = checked(SHAPE.read(reply.text), texts)
            except UnansweredError as error:
                server = (
                    "Check that the server runs and that queries.endpoint names it, then ask again."
                )
                raise StageError(
                    "The language model's answer failed or broke off.",
                    f"Reason: {error}.",
                    (
                        server
                        if settings.queries.backend == "endpoint"
                        else (
                            "Ask again. If it is too long for the model, lower"
                            " queries.context_tokens."
                        )
                    ),
                    code="answer-failed",
                ) from None
            except BadAnswerError as error:
                raise StageError(
                    "The language model's answer does not have the form that was asked for.",
                    f"Reason: {error}.",
                    "Ask again, or take a server that follows response_format, or another model.",
                    code="answer-unreadable",
                ) from None
            return replace(so_far, sentences=sentences, state="cut" if reply.cut else "done")


def _fitting(model: ChatModel, question: str, shown: list[str], limit: int) -> list[str]:
    """The first passages, as many as the context has room for; of a first one that is too long
    its beginning.
    """
    model.count("\n\n".join(shown))  # a server may say now how large its context is
    room = space(model, (PROMPT,), SENTENCES, limit, question)
    while len(shown) > 1 and model.count("\n\n".join(shown)) > room:
        shown = shown[:-1]
    return [windows(shown[0], room, model.count)[0], *shown[1:]]


def _work(stop: Stop, emit: Callable[[Any], None], sent: str, folder: str) -> Any:
    question, chunk_ids = json.loads(sent)
    return to_json(
        answer_here(
            ProjectFolder(Path(folder)), question, chunk_ids, lambda one: emit(to_json(one)), stop
        )
    )


if __name__ == "__main__":
    subprocesses.answer(_work, streams=True)
