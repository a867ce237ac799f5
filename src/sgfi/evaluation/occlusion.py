"""Where an input matters to a feature, found by covering it: captum's occlusion, and how far a picture agrees with it.

A window of the input is set to the mean input and the network is run: how much of the feature's deviation along
``d_q = P_q (H(x) - H(mu))`` is gone? (Of tokens the deviation is from the mean state over the prior.) Nothing is
differentiated, so no gradient method had a hand in the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.stacks import along, checked_queries
from sgfi.evaluation.statistics import spearman
from sgfi.graph import Node, TensorGraph
from sgfi.inversion import Query, Selections
from sgfi.natural import Prior, reference_state
from sgfi.optional import need

SIDE = 8
"""Windows along each axis of a picture, at most."""
LINE = 64
"""Windows along a sequence, at most; a shorter one is covered one position at a time."""
AT_ONCE = 8
"""Windows in one forward pass."""


@dataclass(frozen=True, eq=False)
class Occlusion:
    """One map a query at one input."""

    maps: Tensor
    """(Q, windows): the share of the query's feature that is gone while the window is covered."""
    window: tuple[int, ...]
    """Size of a window along the input's axes without the batch; channels are covered together."""

    def agreement(self, pictures: Sequence[Tensor]) -> list[float]:
        """For each query's picture (1, *input): rank correlation of its energy in each window with the map.

        NaN where either is constant.
        """
        if len(pictures) != len(self.maps):
            got = f"{len(self.maps)} maps and {len(pictures)} pictures"
            raise QueryError("a picture for each query", got, "Give one (1, *input) a query.")
        energies = [windowed(picture[0].square(), self.window) for picture in pictures]
        return [spearman(energy.cpu(), row.cpu()) for energy, row in zip(energies, self.maps, strict=True)]


def occlusion(graph: TensorGraph, x: Tensor, queries: Sequence[Query], prior: Prior) -> Occlusion:
    """Maps of queries on any targets at one input (1, *input); all of them from one round of covered inputs."""
    queries = checked_queries(graph, x, queries, prior)
    if len(x) != 1 or not queries or any(query.target is None for query in queries):
        got = f"{len(x)} inputs and {len(queries)} queries"
        raise QueryError("one input and queries that name their targets", got, "Go through the inputs one by one.")
    names = [graph.nodes.canonical(str(query.target)) for query in queries]
    targets = tuple(dict.fromkeys(names))
    program = graph.program(("input",), targets)
    chosen = {
        target: Selections.of(
            query.selection(graph.nodes[target], x.device)
            for query, name in zip(queries, names, strict=True)
            if name == target
        )
        for target in targets
    }
    with torch.no_grad():
        states = dict(zip(targets, program(x), strict=True))
        features = {
            target: chosen[target].project(state - reference_state(graph, target, x, prior))  # (Q, 1, *target)
            for target, state in states.items()
        }

    def scores(inputs: Tensor) -> Tensor:
        """(R, Q) in the order of the targets."""
        covered = zip(targets, program(inputs), strict=True)
        return torch.cat([along(state.unsqueeze(1), features[target])[:, 0] for target, state in covered], 1)

    window = _window(graph.input)
    with torch.no_grad():
        maps = (
            need("captum.attr", "comparisons")
            .Occlusion(scores)
            .attribute(x, window, window, baselines=prior.mean_like(x).unsqueeze(0), perturbations_per_eval=AT_ONCE)
        )
    order = [index for target in targets for index, name in enumerate(names) if name == target]
    placed = torch.empty(len(queries), *x.shape[1:], dtype=maps.dtype, device=maps.device)
    placed[order] = maps
    return Occlusion(torch.stack([windowed(each, window) for each in placed]), window)


def windowed(picture: Tensor, window: tuple[int, ...]) -> Tensor:
    """(windows,) means over windows of a tensor (*input), in the order of the axes."""
    parts = [range(0, size, step) for size, step in zip(picture.shape, window, strict=True)]
    corners = product(*parts)
    means = [picture[tuple(slice(a, a + w) for a, w in zip(at, window, strict=True))].mean() for at in corners]
    return torch.stack(means)


def _window(node: Node) -> tuple[int, ...]:
    """Of an input's axes without the batch: its channels together, SIDE windows along each coordinate axis of a
    picture, up to LINE along the one axis of a sequence; a vector by its entries."""
    parts = SIDE if len(node.coord_shape) > 1 else LINE
    sizes = [int(size or 1) for size in node.shape[1:]]
    if not node.coord_shape:
        return (1,) * len(sizes)
    return tuple(size if axis == node.channel_axis else -(-size // parts) for axis, size in enumerate(sizes, 1))
