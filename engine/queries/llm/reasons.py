"""Why a chunk has no queries by a language model, as the counts of rejected ones name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


BEYOND = "beyond queries.max_queries"


NO_ANSWER = "the language model gave no usable answer for the chunk"
