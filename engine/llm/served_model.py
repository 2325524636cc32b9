"""A GGUF file in llama-cpp-python's own server application, for the process that serves it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import llama_chat_format
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings

from engine.core.errors import ModelError
from engine.gguf.hardware import (
    ALL_LAYERS,
    choose_layers,
    describe_shortage,
    free_gpu_memory,
    free_threads,
    read_model_memory,
)
from engine.gguf.header import not_a_writer, read_header
from engine.gguf.llama import capture_log, format_complaints, why_not_loaded
from engine.llm.chat_template import PLAIN, Frame, render_frame
from engine.llm.model_process import Choice, Served, ServedFile
from engine.llm.prompts import Message
from engine.llm.turn_marks import KNOWN, Marks, find_marks, neutralize

# Tokens of one computation; larger ones do not speed up the reading of prompts.
BATCH = 256
POOLING = {
    "from the model": -1,
    "mean": 1,
    "cls": 2,
    "last": 3,
}
"""Values of `encoder.pooling` → llama.cpp's numbers for them."""
CHAT_FORMAT = "separate texts"
"""The name under which llama-cpp-python's server knows our way to format messages."""
# Stands between the two texts of a message; no document can contain it.
_BOUNDARY = secrets.token_hex(32)


class Model(llama_cpp.Llama):
    """A loaded model, and the settings that an error names.

    Raises ModelError with the true reason if llama.cpp cannot use the file.
    """

    description = "language model"
    file_setting = "queries.model"
    length_setting = "queries.context_tokens"

    def __init__(self, **options: Any) -> None:
        path = Path(options["model_path"])
        try:
            super().__init__(**options)
        except ValueError:
            if not hasattr(self, "_model"):  # the weights are loaded before the context is made
                raise ModelError(
                    f"The {self.description} {path} cannot be loaded.",
                    why_not_loaded(path),
                    f"Set {self.file_setting} to another GGUF file, or download this one again; it"
                    " may be incomplete.",
                    code="language-model-invalid",
                ) from None
            raise ModelError(
                f"The {self.description} {path} cannot be started with a context of"
                f" {options['n_ctx']} tokens.",
                format_complaints(path),
                f"Lower {self.length_setting}, or choose a smaller model.",
                code="context-too-large",
            ) from None


