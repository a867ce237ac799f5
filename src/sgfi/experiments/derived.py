"""Scores that are computed from stored ones whenever they are shown: the paper gives some numbers as a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sgfi.evaluation.statistics import ratio
from sgfi.experiments.results import Result, Score, summarise

REDUCED = ("child_nmse", "state_error")
"""Errors of ``mechanism`` before and after the second stage: ``_first`` and ``_final``."""
SHOWN = "all nodes"


def with_reductions(result: Result) -> Result:
    """By which share the second stage lowers the mean error of all nodes, in rows of ``mechanism``."""
    measured = result.tables.get("mechanism", {})
    tables = {
        variant: {
            row: {**scores, **(_reductions(result, scores) if row == SHOWN else {})} for row, scores in own.items()
        }
        for variant, own in measured.items()
    }
    return replace(result, tables={**result.tables, "mechanism": tables}) if measured else result


def _reductions(result: Result, scores: Mapping[str, Score]) -> dict[str, Score]:
    reductions = {}
    for name in REDUCED:
        first, final = (scores[f"{name}_{stage}"]["values"] for stage in ("first", "final"))
        lowered = [before - after for before, after in zip(first, final, strict=True)]
        interval = ratio(lowered, first, resamples=result.experiment["resamples"])
        reductions[f"{name}_reduction"] = summarise(interval, interval.resamples)
    return reductions
