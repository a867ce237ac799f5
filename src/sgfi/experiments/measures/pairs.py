"""Between two cases: maps of one on the inputs, or on the weights, of another."""

from __future__ import annotations

from dataclasses import replace

import sgfi
from sgfi.errors import QueryError
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import (
    PAIRS,
    Table,
    alignment_of,
    evaluation_batches,
    measure,
    merged,
    over_batches,
)


@measure(of=PAIRS)
def transfer(fitted: Case, evaluated: Case, *, images: int | None = None) -> Table:
    """Maps of one case on the evaluation inputs of another; the model is the same."""
    _same_model(fitted, evaluated)
    return over_batches(evaluated, images, lambda x: {"final": alignment_of(evaluated, fitted.family, x)})


@measure(of=PAIRS)
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
