"""The model in training: token rows → vectors with a graph, the weights that are trained kept in
float32.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.encoders.fingerprint import effective_max_tokens, read_prompts
from engine.encoders.geometry import Hyperbolic, OwnLengths
from engine.encoders.hardware import Hardware
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import ModelFolder
from engine.encoders.model_size import model_size
from engine.encoders.text_model import TextModel
from engine.training.compute.memory import state_bytes
from engine.training.compute.micro_batches import MicroBatch, grid_length, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.model.lora import (
    add_lora,
    all_weights_settings,
    blocks,
    fuse,
    lora_parameters,
    lora_settings,
    whole_parameters,
)

Rows: TypeAlias = "list[array[int]]"
"""Token ids of texts, 4 bytes each."""
_BLOCK = 4  # micro-batches per worker between two calls of `pause`


class Student:
    """A model with LoRA layers; `whole`: they are left as they are, and all other weights are
    trained. Where the recipe trains all weights, it has no LoRA layers, and those weights are
    trained that its vectors depend on (BERT's pooler is left out).

    The frozen weights and the trained ones' working copies have the hardware's dtype; `masters` are
    float32 copies that the optimizer changes, because bfloat16 swallows small updates. `publish`
    writes them back into the model. `untrained`: what else an adapter's file holds.
    """

    def __init__(
        self, model: ModelFolder, config: TrainingConfig, hardware: Hardware, *, whole: bool = False
    ) -> None:
        self.model = model
        self.device = hardware.device
        self._size = model_size(model)
        has_layers = config.weights == "adapter"
        # masters of all weights begin with these as they are, not as a smaller dtype rounds them
        loaded = load_sentence_transformer(
            model, hardware.device, hardware.dtype if has_layers else "float32"
        )
        self.text_model = TextModel(
            loaded, hardware.device, effective_max_tokens(model, config.max_tokens)
        )
        self._prompts = read_prompts(model)
        self._rows: dict[tuple[str, str], array[int]] = {}
        self.query_prompt_length = self.text_model.prompt_length(self._prompts.query)
        self.chunk_prompt_length = self.text_model.prompt_length(self._prompts.document)
        transformer = self.transformer
        if hardware.device == "cpu":
            # On CPUs the fused attention's backward pass takes three times as long as the plain
            # one.
            transformer.set_attn_implementation("eager")
        if hasattr(transformer.config, "use_cache"):
            transformer.config.use_cache = False
        for module in self.text_model.modules[1:]:
            module.requires_grad_(False)
        torch.manual_seed(config.seed)
        layers: dict[str, nn.Parameter] = {}
        if has_layers:
            self.adapter_settings = lora_settings(add_lora(transformer, config), model)
            layers = lora_parameters(transformer)
        others = whole_parameters(transformer)
        self._parameters = {**layers, **others}
        if not has_layers:
            self._working = self._used(others)
            self.adapter_settings = all_weights_settings(model, len(self._working))
        elif whole:
            self._working = others
        else:
            self._working = layers
        for name, parameter in self._parameters.items():
            parameter.requires_grad_(name in self._working)
        if whole:
            self.untrained = {name: p.detach().clone() for name, p in layers.items()}
        else:
            self.untrained = {}
        self.masters = {
            name: p.detach().float().clone().requires_grad_() for name, p in self._working.items()
        }
        _convert(loaded[0], hardware.dtype)
        self.has_dropout = config.has_dropout
        self._whole_model_dropout = config.model_dropout
        self._checkpointing = False
        if hardware.device == "cpu" and self._working is layers and config.lora_dropout == 0:
            fuse(transformer)
        if config.augmentation == "lambda-mafin":
            self.text_model.geometry = OwnLengths(1.0)
        with torch.no_grad():
            self.dimension = int(self.forward(self.query_rows(["a"])).shape[1])

    def _used(self, parameters: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        """Those that the vector of a text depends on."""
        vectors = self.forward(self.query_rows(["a"]))
        found = torch.autograd.grad(vectors.sum(), list(parameters.values()), allow_unused=True)
        used = dict(parameters)
        for name, gradient in zip(parameters, found, strict=True):
            if gradient is None:
                del used[name]
        return used

    @property
    def transformer(self) -> Any:
        """The transformers model inside the first module."""
        return self.text_model.modules[0].auto_model

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self.text_model.tokenizer

    @property
    def metadata(self) -> dict[str, str] | None:
        """What an encoder with its adapter has to know beside the tensors."""
        if self.text_model.geometry:
            return self.text_model.geometry.metadata
        return None

    @property
    def working(self) -> list[nn.Parameter]:
        """The trained tensors inside the model, in the order of `masters`."""
        return list(self._working.values())

    @property
    def state_bytes(self) -> int:
        """Memory that a training is going to take beside this model and its masters."""
        count = sum(master.numel() for master in self.masters.values())
        return state_bytes(count, self.device) - 4 * count

    def checkpoint_blocks(self) -> None:
        """Let a graph keep each block's input alone, and the backward pass run the block again,
        with the same random numbers: Chen et al. 2016, "Training deep nets with sublinear memory
        cost". Call it once.
        """
        _, found = blocks(self.transformer) or ("", ())
        for block in found:
            block.forward = self._checkpointed(block.forward)
        self._checkpointing = bool(found)

    def _checkpointed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            return checkpoint(
                forward, *args, use_reentrant=False, preserve_rng_state=self.has_dropout, **kwargs
            )

        return run

    def publish(self) -> None:
        """Copy the float32 masters into the model."""
        with torch.no_grad():
            for name, parameter in self._working.items():
                parameter.copy_(self.masters[name])

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Set masters and model to saved tensors of the same names, and what is not trained to
        those there are.
        """
        self.untrained = {
            name: tensor for name, tensor in tensors.items() if name not in self.masters
        }
        with torch.no_grad():
            for name, master in self.masters.items():
                master.copy_(tensors[name])
            for name, tensor in self.untrained.items():
                self._parameters[name].copy_(tensor)
        self.publish()

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the masters on the CPU."""
        return {name: master.detach().cpu().clone() for name, master in self.masters.items()}

    def training_mode(self) -> None:
        """Dropout on where the recipe has any.

        Otherwise the model stays in evaluation mode, which is as good.
        """
        self.transformer.train(self._whole_model_dropout)
        if self.has_dropout:
            for name, module in self.transformer.named_modules():
                if "lora_dropout" in name:
                    module.train()

    def evaluation_mode(self) -> None:
        """Dropout off."""
        self.transformer.eval()

    def query_rows(self, texts: Sequence[str]) -> Rows:
        """Token ids of queries, with the model's query prompt, cut at `max_tokens`.

        A text is tokenised once, and kept.
        """
        return self._tokenise(self._prompts.query, texts)

    def chunk_rows(self, texts: Sequence[str]) -> Rows:
        """Token ids of chunks, with the model's document prompt, cut at `max_tokens`.

        A text is tokenised once, and kept.
        """
        return self._tokenise(self._prompts.document, texts)

    def chunk_words(self, texts: Sequence[str]) -> list[tuple[list[int], list[int | None]]]:
        """Rows as `chunk_rows`, each with the word that every token belongs to; None for special
        tokens.
        """
        encoded = self.text_model.encoded([self._prompts.document + text for text in texts])
        words = [encoded.word_ids(place) for place in range(len(texts))]
        rows = self.text_model.never_empty(encoded["input_ids"])
        return [(row, own or [None]) for row, own in zip(rows, words, strict=True)]

    def _tokenise(self, prompt: str, texts: Sequence[str]) -> Rows:
        if new := [text for text in dict.fromkeys(texts) if (prompt, text) not in self._rows]:
            rows = self.text_model.token_rows([prompt + text for text in new])
            self._rows |= {
                (prompt, text): array("i", row) for text, row in zip(new, rows, strict=True)
            }
        return [self._rows[prompt, text] for text in texts]

    def geometry(
        self, curvature: float, queries: Sequence[str], chunks: Sequence[str]
    ) -> Hyperbolic:
        """Of hyperbolic space: its scale makes √c‖v‖ 1 on average of these texts, where
        distances are spread as cosines are.
        """
        self.evaluation_mode()
        with torch.no_grad():
            first = self.text_model.pooled(
                self._padded(self.query_rows(queries)), self.query_prompt_length
            )
            second = self.text_model.pooled(
                self._padded(self.chunk_rows(chunks)), self.chunk_prompt_length
            )
        return Hyperbolic(
            curvature, 1 / (curvature**0.5 * torch.cat([first, second]).norm(dim=1).mean().item())
        )

    def forward(self, rows: Sequence[Sequence[int]], prompt_length: int = 0) -> Tensor:
        """Vectors float32 (b, d) of b token rows, with a graph where gradients are on: of unit
        norm, or as a geometry has them.

        `prompt_length`: leading tokens that pooling may leave out.
        """
        return self.text_model.vectors(self._padded(rows), prompt_length)

    def token_states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Last hidden states (t, d) of the t tokens of all rows, row after row, padding left
        out; with a graph.
        """
        features = self._padded(rows)
        states: Tensor = self.transformer(**features).last_hidden_state  # (b, longest, d)
        return states[features["attention_mask"].bool()]

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        """Estimate of a graph's memory per padded token, in a micro-batch of texts that are
        `longest` tokens long.

        With `checkpointing` (None: as it is), every block's input and one block's graph.
        """
        if checkpointing is None:
            twice = self._checkpointing
        else:
            twice = checkpointing
        return self._size.graph_bytes_per_token(longest, self.working[0].element_size(), twice)

    def graph_bytes(self, rows: Sequence[Sequence[int]], batches: Sequence[MicroBatch]) -> float:
        """Estimate of the memory that all graphs of a step hold at once."""
        longest = [
            self._padded_length(max(len(rows[i]) for i in batch.places)) for batch in batches
        ]
        return sum(
            len(batch.places) * n * self.bytes_per_token(n)
            for batch, n in zip(batches, longest, strict=True)
        )

    def _padded_length(self, longest: int) -> int:
        """On the grid of lengths, but never beyond the model's last position."""
        return min(grid_length(longest), max(longest, self.model.max_tokens))

    def _padded(self, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        return self.text_model.padded(rows, self._padded_length(max(map(len, rows))))


class StudentEncoder:
    """Encodes token rows with the student as it is now, dropout off.

    `pause` is called between blocks; it may raise.

    `peers` share the work; each gets all vectors.
    """

    def __init__(
        self,
        student: Student,
        workers: Workers,
        budget: int,
        pause: Callable[[], None],
        peers: Peers = ALONE,
    ) -> None:
        self._student = student
        self._workers = workers
        self._budget = budget
        self._pause = pause
        self._peers = peers

    def queries(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Vectors (n, d) of query rows."""
        return self._encode(rows, self._student.query_prompt_length)

    def chunks(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Vectors (n, d) of chunk rows."""
        return self._encode(rows, self._student.chunk_prompt_length)

    def _encode(self, rows: Rows, prompt_length: int) -> npt.NDArray[np.float32]:
        self._student.evaluation_mode()
        batches = micro_batches(list(map(len, rows)), self._budget, prompt_length=prompt_length)
        vectors = np.zeros((len(rows), self._student.dimension), dtype=np.float32)

        def encode(batch: MicroBatch) -> None:
            with torch.no_grad():
                found = self._student.forward([rows[i] for i in batch.places], batch.prompt_length)
            vectors[batch.places] = found.cpu().numpy()

        stride = _BLOCK * self._workers.count * self._peers.count
        for start in range(0, len(batches), stride):
            self._pause()
            self._workers.map(encode, self._peers.mine(batches[start : start + stride]))
        self._peers.add([torch.from_numpy(vectors)])
        return vectors


def _convert(module: nn.Module, dtype: str) -> None:
    """Convert the weights to another precision; of the same one, each must stay the very tensor
    that is trained.
    """
    if dtype != "float32":
        module.to(getattr(torch, dtype))
