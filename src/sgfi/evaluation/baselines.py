"""What inverses are compared with: an iterative preimage search, and families with a part taken away or broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, Plan
from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import nmse
from sgfi.inversion import MapFamily
from sgfi.inversion.update import Maps, Seed, mean_seed, walk
from sgfi.settings import JsonSettings
from sgfi.spectral import WienerMap, wide


@dataclass(frozen=True)
class Search(JsonSettings):
    """Adam from noise on the feature discrepancy; the paper's numbers.

    The discrepancy is the squared feature error over the squared length of the target, the total variation and the
    l2 term are means over pixels: the paper names the weights, not the normalisation.
    """

    steps: int = 2000
    rate: float = 0.05
    variation: float = 0.1
    energy: float = 0.001
    jitter: int = 4
    """Pixels by which the picture may be shifted in every step, in both directions."""


def preimage(plan: Plan, state: Tensor, search: Search, seed: int, target: str | None = None) -> Tensor:
    """An input whose target tensor comes close to ``state`` (B, ...), by gradient steps: (B, *input)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(state), *plan.boundary["input"].basis.shape)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).to(state).requires_grad_()
    program = plan.graph.program(("input",), (plan.graph.nodes.canonical(target or plan.target),))
    adam = torch.optim.Adam([x], lr=search.rate)
    axes = tuple(range(2, x.dim()))
    size = state.flatten(1).square().sum(1).clamp_min(torch.finfo(state.dtype).tiny)
    with torch.enable_grad():
        for _ in range(search.steps):
            shift = torch.randint(-search.jitter, search.jitter + 1, (len(axes),), generator=generator).tolist()
            (feature,) = program(x.roll(shift, axes) if axes else x)
            error = (feature - state).flatten(1).square().sum(1) / size
            loss = error.sum() + search.energy * _per_image(x.square()).sum()
            for axis in axes:
                loss = loss + search.variation * _per_image(x.diff(dim=axis).abs()).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return x.detach()


def feature_nmse(plan: Plan, value: Tensor, state: Tensor) -> Tensor:
    """How far an input's target tensor is from ``state``: (B,)."""
    with torch.no_grad():
        (feature,) = plan.graph.program(("input",), (plan.target,))(value)
    return nmse(feature, state)


def _per_image(x: Tensor) -> Tensor:
    return x.flatten(1).mean(1)


def permuted(family: MapFamily, seed: int = 0) -> MapFamily:
    """The same maps, each applied at another frequency than the one it was fitted on."""
    generator = torch.Generator().manual_seed(seed)

    def moved(wiener: WienerMap) -> WienerMap:
        order = torch.randperm(wiener.partition.count, generator=generator)
        return replace(wiener, weights={key: weight[order] for key, weight in wiener.unpacked.items()})

    return replace(family, maps={name: tuple(map(moved, maps)) for name, maps in family.maps.items()})


# Other seeds than the mean.

SEEDS: Mapping[str, Seed] = {
    "mean": mean_seed,
    "constant": lambda state, boundary: state,
    "unit energy": lambda state, boundary: state / _length(state),
    "uniform": lambda state, boundary: torch.ones_like(state) / boundary.channels,
}
"""Seeds that need to know nothing else; ``mean`` is the method's own (eq:mean_seed)."""
SPREAD_SEEDS = ("scaled", "whitened")
"""Seeds that know how the child's states are spread: every channel in units of its own, or all directions alike."""
FLOOR = 0.01
"""Metric-aware seeds do not look closer than at this share of the mean energy of a channel."""


@torch.no_grad()
def seed_named(kind: str, plan: Plan, batches: Iterable[Tensor]) -> Seed:
    """One of :data:`SEEDS` or :data:`SPREAD_SEEDS`; the latter read the batches once."""
    return SEEDS[kind] if kind in SEEDS else _metric_seed(plan, batches, whitened=kind == "whitened")


def _metric_seed(plan: Plan, batches: Iterable[Tensor], whitened: bool) -> Seed:
    """``M^-1/2 y / C`` with the second moment M of the child's channels over samples and coordinates, or its diagonal.

    Linear in the state like the mean seed, so a zero target still gives zero.
    """
    names = sorted({child for name in plan.fitted for child in plan.children(name)})
    program, sums, seen = plan.graph.program(("input",), tuple(names)), dict[str, Tensor](), 0
    for x in batches:
        seen += len(x)
        for name, state in zip(names, program(x), strict=True):
            rows = _rows(state, plan.boundary[name]).flatten(0, -2)
            rows = rows.to(wide(rows.dtype, rows.device))
            sums[name] = sums.get(name, 0) + rows.mT @ rows
    halves = {name: _inverse_root(total / seen, whitened) for name, total in sums.items()}

    def seed(state: Tensor, boundary: Boundary) -> Tensor:
        rows = _rows(state, boundary) @ halves[boundary.name].to(state.dtype)
        return rows.movedim(-1, boundary.basis.channel_axis) / boundary.channels

    return seed


def _inverse_root(moment: Tensor, whitened: bool) -> Tensor:
    values, vectors = torch.linalg.eigh(moment if whitened else moment.diagonal().diag())
    floor = max(FLOOR * float(values.mean()), torch.finfo(values.dtype).tiny)
    return (vectors / (values.clamp(min=0) + floor).sqrt()) @ vectors.mT


def _rows(state: Tensor, boundary: Boundary) -> Tensor:
    """Channels last."""
    return state.movedim(boundary.basis.channel_axis, -1)


def _length(state: Tensor) -> Tensor:
    return state.flatten(1).norm(dim=1).reshape(-1, *[1] * (state.dim() - 1))


@torch.no_grad()
def seeded_inverse(plan: Plan, maps: Maps, x: Tensor, seed: Seed) -> Tensor:
    """The full-target inverse of ``x`` with maps that were fitted with this seed: (B, *input).

    Such maps come from ``sgfi.calibration.calibrate.fit(FitSettings(seed=seed), plan, batches)``.
    """
    missing = [name for name in plan.fitted if not maps[name]]
    if missing:
        raise QueryError("maps for every node", f"none for {missing[0]!r}", "Fit at least one map.")
    point = Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
    top = point.values[plan.target]
    *_, last = walk(point, plan.dag, maps, top, lambda state, name: seed(state, plan.boundary[name]))
    return last.state