class LanguageModel(Model):
    """A model that writes answers, and keeps the texts of a message apart from its template.

    Control tokens are recognised only in parts of a prompt that the template writes, and marks of
    turns in plain characters are broken up in the texts.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        template = self.metadata.get("tokenizer.chat_template")
        bos = self._text_of(self.token_bos())
        eos = self._text_of(self.token_eos())
        frame = render_frame(template, bos, eos) if template else None
        self.has_bad_template = bool(template) and frame is None
        self._frame = frame or PLAIN
        self._marks = self._find_marks(frame)

    def tokenize(
        self,
        text: bytes,
        add_bos: bool = True,
        special: bool = False,
    ) -> list[int]:
        """Return the tokens of a message that `_join_texts` made, or those of a document."""
        system, boundary, user = text.decode("utf-8", "replace").partition(_BOUNDARY)
        if boundary:
            return self.prompt_tokens(Message(system, user))
        return self._document_tokens(system)

    def prompt_tokens(self, message: Message) -> list[int]:
        """Return the tokens of a message in the model's chat template."""
        tokens = [
            *self._tokens(self._frame.head, is_template=True),
            *self._document_tokens(message.system),
            *self._tokens(self._frame.between, is_template=True),
            *self._document_tokens(message.user),
            *self._tokens(self._frame.tail, is_template=True),
        ]
        if self._model.add_bos_token() and tokens[:1] != [self.token_bos()]:
            tokens.insert(0, self.token_bos())
        return tokens

    def create_completion(  # type: ignore[override]
        self, prompt: list[int], max_tokens: int, **options: Any
    ) -> Any:
        """Complete a prompt.

        Raises ValueError, which the server application answers with "context_length_exceeded", if
        an answer of `max_tokens` would not fit. llama-cpp-python would shorten the answer.
        """
        needed = len(prompt) + max_tokens
        # `n_ctx()` is a multiple of 256.
        context = self.context_params.n_ctx
        if needed > context:
            raise ValueError(f"Requested tokens ({needed}) exceed context window of {context}")
        return super().create_completion(
            prompt=prompt,
            max_tokens=max_tokens,
            **options,
        )

    def _text_of(self, token: int) -> str:
        """Return the text of a token; empty for one that the model does not have (−1)."""
        if token < 0:
            return ""
        return self._model.token_get_text(token)

    def _find_marks(self, frame: Frame | None) -> Marks:
        """Return the marks that the template writes around turns in plain characters.

        Signs that are single tokens are left out, because the tokenizer keeps them apart.
        """
        if frame is None:
            return KNOWN
        marks = find_marks(frame)
        signs = [sign for sign in marks.signs if len(self._tokens(sign, is_template=True)) > 1]
        return replace(marks, signs=frozenset(signs))

    def _document_tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, with control tokens read as plain characters.

        llama.cpp does so itself, except for tokens that the file lists as added by a user, which
        may be those of its template.
        """
        tokens = self._tokens(self._marks.break_up(text))
        if any(map(self._is_added, tokens)):
            return self._tokens(self._marks.break_up(neutralize(text)))
        return tokens

    def _is_added(self, token: int) -> bool:
        """Return whether the file lists a token as added by a user."""
        attributes = llama_cpp.llama_vocab_get_attr(self._model.vocab, token)
        return bool(attributes & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED)

    def _tokens(self, text: str, is_template: bool = False) -> list[int]:
        """Return the tokens of a text; control tokens are recognised in that of a template."""
        tokens: list[int] = super().tokenize(
            text.encode("utf-8", "replace"), add_bos=False, special=is_template
        )
        return tokens


class EmbeddingModel(Model):
    """A model that computes the vectors of texts one at a time.

    A vector thus does not depend on the other texts of its request. Raises ModelError if the
    file does not say how to pool the vectors of tokens.
    """

    description = "embedding model"
    file_setting = "encoder.model"
    length_setting = "encoder.max_tokens"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.context_params.n_seq_max = 1  # by which texts are computed one at a time
        if int(self.pooling_type()) not in (1, 2, 3):  # mean, cls, last
            raise ModelError(
                f"The model {Path(self.model_path).name} does not say how the vectors of a text's"
                " tokens become one.",
                "It may be a generative language model.",
                'Set encoder.pooling to "mean", "cls" or "last".',
                code="pooling-unsupported",
            )

    def create_embedding(self, input: str | list[str], model: str | None = None) -> Any:
        """Return the vectors of texts; those that JSON cannot hold are replaced by zeros."""
        response: Any = super().create_embedding(input, model)
        for row in response["data"]:
            if not all(isfinite(number) for number in row["embedding"]):
                row["embedding"] = [0.0] * self.n_embd()
        return response

    def n_embd(self) -> int:
        """Return the width of the vectors."""
        return int(llama_cpp.llama_model_n_embd_out(self.model))

    def tokenize(
        self,
        text: bytes,
        add_bos: bool = True,
        special: bool = False,
    ) -> list[int]:
        """Return at most `n_batch` tokens of a text, with the model's own tokens around it.

        What looks like a special token in the text is read as characters. A text that is too long
        keeps the last special token.
        """
        tokens: list[int] = super().tokenize(
            text,
            add_bos=True,
            special=False,
        )
        if not tokens:  # an empty text, if the model has no tokens of its own around texts
            return [max(0, self.token_eos())]
        if len(tokens) <= self.n_batch:
            return tokens
        last_tokens: list[int] = [self.token_eos(), self._model.token_sep()]
        if tokens[-1] in last_tokens:
            return [*tokens[: self.n_batch - 1], tokens[-1]]
        return tokens[: self.n_batch]


class _IgnoredTemplate:
    """Takes the place of llama-cpp-python's renderer, which a malicious template can hang."""

    def __init__(self, **_options: Any) -> None:
        pass

    def to_chat_handler(self) -> None:
        """Return nothing: messages are formatted by `_join_texts`."""


def _join_texts(
    *, messages: Sequence[Any], **_options: Any
) -> llama_chat_format.ChatFormatterResponse:
    """Return both texts of a message for `LanguageModel.tokenize`."""
    system, user = messages
    prompt = f"{system['content']}{_BOUNDARY}{user['content']}"
    return llama_chat_format.ChatFormatterResponse(prompt=prompt, added_special=True)


def _without_repacking(default_params: Any) -> Any:
    """Return llama.cpp's parameters of a model, with quantised weights as they are in the file.

    With repacked weights, quantised models crash on processors with AMX.
    """
    params = default_params()
    params.use_extra_bufts = False
    return params


def adapt_library() -> None:
    """Make llama-cpp-python load models and format messages in our way, in this process."""
    capture_log()
    parameters: Any = llama_cpp.llama_cpp
    parameters.llama_model_default_params = partial(
        _without_repacking, parameters.llama_model_default_params
    )
    # Flash attention where llama.cpp finds it of use: its default, which `Llama` would turn off.
    parameters.LLAMA_FLASH_ATTN_TYPE_DISABLED = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
    formats: Any = llama_chat_format
    formats.Jinja2ChatFormatter = _IgnoredTemplate
    handler = formats.chat_formatter_to_chat_completion_handler(_join_texts)
    formats.register_chat_completion_handler(CHAT_FORMAT)(handler)


