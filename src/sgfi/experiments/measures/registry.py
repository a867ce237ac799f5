"""What a measure is, where it is registered, and how it is taken over the evaluation batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.decisions import decide
from sgfi.errors import DataError
from sgfi.evaluation.rows import Rows
from sgfi.experiments.cases import Case, boundary_names
from sgfi.inversion import Estimator
from sgfi.plugins import Registry

Table = dict[str, dict[str, Any]]
"""Row -> score -> list of numbers, one per image, or one number, or a :func:`quotient`."""
Quotient = dict[str, list[float]]
Depths = Sequence[int | str] | Mapping[str, Sequence[int | str]]
"""Boundaries by number or name, for all variants or by the variant's label: see :func:`boundaries_at`."""


@dataclass(frozen=True)
class Measure:
    """A named measurement."""

    name: str
    take: Callable[..., Table]
    shown: tuple[str, ...] = ()
    """Rows for the Markdown table; none: all of them. The JSON file holds every row."""

    @property
    def about(self) -> str:
        return (inspect.getdoc(self.take) or "").partition("\n")[0]

    @property
    def options(self) -> list[str]:
        """What a file may set."""
        parameters = inspect.signature(self.take).parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


PAIRS: dict[str, Measure] = {}
"""Of two cases."""
ACROSS: dict[str, Measure] = {}
"""Of the tables of all variants: measure -> variant -> table."""


def _accepted(name: str, given: Any) -> Measure:
    if isinstance(given, Measure):
        return replace(given, name=name)
    if not callable(given):
        raise TypeError(f"a measure is a function of a Case, or a Measure, not a {type(given).__name__}")
    return Measure(name, given)


MEASURES: Registry[Measure] = Registry("measure", "sgfi.measures", _accepted, lambda: [*PAIRS, *ACROSS])
"""Of one case; the only kind that plug-ins add to."""


def known(name: str) -> Measure:
    """A measure of any of the three kinds."""
    return PAIRS.get(name) or ACROSS.get(name) or MEASURES[name]


def measure(
    *shown: str, of: MutableMapping[str, Measure] = MEASURES
) -> Callable[[Callable[..., Table]], Callable[..., Table]]:
    """Register a measure under its function's name; keyword-only arguments are its options."""

    def register(take: Callable[..., Table]) -> Callable[..., Table]:
        name = take.__name__
        if name in (of.own if isinstance(of, Registry) else of):
            raise ValueError(f"two measures named {name!r}")
        of[name] = Measure(name, take, shown)
        return take

    return register


def evaluation_batches(case: Case, images: int | None = None) -> Iterator[Tensor]:
    """The first ``images`` evaluation inputs; a last batch of one joins its neighbour, since controls pair images."""
    before: Tensor | None = None
    left = images if images is not None else len(case.evaluation.indices)
    for x in case.evaluation.batches:
        x = x[:left]
        left -= len(x)
        if before is not None and len(x) == 1:
            x = torch.cat([before, x])
        elif before is not None:
            yield before
        before = x
        if left <= 0:
            break
    if before is not None:
        yield before


def evaluation_inputs(case: Case, images: int | None = None) -> Tensor:
    """(N, ...) the first ``images`` evaluation inputs at once."""
    return torch.cat(list(evaluation_batches(case, images)))


def correct_inputs(case: Case, images: int, output: str | None = None) -> Tensor:
    """(N, ...) the first ``images`` evaluation inputs that the model classifies as their folder says."""
    labels, kept = case.evaluation.labels, list[Tensor]()
    for x in case.evaluation.batches:
        right = decide(case.plan.graph, x, output).top.cpu() == torch.tensor(labels[: len(x)])
        labels, kept = labels[len(x) :], [*kept, *x[right]]
        if len(kept) >= images:
            return torch.stack(kept[:images])
    expected = f"{images} correctly classified images of {len(case.evaluation.indices)} drawn"
    raise DataError(expected, str(len(kept)), "Raise data.evaluation_count, or lower the measure's images.")


def boundaries_at(case: Case, depths: Depths) -> list[str]:
    """Boundaries of the case's plan by name or by the paper's number (0 is the input), or such a list by variant."""
    return boundary_names(case.plan, depths.get(case.label, ()) if isinstance(depths, Mapping) else depths)


def over_batches(case: Case, images: int | None, each: Callable[[Tensor], Rows | Table]) -> Table:
    """Rows of every batch, put together."""
    table: Table = {}
    for x in evaluation_batches(case, images):
        for label, row in each(x).items():
            for score, values in row.items():
                table.setdefault(label, {}).setdefault(score, []).extend(map(float, values))
    return table


def quotient(numerator: Sequence[float], denominator: Sequence[float]) -> Quotient:
    """A ratio of two means over the same images, which is formed when they are resampled and not before."""
    return {"numerator": list(numerator), "denominator": list(denominator)}


def merged(table: Table, more: Table) -> Table:
    """Scores of both, row by row."""
    return {label: {**table.get(label, {}), **more.get(label, {})} for label in {**table, **more}}


def scores(case: Case, value: Tensor, x: Tensor) -> dict[str, Tensor]:
    """Every alignment metric of given inverses."""
    return {name: metric(value, x) for name, metric in case.metrics.items()}


def alignment_of(case: Case, estimator: Estimator, x: Tensor, **query: Any) -> dict[str, Tensor]:
    """Every alignment metric of one query's inverse, as an input against the input."""
    return scores(case, sgfi.invert(estimator, x, **query).value + estimator.origin, x)
