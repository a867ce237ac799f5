"""Over all variants of an experiment, once each of them is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    rows = [table[row] for table in tables.get(measure, {}).values() if row in table]
    if len(rows) < 2:
        raise DataError(f"two variants with {measure}/{row}", str(len(rows)), "Declare the measure and more variants.")
    return {row: {score: stdev(_mean(scores[score]) for scores in rows) for score in rows[0]}}


@registered(of=ACROSS)
def differences(tables: Tables, *, against: str, measures: Sequence[str] = ("alignment",), row: str = "final") -> Table:
    """One row of every variant minus that of the variant ``against``, paired where both have a number per image."""
    result: Table = {}
    for measure in measures:
        rows = {variant: table[row] for variant, table in tables.get(measure, {}).items() if row in table}
        if against not in rows:
            raise DataError(f"a variant with {measure}/{row} among {list(rows)}", repr(against), "Choose one of these.")
        base = rows.pop(against)
        for variant, scores in rows.items():
            result.setdefault(f"{variant} minus {against}", {}).update(
                {score: _minus(scores[score], base[score]) for score in base if score in scores}
            )
    return result


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


def _minus(first: float | list[float], second: float | list[float]) -> float | list[float]:
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [a - b for a, b in zip(first, second, strict=True)]
    return _mean(first) - _mean(second)


def _mean(value: float | list[float]) -> float:
    return fmean(value) if isinstance(value, list) else value
