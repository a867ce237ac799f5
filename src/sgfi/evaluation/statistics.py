"""Intervals over clusters: everything one image contributes is averaged first, then images are resampled.

Repeats inside an image (random control groups, patch queries) are not independent, so they never widen the sample:
they are averaged within their image before the bootstrap. Intervals are percentile intervals; they stay defined on
degenerate data, where a bias-corrected interval is not. A ratio is formed inside every resample, so that what
numerator and denominator share does not widen its interval.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sgfi.errors import DataError, whole
from sgfi.optional import need

RESAMPLES = 20_000
BATCH = 2_000
"""Resamples drawn at a time: 2,000 of a thousand clusters are 16 MB."""


@dataclass(frozen=True)
class Interval:
    """A statistic over clusters, most often their mean, with its percentile bootstrap interval."""

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
    """A paired difference, ``first - second`` per cluster."""

    interval: Interval
    positive: float
    """Share of the clusters where the first is greater."""


@dataclass(frozen=True)
class Correlation:
    """Rank correlation within each cluster, then its mean over clusters."""

    interval: Interval | None
    """None where no cluster has a defined correlation."""
    values: tuple[float, ...]
    """Per cluster; NaN where either side is constant."""

    @property
    def undefined(self) -> int:
        return sum(math.isnan(value) for value in self.values)


def cluster_means(values: ArrayLike, clusters: Sequence[Any] | None = None) -> np.ndarray:
    """The mean of each cluster, in order of first appearance.

    Without ``clusters`` the first axis of ``values`` is the cluster and everything behind it is averaged:
    (n, ...) -> (n,). With ``clusters`` (n,), rows of the same cluster are averaged together.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.size == 0:
        raise DataError("at least one value", f"shape {array.shape}", "Give an array with one row per cluster.")
    if not np.isfinite(array).all():
        raise DataError("finite values", "NaN or infinity", "Drop undefined rows before the bootstrap.")
    rows = array.reshape(len(array), -1).mean(axis=1)
    if clusters is None:
        return rows
    if len(clusters) != len(rows):
        raise DataError(f"{len(rows)} cluster labels", str(len(clusters)), "Give one label per row.")
    members: dict[Any, list[int]] = {}
    for row, label in enumerate(clusters):
        members.setdefault(label, []).append(row)
    return np.array([rows[own].mean() for own in members.values()])


def bootstrap(
    values: ArrayLike,
    clusters: Sequence[Any] | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The mean over clusters and its interval, clusters resampled with replacement."""
    return _resampled(np.mean, cluster_means(values, clusters), resamples=resamples, level=level, seed=seed)


def ratio(
    numerator: ArrayLike, denominator: ArrayLike, clusters: Sequence[Any] | None = None, **options: Any
) -> Interval:
    """The ratio of two means over the same clusters, formed inside every resample."""
    above, below = _paired(numerator, denominator, clusters)
    if below.mean() == 0:
        raise DataError("a denominator whose mean is not zero", "zero", "Report the numerator itself.")
    return _resampled(_ratio_of_means, above, below, **options)


def contrast(first: ArrayLike, second: ArrayLike, clusters: Sequence[Any] | None = None, **options: Any) -> Contrast:
    """Paired contrast ``first - second``. Either side may carry repeats behind the cluster axis (20 random groups
    against one): each side is averaged within its cluster before they are subtracted."""
    left, right = _paired(first, second, clusters)
    difference = left - right
    return Contrast(bootstrap(difference, **options), float((difference > 0).mean()))


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Rank correlation of two sequences; NaN where one of them is constant (no ranks to compare)."""
    left, right = (np.asarray(side, dtype=np.float64).ravel() for side in (first, second))
    if left.shape != right.shape or len(left) < 2:
        raise DataError("two sequences of one length, two or more", f"{left.shape} and {right.shape}", "Pair them up.")
    return float(_rank_correlation(left, right))


def rank_interval(first: ArrayLike, second: ArrayLike, *, resamples: int = 2_000, seed: int = 0) -> Interval:
    """Rank correlation of two sequences with its interval, pairs resampled; constant resamples are left out."""
    return _resampled(_rank_correlation, *_paired(first, second, None), resamples=resamples, seed=seed)


def correlation(first: ArrayLike, second: ArrayLike, **options: Any) -> Correlation:
    """Spearman within each cluster (n, m) against (n, m), then the mean over the clusters where it is defined."""
    values = [spearman(a, b) for a, b in zip(np.asarray(first), np.asarray(second), strict=True)]
    defined = [value for value in values if not math.isnan(value)]
    return Correlation(bootstrap(defined, **options) if defined else None, tuple(values))


def _resampled(
    statistic: Callable[..., Any], *columns: np.ndarray, resamples: int = RESAMPLES, level: float = 0.95, seed: int = 0
) -> Interval:
    """The statistic of columns (n,), clusters in their rows, and its percentile interval."""
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise DataError("a level between 0 and 1", repr(level), "0.95 is usual.")
    if not whole(resamples, 1):
        raise DataError("a whole number of resamples", repr(resamples), f"{RESAMPLES} is usual.")
    clusters, value = len(columns[0]), float(statistic(*columns, axis=-1))
    if clusters == 1 or all(np.ptp(column) == 0 for column in columns):  # nothing varies: the interval is the point
        return Interval(value, value, value, clusters, resamples, level)
    with warnings.catch_warnings():  # of resamples without a defined statistic, which are left out
        warnings.simplefilter("ignore")
        drawn = _scipy().bootstrap(
            columns,
            statistic,
            n_resamples=resamples,
            batch=BATCH,
            paired=True,
            vectorized=True,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    defined = drawn.bootstrap_distribution[~np.isnan(drawn.bootstrap_distribution)]
    tail = 50 * (1 - level)
    low, high = np.percentile(defined, (tail, 100 - tail)) if defined.size else (math.nan, math.nan)
    return Interval(value, float(low), float(high), clusters, resamples, level)


def _paired(first: ArrayLike, second: ArrayLike, clusters: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    left, right = cluster_means(first, clusters), cluster_means(second, clusters)
    if left.shape != right.shape:
        raise DataError("the same clusters on both sides", f"{len(left)} and {len(right)}", "Pair them up.")
    return left, right


def _ratio_of_means(above: np.ndarray, below: np.ndarray, axis: int = -1) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above.mean(axis) / below.mean(axis)


def _rank_correlation(first: np.ndarray, second: np.ndarray, axis: int = -1) -> Any:
    """Spearman along the last axis; NaN where a side is constant."""
    ranks = [_scipy().rankdata(side, axis=axis) for side in (first, second)]
    left, right = (side - side.mean(axis, keepdims=True) for side in ranks)
    with np.errstate(invalid="ignore"):
        return (left * right).sum(axis) / np.sqrt((left**2).sum(axis) * (right**2).sum(axis))


def _scipy() -> Any:
    return need("scipy.stats", "evaluation")
