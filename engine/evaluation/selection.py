"""Which encoder comes into use: the base, the adapted one, or an interpolation of both (METHODS.md §5, "never worse than base").

The rule. A candidate must beat base: its nDCG@10 is shown to be better on held-out queries, by the paired bootstrap and by
Fisher's randomisation test (engine/metrics/differences.py). A candidate whose interval lies below base on judged real queries is
out, whatever that test says. Of those left, take the one with the best mean, then step down to the smallest weight within one
standard error of it: held-out queries come from the generator that also made the training queries, so they flatter the adapted
end, and all candidates cost the same in use. This is the one-standard-error rule of Breiman et al. 1984, "simplest" read as
"nearest to base".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.figures import Difference, Interval
from engine.core.systems import ADAPTED, BASE, weight_of
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, interval
from engine.metrics.power import tested_difference
from engine.queries.heldout import MIN_TO_CHOOSE, MORE

Floats = NDArray[np.float64]
CandidateOutcome = Literal["base", "in use", "ahead", "not ahead", "vetoed"]

MIN_QUERIES = MIN_TO_CHOOSE
"""Of held-out queries, and of judged ones for the veto."""


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate, in percent: its mean nDCG@10 and its difference to base on held-out and on judged queries."""

    name: str
    weight: float
    figure: Interval | None
    against_base: Difference | None
    judged_against_base: Difference | None
    outcome: CandidateOutcome


@dataclass(frozen=True, slots=True)
class Selection:
    """`in_use`: the candidate's name; `weight`: its interpolation weight; `reason`: plain sentences with the figures."""

    in_use: str
    weight: float
    reason: str
    queries: int
    table: tuple[Row, ...]


def choose_candidate(
    values: Mapping[str, ArrayLike], judged: Mapping[str, ArrayLike] | None = None, samples: int = SAMPLES, seed: int = 0,
) -> Selection:  # fmt: skip
    """Choose by per-query nDCG@10 (in [0, 1]) on held-out queries: `values`, candidate → (q,), `base` among them.

    `judged`: the same on judged real queries, for the veto; an interpolation missing there falls with `adapted`. Fewer than
    `MIN_QUERIES` held-out queries: base stays in use; fewer judged ones: no veto. ValueError when `base` is missing, a
    name is unknown, or arrays differ in length or hold NaN.
    """
    names = sorted(values, key=weight_of)
    if not names or names[0] != BASE:
        raise ValueError(f"{BASE!r} must be among the candidates {names}")
    held_out = _Paired(values, samples, seed)
    real = _Paired(judged, samples, seed) if judged and BASE in judged else None
    if held_out.queries < MIN_QUERIES:
        rows = tuple(_row(name, held_out, real, "in use" if name == BASE else "not ahead") for name in names)
        few = (
            f"only {held_out.queries} held-out queries could be measured and a comparison needs at least {MIN_QUERIES}"
        )
        return Selection(BASE, 0.0, f"The base encoder is in use, because {few}. {MORE}", held_out.queries, rows)
    vetoed = [name for name in names[1:] if real is not None and real.excludes(name)]
    ahead = [name for name in names[1:] if name not in vetoed and held_out.against(name).verdict == "better"]
    chosen = _smallest_weight(ahead, held_out) if ahead else BASE
    outcomes: dict[str, CandidateOutcome] = dict.fromkeys(names, "not ahead")
    outcomes.update(dict.fromkeys(ahead, "ahead"))
    outcomes.update(dict.fromkeys(vetoed, "vetoed"))
    outcomes.update({BASE: "base"})
    outcomes.update({chosen: "in use"})
    rows = tuple(_row(name, held_out, real, outcomes[name]) for name in names)
    reason = _reason(chosen, ahead, vetoed, names, held_out, real)
    return Selection(chosen, weight_of(chosen), reason, held_out.queries, rows)


