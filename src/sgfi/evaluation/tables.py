"""Alignment of many inverses with their inputs: every number, its mean and an interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from tqdm import tqdm

from sgfi.evaluation.metrics import METRICS
from sgfi.inversion import STAGES, Query, sweep


class NamedBatches(Protocol):
    """Batches of inputs with a name for every input."""

    names: list[str]

    def __iter__(self) -> Iterator[torch.Tensor]: ...
    def __len__(self) -> int: ...


def measure(
    family: Any, batches: NamedBatches, queries: list[Query], *, progress: bool = False
) -> list[dict[str, Any]]:
    """One record per query and stage: every metric per input, its mean and a bootstrap interval."""
    asked = [query.toward(query.target or family.plan.target) for query in queries]
    values: dict[tuple[int, str, str], list[float]] = {}
    for x in tqdm(batches, total=len(batches), unit="batch", disable=not progress):
        for stage in STAGES:
            for place, found in enumerate(sweep(family, x, asked, stage=stage)):
                for name, metric in METRICS.items():
                    values.setdefault((place, stage, name), []).extend(metric(found.value, x).tolist())
    records = []
    for place, query in enumerate(asked):
        for stage in STAGES:
            metrics = {name: summary(values[place, stage, name]) for name in METRICS}
            records.append({"query": str(query), "stage": stage, "inputs": batches.names, "metrics": metrics})
    return records


def summary(values: list[float], resamples: int = 2000) -> dict[str, Any]:
    """Mean and percentile bootstrap interval over inputs (none for fewer than 5 of them)."""
    array = np.array(values)
    record: dict[str, Any] = {"mean": float(array.mean()), "values": [float(v) for v in array]}
    if len(array) >= 5:
        picks = np.random.default_rng(0).integers(0, len(array), (resamples, len(array)))
        low, high = np.percentile(array[picks].mean(axis=1), (2.5, 97.5))
        record["interval95"] = [float(low), float(high)]
    return record


def as_text(records: list[dict[str, Any]]) -> str:
    """The means, a line a query and stage."""
    width = max(len(record["query"]) for record in records)
    lines = [f"{'query':{width}}  stage  " + "  ".join(f"{name:>21}" for name in METRICS)]
    for record in records:
        cells = []
        for name in METRICS:
            found = record["metrics"][name]
            span = "" if "interval95" not in found else " [{:.2f},{:.2f}]".format(*found["interval95"])
            cells.append(f"{found['mean']:.3f}{span}".rjust(21))
        lines.append(f"{record['query']:{width}}  {record['stage']:5}  " + "  ".join(cells))
    return "\n".join(lines)
