"""Queries × BM25 → lists to learn from, and the fusion of rankings.

In: BM25's best k chunks of each query (`RankedLists`). Out: `SampledLists` for training, fused rankings for evaluation
and search. Source: METHODS.md §1 (BMEmbed: partition, sampling, RRF) and §5 (score fusion).
"""

from engine.core.similarity import COSINE, IndexForm
from engine.ranking.hubness import Csls

INDEX_FORMS: dict[str, IndexForm] = {form.name: form for form in (COSINE.index_form, Csls.index_form)}
"""By name: an index is opened in the form that its manifest names."""
