"""The head of masked-language modelling: hidden states of tokens → a score for every token of
the vocabulary.
"""

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


def unsuitable(model: ModelFolder, texts: Sequence[str]) -> str:
    """Why a model cannot be pre-trained on these texts; empty where it can. Loads no weights."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoTokenizer

    where = str(model.transformer_path)
    config = AutoConfig.from_pretrained(where, local_files_only=True, trust_remote_code=False)
    both_ways = not (
        getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False)
    )
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING or not both_ways:
        return f"a model of the type {config.model_type} does not learn from masked words"
    tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=True, trust_remote_code=False)
    if tokenizer.mask_token_id is None:
        return "the model's tokenizer has no token for a masked word"
    count = 0
    special = set(tokenizer.all_special_ids)
    for text in texts:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        count += sum(token not in special for token in tokenizer(clean, verbose=False)["input_ids"])
        if count >= MIN_TOKENS:
            return ""
    return (
        f"the documents have {count} known tokens, which is too little text (at least {MIN_TOKENS}"
        " are needed)"
    )


class MaskedLanguageHead:
    """The head that the model's own architecture has for this: for BERT a dense layer, GELU,
    LayerNorm, and a decoder.

    A decoder that is tied to the word embeddings uses the student's, which are frozen. `fresh`: the
    model's folder lacks weights of the head, as those of embedding models do. Then its square
    matrices start as the identity, and the decoder's bias at the logarithm of the tokens'
    frequencies. `vocabulary`: the number of tokens. `masters`, `publish`: as the student's.
    """

    def __init__(self, student: Student, token_counts: IntArray, seed: int) -> None:
        torch.manual_seed(seed)
        self._model, missing = _load(student)
        self.fresh = bool(missing)
        decoder = self._model.get_output_embeddings()
        self.vocabulary = int(decoder.weight.shape[0])
        tied = decoder.weight.data_ptr() == self._model.get_input_embeddings().weight.data_ptr()
        setattr(self._model, self._model.base_model_prefix, _GivenStates())
        if self.fresh:
            _begin(self._model, missing, decoder.bias, token_counts)
        if tied:
            decoder.weight = None
        masters = {
            name: parameter.detach().clone() for name, parameter in self._model.named_parameters()
        }
        embeddings = student.transformer.get_input_embeddings().weight
        self._model.to(device=student.device, dtype=embeddings.dtype)
        self._working = dict(self._model.named_parameters())
        self.masters = {
            name: masters[name].to(student.device).requires_grad_() for name in self._working
        }
        if tied:
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
        """Logits float32 (n, v) of the hidden states (n, d) of n tokens."""
        logits: Tensor = self._model(inputs_embeds=states.unsqueeze(0)).logits[0]
        return logits.float()


@torch.no_grad()
def _begin(
    model: nn.Module, missing: frozenset[str], bias: Tensor | None, token_counts: IntArray
) -> None:
    """Starting values of the head's missing weights; `bias` is the decoder's."""
    for name, parameter in model.named_parameters():
        if name in missing and parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]:
            nn.init.eye_(parameter)
    if bias is not None:
        frequencies = (token_counts + 1) / (token_counts.sum() + len(token_counts))
        bias[: len(frequencies)].copy_(torch.from_numpy(np.log(frequencies)))


class _GivenStates(nn.Module):
    """Stands in for the transformer, so that the head runs on the hidden states of the hidden
    tokens alone.
    """

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


def _load(student: Student) -> tuple[Any, frozenset[str]]:
    """(the model with its head, in float32 on the CPU; the weights of the head that its folder
    lacks).
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
    own = f"{loaded.base_model_prefix}."
    return loaded.eval(), frozenset(
        name for name in map(str, info["missing_keys"]) if not name.startswith(own)
    )
