"""The head of masked-language modelling, from hidden states of tokens to vocabulary scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import ModelError, first_line
from engine.encoders.model_folder import ModelFolder
from engine.training.model.student import Student
from engine.training.pretraining.masked_batches import IntArray

MIN_TOKENS = 1000
"""Minimum number of tokens of the corpus, without special ones, to pre-train on."""


def why_unsuitable(model: ModelFolder, texts: Sequence[str]) -> str:
    """Return why a model cannot be pre-trained on these texts, empty if it can.

    Loads no weights.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoTokenizer

    path = str(model.transformer_path)
    config = AutoConfig.from_pretrained(
        path,
        local_files_only=True,
        trust_remote_code=False,
    )
    is_decoder = getattr(config, "is_decoder", False)
    is_bidirectional = not is_decoder and not getattr(config, "is_encoder_decoder", False)
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING or not is_bidirectional:
        return f"a model of the type {config.model_type} does not learn from masked words"
    tokenizer = AutoTokenizer.from_pretrained(
        path,
        local_files_only=True,
        trust_remote_code=False,
    )
    if tokenizer.mask_token_id is None:
        return "the model's tokenizer has no token for a masked word"
    count = 0
    special = set(tokenizer.all_special_ids)
    for text in texts:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        tokens = tokenizer(clean, verbose=False)["input_ids"]
        count += sum(token not in special for token in tokens)
        if count >= MIN_TOKENS:
            return ""
    return (
        f"the documents have {count} known tokens, which is too little text (at least {MIN_TOKENS}"
        " are needed)"
    )


class MaskedLanguageHead:
    """The head of the model's own architecture; for BERT a dense layer, GELU, LayerNorm, decoder.

    A decoder that is tied to the word embeddings uses the student's, which are frozen. `fresh`: the
    model's folder lacks weights of the head, as those of embedding models do. Then its square
    matrices start as the identity, and the decoder's bias at the logarithm of the tokens'
    frequencies. `vocabulary` is the number of tokens. `masters` and `publish` are as the student's.
    """

    def __init__(
        self,
        student: Student,
        token_counts: IntArray,
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        self._model, missing = _load(student)
        self.fresh = bool(missing)
        decoder = self._model.get_output_embeddings()
        self.vocabulary = int(decoder.weight.shape[0])
        is_tied = decoder.weight.data_ptr() == self._model.get_input_embeddings().weight.data_ptr()
        # From here on the model is its head alone, which takes hidden states as they are given.
        setattr(
            self._model,
            self._model.base_model_prefix,
            _StatesAsGiven(),
        )
        if self.fresh:
            _initialize(
                self._model,
                missing,
                decoder.bias,
                token_counts,
            )
        # Without the tied weight, `named_parameters` are what is trained here.
        if is_tied:
            decoder.weight = None
        # The masters' values, before the head is rounded to the student's dtype.
        float32_weights = {}
        for name, parameter in self._model.named_parameters():
            float32_weights[name] = parameter.detach().clone()
        embeddings = student.transformer.get_input_embeddings().weight
        self._model.to(device=student.device, dtype=embeddings.dtype)
        self._working = dict(self._model.named_parameters())
        self.masters: dict[str, Tensor] = {}
        for name in self._working:
            self.masters[name] = float32_weights[name].to(student.device).requires_grad_()
        # The tied decoder uses the student's frozen word embeddings.
        if is_tied:
            decoder.weight = embeddings

    @property
    def working(self) -> list[nn.Parameter]:
        """The head's tensors in the dtype that it computes in, in the order of `masters`."""
        return list(self._working.values())

    def publish(self) -> None:
        """Copy the float32 masters into the head."""
        with torch.no_grad():
            for name, parameter in self._working.items():
                parameter.copy_(self.masters[name])

    def scores(self, states: Tensor) -> Tensor:
        """Return float32 logits (n, v) of the hidden states (n, d) of n tokens."""
        logits: Tensor = self._model(inputs_embeds=states.unsqueeze(0)).logits[0]
        return logits.float()


@torch.no_grad()
def _initialize(
    model: nn.Module, missing: frozenset[str], bias: Tensor | None, token_counts: IntArray
) -> None:
    """Set the `missing` square matrices to the identity, and the decoder's `bias` (v,).

    The bias of a token becomes the logarithm of its frequency, by `token_counts` (v,).
    """
    for name, parameter in model.named_parameters():
        is_square = parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]
        if name in missing and is_square:
            nn.init.eye_(parameter)
    if bias is not None:
        frequencies = (token_counts + 1) / (token_counts.sum() + len(token_counts))
        bias[: len(frequencies)].copy_(torch.from_numpy(np.log(frequencies)))


class _StatesAsGiven(nn.Module):
    """Stands in for the transformer, so that the head runs only on hidden tokens' states."""

    def forward(
        self,
        *_: Any,
        inputs_embeds: Tensor,
        **__: Any,
    ) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


def _load(student: Student) -> tuple[Any, frozenset[str]]:
    """Return the model with its head, in float32 on the CPU, and the weights the folder lacks.

    Only missing weights of the head are returned.
    """
    from transformers import AutoModelForMaskedLM

    try:
        loaded, info = AutoModelForMaskedLM.from_pretrained(
            str(student.model.transformer_path),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (ValueError, KeyError, OSError, RuntimeError) as error:
        raise ModelError(
            f"The model {student.model.name} cannot be pre-trained.",
            f"Its head for masked words cannot be made: {first_line(error)}",
            "Set training.method to FT.",
            code="model-unsupported",
        ) from error
    transformer_prefix = f"{loaded.base_model_prefix}."
    missing = list(map(str, info["missing_keys"]))
    of_head = frozenset(name for name in missing if not name.startswith(transformer_prefix))
    return loaded.eval(), of_head
