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
from typing import NamedTuple

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


class DataSet(NamedTuple):
    """Texts of chunks and queries.

    `grades`: of each query, the grades of the relevant chunks, by their place in `chunks`.
    """

    chunks: list[str]
    queries: list[str]
    grades: list[dict[int, int]]


def read_data_set(folder: Path) -> DataSet:
    """Read a data set of BEIR, without the queries that no chunk is relevant to."""
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
    return DataSet(
        texts,
        [queries[name] for name in grades],
        list(grades.values()),
    )


def main() -> None:
    """Print a line for each transformation of the vectors."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    texts, queries, grades = read_data_set(folder)
    encoder = TransformerEncoder.load(resolve_model(DEFAULT_MODEL))
    chunks = encoder.encode_chunks(texts)
    query_vectors = encoder.encode_queries(queries)
    transformations = {
        "as they are": None,
        "standardised": standardise(chunks),
        "whitened": whiten(chunks),
        **{f"top {count} removed": remove_top(chunks, count) for count in (1, 3, 10)},
    }
    print(f"{len(texts)} chunks, {len(queries)} queries; percent, 95 % intervals")
    chunk_ids = np.arange(len(chunks), dtype=np.int64)
    base = None
    for name, transform in transformations.items():
        transformed = chunks
        transformed_queries = query_vectors
        if transform is not None:
            transformed = transform(chunks)
            transformed_queries = transform(query_vectors)
        ids, _ = rank_all(
            transformed_queries,
            transformed,
            chunk_ids,
            10,
        )
        metrics = evaluate_run(Relevance.from_rankings(ids, grades), ("ndcg@10", "hit@10"))
        if base is None:
            base = metrics["ndcg@10"]
        difference = paired_difference(metrics["ndcg@10"], base).percent()
        cells = []
        for values in (metrics["ndcg@10"], metrics["hit@10"]):
            mean = interval(values, bootstrap_means(values[:, None])[:, 0]).percent()
            cells.append(f"{mean.value:5.1f} ({mean.low:.1f}–{mean.high:.1f})")
        change = (
            f"{difference.value:+5.1f} ({difference.low:+.1f} to {difference.high:+.1f})"
            f" {difference.verdict}"
        )
        print(
            f"{name:<15} {'   '.join(cells)}   {change:<42} I_A {isotropy_a(transformed):.3f}"
            f"   IsoScore {isoscore(transformed):.3f}"
        )


if __name__ == "__main__":
    main()
