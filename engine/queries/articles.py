"""Which documents are parts, neighbours or copies of one another: nothing is to be learnt from one that decides on another."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.records import Document

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
