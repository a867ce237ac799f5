"""Tables as text and as Markdown; alignment of many inverses with their inputs, every number with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from sgfi.evaluation.metrics import METRICS
from sgfi.evaluation.statistics import bootstrap
from sgfi.graph.tensor_graph import text_table
from sgfi.inputs.data import InputBatches
from sgfi.inversion import STAGES, Estimator, Query, sweep

FEWEST = 5
"""Inputs below which no interval is given."""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def measure(
    estimator: Estimator, batches: InputBatches, queries: list[Query], *, progress: bool = False
) -> list[dict[str, Any]]:
    """One record per query and stage: every metric per input, its mean and a bootstrap interval."""
    named = [query.toward(query.target or estimator.target) for query in queries]
    values: dict[tuple[int, str, str], list[float]] = {}
    for x in tqdm(batches, total=len(batches), unit="batch", disable=not progress):
        for stage in STAGES:
            for index, inverse in enumerate(sweep(estimator, x, named, stage=stage)):
                for name, metric in METRICS.items():
                    values.setdefault((index, stage, name), []).extend(
                        metric(inverse.value + estimator.origin, x).tolist()
                    )
    return [
        {
            "query": str(query),
            "stage": stage,
            "inputs": batches.names,
            "metrics": {name: summary(values[index, stage, name]) for name in METRICS},
        }
        for index, query in enumerate(named)
        for stage in STAGES
    ]


def summary(values: list[float], resamples: int = 2000) -> dict[str, Any]:
    """Mean and percentile bootstrap interval over inputs (none for fewer than 5, or where one is not finite)."""
    record: dict[str, Any] = {"mean": float(np.mean(values)), "values": [float(value) for value in values]}
    if len(values) >= FEWEST and np.isfinite(values).all():
        interval = bootstrap(values, resamples=resamples)
        record["interval95"] = [interval.low, interval.high]
    return record


def as_text(records: list[dict[str, Any]]) -> str:
    """The means with their intervals, one line per query and stage."""
    rows = [
        [record["query"], record["stage"], *(_cell(record["metrics"][name]) for name in METRICS)] for record in records
    ]
    return text_table([["query", "stage", *METRICS], *rows], "<<" + ">" * len(METRICS))


def _cell(record: dict[str, Any]) -> str:
    interval = " [{:.2f},{:.2f}]".format(*record["interval95"]) if "interval95" in record else ""
    return f"{record['mean']:.3f}{interval}"
