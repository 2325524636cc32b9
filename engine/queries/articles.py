"""Which documents are parts, neighbours or copies of one another: nothing is to be learnt from one that decides on another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.core.records import Chunk, Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNTITLED_RUN = 50


def document_keys(documents: Sequence[Document]) -> dict[int, str]:
    """Document id → key; documents with one key are parts, neighbours or copies of one another and never parted.

    Files with the same content share the first one's path. BEIR entries share their title; untitled ones, often
    neighbouring passages of one text, go by runs of 50.
    """
    first: dict[str, str] = {}
    keys = {}
    for number, document in enumerate(sorted(documents, key=lambda document: document.id)):
        if document.external_id is None:
            keys[document.id] = first.setdefault(document.content_hash, document.path)
        else:
            keys[document.id] = f"{document.source}\0{document.title or number // UNTITLED_RUN}"
    return keys


def article_numbers(chunks: Sequence[Chunk], documents: Sequence[Document]) -> NDArray[np.int64]:
    """Numbers (n,) of 63 bits, equal for chunks whose documents share a key, and the same while that key is.

    They stay when other documents come. A file's changes with its path, that of untitled entries where documents before them go.
    """
    import numpy as np

    keys = document_keys(documents)
    numbers = {key: _number(key) for key in set(keys.values())}
    return np.array([numbers[keys[chunk.document_id]] for chunk in chunks], dtype=np.int64)


def _number(key: str) -> int:
    digest = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
