"""Over all variants of an experiment, once each of them is measured."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, stdev

from sgfi.errors import DataError
from sgfi.evaluation.stability import node_means
from sgfi.evaluation.statistics import rank_interval
from sgfi.experiments.measures.registry import ACROSS, Table
from sgfi.experiments.measures.registry import measure as registered

Tables = Mapping[str, Mapping[str, Table]]
"""measure -> variant -> table."""


@registered(of=ACROSS)
def spread(tables: Tables, *, measure: str = "alignment", row: str = "final") -> Table:
    """Standard deviation over the variants of every mean score of one row."""
    found = [table[row] for table in tables.get(measure, {}).values() if row in table]
    if len(found) < 2:
        raise DataError(f"two variants with {measure}/{row}", str(len(found)), "Declare the measure and more variants.")
    return {row: {score: stdev(_mean(one[score]) for one in found) for score in found[0]}}


@registered(of=ACROSS)
def boundaries(tables: Tables) -> Table:
    """Over the boundaries of all variants: does a large residual before D mean a large repair?"""
    residual, state, child = [], [], []
    for table in tables.get("mechanism", {}).values():
        nodes = {name: row for name, row in table.items() if name != "all nodes"}
        first, final = (node_means(nodes, f"child_nmse_{stage}") for stage in ("first", "final"))
        before, after = (node_means(nodes, f"state_error_{stage}") for stage in ("first", "final"))
        residual += first
        child += [(a - b) / a for a, b in zip(first, final, strict=True)]
        state += [(a - b) / a for a, b in zip(before, after, strict=True)]
    if len(residual) < 3:
        raise DataError("three boundaries or more with the measure mechanism", str(len(residual)), "Declare it.")
    return {
        "Spearman": {
            "residual_and_state_repair": rank_interval(residual, state),
            "residual_and_residual_repair": rank_interval(residual, child),
            "boundaries": len(residual),
        }
    }


def _mean(value: float | list[float]) -> float:
    return fmean(value) if isinstance(value, list) else value
