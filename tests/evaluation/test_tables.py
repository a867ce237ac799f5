"""The table writers, and the alignment table of any estimator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sgfi
from sgfi.evaluation.metrics import METRICS, pixel_cosine
from sgfi.evaluation.statistics import bootstrap
from sgfi.evaluation.tables import as_text, markdown_table, measure, summary
from sgfi.graph.tensor_graph import text_table
from sgfi.inversion import STAGES
from tests.estimators import Backpropagation
from tests.evaluation.known import orthogonal_family


def test_text_and_markdown_of_one_table() -> None:
    head, rows = ["node", "n", "note"], [["layer1.add", "7", "x"], ["fc", "1000", ""]]
    assert text_table([head, *rows], "<><").splitlines() == [
        "node           n  note",
        "layer1.add     7  x",
        "fc          1000",
    ]
    assert markdown_table(head, rows).splitlines()[1:3] == ["| --- | --- | --- |", "| layer1.add | 7 | x |"]
    with pytest.raises(ValueError, match="zip"):
        text_table([head, ["too", "few"]], "<><")


class TwoBatches:
    names = [f"image {index}" for index in range(6)]

    def __init__(self) -> None:
        self.x = torch.randn(6, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def __iter__(self):
        return iter(self.x.split(4))

    def __len__(self) -> int:
        return 2


def test_alignment_of_any_estimator() -> None:
    batches = TwoBatches()
    family = orthogonal_family()
    estimator = Backpropagation(family.graph, (family.target,))
    records = measure(estimator, batches, [sgfi.Query(), sgfi.Query(channels=[2])])
    assert [(record["query"], record["stage"]) for record in records] == [
        (query, stage) for query in ("fc", "fc:2") for stage in STAGES
    ]
    expected = pixel_cosine(sgfi.invert(estimator, batches.x, channels=[2]).value, batches.x)
    assert records[-1]["metrics"]["pixel_cosine"]["values"] == pytest.approx(expected.tolist())
    lines = as_text(records).splitlines()
    assert len(lines) == 7 and lines[0].split() == ["query", "stage", *METRICS]


def test_the_summary_is_the_one_bootstrap() -> None:
    values = np.random.default_rng(1).normal(size=9).tolist()
    interval = bootstrap(values, resamples=2000)
    assert summary(values)["interval95"] == [interval.low, interval.high] and summary(values)["mean"] == interval.mean
    assert "interval95" not in summary(values[:4]) and "interval95" not in summary([*values, float("nan")])
