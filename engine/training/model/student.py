"""The model in training, from token rows to vectors with a graph.

The trained weights are kept in float32.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.core.arrays import Floats
from engine.encoders.fingerprint import effective_max_tokens, read_prompts
from engine.encoders.geometry.spaces import Hyperbolic, OwnLengths
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
    find_blocks,
    fuse,
    lora_parameters,
    lora_settings,
    whole_parameters,
)

Rows: TypeAlias = "list[array[int]]"
"""Token ids of texts, 4 bytes each."""
_BLOCK = 4
"""Micro-batches per worker between two calls of `pause`."""


class Student:
    """A model in training, with LoRA layers or with all weights.

    If the recipe trains an adapter, the LoRA layers are trained, or, with `whole`, all other
    weights, while these layers stay as they are. If it trains all weights, there are no LoRA
    layers, and those weights are trained on which the vectors depend (not BERT's pooler).

    The frozen weights and the working copies of the trained ones have the hardware's dtype;
    `masters` are float32 copies that the optimizer changes, because bfloat16 loses small updates.
    `publish` writes them back into the model. `untrained` is what else an adapter's file holds.
    """

    def __init__(
        self, model: ModelFolder, config: TrainingConfig, hardware: Hardware, *, whole: bool = False
    ) -> None:
        self.model = model
        self.device = hardware.device
        self._size = model_size(model)
        has_layers = config.weights == "adapter"
        # Masters of all weights must begin with the original weights, not with rounded ones.
        dtype = hardware.dtype if has_layers else "float32"
        loaded = load_sentence_transformer(
            model,
            hardware.device,
            dtype,
        )
        max_tokens = effective_max_tokens(model, config.max_tokens)
        self.text_model = TextModel(
            loaded,
            hardware.device,
            max_tokens,
        )
        self._prompts = read_prompts(model)
        self._rows: dict[tuple[str, str], array[int]] = {}
        self.query_prompt_length = self.text_model.prompt_length(self._prompts.query)
        self.chunk_prompt_length = self.text_model.prompt_length(self._prompts.document)
        self._prepare_modules()
        transformer = self.transformer
        torch.manual_seed(config.seed)
        layers: dict[str, nn.Parameter] = {}
        if has_layers:
            self.adapter_settings = lora_settings(add_lora(transformer, config), model)
            layers = lora_parameters(transformer)
        other_weights = whole_parameters(transformer)
        self._working = layers
        if not has_layers:
            self._working = self._find_used(other_weights)
            self.adapter_settings = all_weights_settings(model, len(self._working))
        elif whole:
            self._working = other_weights
        self._parameters = layers | other_weights
        for name, parameter in self._parameters.items():
            parameter.requires_grad_(name in self._working)
        self.untrained: dict[str, Tensor] = {}
        if whole:
            self.untrained = {name: layer.detach().clone() for name, layer in layers.items()}
        self.masters: dict[str, Tensor] = {}
        for name, parameter in self._working.items():
            self.masters[name] = parameter.detach().float().clone().requires_grad_()
        # With the same precision, each weight must stay the very tensor that is trained.
        if hardware.dtype != "float32":
            loaded[0].to(getattr(torch, hardware.dtype))
        self.has_dropout = config.has_dropout
        self._whole_model_dropout = config.model_dropout
        self._checkpointing = False
        if hardware.device == "cpu" and self._working is layers and config.lora_dropout == 0:
            fuse(transformer)
        if config.augmentation == "lambda-mafin":
            self.text_model.geometry = OwnLengths(1.0)
        with torch.no_grad():
            self.dimension = int(self.forward(self.query_rows(["a"])).shape[1])

    def _prepare_modules(self) -> None:
        """Prepare the loaded modules for gradients, of which only the transformer is trained."""
        if self.device == "cpu":
            # On CPUs the fused attention's backward pass takes three times as long.
            self.transformer.set_attn_implementation("eager")
        if hasattr(self.transformer.config, "use_cache"):
            self.transformer.config.use_cache = False
        for module in self.text_model.modules[1:]:
            module.requires_grad_(False)

    def _find_used(self, parameters: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        """Return the parameters on which the vector of a text depends."""
        vectors = self.forward(self.query_rows(["a"]))
        gradients = torch.autograd.grad(
            vectors.sum(),
            list(parameters.values()),
            allow_unused=True,
        )
        used = dict(parameters)
        for name, gradient in zip(parameters, gradients, strict=True):
            if gradient is None:
                del used[name]
        return used

    @property
    def transformer(self) -> Any:
        """The model of the library transformers inside the first module."""
        return self.text_model.modules[0].auto_model

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self.text_model.tokenizer

    @property
    def metadata(self) -> dict[str, str] | None:
        """Metadata of the adapter's file that an encoder needs, if any."""
        if self.text_model.geometry:
            return self.text_model.geometry.metadata
        return None

    @property
    def working(self) -> list[nn.Parameter]:
        """The trained tensors inside the model, in the order of `masters`."""
        return list(self._working.values())

    @property
    def state_bytes(self) -> int:
        """Memory that a training will take in addition to this model and its masters."""
        count = sum(master.numel() for master in self.masters.values())
        return state_bytes(count, self.device) - 4 * count

    def checkpoint_blocks(self) -> None:
        """Let a graph keep only each block's input, and the backward pass run the block again.

        The second run uses the same random numbers: Chen et al. 2016, "Training deep nets with
        sublinear memory cost". Call it once.
        """
        named_blocks = find_blocks(self.transformer)
        if named_blocks is None:
            return
        _name, blocks = named_blocks
        for block in blocks:
            block.forward = self._checkpoint(block.forward)
        self._checkpointing = bool(blocks)

    def _checkpoint(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a block's forward function that keeps no graph of the block."""

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
        """Set the masters, the model and the untrained weights to saved tensors."""
        self.untrained = {}
        for name, tensor in tensors.items():
            if name not in self.masters:
                self.untrained[name] = tensor
        with torch.no_grad():
            for name, master in self.masters.items():
                master.copy_(tensors[name])
            for name, tensor in self.untrained.items():
                self._parameters[name].copy_(tensor)
        self.publish()

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of the masters on the CPU."""
        return {name: master.detach().cpu().clone() for name, master in self.masters.items()}

    def training_mode(self) -> None:
        """Turn dropout on if the recipe has any; otherwise the model stays in evaluation mode."""
        self.transformer.train(self._whole_model_dropout)
        if self.has_dropout:
            for name, module in self.transformer.named_modules():
                if "lora_dropout" in name:
                    module.train()

    def evaluation_mode(self) -> None:
        """Turn dropout off."""
        self.transformer.eval()

    def query_rows(self, texts: Sequence[str]) -> Rows:
        """Return token ids of queries with the model's query prompt, cut at `max_tokens`.

        A text is tokenized only once.
        """
        return self._tokenize(self._prompts.query, texts)

    def chunk_rows(self, texts: Sequence[str]) -> Rows:
        """Return token ids of chunks with the model's document prompt, cut at `max_tokens`.

        A text is tokenized only once.
        """
        return self._tokenize(self._prompts.document, texts)

    def chunk_words(self, texts: Sequence[str]) -> list[tuple[list[int], list[int | None]]]:
        """Return rows as `chunk_rows`, each with the number of every token's word.

        The number is None for special tokens.
        """
        encoded = self.text_model.tokenise([self._prompts.document + text for text in texts])
        rows = self.text_model.fill_empty(encoded["input_ids"])
        pairs = []
        for number, row in enumerate(rows):
            pairs.append((row, encoded.word_ids(number) or [None]))
        return pairs

    def _tokenize(self, prompt: str, texts: Sequence[str]) -> Rows:
        """Return the token ids of texts behind a prompt, and keep them for the next call."""
        new = [text for text in dict.fromkeys(texts) if (prompt, text) not in self._rows]
        if new:
            rows = self.text_model.token_rows([prompt + text for text in new])
            for text, row in zip(new, rows, strict=True):
                self._rows[prompt, text] = array("i", row)
        return [self._rows[prompt, text] for text in texts]

    def fit_geometry(
        self, curvature: float, queries: Sequence[str], chunks: Sequence[str]
    ) -> Hyperbolic:
        """Return the geometry of hyperbolic space whose scale fits these texts (METHODS.md §4).

        The scale s makes √c‖s v‖ 1 on average over the pooled vectors v, with curvature −c: there,
        distances are spread as cosines are.
        """
        self.evaluation_mode()
        query_features = self._pad(self.query_rows(queries))
        chunk_features = self._pad(self.chunk_rows(chunks))
        with torch.no_grad():
            query_vectors = self.text_model.pool(query_features, self.query_prompt_length)
            chunk_vectors = self.text_model.pool(chunk_features, self.chunk_prompt_length)
        mean_length = torch.cat([query_vectors, chunk_vectors]).norm(dim=1).mean().item()
        return Hyperbolic(curvature, 1 / (curvature**0.5 * mean_length))

    def forward(self, rows: Sequence[Sequence[int]], prompt_length: int = 0) -> Tensor:
        """Return float32 vectors (b, d) of b token rows, with a graph if gradients are on.

        They are of unit norm, or as a geometry has them. `prompt_length` is the number of leading
        tokens that pooling may leave out.
        """
        return self.text_model.vectors(self._pad(rows), prompt_length)

    def token_states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the last hidden states (t, d) of the t tokens of all rows, without padding.

        They have a graph.
        """
        features = self._pad(rows)
        states: Tensor = self.transformer(**features).last_hidden_state  # (b, longest, d)
        return states[features["attention_mask"].bool()]

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        """Estimate a graph's memory per padded token, for texts that are `longest` tokens long.

        With `checkpointing` (None: as set), it holds every block's input and one block's graph.
        """
        if checkpointing is None:
            checkpointing = self._checkpointing
        element_size = self.working[0].element_size()
        return self._size.graph_bytes_per_token(longest, element_size, checkpointing)

    def graph_bytes(self, rows: Sequence[Sequence[int]], batches: Sequence[MicroBatch]) -> float:
        """Estimate the memory of all graphs of a step together."""
        total = 0.0
        for batch in batches:
            longest = max(len(rows[i]) for i in batch.places)
            length = self._padded_length(longest)
            total += len(batch.places) * length * self.bytes_per_token(length)
        return total

    def _padded_length(self, longest: int) -> int:
        """Return a length on the grid, but not beyond the model's last position."""
        return min(grid_length(longest), max(longest, self.model.max_tokens))

    def _pad(self, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Return token ids and attention mask (b, length) of b token rows."""
        return self.text_model.pad(rows, self._padded_length(max(map(len, rows))))


class StudentEncoder:
    """Encodes token rows with the student's present weights, without dropout.

    `budget`: padded tokens of a micro-batch. `pause` is called between blocks of micro-batches and
    may raise. `peers` share the work; each gets all vectors.
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

    def queries(self, rows: Rows) -> Floats:
        """Return vectors (n, d) of query rows."""
        return self._encode(rows, self._student.query_prompt_length)

    def chunks(self, rows: Rows) -> Floats:
        """Return vectors (n, d) of chunk rows."""
        return self._encode(rows, self._student.chunk_prompt_length)

    def _encode(self, rows: Rows, prompt_length: int) -> Floats:
        """Return vectors (n, d) of rows, in their order."""
        self._student.evaluation_mode()
        batches = micro_batches(
            list(map(len, rows)),
            self._budget,
            prompt_length=prompt_length,
        )
        vectors = np.zeros((len(rows), self._student.dimension), dtype=np.float32)

        def encode(batch: MicroBatch) -> None:
            batch_rows = [rows[i] for i in batch.places]
            with torch.no_grad():
                batch_vectors = self._student.forward(batch_rows, batch.prompt_length)
            vectors[batch.places] = batch_vectors.cpu().numpy()

        stride = _BLOCK * self._workers.count * self._peers.count
        for start in range(0, len(batches), stride):
            self._pause()
            own_share = self._peers.own_share(batches[start : start + stride])
            self._workers.map(encode, own_share)
        # Each process has filled its own rows; the sum, in place, has all of them.
        self._peers.add([torch.from_numpy(vectors)])
        return vectors
