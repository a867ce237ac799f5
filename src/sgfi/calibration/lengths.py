"""How long inverses should be: one number for every target and node, from samples that no map was fitted to.

Maps are fitted with a ridge and, the paper's, on better child states than inversion hands them. Both leave states too
short, the more so the deeper the target. The least-squares length

    s = <y, H> / <y, y>        sums over held-out samples, y the state that inversion of the whole target gives

keeps answers linear with no intercept and changes no direction. It belongs to a target: lengths that were handed on
from node to node, fitted along the way from the deepest target, made inverses of shallower ones far too long
(docs/scaling.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from sgfi.calibration.batches import Batches
from sgfi.calibration.processes import ProcessGroup
from sgfi.calibration.schedule import Run
from sgfi.derivatives import Linearisation
from sgfi.errors import CalibrationError
from sgfi.graph import TensorGraph, full_precision
from sgfi.inversion import MapFamily, Query
from sgfi.spectral import wide

ENOUGH = 32
"""Held-out samples that lengths are fitted to, in every process, in whole batches: all their numbers count."""

Lengths = dict[str, dict[str, float]]
Judged = Iterable[tuple[TensorGraph, Tensor, Tensor | slice]]
"""The graph with a batch's side inputs, the inputs, and which of these count."""


def held_out_lengths(run: Run, family: MapFamily) -> Lengths:
    """Of every target, from the samples that the run holds out."""
    return _lengths(family, _held_out(run), run.group)


@torch.inference_mode(False)
@torch.no_grad()
@full_precision()
def fit_lengths(family: MapFamily, held_out: Iterable[Tensor]) -> Lengths:
    """Lengths by target and node, for ``dataclasses.replace(family, lengths=...)``, from batches of inputs that the
    family was *not* fitted to."""
    if not isinstance(family, MapFamily):
        raise CalibrationError("a map family", type(family).__name__, "Pass what sgfi.calibrate or sgfi.load returned.")
    if family.mean is not None:
        todo = "Their answers are deviations, whose true states are other ones at every input."
        raise CalibrationError("maps fitted on states", "maps fitted on tangents", todo)
    data = Batches(family.plan, list(held_out) if isinstance(held_out, Iterator) else held_out)
    return _lengths(family, ((data.graph, x, slice(None)) for _, x in data), ProcessGroup())


def _held_out(run: Run) -> Iterator[tuple[TensorGraph, Tensor, Tensor | slice]]:
    seen = 0
    for batch_index, x in run.data:
        judges, graph = run.split.judges(batch_index), run.data.graph
        count = len(x[judges])
        if count and seen < ENOUGH:
            yield (graph, x, judges) if graph.side_values else (graph, x[judges], slice(None))
        seen += count


def _lengths(family: MapFamily, judged: Judged, group: ProcessGroup) -> Lengths:
    plan, targets = family.plan, family.targets
    zero = torch.zeros(2, dtype=wide(torch.float32, "cpu"))
    sums = {target: {name: zero.clone() for name in plan.toward(target).fitted} for target in targets}
    for graph, x, judges in judged:
        here = replace(family.on(graph), lengths={})
        truth = Linearisation(graph, {}, x, keep=plan.fitted).values
        for target, own in sums.items():
            states = here.answer(x, [Query(target)])[0].states
            for name in own:
                state, true = states[name][judges], truth[name][judges]
                own[name] += torch.stack([_inner(state, true), _inner(state, state)]).to(zero)
    shares = group.all_gather(sums)
    return {
        target: {name: _ratio(sum(share[target][name] for share in shares)) for name in sums[target]}  # type: ignore[arg-type]
        for target in targets
    }


def _ratio(products: Tensor) -> float:
    """A dead or a useless estimate stays as it is."""
    together, own = products.tolist()
    return together / own if together > 0 else 1.0


def _inner(left: Tensor, right: Tensor) -> Tensor:
    dtype = wide(left.dtype, left.device)
    return torch.dot(left.flatten().to(dtype), right.flatten().to(dtype))
