"""What the demonstration asks both estimators, and what their pictures are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import sgfi
from sgfi.evaluation.removal import removal_of
from sgfi.evaluation.trust import Trust, trust
from sgfi.figures.atlases import spread_coords
from sgfi.inversion import Estimator, Query, depth_targets
from sgfi.inversion.estimator import spread
from sgfi.natural import Prior

COUNT = 7
"""Channels, and cells, of one tensor: with the photograph two rows of four."""
FINE = 8
"""Rows and columns from which on single cells are worth a look."""


@dataclass(frozen=True)
class Questions:
    """The same for every estimator."""

    targets: list[str]
    """Shallow to deep: whole tensors."""
    channels: list[Query]
    """Of one tensor half-way down: the strongest on the first photograph."""
    cells: list[Query]
    """Of the deepest of the targets that still has a fine grid."""
    trust: list[Query]
    """What is shown with its controls: a cell, a channel half-way down, a channel of the deepest tensor."""

    @classmethod
    def of(cls, lens: sgfi.NaturalInverse, x: Tensor, depths: int, boundaries: Sequence[str] = ()) -> Questions:
        """``boundaries`` are the tensors to choose from, the recipe's own where none are named."""
        targets = spread(boundaries, depths) if boundaries else depth_targets(lens, depths)
        middle, grid = targets[len(targets) // 2], coordinate_target(lens, targets)
        channels = [Query(middle, (channel,)) for channel in strongest(lens, x, middle, COUNT)]
        cells = [Query(grid, None, (cell,)) for cell in spread_coords(lens.node(grid).coord_shape, COUNT)]
        last = Query(targets[-1], tuple(strongest(lens, x, targets[-1], 1)))
        return cls(targets, channels, cells, [cells[len(cells) // 2], channels[0], last])


def strongest(lens: sgfi.NaturalInverse, x: Tensor, target: str, count: int) -> list[int]:
    """The channels that registered most of the first photograph."""
    energy = lens.state(x[:1], target).square().sum([0, *lens.node(target).coord_axes])
    return [int(channel) for channel in energy.topk(min(count, len(energy))).indices]


def coordinate_target(estimator: Estimator, targets: Sequence[str] = ()) -> str:
    """The deepest target whose map still has at least 8 x 8 cells, else the deepest."""
    names = targets or estimator.targets
    for name in reversed(names):
        shape = estimator.node(name).coord_shape
        if len(shape) == 2 and min(shape) >= FINE:
            return name
    return names[-1]


@dataclass(frozen=True)
class Checked:
    """An estimator's answers with their controls; the records are JSON-able."""

    answers: list[Trust]
    controls: list[dict[str, Any]]
    """One a query: cosines of the controls' pictures with the answer, and what they say about the first photograph."""
    removals: list[dict[str, Any]]
    """Of channels and of cells: what taking each picture out of the input does to its own and the others' features."""


def check(name: str, estimator: Estimator, prior: Prior, asked: Questions, x: Tensor) -> Checked:
    """Another input's target is that of the photograph before."""
    answers = [trust(estimator, x, query) for query in asked.trust]
    removals = [_removed(estimator, x, queries, prior) for queries in (asked.channels, asked.cells)]
    return Checked(
        answers,
        [{"estimator": name, **_controlled(answer)} for answer in answers],
        [{"estimator": name, **record} for record in removals],
    )


def _controlled(answer: Trust) -> dict[str, Any]:
    scores = {"random": answer.random, "swapped": answer.swapped, "neighbours": answer.neighbours}
    return {
        "query": str(answer.inverse.query),
        **{control: None if values is None else _summary(values) for control, values in scores.items()},
        "sentence": answer.sentence(),
    }


def _summary(values: Tensor) -> dict[str, Any]:
    return {
        "values": [round(float(value), 4) for value in values],
        "mean_absolute": round(float(values.abs().mean()), 4),
    }


def _removed(estimator: Estimator, x: Tensor, queries: Sequence[Query], prior: Prior) -> dict[str, Any]:
    scores = removal_of(estimator, x, queries, prior)
    means = {name: round(float(getattr(scores, name).mean()), 4) for name in ("own", "others", "best_at_own")}
    return {
        "asked": "cells" if queries[0].coords else "channels",
        "queries": [str(query) for query in queries],
        **means,
        "chance": round(1 / len(queries), 4),
    }
