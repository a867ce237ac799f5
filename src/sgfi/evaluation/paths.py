"""What happens on the way from the target to the input: every local update, opened.

``trace`` is the walk of inversion with every update shown. It serves the diagnostics of the correction maps, the
true-child oracle and, compared with the public call, the proof that both take the same path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import nmse, pixel_cosine, relative_error
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows, average, partner
from sgfi.evaluation.stacks import TINY
from sgfi.evaluation.statistics import spearman
from sgfi.inversion import Estimator, Inverse, MapFamily, invert
from sgfi.inversion.estimator import spread
from sgfi.inversion.update import Update, mean_seed, walk

PROBES = 7
"""Nodes at which a path is probed (the paper's number)."""


@torch.inference_mode(False)
@torch.no_grad()
def trace(
    family: MapFamily, x: Tensor, *, terminal: Tensor | None = None, true_children: bool = False
) -> Iterator[tuple[Update, Tensor]]:
    """The full-target inversion of ``x``, node by node, deepest first; beside each update the node's forward value.

    ``terminal`` replaces the target's state. ``true_children`` hands every update the forward values of its children
    instead of repaired ones: a diagnostic that cannot be deployed, since it knows what it is meant to estimate.
    """
    _check_states(family)
    plan = family.plan
    point = Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
    top = point.values[plan.target] if terminal is None else terminal

    def child_seed(state: Tensor, name: str) -> Tensor:
        return mean_seed(state, plan.boundary[name])

    for update in walk(point, plan.dag, family.maps, top, child_seed, true_children=true_children):
        yield update, point.values[update.name]


def _check_states(family: MapFamily) -> None:
    if family.mean is not None:
        raise QueryError(
            "maps fitted on states, to compare with the model's states",
            "maps fitted on tangents",
            'Calibrate with on="states".',
        )


def child_nmse(update: Update, estimate: Tensor) -> Tensor:
    """How far the JVP of an estimate misses the children's states, averaged over the children: (B,)."""
    pushed = update.local.jvp(estimate)
    return torch.stack([nmse(j, y) for j, y in zip(pushed, update.given, strict=True)]).mean(0)


def mechanism(family: MapFamily, x: Tensor) -> Rows:
    """Child NMSE and intermediate-state error at every node, before and after the corrections."""
    rows: Rows = {}
    for update, truth in trace(family, x):
        rows[update.name] = {
            "child_nmse_first": child_nmse(update, update.estimates[0]),
            "child_nmse_final": child_nmse(update, update.state),
            "state_error_first": relative_error(update.estimates[0], truth),
            "state_error_final": relative_error(update.state, truth),
        }
    rows["all nodes"] = average(rows)
    return rows


def path_nmse(plan: Plan, states: Mapping[str, Tensor], x: Tensor, nodes: Iterable[str]) -> dict[str, Tensor]:
    """How consistent given states are with the local differentials at ``x``.

    At each node the JVP of its state against the states of its children, squared and normalised, averaged over the
    children: node -> (B,). ``x`` need not be the image the states came from.
    """
    names = [plan.graph.nodes.canonical(name) for name in nodes]
    frontiers = {name: plan.children(name) for name in names}
    point = Linearisation(plan.graph, frontiers, x)
    errors = {}
    with torch.no_grad():
        for name in names:
            pushed = point.at(name).jvp(states[name])
            missed = [nmse(j, states[u]) for j, u in zip(pushed, frontiers[name], strict=True)]
            point.release(name)
            errors[name] = torch.stack(missed).mean(0)
    return errors


def probes(plan: Plan, count: int = PROBES) -> list[str]:
    """Fitted nodes behind the input, whose state is the inverse itself, evenly spread; the input where it is alone."""
    return spread([name for name in plan.fitted if name != "input"] or plan.fitted, count)


def faithfulness(estimator: Estimator, x: Tensor, nodes: Iterable[str] | None = None, plan: Plan | None = None) -> Rows:
    """Do the states of an inverse follow the path of the image they came from, whatever its pixel cosine?

    Each image A is paired with another, B. The states of the matched inverse (H_A, J_A) are tested on the
    differentials of A and of B; the branch cosine compares it with the inverse (H_A, J_B). An estimator without
    states between target and input (``plan`` then says what lies between) has those of its inverse run forward.
    """
    if isinstance(estimator, MapFamily):
        _check_states(estimator)
        plan = estimator.plan
    if plan is None:
        raise QueryError("a plan for an estimator that is no map family", "none", "Pass plan=sgfi.plan(graph).")
    names = list(nodes) if nodes is not None else probes(plan)
    other = partner(x)
    inverse = invert(estimator, x, plan.target)
    swapped = invert(estimator, other, plan.target, terminal=inverse.states[plan.target])
    states = _states(estimator, plan, inverse, x)
    matched, shuffled = (path_nmse(plan, states, at, names) for at in (x, other))
    truth = _deviations(estimator, plan, x, matched)
    rows: Rows = {}
    for name in matched:
        own, others = (pixel_cosine(states[name], h) for h in (truth[name], partner(truth[name])))
        rows[name] = {
            "matched_nmse": matched[name],
            "shuffled_nmse": shuffled[name],
            "gap": shuffled[name] - matched[name],
            "node_win": (shuffled[name] > matched[name]).double(),
            "state_margin": own - others,
        }
    rows["path"] = average(rows) | {
        "pixel_cosine": pixel_cosine(inverse.value, x - estimator.origin),
        "branch_cosine": pixel_cosine(inverse.value, swapped.value),
        "branch_distance": relative_error(swapped.value, inverse.value),
    }
    return rows


def _states(estimator: Estimator, plan: Plan, inverse: Inverse, x: Tensor) -> Mapping[str, Tensor]:
    """The repaired states; or the inverse run forward, with the target as it was inverted."""
    if isinstance(estimator, MapFamily):
        return inverse.states
    forward = _deviations(estimator, plan, inverse.value + estimator.origin, plan.fitted)
    return {**forward, plan.target: inverse.states[plan.target]}


def _deviations(estimator: Estimator, plan: Plan, x: Tensor, names: Iterable[str]) -> dict[str, Tensor]:
    """The model's tensors at ``x``, as deviations from those at the estimator's origin where that is an input."""
    origin, names = estimator.origin, list(names)
    if not isinstance(origin, Tensor):
        return forward_states(plan.graph, x, names)
    both = forward_states(plan.graph, torch.cat([x, origin.to(x).expand_as(x[:1])]), names)
    return {name: value[:-1] - value[-1] for name, value in both.items()}


def summary(path: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """The images of the lowest pixel-cosine quartile, and rank correlations of pixel cosine with the diagnostics."""
    cosines = path["pixel_cosine"]
    lowest = sorted(range(len(cosines)), key=cosines.__getitem__)[: max(1, len(cosines) // 4)]
    sides = zip(path["shuffled_nmse"], path["matched_nmse"], strict=True)
    ratio = [math.log(max(shuffled, TINY) / max(matched, TINY)) for shuffled, matched in sides]
    against = {"state_margin": path["state_margin"], "log_ratio": ratio, "node_win": path["node_win"]}
    return {
        "lowest quartile": {score: [values[image] for image in lowest] for score, values in path.items()},
        "Spearman": {name: spearman(cosines, values) for name, values in against.items()},
    }
