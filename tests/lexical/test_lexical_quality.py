"""BM25 quality on real data: as good as the reference figures (nDCG@10 47.9, Hit@10 83.1) within
one point.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import pytest

from engine.lexical.index import LexicalIndex

DATA = Path(__file__).parents[3] / "shared" / "data" / "multihop-partial"


@pytest.mark.shared
def test_multihop(tmp_path: Path) -> None:
    corpus = [json.loads(line) for line in (DATA / "corpus.jsonl").open(encoding="utf-8")]
    queries = {
        row["_id"]: row["text"]
        for row in map(json.loads, (DATA / "queries.jsonl").open(encoding="utf-8"))
    }
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (DATA / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        relevant[query].add(document)
    index = LexicalIndex.build(
        tmp_path / "index", ((n, row["text"]) for n, row in enumerate(corpus)), "en"
    )
    hits = 0
    gains = 0.0
    rankings = index.search_many([queries[key] for key in relevant], 10)
    for wanted, (ids, _) in zip(relevant.values(), rankings, strict=True):
        found = [corpus[n]["_id"] in wanted for n in ids]
        hits += any(found)
        ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(wanted))))
        gains += sum(1 / math.log2(rank + 2) for rank, right in enumerate(found) if right) / ideal
    assert 100 * hits / len(relevant) == pytest.approx(83.1, abs=1)
    assert 100 * gains / len(relevant) == pytest.approx(47.9, abs=1)
