"""A language model in a GGUF file, run by llama.cpp in this process.

Only one thread may use a model, since llama.cpp crashes otherwise; `engine/gguf/hardware.py`
chooses the device. `llama_cpp.Llama` is not used: it compiles the file's chat template in this
process, where a malicious template can hang it, its loading cannot be stopped, and it cannot turn
off `use_extra_bufts`.
"""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError
from engine.gguf.file import check_gguf
from engine.gguf.hardware import (
    ALL_LAYERS,
    choose_layers,
    free_gpu_memory,
    free_threads,
    too_large,
    weight_of,
)
from engine.gguf.llama import clear_log, complaint, library, load, tokenise, why_not_loaded
from engine.queries.llm.chat_model import (
    Reply,
    Reporter,
    Request,
    TooLongError,
    UnansweredError,
    ended,
)
from engine.queries.llm.chat_template import Frame, Piece, framed, rendered
from engine.queries.llm.cost import Patience
from engine.queries.llm.prompts import Message
from engine.queries.llm.turn_marks import KNOWN, Marks, marks_in, neutral

# Tokens of one computation: cancellation is checked between its parts, each well under a second.
BATCH = 256
TEMPERATURE = 0.3
TOP_K = 40
TOP_P = 0.95
_FORBIDDEN = -1e30


class Sampler:
    """The choice of each next token of an answer, within a grammar.

    Random choices depend only on the seed.
    """

    def __init__(self, lib: Any, vocabulary: Any, grammar: str, seed: int) -> None:
        """Prepare the choice; `lib` is the module llama_cpp.

        Raises UnansweredError if llama.cpp rejects the grammar.
        """
        self._lib = lib
        self._grammar = lib.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        if not self._grammar:
            raise UnansweredError("llama.cpp does not take the grammar", lasting=True)
        self._free, self._bound = (
            lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params()) for _ in range(2)
        )
        lib.llama_sampler_chain_add(self._bound, self._grammar)
        for chain in (self._free, self._bound):
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_k(TOP_K))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_p(TOP_P, 1))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_temp(TEMPERATURE))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_dist(seed))

    def next(self, context: Any) -> int:
        """Return the model's choice, or a choice among allowed tokens if the grammar forbids it.

        Checking one token against the grammar is thousands of times cheaper than checking the whole
        vocabulary.
        """
        lib = self._lib
        token = int(lib.llama_sampler_sample(self._free, context, -1))
        one = (lib.llama_token_data * 1)(lib.llama_token_data(token, 1.0, 0.0))
        array = lib.llama_token_data_array(one, 1, -1, False)
        lib.llama_sampler_apply(self._grammar, ctypes.byref(array))
        if one[0].logit > _FORBIDDEN:
            lib.llama_sampler_accept(self._grammar, token)
            return token
        return int(lib.llama_sampler_sample(self._bound, context, -1))

    def close(self) -> None:
        """Free the samplers, which must not be used afterwards."""
        self._lib.llama_sampler_free(self._free)
        self._lib.llama_sampler_free(self._bound)  # This frees the grammar as well.


