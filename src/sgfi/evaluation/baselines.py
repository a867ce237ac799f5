"""What inverses are compared with: an iterative preimage search, and families with a part taken away or broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, Plan
from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.stacks import scaled
from sgfi.inversion import MapFamily
from sgfi.inversion.update import Maps, Seed, mean_seed, walk
from sgfi.settings import JsonSettings
from sgfi.spectral import WienerMap, wide

DISCREPANCIES = ("relative", "mean", "sum")
PENALTIES = ("mean", "sum")


@dataclass(frozen=True)
class Search(JsonSettings):
    """Adam from noise on the feature discrepancy; the paper's numbers.

    ``loss = discrepancy + variation * (sum over axes of |differences|) + energy * |x|^2``, each image by itself. The
    paper names the weights, not the scale of the three terms: ``discrepancy`` and ``penalties`` say it.
    """

    steps: int = 2000
    rate: float = 0.05
    variation: float = 0.1
    energy: float = 0.001
    jitter: int = 4
    """Pixels by which the picture may be shifted in every step, in both directions."""
    discrepancy: str = "relative"
    """Squared feature error over the target's squared length, or its mean or sum over the feature's numbers."""
    penalties: str = "mean"
    """Total variation and energy are means or sums over the numbers of the picture."""

    def __post_init__(self) -> None:
        for name, known in (("discrepancy", DISCREPANCIES), ("penalties", PENALTIES)):
            if getattr(self, name) not in known:
                raise QueryError(f"{name} among {list(known)}", repr(getattr(self, name)), "Choose one of these.")


def preimage(plan: Plan, state: Tensor, search: Search, seed: int, target: str | None = None) -> Tensor:
    """An input whose target tensor comes close to ``state`` (B, ...), by gradient steps: (B, *input)."""
    return preimages(plan, state, search, seed, (search.steps,), target)[search.steps]


def preimages(
    plan: Plan, state: Tensor, search: Search, seed: int, steps: Sequence[int], target: str | None = None
) -> dict[int, Tensor]:
    """The picture after each of the ``steps``: a search of that length, since no step depends on the length."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(state), *plan.boundary["input"].basis.shape)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).to(state).requires_grad_()
    program = plan.graph.program(("input",), (plan.graph.nodes.canonical(target or plan.target),))
    adam = torch.optim.Adam([x], lr=search.rate)
    axes = plan.boundary["input"].node.coord_axes
    kept: dict[int, Tensor] = {}
    with torch.enable_grad():
        for step in range(1, max(steps) + 1):
            shift = torch.randint(-search.jitter, search.jitter + 1, (len(axes),), generator=generator).tolist()
            (feature,) = program(x.roll(shift, axes) if axes else x)
            adam.zero_grad()
            _loss(search, feature, state, x, axes).sum().backward()
            adam.step()
            if step in steps:
                kept[step] = x.detach().clone()
    return kept


def _loss(search: Search, feature: Tensor, state: Tensor, x: Tensor, axes: Sequence[int]) -> Tensor:
    """(B,)"""
    error = (feature - state).flatten(1).square().sum(1)
    if search.discrepancy == "relative":
        error = error / state.flatten(1).square().sum(1).clamp_min(torch.finfo(state.dtype).tiny)
    elif search.discrepancy == "mean":
        error = error / state[0].numel()
    reduce = torch.Tensor.mean if search.penalties == "mean" else torch.Tensor.sum
    loss = error + search.energy * reduce(x.square().flatten(1), 1)
    for axis in axes:
        loss = loss + search.variation * reduce(x.diff(dim=axis).abs().flatten(1), 1)
    return loss


def permuted(family: MapFamily, seed: int = 0) -> MapFamily:
    """The same maps, each applied at another group of frequencies than the one it was fitted on.

    A map with one matrix for all frequencies stays.
    """
    generator = torch.Generator().manual_seed(seed)

    def moved(wiener: WienerMap) -> WienerMap:
        count = wiener.partition.count
        order = torch.randperm(count, generator=generator)
        while count > 1 and (order == torch.arange(count)).any():  # one in e draws moves every group
            order = torch.randperm(count, generator=generator)
        return replace(wiener, weights={key: weight[order] for key, weight in wiener.unpacked.items()})

    return replace(family, maps={name: tuple(map(moved, maps)) for name, maps in family.maps.items()})


# Other seeds than the mean.

SEEDS: Mapping[str, Seed] = {
    "mean": mean_seed,
    "constant": lambda state, boundary: state,
    "unit energy": lambda state, boundary: scaled(state, state.new_ones(len(state))),
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
    """``M^-1/2 y / C`` with the second moment M of the child's channels, or its diagonal.

    M is summed over coordinates and averaged over samples.
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
