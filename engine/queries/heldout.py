"""Which documents' queries are held out, with the documents that are parts, neighbours or copies
of theirs; and which queries are measured when there are too many.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from posixpath import splitext
from typing import TYPE_CHECKING

from engine.core.records import Document, Split
from engine.written_queries.document_queries import folded_words, without_marks

if TYPE_CHECKING:
    from engine.project.store.store import Store

UNTITLED_RUN = 50
SAMPLE = 20
CHARACTERS = 50_000
RUN = 5
"""Documents of a frequent title that are compared, how much of each, and words in a row that two
have in common by no chance.
"""
ALIKE = 0.5
MIN_ALIKE = 0.25
"""Share of the shorter one's runs that versions have in common, and of the pairs that are such
from which on all are versions.
"""
MIN_TO_CHOOSE = 20
"""Queries of one kind without which nothing is compared."""


def document_keys(documents: Sequence[Document]) -> dict[int, str]:
    """Document id → key; documents with one key are parts, neighbours or copies of one another
    and never parted.

    Files with the same content share the first one's path. BEIR entries share their title; untitled
    ones, often neighbouring passages of one text, go by runs of `UNTITLED_RUN`.
    """
    first: dict[str, str] = {}
    keys = {}
    for number, document in enumerate(sorted(documents, key=lambda document: document.id)):
        if document.external_id is None:
            keys[document.id] = first.setdefault(document.content_hash, document.path)
        else:
            keys[document.id] = f"{document.source}\0{document.title or number // UNTITLED_RUN}"
    return keys


def related_in(store: Store, documents: Sequence[Document]) -> dict[int, int]:
    """`related_documents` of a project with these documents."""

    def text_of(document: int) -> str:
        found = store.document(document)
        return found.text if found else ""

    return related_documents(documents, text_of)


def related_documents(
    documents: Sequence[Document], text_of: Callable[[int], str] = lambda _: ""
) -> dict[int, int]:
    """Document id → the first of the documents that are of one text with it: those of one key
    (`document_keys`), files of one name that differ in format, and those of one title, as are
    versions of a file and mails of a thread. A title that more than half of the documents have
    says something only where their texts are alike: pages of a site share it, too.
    """
    keys = document_keys(documents)
    titled = defaultdict[object, list[int]](list)
    labels: dict[int, tuple[object, ...]] = {}
    for one in documents:
        title = tuple(folded_words(without_marks(one.title)))
        labels[one.id] = (keys[one.id], title)
        if one.external_id is None:
            labels[one.id] = (keys[one.id], (one.source, splitext(one.path)[0]), title)
        titled[title].append(one.id)
    says_nothing = {
        title
        for title, ids in titled.items()
        if not title or (2 * len(ids) > len(documents) and not _versions(sorted(ids), text_of))
    }
    first: dict[object, int] = {}
    found: dict[int, int] = {}

    def root(document: int) -> int:
        while found[document] != document:
            found[document] = document = found[found[document]]
        return document

    for document in sorted(keys):
        found[document] = document
        for label in labels[document]:
            if label not in says_nothing:
                least, other = sorted((root(document), root(first.setdefault(label, document))))
                found[other] = least
    return {document: root(document) for document in found}


def _versions(ids: Sequence[int], text_of: Callable[[int], str]) -> bool:
    """Whether documents are versions of a few texts, by a sample of them."""
    texts = [folded_words(text_of(one)[:CHARACTERS]) for one in ids[:: -(-len(ids) // SAMPLE)]]
    runs = [
        {tuple(words[place : place + RUN]) for place in range(len(words) - RUN + 1)}
        for words in texts
    ]
    pairs = [
        len(one & other) >= ALIKE * min(len(one), len(other)) > 0
        for one, other in combinations(runs, 2)
    ]
    return sum(pairs) > MIN_ALIKE * len(pairs)


def text_keys(documents: Sequence[Document], related: Mapping[int, int]) -> dict[int, str]:
    """Document id → the key (`document_keys`) of the first document that is of one text with it
    (`related_documents`): those of one key are not parted.
    """
    keys = document_keys(documents)
    return {document: keys[first] for document, first in related.items()}


def unrelated_documents(used: Iterable[int], related: Mapping[int, int]) -> frozenset[int]:
    """The documents that are of one text (`related_documents`) with none of those `used`."""
    groups = {related.get(document) for document in used}
    return frozenset(document for document, group in related.items() if group not in groups)


def assign_split(keys: Mapping[int, str], share: float, seed: int = 0) -> frozenset[int]:
    """The ids of the held-out documents, of `keys`: document id → stable key (its path, or its
    content hash).

    A document is held out when the hash of (seed, key) falls into the first `share` of the hash
    range, so adding or removing documents moves nobody else, and equal keys stay together. From two
    different keys on, both parts have at least one document: where the hashes leave one part empty,
    the document nearest to the limit changes sides.
    """
    places = {key: _place(seed, key) for key in keys.values()}
    held = {key for key, place in places.items() if place < share}
    if len(places) >= 2 and not held:
        held.add(min(places, key=lambda key: (places[key], key)))
    elif len(places) >= 2 and len(held) == len(places):
        held.discard(max(places, key=lambda key: (places[key], key)))
    return frozenset(document for document, key in keys.items() if key in held)


def split_documents(keys: Mapping[int, str], share: float, seed: int = 0) -> dict[int, Split]:
    """The held-out documents of `keys` (see `assign_split`): a third of them decides when
    training stops, the others what is used. A single one decides what is used. Those of a key
    that more than half of them have are trained on: nothing else would be left to learn from, or
    they would be one witness.
    """
    times = Counter(keys.values())
    others = {document: key for document, key in keys.items() if 2 * times[key] <= len(keys)}
    aside = {key: keys[key] for key in assign_split(others, share, seed)}
    if len(set(aside.values())) > 1:
        validation = assign_split(aside, 1 / 3, seed + 1)
    else:
        validation = frozenset()
    return {key: "validation" if key in validation else "heldout" for key in aside}


def least_of(keys: Collection[str], count: int, seed: int = 0) -> list[str]:
    """The `count` keys of least hash, in the order of these: a seeded random choice of so many,
    of few keys.
    """
    return sorted(set(keys), key=lambda key: (_place(seed, key), key))[:count]


def cap_queries(keys: Sequence[str], max_queries: int, seed: int = 0) -> list[int]:
    """Indices, ascending, of at most `max_queries` of the `keys`: those of least hash, so a
    seeded random choice that stays nearly the same when queries come or go.
    """
    order = sorted(range(len(keys)), key=lambda index: (_place(seed, keys[index]), index))
    return sorted(order[:max_queries])


def _place(seed: int, key: str) -> float:
    """A number in [0, 1) that depends on nothing but seed and key."""
    digest = hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
