"""Maps fitted at one text length, used at another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, plan
from sgfi.errors import PlanError
from sgfi.graph import TensorGraph
from sgfi.inversion import MapFamily
from sgfi.spectral import WienerMap


def transfer(family: MapFamily, graph: TensorGraph) -> MapFamily:
    """The family on a graph of the same model captured at another length; nothing is fitted again.

    Shared maps know no length and are taken as they are. One matrix per frequency is interpolated linearly on the
    normalised rFFT grid (bin over length, from 0 to 1/2). One matrix per position is known for its own positions only,
    so that a longer text is refused. Groups of positions keep their matrices; further positions join the last one's.
    """
    old = family.plan
    inner = [name for name in old.fitted if name != "input"]
    sample = old.boundary["input"]
    partition = _groups(sample, graph) if sample.partition.kind == "custom" else sample.partition.kind
    new = plan(graph, old.target, inner, partition=partition, operator=sample.operator.name)
    maps = {
        name: tuple(_moved(wiener, old.boundary[name], new.boundary[name]) for wiener in family.maps[name])
        for name in new.fitted
    }
    return replace(family, plan=new, maps=maps, forced=True)


def _groups(old: Boundary, graph: TensorGraph) -> list[int]:
    """The group of every position of the new length."""
    if not old.operator.causal:
        raise PlanError("shared or singleton partitions of frequencies", "a custom one", "Calibrate at this length.")
    known, length = old.partition.groups.tolist(), int(graph.input.shape[1] or 0)
    return [known[min(place, len(known) - 1)] for place in range(length)]


def _moved(wiener: WienerMap, old: Boundary, new: Boundary) -> WienerMap:
    weights: Mapping[str, Tensor] = wiener.unpacked
    if old.partition.kind == "singleton" and old.basis.bins != new.basis.bins:
        if old.operator.causal:
            weights = {key: _first(found, new.basis.bins) for key, found in weights.items()}
        else:
            sizes = old.basis.coords[0], new.basis.coords[0]
            weights = {key: _interpolated(found, *sizes) for key, found in weights.items()}
    if old.partition.kind == "custom":
        kept = old.partition.groups[: new.basis.bins].unique()
        weights = {key: found[kept] for key, found in weights.items()}
    return WienerMap(new.basis, new.partition, new.operator, weights)


def _first(gains: Tensor, count: int) -> Tensor:
    if count > len(gains):
        raise PlanError(
            f"a text of at most {len(gains)} tokens for one matrix per position",
            str(count),
            "Use a family with one matrix for all positions.",
        )
    return gains[:count]


def _interpolated(gains: Tensor, old: int, new: int) -> Tensor:
    """(F, ...) gains at bins k / old, read off at bins k / new."""
    at = torch.arange(new // 2 + 1) / new * old
    below = at.floor().long().clamp(max=len(gains) - 1)
    above = (below + 1).clamp(max=len(gains) - 1)
    share = (at - below).to(gains.real.dtype).reshape(-1, *[1] * (gains.dim() - 1))
    return torch.lerp(gains[below], gains[above], share.to(gains.dtype))
