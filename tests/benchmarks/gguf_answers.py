"""Whole answers of a GGUF model, prompts included: ours, from the process that serves the file, and
`llama_cpp.Llama` in this process with the same schema, in turn.

`taskset -c 0 python tests/benchmarks/gguf_answers.py MODEL.gguf CORPUS.jsonl`, a corpus in the form
of BEIR. Processor time, too, for a busy machine; one core, so that both have one thread.
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

CONTEXT = 2048


def requests(corpus: Path, count: int, limit: int) -> list[Request]:
    """The first step of the prompt in two steps, for the first documents."""
    with corpus.open(encoding="utf-8") as file:
        documents = [json.loads(line) for line, _ in zip(file, range(count), strict=False)]
    prompt = load_prompt("events")
    asked = []
    for number, document in enumerate(documents):
        values = {**place_of(document["title"], ()), "passage": document["text"], "count": 3}
        asked.append(Request(prompt.fill(values), EVENTS, 3, limit, number))
    return asked


def ours(path: Path) -> tuple[Callable[[Request], tuple[str, int]], int]:
    """Answers of `FileChatModel`, the text and its tokens; and the process that computes them."""
    model = FileChatModel(path, CONTEXT, NullReporter(), lambda: None)

    def answer(request: Request) -> tuple[str, int]:
        reply = model.complete(request)
        return reply.text, model.count(reply.text)

    return answer, model.pid


def llama(path: Path) -> tuple[Callable[[Request], tuple[str, int]], int]:
    """Answers of `llama_cpp.Llama.create_chat_completion`; and this process."""
    from llama_cpp import Llama

    model = Llama(str(path), n_ctx=CONTEXT, n_threads=1, n_threads_batch=1, verbose=False)

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
    """Print a line for each round of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=192, help="of an answer, at most")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    asked = requests(chosen.corpus, chosen.count, chosen.tokens)
    ways = {"ours": ours(chosen.model), "llama_cpp.Llama": llama(chosen.model)}
    for _ in range(chosen.rounds):
        for name, (answer, pid) in ways.items():
            wall = time.perf_counter()
            before = psutil.Process(pid).cpu_times()
            tokens = sum(answer(request)[1] for request in asked)
            after = psutil.Process(pid).cpu_times()
            wall = time.perf_counter() - wall
            seconds = after.user + after.system - before.user - before.system
            print(
                f"{name}: {wall:.1f} s, of the processor {seconds:.1f} s, {tokens} tokens",
                flush=True,
            )


if __name__ == "__main__":
    main()
