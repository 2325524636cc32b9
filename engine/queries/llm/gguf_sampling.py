"""The choice of the next token of an answer, within a grammar."""

from __future__ import annotations

import ctypes
from typing import Any

from engine.queries.llm.chat_model import UnansweredError

TEMPERATURE, TOP_K, TOP_P = 0.3, 40, 0.95
_FORBIDDEN = -1e30


class Sampler:
    """The random choices of one answer, which depend on its seed alone."""

    def __init__(self, lib: Any, vocabulary: Any, grammar: str, seed: int) -> None:
        """`lib`: llama_cpp. Raises UnansweredError for a grammar that llama.cpp does not take."""
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
        """The model's choice where the grammar allows it, else its best choice among what the grammar allows.

        Asking the grammar about one token is thousands of times cheaper than about the whole vocabulary.
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
        """Free what llama.cpp holds for it. It is not used afterwards."""
        self._lib.llama_sampler_free(self._free)
        self._lib.llama_sampler_free(self._bound)  # and with it the grammar
