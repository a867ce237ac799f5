"""Intervals over clusters: everything one image contributes is averaged first, then images are resampled.

Repeats inside an image (random control groups, patch queries) are not independent, so they never widen the sample:
they are averaged within their image before the bootstrap. Intervals are percentile intervals; they stay defined on
degenerate data, where a bias-corrected interval is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sgfi.errors import DataError
from sgfi.optional import need

RESAMPLES = 20_000
BATCH = 2_000
"""Resamples drawn at a time: 2,000 of a thousand clusters are 16 MB."""


@dataclass(frozen=True)
class Interval:
    """A mean over clusters with its percentile bootstrap interval."""

    mean: float
    low: float
    high: float
    clusters: int
    resamples: int
    level: float = 0.95

    @property
    def above_zero(self) -> bool:
        return self.low > 0

    @property
    def below_zero(self) -> bool:
        return self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f}, {self.high:.3f})"

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


@dataclass(frozen=True)
class Contrast:
    """A paired difference: one number a cluster, ``first - second``."""

    interval: Interval
    positive: float
    """Share of the clusters where the first is greater."""


@dataclass(frozen=True)
class Correlation:
    """Rank correlation within each cluster, then its mean over clusters."""

    interval: Interval | None
    """None where no cluster has a defined correlation."""
    values: tuple[float, ...]
    """One a cluster; NaN where either side is constant."""

    @property
    def undefined(self) -> int:
        return sum(math.isnan(value) for value in self.values)


def cluster_means(values: ArrayLike, clusters: Sequence[Any] | None = None) -> np.ndarray:
    """One mean a cluster, in order of first appearance.

    Without ``clusters`` the first axis of ``values`` is the cluster and everything behind it is averaged:
    (n, ...) -> (n,). With ``clusters`` (n,), rows of the same cluster are averaged together.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.size == 0:
        raise DataError("at least one value", f"shape {array.shape}", "Give an array with one row a cluster.")
    if not np.isfinite(array).all():
        raise DataError("finite values", "NaN or infinity", "Drop undefined rows before the bootstrap.")
    rows = array.reshape(len(array), -1).mean(axis=1)
    if clusters is None:
        return rows
    if len(clusters) != len(rows):
        raise DataError(f"{len(rows)} cluster labels", str(len(clusters)), "Give one label a row.")
    places: dict[Any, list[int]] = {}
    for place, label in enumerate(clusters):
        places.setdefault(label, []).append(place)
    return np.array([rows[found].mean() for found in places.values()])


def bootstrap(
    values: ArrayLike,
    clusters: Sequence[Any] | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The mean over clusters and its interval, clusters resampled with replacement."""
    means = cluster_means(values, clusters)
    middle = float(means.mean())
    if len(means) == 1 or means.min() == means.max():  # nothing varies: the interval is the point
        return Interval(middle, middle, middle, len(means), resamples, level)
    found = (
        _scipy()
        .bootstrap(
            (means,),
            np.mean,
            n_resamples=resamples,
            batch=BATCH,
            confidence_level=level,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
        .confidence_interval
    )
    return Interval(middle, float(found.low), float(found.high), len(means), resamples, level)


def contrast(first: ArrayLike, second: ArrayLike, clusters: Sequence[Any] | None = None, **options: Any) -> Contrast:
    """Paired contrast ``first - second``. Either side may carry repeats behind the cluster axis (20 random groups
    against one): each side is averaged within its cluster before they are subtracted."""
    one, other = cluster_means(first, clusters), cluster_means(second, clusters)
    if one.shape != other.shape:
        raise DataError("the same clusters on both sides", f"{len(one)} and {len(other)}", "Pair them up.")
    difference = one - other
    return Contrast(bootstrap(difference, **options), float((difference > 0).mean()))


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Rank correlation of two sequences; NaN where one of them is constant (no ranks to compare)."""
    one, other = (np.asarray(side, dtype=np.float64).ravel() for side in (first, second))
    if one.shape != other.shape or len(one) < 2:
        raise DataError("two sequences of one length, two or more", f"{one.shape} and {other.shape}", "Pair them up.")
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(_scipy().spearmanr(one, other).statistic)


def rank_interval(first: ArrayLike, second: ArrayLike, *, resamples: int = 2_000, seed: int = 0) -> Interval:
    """Rank correlation of two sequences with its interval, pairs resampled; a constant resample is drawn out."""
    one, other = (np.asarray(side, dtype=np.float64).ravel() for side in (first, second))
    middle = spearman(one, other)
    picks = np.random.default_rng(seed).integers(0, len(one), (resamples, len(one)))
    drawn = [value for pick in picks if not math.isnan(value := spearman(one[pick], other[pick]))]
    low, high = np.percentile(drawn, (2.5, 97.5)) if drawn else (math.nan, math.nan)
    return Interval(middle, float(low), float(high), len(one), resamples)


def correlation(first: ArrayLike, second: ArrayLike, **options: Any) -> Correlation:
    """Spearman within each cluster (n, m) against (n, m), then the mean over the clusters where it is defined."""
    values = [spearman(a, b) for a, b in zip(np.asarray(first), np.asarray(second), strict=True)]
    defined = [value for value in values if not math.isnan(value)]
    return Correlation(bootstrap(defined, **options) if defined else None, tuple(values))


def _scipy() -> Any:
    return need("scipy.stats", "evaluation")
