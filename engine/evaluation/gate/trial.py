"""The statistics of one rung: what its queries say of each candidate against the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.core.arrays import Doubles
from engine.core.figures import Difference
from engine.evaluation.gate.decision import Option
from engine.evaluation.rungs import CERTIFYING, Evidence
from engine.metrics.bootstrap import bootstrap_means, bounds
from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, spread, tested_difference
from engine.metrics.randomisation import max_t_p, randomisation_p

Z = 1.959963984540054
"""Standard errors from the mean to the ends of a 95 % interval."""


class Trial:
    """The candidates against the reference on one rung, with shared resamples and permutations.

    Queries of one document are resampled and permuted together, since they are not independent.
    """

    def __init__(
        self,
        evidence: Evidence,
        reference: str,
        candidates: Sequence[Option],
        samples: int,
        seed: int,
    ) -> None:
        self.evidence = evidence
        self.rung = evidence.rung
        names = [option.name for option in candidates if option.name in evidence.systems]
        self._column = {name: column for column, name in enumerate(names)}
        if not names:
            return
        clusters = evidence.clusters
        gaps = [evidence.gaps(name, reference) for name in names]
        self._gaps = np.stack(gaps, axis=1)  # (q, c)
        self._means = bootstrap_means(self._gaps, samples, seed, clusters)  # (samples, c)
        self._one_sided_p = max_t_p(self._gaps, samples, seed, clusters)  # (c,)
        self._two_sided_p = randomisation_p(self._gaps, samples, seed, clusters)  # (c,)

    def has(self, name: str) -> bool:
        """Return whether the candidate was measured."""
        return name in self._column

    def describes(self, name: str) -> bool:
        """Return whether the rung has enough queries to estimate the candidate's gain."""
        enough = self.evidence.queries >= MIN_FOR_SPREAD
        return self.rung in CERTIFYING and enough and self.has(name)

    def p(self, name: str) -> float:
        """Return the one-sided p, corrected for the number of candidates."""
        return float(self._one_sided_p[self._column[name]])

    def mean(self, name: str) -> float:
        """Return the mean lead in points."""
        return 100 * float(self._gap(name).mean())

    def error(self, name: str) -> float:
        """Return the standard error of the mean in points, as if one more query lost everything.

        e² = (s² + 1/N) / N (METHODS.md §5, "Own evidence").
        """
        count = self.evidence.queries
        deviation = spread(self._gap(name), self.evidence.clusters)
        variance = deviation**2 + 1 / count
        return 100 * float(np.sqrt(variance / count))

    def lead(self, best: str, other: str) -> tuple[float, float]:
        """Return the mean lead of one candidate over another in [−1, 1], and its standard error."""
        lead = self._gap(best) - self._gap(other)
        resampled = self._resampled_means(best) - self._resampled_means(other)
        return float(lead.mean()), float(resampled.std())

    def difference(self, name: str) -> Difference:
        """Return the difference to the reference in percent, with interval and verdict."""
        p_value = float(self._two_sided_p[self._column[name]])
        means = self._resampled_means(name)
        difference = tested_difference(
            self._gap(name),
            means,
            p_value,
            self.evidence.clusters,
        )
        if self.rung in CERTIFYING:
            return difference
        return difference.without_verdict()

    def proves(self, name: str, level: float) -> bool:
        """Return whether the candidate is shown to be better.

        Both the one-sided p, corrected for the number of candidates, and the two-sided test that
        all tables use must say so, and the gain must survive a rare loss.
        """
        if not self.has(name) or self.p(name) > level:
            return False
        return self.difference(name).verdict == "better" and self._survives_a_loss(name)

    def harms(self, name: str) -> bool:
        """Return whether the whole confidence interval lies below 0.

        Two judged questions are enough for this, even about one document. They wrongly exclude a
        candidate without effect no more often than twelve do, since most queries do not change.
        """
        enough = self.evidence.independent >= MIN_QUERIES
        if self.rung == "judged":
            enough = self.evidence.queries >= 2
        if not enough or not self.has(name) or self.rung not in CERTIFYING:
            return False
        _, high = bounds(self._resampled_means(name))
        return high < 0

    def _gap(self, name: str) -> Doubles:
        """Return the candidate's lead per query (q,)."""
        gap: Doubles = self._gaps[:, self._column[name]]
        return gap

    def _resampled_means(self, name: str) -> Doubles:
        """Return the candidate's mean lead in each resample (samples,)."""
        means: Doubles = self._means[:, self._column[name]]
        return means

    def _survives_a_loss(self, name: str) -> bool:
        """Return whether the gain stays significant if one more query lost everything.

        ḡ − z₀.₉₇₅ s/√(N + 1) > 0 with N + 1 gains, the last of −1 (METHODS.md §5, "Proved"). A
        small sample seldom holds rare losses.
        """
        gap = np.append(self._gap(name), -1.0)
        clusters = self.evidence.clusters
        if clusters is not None:
            # The lost query is of a document of its own.
            clusters = np.append(clusters, clusters.max() + 1)
        error = spread(gap, clusters) / np.sqrt(len(gap))
        return bool(gap.mean() - Z * error > 0)
