"""Cluster bootstrap, paired contrasts and rank correlation, against cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from sgfi.errors import DataError
from sgfi.evaluation.statistics import bootstrap, cluster_means, contrast, correlation, rank_interval, ratio, spearman


def test_interval_of_a_mean_has_the_textbook_width() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    interval = bootstrap(values)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert interval.mean == pytest.approx(values.mean()) and interval.resamples == 20_000 and interval.clusters == 400
    assert interval.high - interval.mean == pytest.approx(half, rel=0.05)
    assert interval.mean - interval.low == pytest.approx(half, rel=0.05)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(120):
        interval = bootstrap(rng.exponential(1.0, 40), resamples=400, seed=trial)
        hits += interval.low <= 1.0 <= interval.high
    assert 0.83 <= hits / 120 <= 1.0


def test_repeats_within_a_cluster_do_not_narrow_the_interval() -> None:
    values = np.random.default_rng(2).normal(size=12)
    alone = bootstrap(values)
    repeated = bootstrap(np.repeat(values, 20), np.repeat(np.arange(12), 20))
    wrong = bootstrap(np.repeat(values, 20))  # twenty copies taken for twenty images
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high)) and repeated.clusters == 12
    assert wrong.high - wrong.low < 0.4 * (alone.high - alone.low)


def test_repeats_as_an_axis_and_as_labels_are_the_same() -> None:
    table = np.random.default_rng(3).normal(size=(6, 5))
    labels = [name for name in "abcdef" for _ in range(5)]
    assert cluster_means(table) == pytest.approx(cluster_means(table.ravel(), labels))
    unequal = cluster_means([1.0, 3.0, 10.0], ["x", "x", "y"])
    assert unequal.tolist() == [2.0, 10.0]


def test_a_paired_contrast_removes_what_the_pair_shares() -> None:
    rng = np.random.default_rng(4)
    image = rng.normal(0, 50, 16)  # differences between images dwarf the effect
    random = image[:, None] + rng.normal(0, 1, (16, 20))
    difference = contrast(image + 2.0, random)
    assert difference.interval.above_zero and difference.interval.mean == pytest.approx(2.0, abs=0.3)
    assert difference.positive == 1.0
    assert not bootstrap(image + 2.0).above_zero
    assert contrast(random, image + 2.0).interval.below_zero


def test_same_seed_same_interval_and_degenerate_data() -> None:
    values = np.random.default_rng(5).normal(size=9)
    assert bootstrap(values, seed=7) == bootstrap(values, seed=7) != bootstrap(values, seed=8)
    flat = bootstrap([2.0, 2.0, 2.0])
    assert (flat.mean, flat.low, flat.high) == (2.0, 2.0, 2.0)
    single = bootstrap([5.0])
    assert single.low == single.high == 5.0 and single.clusters == 1


def test_rank_correlation() -> None:
    rising = [1.0, 2.0, 3.0, 4.0]
    assert spearman(rising, np.exp(rising)) == pytest.approx(1.0)
    assert spearman(rising, [4.0, 3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6*4 / (5*24)
    assert math.isnan(spearman(rising, [0.0] * 4))
    ranks = correlation([rising, rising, rising], [rising, rising[::-1], [0.0] * 4])
    assert ranks.undefined == 1 and ranks.interval is not None and ranks.interval.mean == pytest.approx(0.0)
    assert correlation([rising], [[0.0] * 4]).interval is None


def test_a_ratio_is_formed_inside_every_resample() -> None:
    margin = np.random.default_rng(6).exponential(2.0, 24)  # images whose margins differ widely
    same = ratio(margin, margin)
    assert (same.mean, same.low, same.high) == (1.0, 1.0, 1.0)  # nothing was deleted: there is nothing to doubt
    fixed = bootstrap(margin / margin.mean())
    assert fixed.low < 0.85 and fixed.high > 1.15  # what a fixed denominator would have reported
    half = ratio(margin * np.random.default_rng(7).uniform(0.4, 0.6, 24), margin)
    assert half.low < half.mean < half.high and half.high - half.low < 0.1
    assert half.mean == pytest.approx(0.5, abs=0.05) and half.clusters == 24
    repeated = ratio(np.repeat(margin, 3) / 2, np.repeat(margin, 3), np.repeat(np.arange(24), 3))
    assert (repeated.mean, repeated.low, repeated.high) == pytest.approx((0.5, 0.5, 0.5)) and repeated.clusters == 24
    alone = ratio([1.0], [4.0])
    assert alone.low == alone.high == 0.25
    with pytest.raises(DataError, match="zero"):
        ratio([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(DataError, match="both sides"):
        ratio([1.0, 2.0], [1.0])


def test_rank_correlation_is_scipys_ties_included() -> None:
    rng = np.random.default_rng(8)
    for _ in range(5):
        left, right = rng.integers(0, 6, 30), rng.integers(0, 6, 30)
        assert spearman(left, right) == pytest.approx(scipy.stats.spearmanr(left, right).statistic)


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf]])
def test_undefined_values_are_refused(bad: list[float]) -> None:
    with pytest.raises(DataError):
        bootstrap(bad)


@pytest.mark.parametrize("options", [{"level": 95}, {"level": 0}, {"level": "high"}, {"resamples": 0}])
def test_levels_and_resamples_are_checked(options: dict) -> None:
    with pytest.raises(DataError, match=r"a level between 0 and 1|resamples"):
        bootstrap([1.0, 2.0, 3.0], **options)


def test_unpaired_sides_are_refused() -> None:
    with pytest.raises(DataError):
        contrast([1.0, 2.0], [1.0])
    with pytest.raises(DataError):
        cluster_means([1.0, 2.0], ["a"])
    with pytest.raises(DataError):
        spearman([1.0, 2.0], [1.0])


def test_rank_interval_of_a_monotone_and_of_an_unrelated_pair() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    exact = rank_interval(x, np.exp(x), resamples=200)
    assert [exact.mean, exact.low, exact.high] == pytest.approx([1, 1, 1])
    loose = rank_interval(x, rng.normal(size=60), resamples=200)
    assert loose.low < 0 < loose.high and loose.low < loose.mean < loose.high
    assert math.isnan(rank_interval(np.ones(5), np.arange(5), resamples=10).low)
    few = rank_interval([0.0, 0.0, 1.0], [1.0, 2.0, 3.0], resamples=200)  # some resamples are constant
    assert not math.isnan(few.low) and few.low <= few.mean <= few.high
