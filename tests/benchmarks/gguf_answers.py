"""Whole answers of a GGUF model, prompts included: ours, and `llama_cpp.Llama` with the same
grammar, in turn.

`python tests/benchmarks/gguf_answers.py MODEL.gguf CORPUS.jsonl`, a corpus in the form of BEIR.
Processor time, too, for a busy machine.
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

from engine.queries.llm.chat_template import rendered
from engine.queries.llm.gguf_model import TEMPERATURE, TOP_K, TOP_P

from engine.llm.prompts import load_prompt, place_of
from engine.llm.requests import NullReporter, Request, ended
from engine.llm.shapes import EVENTS
from engine.queries.llm import gguf_model

CONTEXT = 2048


def requests(corpus: Path, count: int, limit: int) -> list[Request]:
    """The first step of the prompt in two steps, for the first documents."""
    with corpus.open(encoding="utf-8") as file:
        documents = [json.loads(line) for line, _ in zip(file, range(count), strict=False)]
    return [
        Request(
            load_prompt("events").filled(
                {**place_of(one["title"], ()), "passage": one["text"], "count": 3}
            ),
            EVENTS,
            3,
            limit,
            number,
        )
        for number, one in enumerate(documents)
    ]


def ours(path: Path, threads: int) -> Callable[[Request], tuple[str, int]]:
    """Answers by `GgufModel`: the text and its tokens."""
    gguf_model.free_threads = lambda: (threads, "of this benchmark")
    model = gguf_model.FileChatModel(path, CONTEXT, NullReporter(), lambda: False)

    def answer(asked: Request) -> tuple[str, int]:
        reply = model.complete(asked)
        return reply.text, model.count(reply.text)

    return answer


def llama(path: Path, threads: int) -> Callable[[Request], tuple[str, int]]:
    """Answers by `llama_cpp.Llama.create_completion`."""
    from llama_cpp import Llama, LlamaGrammar, llama_model_get_vocab, llama_vocab_get_text

    model = Llama(
        str(path), n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False
    )
    template = model.metadata.get("tokenizer.chat_template")
    vocabulary = llama_model_get_vocab(model.model)
    bos, eos = (
        llama_vocab_get_text(vocabulary, one).decode()
        for one in (model.token_bos(), model.token_eos())
    )

    def answer(asked: Request) -> tuple[str, int]:
        pieces = rendered(template, asked.message, bos, eos)
        tokens = [
            token
            for one in pieces
            for token in model.tokenize(one.text.encode(), add_bos=False, special=one.control)
        ]
        done: Any = model.create_completion(
            tokens,
            max_tokens=asked.limit,
            temperature=TEMPERATURE,
            top_k=TOP_K,
            top_p=TOP_P,
            min_p=0.0,
            seed=asked.seed,
            grammar=LlamaGrammar.from_string(asked.shape.grammar(asked.most), verbose=False),
        )
        text = str(done["choices"][0]["text"])
        if done["choices"][0]["finish_reason"] == "length":
            text = ended(text, asked.shape).text
        return text, len(model.tokenize(text.encode(), add_bos=False))

    return answer


def main() -> None:
    """Print a line for each round of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=192, help="of an answer, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    wanted = requests(asked.corpus, asked.count, asked.tokens)
    ways = {
        "ours": ours(asked.model, asked.threads),
        "llama_cpp.Llama": llama(asked.model, asked.threads),
    }
    for _ in range(asked.rounds):
        for name, answer in ways.items():
            wall = time.perf_counter()
            own = time.process_time()
            answers = [answer(one) for one in wanted]
            wall = time.perf_counter() - wall
            own = time.process_time() - own
            for one, (text, _) in zip(wanted, answers, strict=True):
                one.shape.read(text)
            print(
                f"{name}: {wall:.1f} s, of the processor {own:.1f} s, {sum(n for _, n in answers)}"
                " tokens",
                flush=True,
            )


if __name__ == "__main__":
    main()
