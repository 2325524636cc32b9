"""Queries with known answers → figures, the choice of what comes into use, and the report.

In: systems' rankings, judged, document-written and held-out generated queries, chunks and
documents. Out: `Comparison`, `Selection`, report.json and report.html. Source: METHODS.md §1
(Metrics, Baselines), §5 (the ladder of evidence, the gate).
"""