class GgufModel:
    """A loaded model.

    `should_stop` is called many times a second, even during long computations.
    """

    name = "gguf"

    def __init__(
        self, path: Path, context: int, reporter: Reporter, should_stop: Callable[[], bool]
    ) -> None:
        """Load the model.

        Raises ModelError with the actual reason if the file cannot be loaded, CancelledError.
        """
        check_gguf(path)
        self.model = path.name
        self._path = path
        self._patience = Patience(should_stop)
        self._lib = library()
        self._added = int(self._lib.LLAMA_TOKEN_ATTR_USER_DEFINED)
        self._model: Any = None
        self._context: Any = None
        self._past: list[int] = []  # The tokens in the context's cache.
        try:
            self._load(reporter, context)
            self._vocabulary = self._lib.llama_model_get_vocab(self._model)
            self._refuse_other_kinds()
            trained = int(self._lib.llama_model_n_ctx_train(self._model))
            if trained > 0:
                self.context = min(context, trained)
            else:
                self.context = context
            if self.context < context:
                reporter.choose(
                    "context tokens",
                    trained,
                    f"the model was trained for no more; {context} are set",
                )
            self._open(reporter)
        except BaseException:
            self.close()
            raise
        self._template, self._bos, self._eos = self._chat_template()
        if self._template:
            frame = framed(self._template, self._bos, self._eos)
        else:
            frame = None
        self._marks = self._marks_of(frame)
        if self._template and frame is None:
            reporter.warn(
                f"The chat template of {self.model} cannot be used: the model is prompted in plain"
                " text."
            )

    def close(self) -> None:
        """Free the model."""
        if self._context is not None:
            self._lib.llama_free(self._context)
            self._context = None
        if self._model is not None:
            self._lib.llama_model_free(self._model)
            self._model = None

    def count(self, text: str) -> int:
        """Count the tokens of a text that is not part of a template."""
        return len(self._tokens(Piece(text, False)))

    def complete(self, request: Request) -> Reply:
        """Answer a request; see `ChatModel.complete`.

        The grammar allows only answers of the requested shape.
        """
        self._patience.check()
        prompt = self.prompt_tokens(request.message)
        if len(prompt) + request.limit > self.context:
            reason = (
                f"the prompt has {len(prompt)} tokens, which with the answer is more than"
                f" {self.context}"
            )
            raise TooLongError(reason, lasting=True)
        text = b""
        grammar = request.shape.grammar(request.most)
        with closing(Sampler(self._lib, self._vocabulary, grammar, request.seed)) as sampler:
            self._forget_beyond(prompt)
            self._decode(prompt[len(self._past) :])
            for number in range(request.limit):
                token = sampler.next(self._context)
                if self._lib.llama_vocab_is_eog(self._vocabulary, token):
                    return Reply(text.decode("utf-8", "replace"))
                text += self._bytes(token)
                if request.hear is not None:
                    # The incremental decoder leaves out an incomplete character.
                    request.hear(codecs.getincrementaldecoder("utf-8")("replace").decode(text))
                if number < request.limit - 1:
                    self._decode([token])
        return ended(text.decode("utf-8", "replace"), request.shape)

    def _forget_beyond(self, prompt: Sequence[int]) -> None:
        """Keep only the part of the cache that the prompt begins with.

        Some kinds of models cannot forget their last tokens alone; their cache is cleared.
        """
        both = zip(self._past, prompt[:-1], strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], both)))
        if self._lib.llama_memory_seq_rm(self._lib.llama_get_memory(self._context), 0, same, -1):
            del self._past[same:]
        else:
            self._forget()

    def _forget(self) -> None:
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        self._past = []

    def _decode(self, tokens: Sequence[int]) -> None:
        for start in range(0, len(tokens), BATCH):
            self._patience.check()
            part = tokens[start : start + BATCH]
            data = (self._lib.llama_token * len(part))(*part)  # The batch points to this array.
            if (
                code := self._lib.llama_decode(
                    self._context, self._lib.llama_batch_get_one(data, len(part))
                )
            ) != 0:
                self._forget()
                self._patience.check()
                raise UnansweredError(
                    f"llama.cpp could not compute the answer (code {code}): {complaint(self._path)}"
                )
            self._past += part

    def _load(self, reporter: Reporter, context: int) -> None:
        if self._lib.llama_supports_gpu_offload():
            gpus = free_gpu_memory()
        else:
            gpus = ()
        weight = weight_of(self._path, context)
        layers, reason = choose_layers(gpus, weight)
        if not layers and (short := too_large(weight)):
            reporter.warn(f"{self.model} {short}")
        self._model = self._loaded(layers)
        if self._model is None and layers:
            layers = 0
            reason = f"the model could not be loaded on the GPU: {complaint(self._path)}"
            self._model = self._loaded(0)
        if self._model is None:
            self._patience.check()
            raise ModelError(
                f"The language model {self._path} cannot be loaded.",
                why_not_loaded(self._path),
                "Set queries.model to another GGUF file, or download this one again; it may be"
                " incomplete.",
                code="language-model-invalid",
            )
        shown = {ALL_LAYERS: "all", 0: "none"}.get(layers, str(layers))
        reporter.choose("gpu layers", shown, reason)

    def _loaded(self, layers: int) -> Any:
        going_on = self._lib.llama_progress_callback(lambda _share, _data: not self._patience())
        return load(self._path, n_gpu_layers=layers, progress_callback=going_on)

    def _open(self, reporter: Reporter) -> None:
        threads, reason = free_threads()
        reporter.choose("threads", threads, reason)
        params = self._lib.llama_context_default_params()
        params.n_ctx = self.context
        params.n_batch = BATCH
        params.n_ubatch = BATCH
        params.n_threads = params.n_threads_batch = threads
        self._abort = self._lib.ggml_abort_callback(lambda _data: self._patience())
        params.abort_callback = self._abort
        clear_log()
        self._context = self._lib.llama_init_from_model(self._model, params)
        if self._context is None:
            raise ModelError(
                f"The language model {self._path} cannot be started with a context of"
                f" {self.context} tokens.",
                complaint(self._path),
                "Lower queries.context_tokens, or choose a smaller model.",
                code="context-too-large",
            )

    def _bytes(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(512)
        length = self._lib.llama_token_to_piece(
            self._vocabulary, token, buffer, len(buffer), 0, False
        )
        return buffer.raw[: max(0, length)]

    def _refuse_other_kinds(self) -> None:
        """Raise ModelError for embedding models and the like, which load but cannot write."""
        kind = self._metadata("general.architecture")
        pooled = self._metadata(f"{kind}.pooling_type") not in ("", "0")
        one_way = self._metadata(f"{kind}.attention.causal") != "false"
        if self._lib.llama_model_has_encoder(self._model) or pooled or not one_way:
            raise ModelError(
                f"The model {self._path} does not write text.",
                f"It is an embedding or encoder model ('{kind}').",
                "Set queries.model to a GGUF file of a language model.",
                code="language-model-unsupported",
            )

    def _metadata(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(4096)
        found = self._lib.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        if found >= 0:
            return buffer.value.decode("utf-8", "replace")
        return ""

    def _chat_template(self) -> tuple[str | None, str, str]:
        text = self._lib.llama_model_chat_template(self._model, None)
        ends = []
        for of in (self._lib.llama_vocab_bos, self._lib.llama_vocab_eos):
            token = of(self._vocabulary)
            if token >= 0:
                shown = self._lib.llama_vocab_get_text(self._vocabulary, token)
            else:
                shown = b""
            ends.append((shown or b"").decode("utf-8", "replace"))
        return (text.decode("utf-8", "replace") if text else None), ends[0], ends[1]

    def prompt_tokens(self, message: Message) -> list[int]:
        """Return the tokens of a message in the model's chat template.

        Only the template itself yields control tokens.
        """
        pieces = rendered(self._template, message, self._bos, self._eos)
        tokens = [token for piece in pieces for token in self._tokens(piece)]
        bos = self._lib.llama_vocab_bos(self._vocabulary)
        if self._lib.llama_vocab_get_add_bos(self._vocabulary) and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def _marks_of(self, frame: Frame | None) -> Marks:
        """Return the marks that the template writes around turns in plain characters.

        Signs that are single tokens are left out, because the tokenizer keeps them apart.
        """
        if frame is None:
            return KNOWN
        found = marks_in(frame)
        return replace(
            found,
            signs=frozenset(
                one for one in found.signs if len(self._tokenised(one, control=True)) > 1
            ),
        )

    def _tokens(self, piece: Piece) -> list[int]:
        """Return the tokens of a part of a prompt.

        In a part without `control`, control tokens are read as plain characters, and marks of the
        template are broken up. llama.cpp does the former itself, except for tokens that the file
        lists as added by a user, which may be those of its template.
        """
        if piece.control:
            return self._tokenised(piece.text, control=True)
        found = self._tokenised(self._marks.apart(piece.text))
        if not any(
            self._lib.llama_vocab_get_attr(self._vocabulary, token) & self._added for token in found
        ):
            return found
        return self._tokenised(self._marks.apart(neutral(piece.text)))

    def _tokenised(self, text: str, control: bool = False) -> list[int]:
        return tokenise(self._vocabulary, text, around=False, control=control)
