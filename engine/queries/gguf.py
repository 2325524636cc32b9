"""A language model in a GGUF file, run by llama.cpp in this process. One thread: llama.cpp crashes when two use a model."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import CancelledError, ModelError
from engine.queries.chat_template import Piece, neutral, rendered
from engine.queries.gguf_file import check_gguf, unusable
from engine.queries.gguf_hardware import choose_layers, free_threads
from engine.queries.opening import Teller
from engine.queries.prompted import Reply, UnansweredError
from engine.queries.prompts import Message
from engine.queries.shapes import Shape

BATCH = 256  # tokens of one computation: a stop is heard between its parts, each well under a second
TEMPERATURE, TOP_K, TOP_P = 0.3, 40, 0.95
_WARNING, _ERROR, _CONTINUED = 3, 4, 5
_log: deque[str] = deque(maxlen=40)
_kept: list[Any] = []  # C calls these as long as the process lives


def _library() -> Any:
    """llama.cpp, its log in our hands: it alone tells why a file cannot be loaded."""
    import llama_cpp

    if not _kept:
        level = 0

        def note(given: int, text: bytes, _data: object) -> None:
            nonlocal level
            level = level if given == _CONTINUED else given
            if level in (_WARNING, _ERROR):
                _log.append(text.decode("utf-8", "replace"))

        _kept.append(llama_cpp.llama_log_callback(note))
        llama_cpp.llama_log_set(_kept[0], ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def check_vocabulary(path: Path) -> None:
    """Load all of a model but its weights. Raises ModelError with the true reason where llama.cpp cannot use it."""
    lib = _library()
    _log.clear()
    params = lib.llama_model_default_params()
    params.vocab_only, params.n_gpu_layers = True, 0
    model = lib.llama_model_load_from_file(os.fsencode(path), params)
    if model is None:
        raise unusable(path, _told(path))
    lib.llama_model_free(model)


class GgufModel:
    """A loaded model. `should_stop` is asked many times a second, also inside long computations."""

    name = "gguf"

    def __init__(self, path: Path, context: int, teller: Teller, should_stop: Callable[[], bool]) -> None:
        """Raises ModelError with the true reason where the file cannot be loaded, CancelledError."""
        check_gguf(path)
        self.model, self._path, self._should_stop = path.name, path, should_stop
        self._lib = _library()
        self._added = int(self._lib.LLAMA_TOKEN_ATTR_USER_DEFINED)
        self._model: Any = None
        self._context: Any = None
        try:
            self._load(teller)
            self._vocabulary = self._lib.llama_model_get_vocab(self._model)
            self._refuse_other_kinds()
            self.context = self._fitting(context, teller)
            self._open(teller)
        except BaseException:
            self.close()
            raise
        self._template, self._bos, self._eos = self._chat_template()
        self._past: list[int] = []

    def close(self) -> None:
        """Free the model."""
        if self._context is not None:
            self._lib.llama_free(self._context)
            self._context = None
        if self._model is not None:
            self._lib.llama_model_free(self._model)
            self._model = None

    def count(self, text: str) -> int:
        """Tokens of a text that is not part of a template."""
        return len(self._tokens(Piece(text, False)))

    def complete(self, message: Message, shape: Shape, most: int, limit: int, seed: int) -> Reply:
        """See `ChatModel`. The grammar leaves the model no other form than `shape`."""
        prompt = self._prompt(message)
        if len(prompt) + limit > self.context:
            reason = f"the prompt has {len(prompt)} tokens, which with the answer is more than {self.context}"
            raise UnansweredError(reason, lasting=True)
        self._read(prompt)
        with self._samplers(shape.grammar(most), seed) as (free, bound, grammar):
            return self._write(limit, free, bound, grammar)

    def _load(self, teller: Teller) -> None:
        layers, reason = choose_layers(bool(self._lib.llama_supports_gpu_offload()))
        self._model = self._loaded(layers)
        if self._model is None and layers:
            layers, reason = 0, f"the model could not be loaded on the GPU: {_told(self._path)}"
            self._model = self._loaded(0)
        if self._model is None:
            self._check_stop()
            raise ModelError(
                f"The language model {self._path} cannot be loaded.",
                _told(self._path),
                "Set queries.model to another GGUF file, or get this one again: a download may have broken off.",
            )
        teller.choose("gpu layers", "all" if layers else "none", reason)

    def _loaded(self, layers: int) -> Any:
        _log.clear()
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = layers
        params.use_extra_bufts = False  # with them, quantised models crash on CPUs with AMX
        params.progress_callback = self._lib.llama_progress_callback(lambda _share, _data: not self._should_stop())
        return self._lib.llama_model_load_from_file(os.fsencode(self._path), params)

    def _open(self, teller: Teller) -> None:
        threads, reason = free_threads()
        teller.choose("threads", threads, reason)
        params = self._lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = self.context, BATCH, BATCH
        params.n_threads = params.n_threads_batch = threads
        self._abort = self._lib.ggml_abort_callback(lambda _data: self._should_stop())
        params.abort_callback = self._abort
        _log.clear()
        self._context = self._lib.llama_init_from_model(self._model, params)
        if self._context is None:
            raise ModelError(
                f"The language model {self._path} cannot be started with a context of {self.context} tokens.",
                _told(self._path),
                "Lower queries.context_tokens, or choose a smaller model.",
            )

    def _refuse_other_kinds(self) -> None:
        """Embedding models and the like load too, but cannot write."""
        kind = self._metadata("general.architecture")
        pooled = self._metadata(f"{kind}.pooling_type") not in ("", "0")
        one_way = self._metadata(f"{kind}.attention.causal") != "false"
        if self._lib.llama_model_has_encoder(self._model) or pooled or not one_way:
            raise ModelError(
                f"The model {self._path} does not write text.",
                f"It is an embedding or encoder model ('{kind}').",
                "Set queries.model to a GGUF file of a language model.",
            )

    def _fitting(self, wished: int, teller: Teller) -> int:
        trained = int(self._lib.llama_model_n_ctx_train(self._model))
        if wished > trained > 0:
            teller.choose("context tokens", trained, f"the model was trained for no more; {wished} are set")
            return trained
        return wished

    def _metadata(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(4096)
        found = self._lib.llama_model_meta_val_str(self._model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if found >= 0 else ""

    def _chat_template(self) -> tuple[str | None, str, str]:
        text = self._lib.llama_model_chat_template(self._model, None)
        ends = []
        for of in (self._lib.llama_vocab_bos, self._lib.llama_vocab_eos):
            token = of(self._vocabulary)
            shown = self._lib.llama_vocab_get_text(self._vocabulary, token) if token >= 0 else b""
            ends.append((shown or b"").decode("utf-8", "replace"))
        return (text.decode("utf-8", "replace") if text else None), ends[0], ends[1]

    def _prompt(self, message: Message) -> list[int]:
        pieces = rendered(self._template, message, self._bos, self._eos)
        tokens = [token for piece in pieces for token in self._tokens(piece)]
        bos = self._lib.llama_vocab_bos(self._vocabulary)
        if self._lib.llama_vocab_get_add_bos(self._vocabulary) and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        return tokens

    def _tokens(self, piece: Piece) -> list[int]:
        """Without `control`, what looks like a control token is read as the characters that it is written with.

        llama.cpp does so itself but for tokens that the file calls added by a user, which may be those of its template.
        """
        found = self._tokenised(piece.text, piece.control)
        if piece.control or not any(
            self._lib.llama_vocab_get_attr(self._vocabulary, token) & self._added for token in found
        ):
            return found
        return self._tokenised(neutral(piece.text), False)

    def _tokenised(self, text: str, control: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        buffer = (self._lib.llama_token * room)()
        found = self._lib.llama_tokenize(self._vocabulary, data, len(data), buffer, room, False, control)
        return list(buffer[: max(0, found)])

    def _read(self, prompt: Sequence[int]) -> None:
        """Compute the prompt, as far as it differs from what was computed last."""
        same = 0
        while same < min(len(prompt) - 1, len(self._past)) and prompt[same] == self._past[same]:
            same += 1
        memory = self._lib.llama_get_memory(self._context)
        if not self._lib.llama_memory_seq_rm(memory, 0, same, -1):
            self._lib.llama_memory_clear(memory, True)
            same = 0
        self._past = list(prompt[:same])
        for start in range(same, len(prompt), BATCH):
            self._compute(prompt[start : start + BATCH])

    def _compute(self, tokens: Sequence[int]) -> None:
        self._check_stop()
        batch = (self._lib.llama_token * len(tokens))(*tokens)
        code = self._lib.llama_decode(self._context, self._lib.llama_batch_get_one(batch, len(tokens)))
        if code != 0:
            self._past = []
            self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
            self._check_stop()
            raise UnansweredError(f"llama.cpp could not compute the answer (code {code}): {_told(self._path)}")
        self._past += tokens

    def _write(self, limit: int, free: Any, bound: Any, grammar: Any) -> Reply:
        text = b""
        for _ in range(limit):
            token = self._next(free, bound, grammar)
            if self._lib.llama_vocab_is_eog(self._vocabulary, token):
                return Reply(text.decode("utf-8", "replace"))
            buffer = ctypes.create_string_buffer(512)
            length = self._lib.llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, False)
            text += buffer.raw[: max(0, length)]
            self._compute([token])
        return Reply(text.decode("utf-8", "replace"), cut=True)

    def _next(self, free: Any, bound: Any, grammar: Any) -> int:
        """The model's choice where the grammar allows it, else its best choice among what the grammar allows.

        Asking the grammar about one token is thousands of times cheaper than about the whole vocabulary.
        """
        lib = self._lib
        token = int(lib.llama_sampler_sample(free, self._context, -1))
        one = (lib.llama_token_data * 1)(lib.llama_token_data(token, 1.0, 0.0))
        array = lib.llama_token_data_array(one, 1, -1, False)
        lib.llama_sampler_apply(grammar, ctypes.byref(array))
        if one[0].logit > -1e30:
            lib.llama_sampler_accept(grammar, token)
            return token
        return int(lib.llama_sampler_sample(bound, self._context, -1))

    @contextmanager
    def _samplers(self, text: str, seed: int) -> Iterator[tuple[Any, Any, Any]]:
        """(chain without the grammar, chain that begins with it, the grammar itself)."""
        lib = self._lib
        grammar = lib.llama_sampler_init_grammar(self._vocabulary, text.encode(), b"root")
        if not grammar:
            raise UnansweredError("llama.cpp does not take the grammar", lasting=True)
        free, bound = (lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params()) for _ in range(2))
        lib.llama_sampler_chain_add(bound, grammar)
        for chain in (free, bound):
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_k(TOP_K))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_p(TOP_P, 1))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_temp(TEMPERATURE))
            lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_dist(seed))
        try:
            yield free, bound, grammar
        finally:
            lib.llama_sampler_free(free)
            lib.llama_sampler_free(bound)  # and with it the grammar

    def _check_stop(self) -> None:
        if self._should_stop():
            raise CancelledError("The run was cancelled.", "You asked for it.", "Run 'engine run' to go on from here.")


def _told(path: Path) -> str:
    """What llama.cpp complained about last, on one line; what says no more than that loading failed is left out."""
    lines = [" ".join(line.split()) for line in "".join(_log).splitlines()]
    told = [line.replace(str(path), path.name).rpartition("error loading model: ")[2] for line in lines]
    telling = [line for line in told if line and "failed to load model" not in line]
    return f"llama.cpp says: {' / '.join(telling[-3:])[:500]}." if telling else "llama.cpp gives no reason."
