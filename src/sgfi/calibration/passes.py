"""Passes over the data: the moments of the next map of every node of a round, and their solution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from sgfi.boundaries import Boundary
from sgfi.calibration.child_states import ChildStates, RecordedSpectra
from sgfi.calibration.progress import Progress
from sgfi.calibration.schedule import Run
from sgfi.derivatives import Linearisation
from sgfi.errors import CalibrationError
from sgfi.inversion.update import estimates, source
from sgfi.spectral import Moments, Solution, WienerMap
from sgfi.spectral.moments import FLOOR
from sgfi.spectral.shrinkage import Samples
from sgfi.storage.checkpoint import NodeMaps

SCALE = "scale the model's weights nearer to 1, or use double precision"
Maps = Mapping[str, tuple[WienerMap, ...]]


def fit_nodes(run: Run, names: list[str], states: ChildStates, progress: Progress) -> dict[str, NodeMaps]:
    """All maps of the nodes of one round, one map after the other, with diagnostics."""
    most = run.settings.most_maps
    maps: dict[str, tuple[WienerMap, ...]] = dict.fromkeys(names, ())
    diagnostics: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(1, most + 1):
        pieces: dict[str, list[Solution]] = {name: [] for name in names}
        for name, reduced in node_moments(run, names, maps, states, progress, f"map {number} of {most}"):
            if not pieces[name]:
                diagnostics[name].append(energies(reduced))
            if number == 1:
                check_range(name, reduced)
            pieces[name] += run.group.all_gather_solution(_solve(run, name, reduced))
        for name in names:
            solution, boundary = _joined(pieces.pop(name)), run.plan.boundary[name]
            wiener = WienerMap(boundary.basis, boundary.partition, boundary.operator, solution.weights)
            further = (*maps[name], wiener)
            settled = states.settle(name, further, solution)
            if not settled.kept:
                diagnostics[name].pop()
                progress.skip(most - number)
                return {name: (maps[name], diagnostics[name])}  # where maps are chosen, nodes are fitted one at a time
            maps[name] = further
            diagnostics[name][-1]["ridge"] = float(solution.ridge.median())
            if settled.residual is not None:
                diagnostics[name][-1] |= {f"missed_{when}": e for when, e in settled.residual._asdict().items()}
    return {name: (maps[name], diagnostics[name]) for name in names}


def energies(moments: Moments) -> dict[str, float]:
    """Mean energy of a sample's source and target."""
    sums = {"source_energy": moments.energy, "target_energy": moments.target}
    return {key: float(energy) / moments.count for key, energy in sums.items()}


def node_moments(
    run: Run, names: list[str], maps: Maps, states: ChildStates, progress: Progress, label: str
) -> Iterator[tuple[str, Moments]]:
    """The moments of the next map of every node, over all processes: a range of groups at a time, in order."""
    chunks = {name: run.memory.chunks(name) for name in names}
    for turn in range(max(map(len, chunks.values()))):
        active = {name: ranges[turn] for name, ranges in chunks.items() if turn < len(ranges)}
        moments = accumulate(run, active, maps, states, progress, label)
        for name in active:
            yield name, run.group.reduce_moments(moments.pop(name))


@torch.no_grad()
def accumulate(
    run: Run, active: Mapping[str, range], maps: Maps, states: ChildStates, progress: Progress, label: str
) -> dict[str, Moments]:
    """One pass over the data: the moments of the next map of every active node, of a range of its groups."""
    plan = run.plan
    moments = {name: run.memory.moments(name, groups) for name, groups in active.items()}
    frontiers = {name: plan.children(name) for name in active}
    read = dict.fromkeys(name for own, children in frontiers.items() for name in (own, *children))
    for batch_index, x in progress.batches(run.data, f"{label}: {_listed(list(active))}"):
        known = states.inputs(batch_index, list(active))
        point = Linearisation(run.data.graph, frontiers, x, known=known.true)
        recovered = run.recovered(batch_index, point, [u for u in read if u not in known.children])
        for name in active:
            local, children = point.at(name), frontiers[name]
            given = [known.children[u] if u in known.children else recovered[u] for u in children]
            seeds = [run.settings.seed(state, plan.boundary[u]) for state, u in zip(given, children, strict=True)]
            y = known.estimates.get(name)
            if y is None:
                first = known.sources.get(name)
                y = next(reversed([*estimates(local, given, seeds, maps[name], first=first)]), None)
            observed = source(local, given, seeds, y)
            _check_underflow(name, given, observed)
            point.release(name)
            target = recovered[name] if y is None else recovered[name] - y
            boundary, fits = plan.boundary[name], run.split.fits(batch_index)
            moments[name].update(boundary.reads(observed[fits]), boundary.basis.analyse(target[fits]))
            _check_finite(name, moments[name], batch_index, point)
            states.record(batch_index, name, observed, target)
    return moments