class _Paired:
    """Per-query values of candidates on one set of queries, all resampled together."""

    def __init__(self, values: Mapping[str, ArrayLike], samples: int, seed: int) -> None:
        arrays = {name: np.asarray(array, dtype=np.float64) for name, array in values.items()}
        if len({array.shape for array in arrays.values()}) != 1 or arrays[BASE].ndim != 1:
            raise ValueError("candidates need one value for each of the same queries")
        self.values = arrays
        self.queries = len(arrays[BASE])
        self._means: dict[str, Floats] = {}
        self._samples, self._seed = samples, seed
        self._found: dict[tuple[str, str], Difference] = {}
        if self.queries:
            means = bootstrap_means(np.stack(list(arrays.values()), axis=1), samples, seed)
            self._means = {name: means[:, column] for column, name in enumerate(arrays)}

    def figure(self, name: str) -> Interval | None:
        return interval(self.values[name], self._means[name]).percent() if self._means else None

    def against(self, name: str, other: str = BASE) -> Difference:
        if (name, other) not in self._found:
            gap, means = self.values[name] - self.values[other], self._means[name] - self._means[other]
            self._found[name, other] = tested_difference(gap, means, self._samples, self._seed)
        return self._found[name, other]

    def excludes(self, name: str) -> bool:
        """Worse than base by the interval; an interpolation that was not measured here shares the adapted encoder's fate."""
        name = name if name in self.values else ADAPTED
        return name in self.values and self.queries >= MIN_QUERIES and self.against(name).harms

    def standard_error(self, name: str, other: str) -> float:
        """Of the mean difference, in percent."""
        return 100 * float(np.std(self._means[name] - self._means[other]))


def _smallest_weight(ahead: list[str], held_out: _Paired) -> str:
    best = _best(ahead, held_out)
    return next(
        name
        for name in ahead  # by rising weight
        if held_out.against(best, name).value <= held_out.standard_error(best, name)
    )


def _best(ahead: list[str], held_out: _Paired) -> str:
    return max(ahead, key=lambda name: (float(held_out.values[name].mean()), -weight_of(name)))


def _row(name: str, held_out: _Paired, real: _Paired | None, outcome: CandidateOutcome) -> Row:
    compared = name != BASE and held_out.queries > 0
    on_real = real is not None and name != BASE and name in real.values and real.queries > 0
    return Row(
        name=name, weight=weight_of(name), figure=held_out.figure(name),
        against_base=held_out.against(name) if compared else None,
        judged_against_base=real.against(name) if real is not None and on_real else None, outcome=outcome,
    )  # fmt: skip


def _reason(
    chosen: str, ahead: list[str], vetoed: list[str], names: list[str], held_out: _Paired, real: _Paired | None
) -> str:
    left = [name for name in names[1:] if name not in vetoed]
    if chosen != BASE:
        sentences = [f"{_called(chosen).capitalize()} is in use: {_shown(chosen, held_out, 'held-out (synthetic)')}."]
        if (best := _best(ahead, held_out)) != chosen:
            lead, error = held_out.against(best, chosen).value, held_out.standard_error(best, chosen)
            sentences.append(
                f"{_called(best).capitalize()} is {lead:.2f} points higher, which is within one standard error ({error:.2f}), so "
                "the smaller weight is preferred."
            )
    elif left:
        best = _best(left, held_out)
        needed = held_out.against(best).format_needed
        sentences = [
            "The base encoder is in use, because no candidate is shown to be better: of the best, "
            f"{_called(best)}, {_shown(best, held_out, 'held-out')}{needed}."
        ]
    else:
        cause = "every candidate is excluded" if vetoed else "there is no other candidate"
        sentences = [f"The base encoder is in use, because {cause}."]
    if real is not None:
        sentences += [
            f"{_called(name).capitalize()} is excluded: {_shown(name if name in real.values else ADAPTED, real, 'judged')}."
            for name in reversed(vetoed)
        ]
        if real.queries < MIN_QUERIES:
            sentences.append(f"The {real.queries} judged queries are too few to exclude a candidate.")
    return " ".join(sentences)


def _shown(name: str, values: _Paired, kind: str) -> str:
    gap = values.against(name)
    own, base = (100 * values.values[one].mean() for one in (name, BASE))
    return (
        f"on {values.queries} {kind} queries its nDCG@10 is {own:.1f} against {base:.1f} for base, {gap.value:+.1f} points "
        f"(95 % interval {gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p})"
    )


def _called(name: str) -> str:
    if name == ADAPTED:
        return "the adapted encoder"
    return f"the interpolation of base and adapted encoder with weight {weight_of(name):g}"
