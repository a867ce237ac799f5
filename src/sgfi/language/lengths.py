"""Maps fitted at one text length, used at another."""

from __future__ import annotations

from dataclasses import replace

import torch

from sgfi.boundaries import plan
from sgfi.errors import QueryError
from sgfi.graph import TensorGraph
from sgfi.inversion import MapFamily


def transfer(family: MapFamily, graph: TensorGraph) -> MapFamily:
    """The family on a graph of the same model captured at another length; nothing is fitted again.

    The weights of both graphs must be equal, unless the family was loaded with ``force``.

    Shared maps do not depend on the length and stay as they are. One matrix per frequency is interpolated linearly on
    the normalised rFFT grid (bin over length, from 0 to 1/2). One matrix per position is known for its own positions
    only, so that a longer text is refused. Groups of positions keep their matrices; further positions join the last
    one's.
    """
    if not family.forced:
        family.check_weights()
        _check_equal_weights(family.graph, graph)
    old, sample = family.plan, family.plan.boundary["input"]
    inner = [name for name in old.fitted if name != "input"]
    partition = sample.operator.repartitioned(sample.partition, int(graph.input.shape[1] or 0))
    new = plan(graph, old.target, inner, partition=partition, operator=sample.operator.name)
    maps = {
        name: tuple(wiener.resampled(new.boundary[name].basis, new.boundary[name].partition) for wiener in own)
        for name, own in ((name, family.maps[name]) for name in new.fitted)
    }
    return replace(family, plan=new, maps=maps, fingerprint=graph.fingerprint)


def _check_equal_weights(old: TensorGraph, new: TensorGraph) -> None:
    """Of constants, which tracing lifts out of the forward, nothing is asked: they may depend on the length."""
    placeholders = {name: key for key, name in new.weight_names.items() if key in new.constants}
    for key, held in old.constants.items():
        name = old.weight_names[key]
        other = new.constants[placeholders[name]] if name in placeholders else None
        if not key.startswith("c_") and (other is None or not torch.equal(held, other)):
            got = f"none called {name!r}" if other is None else f"another {name!r}"
            raise QueryError(
                "a graph with the weights that the maps were fitted on",
                got,
                "Capture the same model at the other length: maps of one checkpoint fail on another.",
            )