def _solve(run: Run, name: str, moments: Moments) -> Solution:
    samples, whiten = RecordedSpectra(run, name), run.settings.leave_one_out
    return solve_node(run.plan.boundary[name], moments, run.settings.ridge, whiten, samples)


def solve_node(
    boundary: Boundary, moments: Moments, ridge: float | str, whiten: bool = False, samples: Samples = ()
) -> Solution:
    """The map of one node from its moments; an error that names the node where there is none."""
    name, mean = boundary.name, moments.mean_energy
    try:
        solution = boundary.operator.solve(moments, ridge, whiten=whiten, samples=samples)
        if all(torch.isfinite(weight).all() for weight in solution.weights.values()):
            return solution
        raise CalibrationError(
            f"maps of {name!r} that are finite numbers",
            f"NaN or infinity, from sources of {mean:.1e} mean energy",
            f"{SCALE.capitalize()}, or raise the ridge.",
        )
    except torch.linalg.LinAlgError as error:
        raise CalibrationError(
            f"moments of {name!r} that stay positive definite with relative ridge {ridge}",
            str(error).splitlines()[0],
            "Raise the ridge or give more samples.",
        ) from error


def check_range(name: str, moments: Moments) -> None:
    """A source so faint that the ridge's floor, which is there for dead sources, would decide the map."""
    if 0 < moments.mean_energy < FLOOR:
        raise CalibrationError(
            f"sources at {name!r} of at least {FLOOR:.0e} mean energy (or none at all)",
            f"{moments.mean_energy:.1e}",
            f"The map would be fitted to the floor of the ridge, not to the data: {SCALE}.",
        )


def _check_underflow(name: str, given: Sequence[Tensor], observed: Tensor) -> None:
    """Children whose squares are zero in this precision, and so is what is pulled back from them."""
    least = torch.finfo(observed.dtype).tiny ** 0.5
    largest = max(float(state.abs().max()) for state in given if state.numel())
    if 0 < largest < least and not observed.any():
        got = f"children of at most {largest:.1e}, whose source is zero"
        raise CalibrationError(f"states above {least:.0e} at the children of {name!r}", got, f"{SCALE.capitalize()}.")


def _joined(pieces: list[Solution]) -> Solution:
    """The solutions of ranges of groups as one."""
    if len(pieces) == 1:
        return pieces[0]
    weights = {key: torch.cat([piece.weights[key] for piece in pieces]) for key in pieces[0].weights}
    whiteners = [piece.whitener for piece in pieces if piece.whitener is not None]
    ridge = torch.cat([piece.ridge for piece in pieces])
    return Solution(weights, ridge, torch.cat(whiteners) if whiteners else None, pieces[0].shrunk_to)


def _check_finite(name: str, moments: Moments, batch_index: int, point: Linearisation) -> None:
    if not (torch.isfinite(moments.energy) and torch.isfinite(moments.target)):
        # In topological order: where the model itself went wrong first, if it did.
        guilty = next((node for node, value in point.values.items() if not torch.isfinite(value).all()), name)
        raise CalibrationError(
            "finite sources and states",
            f"NaN or infinity at node {guilty!r} in batch {batch_index}",
            "Look for overflow in the model there, raise the ridge, or leave this boundary out.",
        )


def _listed(names: list[str], most: int = 2) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
