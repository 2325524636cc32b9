"""The split of documents into trained and held-out ones, and the sampling of queries to measure.

Documents that are parts, neighbours or copies of one another are never separated.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from posixpath import splitext
from typing import TYPE_CHECKING

from engine.core.records import Document, Split
from engine.corpus.text.document_queries import folded_words, without_marks

if TYPE_CHECKING:
    from engine.project.store.store import Store

UNTITLED_RUN = 50
"""Number of neighbouring entries without a title that stay together."""
SAMPLE = 20
"""About how many of the documents with one frequent title are compared with each other."""
MAX_CHARACTERS = 50_000
"""Number of characters of each document that are compared."""
RUN_LENGTH = 5
"""Number of consecutive words that two documents do not share by chance."""
MIN_SHARED_RUNS = 0.5
"""Share of the shorter document's runs that versions of a text have in common."""
MIN_VERSION_PAIRS = 0.25
"""Share of pairs that are versions, from which all documents of a title are taken for versions."""


def document_keys(documents: Sequence[Document]) -> dict[int, str]:
    """Return a key for each document; parts, neighbours and copies of a document share its key.

    Files with the same content have the path of the first one. BEIR entries of one title share a
    key; untitled ones, often neighbouring passages of a text, by runs of `UNTITLED_RUN`.
    """
    first_paths: dict[str, str] = {}  # content hash → path of the first file with it
    keys = {}
    ordered = sorted(documents, key=lambda document: document.id)
    for number, document in enumerate(ordered):
        if document.is_entry:
            title = document.title or str(number // UNTITLED_RUN)
            keys[document.id] = f"{document.source}\0{title}"
        else:
            keys[document.id] = first_paths.setdefault(document.content_hash, document.path)
    return keys


def related_in(store: Store) -> Mapping[int, int]:
    """Return the `related_documents` of a project."""

    def text_of(document_id: int) -> str:
        document = store.document(document_id)
        return document.text if document else ""

    return store.cached("related", lambda: related_documents(store.documents(), text_of))


def related_documents(
    documents: Sequence[Document], text_of: Callable[[int], str] = lambda _: ""
) -> dict[int, int]:
    """Return for each document the first of the documents that are related to it.

    Related are documents of one key (`document_keys`), files of one name in several formats, and
    documents of one title, such as versions of a file and mails of a thread. A title of more than
    half of all documents counts only if their texts are alike: pages of a site share one, too.
    """
    keys = document_keys(documents)
    by_title: defaultdict[object, list[int]] = defaultdict(list)
    # Documents with a label in common are related.
    labels: dict[int, tuple[object, ...]] = {}
    for document in documents:
        title = tuple(folded_words(without_marks(document.title)))
        by_title[title].append(document.id)
        if document.is_entry:
            labels[document.id] = (keys[document.id], title)
        else:
            name = (document.source, splitext(document.path)[0])
            labels[document.id] = (
                keys[document.id],
                name,
                title,
            )
    ignored_titles: set[object] = set()
    for shared_title, ids in by_title.items():
        is_frequent = 2 * len(ids) > len(documents)
        if not shared_title or (is_frequent and not _are_versions(sorted(ids), text_of)):
            ignored_titles.add(shared_title)
    first_documents: dict[object, int] = {}
    groups = _Groups(sorted(keys))
    for document_id in sorted(keys):
        for label in labels[document_id]:
            if label not in ignored_titles:
                groups.join(document_id, first_documents.setdefault(label, document_id))
    return {document_id: groups.find_first(document_id) for document_id in sorted(keys)}


class _Groups:
    """Numbers in groups that grow together, each known by its smallest number (union-find)."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._parents = {number: number for number in numbers}

    def find_first(self, number: int) -> int:
        """Return the smallest number of the group that `number` belongs to."""
        parents = self._parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]  # shortens the way for later calls
            number = parents[number]
        return number

    def join(self, number: int, other: int) -> None:
        """Merge the groups of two numbers."""
        firsts = (self.find_first(number), self.find_first(other))
        self._parents[max(firsts)] = min(firsts)


def _are_versions(ids: Sequence[int], text_of: Callable[[int], str]) -> bool:
    """Return whether documents are versions of a few texts, judged by a sample of them.

    They are if enough pairs of the sample (`MIN_VERSION_PAIRS`) have the same runs of words.
    """
    step = math.ceil(len(ids) / SAMPLE)
    runs = []
    for document_id in ids[::step]:
        text = text_of(document_id)[:MAX_CHARACTERS]
        runs.append(_find_word_runs(text))
    pairs = list(combinations(runs, 2))
    version_pairs = 0
    for first, second in pairs:
        shorter = min(len(first), len(second))
        if shorter and len(first & second) >= MIN_SHARED_RUNS * shorter:
            version_pairs += 1
    return version_pairs > MIN_VERSION_PAIRS * len(pairs)


def _find_word_runs(text: str) -> set[tuple[str, ...]]:
    """Return the runs of `RUN_LENGTH` consecutive words of a text."""
    words = folded_words(text)
    runs = set()
    for end in range(RUN_LENGTH, len(words) + 1):
        runs.add(tuple(words[end - RUN_LENGTH : end]))
    return runs


def group_keys(documents: Sequence[Document], related: Mapping[int, int]) -> dict[int, str]:
    """Return for each document the key of its group: the `document_keys` of its first document.

    `related`: the result of `related_documents`.
    """
    keys = document_keys(documents)
    return {document: keys[first] for document, first in related.items()}


def unrelated_documents(used: Iterable[int], related: Mapping[int, int]) -> frozenset[int]:
    """Return the documents that are related (`related_documents`) to none of those `used`."""
    groups = {related.get(document) for document in used}
    return frozenset(document for document, group in related.items() if group not in groups)


def hold_out_documents(
    keys: Mapping[int, str],
    share: float,
    seed: int = 0,
) -> frozenset[int]:
    """Return the ids of the held-out documents.

    `keys`: document id → stable key (its path, or its content hash). A document is held out if the
    hash of (seed, key) is below `share`. So equal keys stay together, and adding or removing
    documents moves no others. If there are two keys or more, both parts get at least one: if the
    hashes leave a part empty, it gets the key whose hash is nearest to `share`.
    """
    by_hash = _sort_by_hash(keys.values(), seed)
    count = sum(value < share for value, _ in by_hash)
    if len(by_hash) >= 2:
        count = max(1, min(count, len(by_hash) - 1))
    held_out = {key for _, key in by_hash[:count]}
    return frozenset(document for document, key in keys.items() if key in held_out)


def split_documents(
    keys: Mapping[int, str],
    share: float,
    seed: int = 0,
) -> dict[int, Split]:
    """Return the split of the held-out documents of `keys` (see `hold_out_documents`).

    A third of them decides when training stops (`validation`), the others what is used (`heldout`);
    a single one decides what is used. Documents of a key that more than half of all have are
    trained on: otherwise nothing would be left to learn from, or all evidence would come from one
    text.
    """
    counts = Counter(keys.values())
    candidates = {}
    for document, key in keys.items():
        if 2 * counts[key] <= len(keys):
            candidates[document] = key
    held_out = {
        document: keys[document] for document in hold_out_documents(candidates, share, seed)
    }
    splits: dict[int, Split] = dict.fromkeys(held_out, "heldout")
    if len(set(held_out.values())) > 1:
        for document in hold_out_documents(held_out, 1 / 3, seed + 1):
            splits[document] = "validation"
    return splits


def sample_keys(
    keys: Collection[str],
    count: int,
    seed: int = 0,
) -> list[str]:
    """Return `count` random keys, in random order: those with the lowest hashes."""
    return [key for _, key in _sort_by_hash(keys, seed)[:count]]


def cap_queries(
    keys: Sequence[str],
    max_queries: int,
    seed: int = 0,
) -> list[int]:
    """Return the indices, ascending, of at most `max_queries` random queries.

    `keys`: a text or other key of each query. Those with the lowest hashes are taken, so that the
    choice hardly changes when queries come or go.
    """
    hashes = [_hash_key(seed, key) for key in keys]
    order = sorted(range(len(keys)), key=hashes.__getitem__)
    return sorted(order[:max_queries])


def _sort_by_hash(keys: Iterable[str], seed: int) -> list[tuple[float, str]]:
    """Return the distinct keys with their hashes, the lowest hash first."""
    return sorted((_hash_key(seed, key), key) for key in set(keys))


def _hash_key(seed: int, key: str) -> float:
    """Return a number in [0, 1) that depends on seed and key only."""
    digest = hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
