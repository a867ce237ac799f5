"""Maps fitted at one text length, used at another."""

from __future__ import annotations

from dataclasses import replace

from sgfi.boundaries import plan
from sgfi.graph import TensorGraph
from sgfi.inversion import MapFamily


def transfer(family: MapFamily, graph: TensorGraph) -> MapFamily:
    """The family on a graph of the same model captured at another length; nothing is fitted again.

    Shared maps do not depend on the length and stay as they are. One matrix per frequency is interpolated linearly on
    the normalised rFFT grid (bin over length, from 0 to 1/2). One matrix per position is known for its own positions
    only, so that a longer text is refused. Groups of positions keep their matrices; further positions join the last
    one's.
    """
    old, sample = family.plan, family.plan.boundary["input"]
    inner = [name for name in old.fitted if name != "input"]
    partition = sample.operator.repartitioned(sample.partition, int(graph.input.shape[1] or 0))
    new = plan(graph, old.target, inner, partition=partition, operator=sample.operator.name)
    maps = {
        name: tuple(wiener.resampled(new.boundary[name].basis, new.boundary[name].partition) for wiener in own)
        for name, own in ((name, family.maps[name]) for name in new.fitted)
    }
    return replace(family, plan=new, maps=maps, forced=True)
