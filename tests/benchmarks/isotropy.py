"""Does more isotropy mean better retrieval?

The bundled encoder's vectors of a data set, as they are and transformed.

`python tests/benchmarks/isotropy.py [DATASET]` prints nDCG@10 and Hit@10 with intervals, the paired
difference in nDCG@10 to the untouched vectors, and both isotropy scores. DATASET is a BEIR folder;
cranfield of the shared data if left out.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model  # noqa: E402
from engine.encoders.transformer import TransformerEncoder  # noqa: E402
from engine.evaluation.rankers import rank_all  # noqa: E402
from engine.lab.study.transformations import remove_top, standardise, whiten  # noqa: E402
from engine.metrics.bootstrap import bootstrap_means, interval  # noqa: E402
from engine.metrics.differences import paired_difference  # noqa: E402
from engine.metrics.geometry import isoscore, isotropy_a  # noqa: E402
from engine.metrics.relevance import Relevance  # noqa: E402
from engine.metrics.retrieval import evaluate_run  # noqa: E402

DATA = REPOSITORY.parent / "shared" / "data" / "cranfield"


def read(folder: Path) -> tuple[list[str], list[str], list[dict[int, int]]]:
    """Chunk texts, query texts and, per query, row of a relevant chunk → grade."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    row_of = {entry["_id"]: row for row, entry in enumerate(corpus)}
    queries = {
        entry["_id"]: entry["text"]
        for entry in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))
    }
    grades: dict[str, dict[int, int]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as lines:
        for query, chunk, grade in list(csv.reader(lines, delimiter="\t"))[1:]:
            if int(grade) > 0 and chunk in row_of and query in queries:
                grades.setdefault(query, {})[row_of[chunk]] = int(grade)
    texts = [f"{entry.get('title', '')} {entry['text']}".strip() for entry in corpus]
    return texts, [queries[name] for name in grades], list(grades.values())


def main() -> None:
    texts, queries, grades = read(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    encoder = TransformerEncoder.load(resolve_model(DEFAULT_MODEL))
    chunks = encoder.encode_chunks(texts)
    query_vectors = encoder.encode_queries(queries)
    ways = {
        "as they are": None,
        "standardised": standardise(chunks),
        "whitened": whiten(chunks),
        **{f"top {count} removed": remove_top(chunks, count) for count in (1, 3, 10)},
    }
    print(f"{len(texts)} chunks, {len(queries)} queries; percent, 95 % intervals")
    base = None
    for name, way in ways.items():
        moved, looked_for = (
            (chunks, query_vectors) if way is None else (way(chunks), way(query_vectors))
        )
        ids, _ = rank_all(looked_for, moved, np.arange(len(moved), dtype=np.int64), 10)
        found = evaluate_run(Relevance.from_rankings(ids, grades), ("ndcg@10", "hit@10"))
        base = found["ndcg@10"] if base is None else base
        gap = paired_difference(found["ndcg@10"], base).percent()
        both = (found["ndcg@10"], found["hit@10"])
        cells = [interval(each, bootstrap_means(each[:, None])[:, 0]).percent() for each in both]
        shown = "   ".join(f"{cell.value:5.1f} ({cell.low:.1f}–{cell.high:.1f})" for cell in cells)
        against = f"{gap.value:+5.1f} ({gap.low:+.1f} to {gap.high:+.1f}) {gap.verdict}"
        print(
            f"{name:<15} {shown}   {against:<42} I_A {isotropy_a(moved):.3f}   IsoScore"
            f" {isoscore(moved):.3f}"
        )


if __name__ == "__main__":
    main()
