"""Between two cases, and over all variants of an experiment once each of them is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import sgfi
from sgfi.errors import DataError, QueryError
from sgfi.evaluation.stability import node_means
from sgfi.evaluation.statistics import rank_interval
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import (
    ACROSS,
    PAIRS,
    Table,
    alignment_of,
    evaluation_batches,
    merged,
    over_batches,
)
from sgfi.experiments.measures.registry import measure as registered

Tables = Mapping[str, Mapping[str, Table]]
"""measure -> variant -> table."""


@registered(of=PAIRS)
def transfer(fitted: Case, evaluated: Case, *, images: int | None = None) -> Table:
    """Maps of one case on the evaluation inputs of another; the model is the same."""
    _same_model(fitted, evaluated)
    return over_batches(evaluated, images, lambda x: {"final": alignment_of(evaluated, fitted.family, x)})


@registered(of=PAIRS)
def checkpoint(fitted: Case, evaluated: Case, *, images: int | None = None) -> Table:
    """Maps of one checkpoint on another of the same architecture: refused unless forced, measured when forced."""
    family = replace(fitted.family, plan=evaluated.plan)
    forced = replace(family, forced=True)
    x = next(evaluation_batches(evaluated, 2))
    try:
        sgfi.invert(family, x)
        refused = 0.0
    except QueryError:
        refused = 1.0
    table = over_batches(evaluated, images, lambda x: {"final": alignment_of(evaluated, forced, x)})
    return merged(table, {"final": {"refused": refused}})


def _same_model(fitted: Case, evaluated: Case) -> None:
    a, b = fitted.plan.graph.fingerprint, evaluated.plan.graph.fingerprint
    if a != b:
        raise QueryError(
            "variants that share one checkpoint", f"{a[:12]} and {b[:12]}", "Use the pair measure checkpoint."
        )
    if set(fitted.calibration.marks) & set(evaluated.evaluation.marks):
        raise QueryError(
            "evaluation inputs that no variant was calibrated on",
            f"some of {evaluated.label!r} among those of {fitted.label!r}",
            "Draw them from disjoint data.",
        )


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
def average(
    tables: Tables,
    *,
    of: Sequence[str] | Mapping[str, Sequence[str]],
    measures: Sequence[str],
    differences: Sequence[Sequence[str]] = (),
) -> Table:
    """Rows of several variants, averaged number by number before they are resampled: two calibrations as one.

    ``of`` names the variants, or by a label each group of them (``label, row``); groups of which a variant was not run
    are left out. Of a ratio both sides are averaged, so that it is formed of the averages. ``differences`` are of two
    rows, of the averages too. One number for all is not averaged.
    """
    groups = of if isinstance(of, Mapping) else {"": of}
    table: Table = {}
    for label, variants in groups.items():
        parts = [[tables.get(measure, {}).get(variant) for variant in variants] for measure in measures]
        if len(variants) < 2 or any(part is None for own in parts for part in own):
            continue
        rows: Table = {}
        for own in parts:
            rows = merged(rows, _averaged([part for part in own if part is not None]))
        for first, second in differences:
            both = rows.get(first, {}), rows.get(second, {})
            rows[f"{first} minus {second}"] = {
                score: _minus(values, both[1][score])
                for score, values in both[0].items()
                if isinstance(values, list) and score in both[1]
            }
        table |= {f"{label}, {row}" if label else row: scores for row, scores in rows.items()}
    if not table:
        got = f"none of {[list(variants) for variants in groups.values()]}"
        raise DataError(f"two variants or more with {list(measures)}", got, "Declare them and the measures.")
    return table


def _averaged(tables: Sequence[Table]) -> Table:
    """Of lists, and of both sides of ratios, row by row."""

    def means(columns: Sequence[list[float]]) -> list[float]:
        return [fmean(each) for each in zip(*columns, strict=True)]

    averaged: Table = {}
    for row, scores in tables[0].items():
        for score, value in scores.items():
            own = [table[row][score] for table in tables]
            if isinstance(value, list):
                averaged.setdefault(row, {})[score] = means(own)
            elif isinstance(value, Mapping):
                averaged.setdefault(row, {})[score] = {side: means([each[side] for each in own]) for side in value}
    return averaged


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


def _minus(first: Any, second: Any) -> float | list[float]:
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [a - b for a, b in zip(first, second, strict=True)]
    return _mean(first) - _mean(second)


def _mean(value: Any) -> float:
    if isinstance(value, Mapping):
        return fmean(value["numerator"]) / fmean(value["denominator"])
    return fmean(value) if isinstance(value, list) else value
