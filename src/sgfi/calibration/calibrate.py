"""From batches of inputs to a map family: two closed-form stages per node, streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sgfi.boundaries import Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.child_states import HonestChildren, OnlineChildren, TrueChildren
from sgfi.calibration.processes import Team, assemble
from sgfi.calibration.progress import Progress
from sgfi.calibration.schedule import Job, budget, check, check_plan
from sgfi.derivatives import Linearisation
from sgfi.errors import CalibrationError
from sgfi.inversion import MapFamily
from sgfi.inversion.update import source
from sgfi.spectral import Moments, Solution, WienerMap
from sgfi.storage.checkpoint import Checkpoint, NodeMaps

Maps = dict[str, tuple[WienerMap, ...]]
MOST_STAGES = 8
"""Where ``stages="auto"`` ends at the latest."""
WORTHWHILE = 1e-3
"""``stages="auto"`` keeps a further map only if it lowers the error of the samples held out by this share."""


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
def calibrate(
    plan: Plan,
    batches: Iterable,
    ridge: float | str = 0.01,
    children: str = "true",
    *,
    stages: int | str = 2,
    memory: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    provenance: Mapping[str, Any] | None = None,
    distributed: bool = False,
) -> MapFamily:
    """Fit every map of the plan in closed form.

    ``batches`` is read several times and must give the same inputs each time: a list of tensors or a DataLoader
    without shuffling (a tuple's first element counts). ``children="true"`` fits each node on the true activations of
    its children (the paper); ``"online"`` fits deepest node first on the repaired full-target states that inversion
    will hand it, in both sources, while the regression targets stay ``H_v`` and ``H_v - y0``; ``"honest"`` does the
    same with states cross-fitted by leave-one-out, so that no state comes from maps that saw its sample. ``ridge`` is
    relative (the paper: 0.01) or, with online or honest children, ``"auto"``: chosen per node, stage and group of bins
    by leave-one-out, the groups held toward one map of all of them. ``stages`` counts the maps per node, ``G_v`` and
    ``stages - 1`` corrections; online or honest, ``"auto"`` holds every eighth sample out of all fits and goes on as
    long as the error of these falls.

    ``memory`` bounds the working memory (moments, unfinished maps, carried states) beside the model's own forward;
    nodes are scheduled into as many passes over the data as it takes. ``checkpoint`` names a folder where finished
    nodes are kept: an interrupted calibration goes on from there, finished maps leave memory, and the folder can be
    loaded when done. Without it finished maps stay in memory beyond the budget.

    ``distributed`` shares the work with the other processes of the job (``torchrun``): each is given the same
    arguments, reads its share of the batches, solves its share of the groups and returns the same family. ``memory`` is
    then what one process may use, and a checkpoint folder must be visible to all.
    """
    check(ridge, children, stages)
    check_plan(plan, ridge, children, stages)
    told = _plain_json(provenance or {})
    most = MOST_STAGES if isinstance(stages, str) else stages
    team = assemble(distributed, plan.graph.device)
    data = Batches(plan, batches, team)
    job = Job(plan, data, ridge, children, most, budget(memory, team), selective=stages == "auto", team=team)
    team.agree(job.signature())
    ledger = team.in_turn(lambda: _ledger(job, checkpoint))
    states = _strategy(job, Path(checkpoint) if checkpoint is not None else None)
    finished = _usable(job, states, _everywhere(team, ledger.finished())) if ledger else {}
    remaining = [name for name in reversed(plan.fitted) if name not in finished]
    waves = job.waves(remaining) if children == "true" else [[name] for name in remaining]
    states.room = job.left(waves) if children == "true" else 0
    passes = job.stages * sum(max(len(job.chunks(name)) for name in wave) for wave in waves)
    passes += children != "true" and bool(waves)
    shown = progress and not team.rank
    with Progress(shown, passes, len(job.data.places), len(plan.fitted), len(finished)) as bar:
        try:
            if waves:
                states.start({name: maps for name, (maps, _) in finished.items()}, bar)
            for wave in waves:
                fitted = _fit(job, wave, states, bar)
                states.keep(wave)
                finished |= team.in_turn(partial(_kept, ledger, fitted))
                states.finish(wave)
                bar.finished(len(wave))
        finally:
            states.close()
    family = MapFamily(
        plan=plan,
        maps={name: finished[name][0] for name in plan.fitted},
        ridge=ridge,
        children=children,
        samples=job.fitted,
        fingerprint=job.model,
        diagnostics={name: finished[name][1] for name in plan.fitted},
        provenance=told,
    )
    if ledger:
        team.in_turn(lambda: ledger.close(family))
    if isinstance(states, HonestChildren) and not team.rank:
        states.discard()
    return family


def _plain_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(provenance)))
    except (TypeError, ValueError) as error:
        raise CalibrationError(
            "provenance that JSON can hold", str(error), "Use plain numbers, text, lists and mappings."
        ) from error


def _strategy(job: Job, folder: Path | None) -> TrueChildren:
    if job.children == "honest":
        return HonestChildren(job, folder)
    return OnlineChildren(job) if job.children == "online" else TrueChildren()


def _ledger(job: Job, folder: str | Path | None) -> Checkpoint | None:
    return None if folder is None else Checkpoint(folder, job.signature(), job.plan, writes=not job.team.rank)


def _everywhere(team: Team, finished: dict[str, NodeMaps]) -> dict[str, NodeMaps]:
    """The finished nodes that every process can read."""
    names = set.intersection(*team.gather(set(finished)))
    return {name: maps for name, maps in finished.items() if name in names}


def _kept(ledger: Checkpoint | None, fitted: dict[str, NodeMaps]) -> dict[str, NodeMaps]:
    return fitted if ledger is None else {name: ledger.keep(name, *found) for name, found in fitted.items()}


def _usable(job: Job, states: TrueChildren, finished: dict[str, NodeMaps]) -> dict[str, NodeMaps]:
    """The finished nodes to go on from. Online, one whose child must be fitted again is itself no longer right."""
    if job.children == "true":
        return finished
    kept: dict[str, NodeMaps] = {}
    for name in reversed(job.plan.fitted):
        if name in finished and all(child == job.plan.target or child in kept for child in job.plan.children(name)):
            kept[name] = finished[name]
    if isinstance(states, HonestChildren) and len(kept) < len(job.plan.fitted) and not states.restorable(kept):
        return {}
    return kept


def _fit(job: Job, wave: list[str], states: TrueChildren, bar: Progress) -> dict[str, NodeMaps]:
    """All maps of the wave's nodes, stage by stage, with diagnostics."""
    maps: Maps = dict.fromkeys(wave, ())
    diagnostics: dict[str, list[dict[str, float]]] = {name: [] for name in wave}
    for stage in range(job.stages):
        chunks = {name: job.chunks(name) for name in wave}
        pieces: dict[str, list[Solution]] = {name: [] for name in wave}
        for turn in range(max(map(len, chunks.values()))):
            active = {name: found[turn] for name, found in chunks.items() if turn < len(found)}
            moments = _pass(job, active, maps, states, bar, f"stage {stage + 1} of {job.stages}")
            for name in active:
                found = job.team.share(moments.pop(name))
                if not turn:
                    diagnostics[name].append(_diagnose(found))
                pieces[name] += job.team.exchange(_solve(job, name, found, states))
        for name in wave:
            solution = _joined(pieces.pop(name))
            boundary = job.plan.boundary[name]
            wiener = WienerMap(boundary.basis, boundary.partition, boundary.operator, solution.weights)
            told = diagnostics[name][-1]
            told["ridge"] = float(solution.ridge.median())
            missed = states.solved(name, wiener, solution)
            if missed is not None:
                told |= {f"missed_{when}": energy for when, energy in missed._asdict().items()}
                if job.selective and stage and missed.after > (1 - WORTHWHILE) * missed.before:
                    diagnostics[name].pop()
                    bar.skip(job.stages - stage - 1)
                    return {name: (maps[name], diagnostics[name])}  # selective fits go one node at a time
            maps[name] = (*maps[name], wiener)
            states.accept(name)
    return {name: (maps[name], diagnostics[name]) for name in wave}


def _solve(job: Job, name: str, moments: Moments, states: TrueChildren) -> Solution:
    operator = job.plan.boundary[name].operator
    try:
        return operator.solve(moments, job.ridge, whiten=states.whiten, samples=states.samples(name))
    except torch.linalg.LinAlgError as error:
        raise CalibrationError(
            f"moments of {name!r} that stay positive definite with relative ridge {job.ridge}",
            str(error).splitlines()[0],
            "Raise the ridge or give more samples.",
        ) from error


def _joined(pieces: list[Solution]) -> Solution:
    """The groups' solutions put together again."""
    if len(pieces) == 1:
        return pieces[0]
    weights = {key: torch.cat([piece.weights[key] for piece in pieces]) for key in pieces[0].weights}
    whiteners = [piece.whitener for piece in pieces if piece.whitener is not None]
    ridge = torch.cat([piece.ridge for piece in pieces])
    return Solution(weights, ridge, torch.cat(whiteners) if whiteners else None, pieces[0].shrunk_to)


@torch.no_grad()
def _pass(
    job: Job, active: Mapping[str, range], maps: Maps, states: TrueChildren, bar: Progress, label: str
) -> dict[str, Moments]:
    """One pass over the data: the next stage's moments of every active node."""
    plan = job.plan
    moments = {name: _empty(job, name, groups) for name, groups in active.items()}
    frontiers = {name: plan.children(name) for name in active}
    for place, x in bar.batches(job.data, f"{label}: {_listed(list(active))}"):
        point = Linearisation(plan.graph, frontiers, x, known=states.known(active, place))
        for name in active:
            local, children = point.at(name), frontiers[name]
            found = states.states(point, place, children)
            seeds = [state / plan.boundary[u].channels for state, u in zip(found, children, strict=True)]
            y = states.estimate(place, name, local, found, seeds, maps[name])
            observed = source(local, found, seeds, y)
            point.release(name)
            target = point.values[name] if y is None else point.values[name] - y
            boundary, fitted = plan.boundary[name], job.fits(place)
            moments[name].update(boundary.reads(observed[fitted]), boundary.basis.analyse(target[fitted]))
            _check_finite(name, moments[name], place, point)
            states.observed(place, name, observed, target)
    return moments


def _empty(job: Job, name: str, groups: range) -> Moments:
    boundary = job.plan.boundary[name]
    return Moments.empty(
        boundary.partition,
        boundary.channels,
        boundary.basis.dtype(job.dtype),
        full=boundary.operator.full,
        width=boundary.width,
        bare=job.few(name),
        groups=groups,
        device=job.plan.graph.device,
        sums=job.sums(name),
    )


def _diagnose(moments: Moments) -> dict[str, float]:
    """Mean energies per sample of what the stage reads and of what it is to explain."""
    return {
        "source_energy": float(moments.energy) / moments.count,
        "target_energy": float(moments.target) / moments.count,
    }


def _check_finite(name: str, moments: Moments, place: int, point: Linearisation) -> None:
    if not (torch.isfinite(moments.energy) and torch.isfinite(moments.target)):
        # In topological order: where the model itself went wrong first, if it did.
        guilty = next((node for node, value in point.values.items() if not torch.isfinite(value).all()), name)
        raise CalibrationError(
            "finite sources and states",
            f"NaN or infinity at node {guilty!r} in batch {place}",
            "Look for overflow in the model there, raise the ridge, or leave this boundary out.",
        )


def _listed(names: list[str], most: int = 2) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
