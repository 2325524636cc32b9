"""The process that runs a GGUF embedding model, since llama.cpp may crash.

Two threads must not use a model, either. `python -m engine.encoders.kinds.gguf_process FILE TOKENS
POOLING ON_GPU` reads lines of JSON, each a list of texts, and answers each with a line {"rows",
"width"} and the float32 vectors, or with a line {"error"}; a first line, before any text, holds the
width.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from engine.core.environment import prepare_process
from engine.core.errors import EngineError, ModelError
from engine.core.subprocesses import to_dict
from engine.gguf.hardware import choose_layers, free_gpu_memory, free_threads, weight_of
from engine.gguf.llama import clear_log, complaint, library, load, tokenise, why_not_loaded

POOLING = {"from the model": -1, "mean": 1, "cls": 2, "last": 3}
"""Values of `encoder.pooling` → llama.cpp's numbers for them."""


class EmbeddingModel:
    """A loaded model.

    `width` is the width of its vectors. Raises ModelError if the file is not a usable embedding
    model.
    """

    def __init__(self, path: Path, max_tokens: int, pooling: str, on_gpu: bool) -> None:
        self._lib = library()
        self._path = path
        self._max = max_tokens
        self._model = self._loaded(on_gpu)
        self._vocabulary = self._lib.llama_model_get_vocab(self._model)
        self._context = self._opened(POOLING[pooling])
        if self._lib.llama_pooling_type(self._context) not in (1, 2, 3):
            raise ModelError(
                f"The model {path.name} does not say how the vectors of a text's tokens become"
                " one.",
                "It may be a generative language model.",
                'Set encoder.pooling to "mean", "cls" or "last".',
                code="pooling-unsupported",
            )
        self.width = int(self._lib.llama_model_n_embd_out(self._model))

    def vector(self, text: str) -> bytes:
        """Return the vector of a text as `width` float32 numbers, not normalised."""
        tokens = self._tokens(text)
        # The batch points to this array, which must outlive it.
        data = (self._lib.llama_token * len(tokens))(*tokens)
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        clear_log()
        if (
            self._lib.llama_decode(self._context, self._lib.llama_batch_get_one(data, len(tokens)))
            != 0
        ):
            raise self._invalid(
                f"A text of {len(tokens)} tokens could not be encoded: {complaint(self._path)}"
            )
        found = self._lib.llama_get_embeddings_seq(self._context, 0)
        return ctypes.string_at(found, 4 * self.width)

    def _tokens(self, text: str) -> list[int]:
        """Tokenise a text with the model's own special tokens around it.

        What looks like a special token in the text is read as characters. A text that is too long
        keeps the last special token.
        """
        tokens = tokenise(self._vocabulary, text, around=True, control=False)
        tokens = tokens or [max(0, self._lib.llama_vocab_eos(self._vocabulary))]
        if len(tokens) <= self._max:
            return tokens
        ends = {
            of(self._vocabulary) for of in (self._lib.llama_vocab_eos, self._lib.llama_vocab_sep)
        }
        return [
            *tokens[: self._max - 1],
            tokens[-1] if tokens[-1] in ends else tokens[self._max - 1],
        ]

    def _loaded(self, on_gpu: bool) -> Any:
        if on_gpu and self._lib.llama_supports_gpu_offload():
            gpus = free_gpu_memory()
        else:
            gpus = ()
        if gpus:
            layers = choose_layers(gpus, weight_of(self._path, self._max))[0]
        else:
            layers = 0
        for wanted in dict.fromkeys((layers, 0)):
            if model := load(self._path, n_gpu_layers=wanted):
                return model
        raise self._invalid(why_not_loaded(self._path))

    def _opened(self, pooling: int) -> Any:
        params = self._lib.llama_context_default_params()
        # A text is computed at once.
        params.n_ctx = params.n_batch = params.n_ubatch = self._max
        params.n_threads = params.n_threads_batch = free_threads()[0]
        params.embeddings = True
        params.pooling_type = pooling
        if context := self._lib.llama_init_from_model(self._model, params):
            return context
        raise self._invalid(complaint(self._path))

    def _invalid(self, why: str) -> ModelError:
        to_do = (
            "Set encoder.model to another GGUF file of an embedding model, or get this one again."
        )
        return ModelError(
            f"The embedding model {self._path} cannot be used.", why, to_do, code="model-invalid"
        )


def main() -> None:
    """Answer until standard input ends, as it does when the parent process dies."""
    prepare_process()
    output = os.fdopen(os.dup(1), "wb")
    # What native libraries print must not be read as an answer.
    os.dup2(2, 1)
    file, tokens, pooling, on_gpu = sys.argv[1:]

    def say(line: dict[str, Any], vectors: bytes = b"") -> None:
        output.write(json.dumps(line).encode() + b"\n" + vectors)
        output.flush()

    try:
        model = EmbeddingModel(Path(file), int(tokens), pooling, on_gpu == "True")
        say({"width": model.width})
        for line in sys.stdin.buffer:
            texts = json.loads(line)
            vectors = b"".join(map(model.vector, texts))
            say({"rows": len(texts), "width": model.width}, vectors)
    except EngineError as error:
        say({"error": to_dict(error)})
    # Threads of native libraries must not delay the exit.
    os._exit(0)


if __name__ == "__main__":
    main()
