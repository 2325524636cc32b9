"""A language model in a GGUF file, run by llama.cpp in this process. One thread: llama.cpp crashes when two use a model.

How it writes several answers at once is in `gguf_decoding.py`, where it runs in `engine/gguf/hardware.py`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError
from engine.gguf.file import check_gguf
from engine.gguf.hardware import (
    ALL_LAYERS,
    at_once_by_memory,
    at_once_by_pace,
    choose_layers,
    free_gpu_memory,
    free_threads,
    too_large,
    weighed,
)
from engine.gguf.llama import clear_log, complaint, library
from engine.gguf.reason import why_not_loaded
from engine.queries.llm.chat_model import Reply, Request, TooLongError, UnansweredError
from engine.queries.llm.chat_template import Frame, Piece, framed, rendered
from engine.queries.llm.cost import Patience
from engine.queries.llm.gguf_decoding import BATCH, Decoder
from engine.queries.llm.gguf_sampling import Sampler
from engine.queries.llm.prompts import Message
from engine.queries.llm.shapes import Shape
from engine.queries.llm.turn_marks import KNOWN, Marks, marks_in, neutral
from engine.queries.reporter import Reporter

PACE_STEPS, PACE_SECONDS = 8, 0.3  # spent on finding out how many answers at once are fastest


class GgufModel:
    """A loaded model. `should_stop` is asked many times a second, also inside long computations."""

    name = "gguf"

    def __init__(
        self, path: Path, context: int, teller: Reporter, should_stop: Callable[[], bool], at_once: int = 0
    ) -> None:
        """`at_once`: how many answers to write at once; 0: as many as are faster and fit in memory.

        Raises ModelError with the true reason where the file cannot be loaded, CancelledError.
        """
        check_gguf(path)
        self.model, self._path, self._patience = path.name, path, Patience(should_stop)
        self._lib = library()
        self._decoder: Any = None
        self._wished = context
        self._added = int(self._lib.LLAMA_TOKEN_ATTR_USER_DEFINED)
        self._model: Any = None
        self._context: Any = None
        try:
            self._load(teller)
            self._vocabulary = self._lib.llama_model_get_vocab(self._model)
            self._refuse_other_kinds()
            self.context = self._fitting(context, teller)
            self._open(teller, at_once)
        except BaseException:
            self.close()
            raise
        self._template, self._bos, self._eos = self._chat_template()
        frame = framed(self._template, self._bos, self._eos) if self._template else None
        self._marks = self._marks_of(frame)
        if self._template and frame is None:
            teller.warn(f"The chat template of {self.model} cannot be followed: the model is asked in plain text.")

    @property
    def at_once(self) -> int:
        """See `SeveralAtOnce`."""
        return int(self._decoder.at_once)

    def close(self) -> None:
        """Free the model."""
        self._close_context()
        if self._model is not None:
            self._lib.llama_model_free(self._model)
            self._model = None

    def count(self, text: str) -> int:
        """Tokens of a text that is not part of a template."""
        return len(self._tokens(Piece(text, False)))

    def complete(self, message: Message, shape: Shape, most: int, limit: int, seed: int) -> Reply:
        """See `ChatModel`. The grammar leaves the model no other form than `shape`. Only while no other answer is written."""
        ticket = self.submit(Request(message, shape, most, limit, seed))
        while True:
            for ended, reply in self.step():
                if ended == ticket and isinstance(reply, Reply):
                    return reply
                if isinstance(reply, UnansweredError):
                    raise reply

    def submit(self, request: Request) -> int:
        """See `SeveralAtOnce`."""
        prompt, shared = self._prompt(request.message)
        if len(prompt) + request.limit > self.context:
            reason = f"the prompt has {len(prompt)} tokens, which with the answer is more than {self.context}"
            raise TooLongError(reason, lasting=True)
        sampler = Sampler(self._lib, self._vocabulary, request.shape.grammar(request.most), request.seed)
        return int(self._decoder.submit(prompt, shared, request.limit, request.shape, sampler))

    def step(self) -> list[tuple[int, Reply | UnansweredError]]:
        """See `SeveralAtOnce`."""
        self._patience.check()
        return list(self._decoder.step())

    def drop(self) -> None:
        """See `SeveralAtOnce`."""
        self._decoder.drop()

    def _load(self, teller: Reporter) -> None:
        gpus = free_gpu_memory() if self._lib.llama_supports_gpu_offload() else ()
        self._weight = weighed(self._path, self._wished)
        layers, reason = choose_layers(gpus, self._weight)
        if not layers and (short := too_large(self._weight)):
            teller.warn(f"{self.model} {short}")
        self._model = self._loaded(layers)
        if self._model is None and layers:
            layers, reason = 0, f"the model could not be loaded on the GPU: {complaint(self._path)}"
            self._model = self._loaded(0)
        if self._model is None:
            self._patience.check()
            raise ModelError(
                f"The language model {self._path} cannot be loaded.",
                why_not_loaded(self._path, complaint(self._path)),
                "Set queries.model to another GGUF file, or get this one again: a download may have broken off.",
                code="language-model-invalid",
            )
        self._on_gpu = layers != 0
        shown = {ALL_LAYERS: "all", 0: "none"}.get(layers, str(layers))
        teller.choose("gpu layers", shown, reason)

    def _loaded(self, layers: int) -> Any:
        clear_log()
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = layers
        params.use_extra_bufts = False  # with them, quantised models crash on CPUs with AMX
        params.progress_callback = self._lib.llama_progress_callback(lambda _share, _data: not self._patience())
        return self._lib.llama_model_load_from_file(os.fsencode(self._path), params)

    def _open(self, teller: Reporter, wished: int) -> None:
        threads, reason = free_threads()
        teller.choose("threads", threads, reason)
        most, reason = (wished, "queries.concurrency is set") if wished else self._room()
        while (decoder := self._opened(threads, most)) is None and most > 1:
            most, reason = most // 2, "there is no memory for more"
        if decoder is None:
            raise ModelError(
                f"The language model {self._path} cannot be started with a context of {self.context} tokens.",
                complaint(self._path),
                "Lower queries.context_tokens, or choose a smaller model.",
                code="context-too-large",
            )
        self._decoder = decoder
        if not wished and most > 1:
            best, reason = at_once_by_pace(self._pace, most)
            if best < most:
                self._close_context()
                self._decoder = self._opened(threads, best)
        teller.choose("answers at once", self._decoder.at_once, reason)

    def _room(self) -> tuple[int, str]:
        """How many sequences of the whole context fit beside the model."""
        import psutil

        if self._on_gpu:
            free = sum(free for _, free in free_gpu_memory())
        else:  # the file is mapped: its pages count as available, though each token needs them all
            free = max(0, psutil.virtual_memory().available - self._weight.size)
        return at_once_by_memory(free, self._weight, self.context)

    def _pace(self, count: int) -> float:
        pace = float(self._decoder.pace(count, PACE_STEPS, PACE_SECONDS))
        self._patience.check()
        return pace

    def _opened(self, threads: int, at_once: int) -> Decoder | None:
        """A decoder with a context of its own; None where llama.cpp makes none, as where memory is short."""
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = self.context * at_once, BATCH, BATCH
        params.n_seq_max, params.kv_unified = at_once, False
        params.n_threads = params.n_threads_batch = threads
        self._abort = lib.ggml_abort_callback(lambda _data: self._patience())
        params.abort_callback = self._abort
        clear_log()
        self._context = lib.llama_init_from_model(self._model, params)
        if self._context is None:
            return None
        return Decoder(
            lib, self._context, at_once, self._patience, ends=self._ends, piece=self._bytes,
            complaint=lambda: complaint(self._path),
        )  # fmt: skip

    def _close_context(self) -> None:
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        if self._context is not None:
            self._lib.llama_free(self._context)
            self._context = None

    def _ends(self, token: int) -> bool:
        return bool(self._lib.llama_vocab_is_eog(self._vocabulary, token))

    def _bytes(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(512)
        length = self._lib.llama_token_to_piece(self._vocabulary, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(0, length)]

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
                code="language-model-unsupported",
            )

    def _fitting(self, wished: int, teller: Reporter) -> int:
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

    def _prompt(self, message: Message) -> tuple[list[int], int]:
        """The prompt's tokens, and how many at their beginning are those of every message with this `system`."""
        pieces = rendered(self._template, message, self._bos, self._eos)
        parts = [self._tokens(piece) for piece in pieces]
        tokens = [token for part in parts for token in part]
        shared = sum(len(part) for part in parts[:2]) if len(parts) > 2 else 0
        bos = self._lib.llama_vocab_bos(self._vocabulary)
        if self._lib.llama_vocab_get_add_bos(self._vocabulary) and tokens[:1] != [bos]:
            tokens.insert(0, bos)
            shared += bool(shared)
        return tokens, shared

    def _marks_of(self, frame: Frame | None) -> Marks:
        """What the template writes around turns in plain characters: signs that are tokens are kept apart by the tokenizer."""
        if frame is None:
            return KNOWN
        found = marks_in(frame)
        return replace(found, signs=frozenset(one for one in found.signs if len(self._tokenised(one, True)) > 1))

    def _tokens(self, piece: Piece) -> list[int]:
        """Without `control`, what looks like a control token is read as the characters that it is written with, and what looks
        like a mark of the template is taken apart.

        llama.cpp does the former itself but for tokens that the file calls added by a user, which may be those of its template.
        """
        if piece.control:
            return self._tokenised(piece.text, True)
        found = self._tokenised(self._marks.apart(piece.text), False)
        if not any(self._lib.llama_vocab_get_attr(self._vocabulary, token) & self._added for token in found):
            return found
        return self._tokenised(self._marks.apart(neutral(piece.text)), False)

    def _tokenised(self, text: str, control: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        found = -(len(data) + 8)
        while found < 0:  # it is the room that is needed: a space may be three tokens
            buffer = (self._lib.llama_token * -found)()
            found = self._lib.llama_tokenize(self._vocabulary, data, len(data), buffer, -found, False, control)
        return list(buffer[:found])