class ModelLoader:
    """Loads a file into the server application, and collects what was chosen."""

    def __init__(self, file: ServedFile) -> None:
        self.file = file
        self.model: Any = None  # once it is loaded
        self.choices: list[Choice] = []
        self.warnings: list[str] = []

    def load(self) -> Any:
        """Return the server application. Raises ModelError."""
        path = Path(self.file.path)
        context = self.file.context
        batch = context  # a text is embedded in one computation
        if not self.file.pooling:
            context = self._shorten_context(path)
            batch = min(BATCH, context)
        layers = self._choose_layers(path, context)
        threads, reason = free_threads()
        self._choose("threads", threads, reason)
        # The settings are not read from the environment, as their class would do.
        settings = ModelSettings.model_construct(
            model=str(path),
            model_alias=path.name,
            n_ctx=context,
            n_batch=batch,
            n_ubatch=batch,
            n_threads=threads,
            n_threads_batch=threads,
            logits_all=False,
            use_mlock=False,
            embedding=bool(self.file.pooling),
            chat_format=CHAT_FORMAT,
            verbose=False,
        )
        try:
            return self._create_app(settings, layers)
        except ModelError as error:
            if not layers or error.code == "pooling-unsupported":
                raise
            reason = f"the model could not be loaded on the GPU: {error.why}"
            self._choose("gpu layers", "none", reason)
            return self._create_app(settings, 0)

    def served(self, port: int) -> Served:
        """Return what the process says when its model is loaded."""
        width = 0
        if self.file.pooling:
            width = self.model.n_embd()
        elif self.model.has_bad_template:
            self.warnings.append(
                f"The chat template of {Path(self.file.path).name} cannot be used: the model"
                " is prompted in plain text."
            )
        return Served(
            port=port,
            context=self.model.context_params.n_ctx,
            width=width,
            choices=self.choices,
            warnings=self.warnings,
        )

    def _make_model(self, **options: Any) -> Any:
        """Load the model with the options of `llama_cpp.Llama`, in whose place this is called."""
        if self.file.pooling:
            options["pooling_type"] = POOLING[self.file.pooling]
            self.model = EmbeddingModel(**options)
        else:
            self.model = LanguageModel(**options)
        return self.model

    def _create_app(self, settings: ModelSettings, layers: int) -> Any:
        """Return the server application with the model loaded, `layers` of it on GPUs."""
        library: Any = llama_cpp
        model_class = library.Llama
        # The application loads its model by this name.
        library.Llama = self._make_model
        try:
            return create_app(
                server_settings=ServerSettings.model_construct(
                    api_key=self.file.token, interrupt_requests=False
                ),
                model_settings=[settings.model_copy(update={"n_gpu_layers": layers})],
            )
        finally:
            library.Llama = model_class

    def _shorten_context(self, path: Path) -> int:
        """Return the size of the context, which is no larger than the model was trained for.

        Raises ModelError for an embedding model and the like, which would load but cannot write.
        """
        wanted = self.file.context
        try:
            header = read_header(path)
        except ModelError:
            # llama.cpp may know more than we do, or say why the model cannot be used.
            return wanted
        unsuitable = not_a_writer(path, header)
        if unsuitable is not None:
            raise unsuitable
        if not 0 < header.context < wanted:
            return wanted
        reason = f"the model was trained for no more; {wanted} are set"
        self._choose(
            "context tokens",
            header.context,
            reason,
        )
        return header.context

    def _choose_layers(self, path: Path, context: int) -> int:
        """Choose how many layers GPUs get, and warn of a model that fits nowhere."""
        gpus: tuple[tuple[str, int], ...] = ()
        if self.file.on_gpu and llama_cpp.llama_supports_gpu_offload():
            gpus = free_gpu_memory()
        needed = read_model_memory(path, context)
        layers, reason = choose_layers(gpus, needed)
        shortage = describe_shortage(needed)
        if not layers and shortage:
            self.warnings.append(f"{path.name} {shortage}")
        names = {ALL_LAYERS: "all", 0: "none"}
        self._choose(
            "gpu layers",
            names.get(layers, str(layers)),
            reason,
        )
        return layers

    def _choose(
        self,
        setting: str,
        value: str | int,
        reason: str,
    ) -> None:
        """Note an automatic choice, for the parent process to report."""
        self.choices.append(Choice(setting=setting, value=value, reason=reason))
