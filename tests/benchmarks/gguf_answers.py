"""Whole answers of a GGUF model, prompts included, against `llama_cpp.Llama` with the same schema.

`taskset -c 0 python tests/benchmarks/gguf_answers.py MODEL.gguf CORPUS.jsonl` takes a corpus in the
form of BEIR. Ours come from the process that serves the file, the others from this process; they
take turns. One core, so that both have one thread; processor time, too, for a busy machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from engine.llm.chat import TEMPERATURE, FileChatModel
from engine.llm.prompts import load_prompt, place_of
from engine.llm.requests import NullReporter, Request
from engine.llm.shapes import EVENTS

CONTEXT = 2048  # tokens
Answer = Callable[[Request], tuple[str, int]]
"""Returns the text of an answer, and its tokens."""


def build_requests(
    corpus: Path,
    count: int,
    limit: int,
) -> list[Request]:
    """Return the first step of the prompt in two steps, for the first documents.

    `limit`: of tokens of an answer.
    """
    with corpus.open(encoding="utf-8") as file:
        documents = [json.loads(line) for line, _ in zip(file, range(count), strict=False)]
    prompt = load_prompt("events")
    requests = []
    for number, document in enumerate(documents):
        values = {
            **place_of(document["title"], ()),
            "passage": document["text"],
            "count": 3,
        }
        requests.append(Request(prompt.fill(values), EVENTS, 3, limit, number))
    return requests


def load_ours(path: Path) -> tuple[Answer, int]:
    """Return how `FileChatModel` answers, and the id of the process that computes."""
    model = FileChatModel(
        path,
        CONTEXT,
        NullReporter(),
        lambda: None,
    )

    def answer(request: Request) -> tuple[str, int]:
        reply = model.complete(request)
        return reply.text, model.count(reply.text)

    return answer, model.pid


def load_llama(path: Path) -> tuple[Answer, int]:
    """Return how `llama_cpp.Llama` answers, and the id of this process, which computes."""
    from llama_cpp import Llama

    model = Llama(
        str(path),
        n_ctx=CONTEXT,
        n_threads=1,
        n_threads_batch=1,
        verbose=False,
    )

    def answer(request: Request) -> tuple[str, int]:
        done: Any = model.create_chat_completion(
            [
                {"role": "system", "content": request.message.system},
                {"role": "user", "content": request.message.user},
            ],
            max_tokens=request.limit,
            temperature=TEMPERATURE,
            seed=request.seed,
            response_format={
                "type": "json_object",
                "schema": request.shape.schema(request.most),
            },
        )
        return str(done["choices"][0]["message"]["content"]), done["usage"]["completion_tokens"]

    return answer, os.getpid()


def main() -> None:
    """Print a line for each of both in each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--count",
        type=int,
        default=8,
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=192,
        help="of an answer, at most",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
    )
    options = parser.parse_args()
    requests = build_requests(
        options.corpus,
        options.count,
        options.tokens,
    )
    models = {"ours": load_ours(options.model), "llama_cpp.Llama": load_llama(options.model)}
    for _ in range(options.rounds):
        for name, (answer, pid) in models.items():
            started = time.perf_counter()
            before = psutil.Process(pid).cpu_times()
            tokens = sum(answer(request)[1] for request in requests)
            after = psutil.Process(pid).cpu_times()
            clock = time.perf_counter() - started
            processor = after.user + after.system - before.user - before.system
            print(
                f"{name}: {clock:.1f} s, of the processor {processor:.1f} s, {tokens} tokens",
                flush=True,
            )


if __name__ == "__main__":
    main()
