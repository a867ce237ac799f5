"""What happens on the way from the target to the input: every local update, opened.

``trace`` walks as inversion does, with the same local update, and shows each step. It serves the diagnostics of the
second stage, the true-child oracle and, compared with the public call, the proof that both are one path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.errors import PlanError, QueryError
from sgfi.evaluation.metrics import nmse, pixel_cosine, relative_error
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows, average, partner
from sgfi.evaluation.statistics import spearman
from sgfi.family import MapFamily
from sgfi.graph import Linearisation
from sgfi.inversion import invert
from sgfi.repair import advance, source

TINY = 1e-30
"""Keeps the logarithm of an exact match finite."""


@dataclass(frozen=True)
class Step:
    """One boundary's update at one batch."""

    name: str
    children: tuple[str, ...]
    given: tuple[Tensor, ...]
    """(B, ...) the children's states the update read."""
    estimates: tuple[Tensor, ...]
    """(B, ...) the state after the first map, after the second, ..."""
    pushed: tuple[tuple[Tensor, ...], ...]
    """For every estimate: its JVP at each child."""
    truth: Tensor
    """(B, ...) the forward value."""

    @property
    def state(self) -> Tensor:
        return self.estimates[-1]

    def child_nmse(self, stage: int) -> Tensor:
        """How far the JVP of an estimate misses the children's states, averaged over the children: (B,)."""
        return torch.stack([nmse(j, y) for j, y in zip(self.pushed[stage], self.given, strict=True)]).mean(0)


@torch.inference_mode(False)
@torch.no_grad()
def trace(
    family: MapFamily, x: Tensor, *, terminal: Tensor | None = None, true_children: bool = False
) -> Iterator[Step]:
    """The full-target inversion of ``x``, node by node, deepest first.

    ``terminal`` replaces the target's state. ``true_children`` hands every update the forward values of its children
    instead of repaired ones: a diagnostic that cannot be deployed, since it knows what it is to find.
    """
    plan = family.plan
    point = Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
    states = {plan.target: point.values[plan.target] if terminal is None else terminal}
    for name in reversed(plan.fitted):
        local, children = point.at(name), plan.children(name)
        given = tuple(point.values[u] if true_children else states[u] for u in children)
        seeds = [state / plan.boundary[u].channels for state, u in zip(given, children, strict=True)]
        estimates: list[Tensor] = []
        for wiener in family.maps[name]:
            before = estimates[-1] if estimates else None
            estimates.append(advance(before, wiener, source(local, given, seeds, before)))
        pushed = tuple(tuple(local.jvp(y)) for y in estimates)
        point.release(name)
        states[name] = estimates[-1]
        yield Step(name, children, given, tuple(estimates), pushed, point.values[name])


def mechanism(family: MapFamily, x: Tensor) -> Rows:
    """Child NMSE and intermediate-state error at every node, before and after the corrections."""
    rows: Rows = {}
    for step in trace(family, x):
        rows[step.name] = {
            "child_nmse_first": step.child_nmse(0),
            "child_nmse_final": step.child_nmse(-1),
            "state_error_first": relative_error(step.estimates[0], step.truth),
            "state_error_final": relative_error(step.state, step.truth),
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
    found = {}
    with torch.no_grad():
        for name in names:
            pushed = point.at(name).jvp(states[name])
            missed = [nmse(j, states[u]) for j, u in zip(pushed, frontiers[name], strict=True)]
            point.release(name)
            found[name] = torch.stack(missed).mean(0)
    return found


def probed(plan: Plan, count: int = 7) -> list[str]:
    """Nodes spread over the path, shallow to deep."""
    if count < 1:
        raise QueryError("at least one node to probe", str(count), "The paper probes seven.")
    last = len(plan.fitted) - 1
    return list(dict.fromkeys(plan.fitted[round(i * last / max(1, count - 1))] for i in range(count)))


def depth_targets(plan: Plan, count: int = 5) -> list[str]:
    """About ``count`` targets from shallow to deep that the family can serve, the plan's own last."""
    fitting = [name for name in plan.boundaries[1:] if _served(plan, name)]
    if len(fitting) <= count:
        return fitting
    last = len(fitting) - 1
    return [fitting[last - round(i * last / max(count - 1, 1))] for i in reversed(range(count))]


def _served(plan: Plan, name: str) -> bool:
    try:
        plan.toward(name)
    except PlanError:
        return False
    return True


def faithfulness(family: MapFamily, x: Tensor, nodes: Iterable[str] | None = None) -> Rows:
    """Do the states of an inverse follow the path of the image they came from, whatever its pixel cosine?

    Each image A is paired with another, B. The states of the matched inverse (H_A, J_A) are tested on the
    differentials of A and of B; the branch cosine compares it with the inverse (H_A, J_B).
    """
    plan = family.plan
    names = list(nodes) if nodes is not None else probed(plan)
    other = partner(x)
    found = invert(family, x)
    swapped = invert(family, other, terminal=found.states[plan.target])
    matched, shuffled = (path_nmse(plan, found.states, at, names) for at in (x, other))
    truth = forward_states(plan, x, matched)
    rows: Rows = {}
    for name in matched:
        own, others = (pixel_cosine(found.states[name], h) for h in (truth[name], partner(truth[name])))
        rows[name] = {
            "matched_nmse": matched[name],
            "shuffled_nmse": shuffled[name],
            "gap": shuffled[name] - matched[name],
            "node_win": (shuffled[name] > matched[name]).double(),
            "state_margin": own - others,
        }
    rows["path"] = average(rows) | {
        "pixel_cosine": pixel_cosine(found.value, x),
        "branch_cosine": pixel_cosine(found.value, swapped.value),
        "branch_distance": relative_error(swapped.value, found.value),
    }
    return rows


def summary(path: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """The images of the lowest pixel-cosine quartile, and how pixel cosine ranks the path diagnostics."""
    cosines = path["pixel_cosine"]
    lowest = sorted(range(len(cosines)), key=lambda place: cosines[place])[: max(1, len(cosines) // 4)]
    sides = zip(path["shuffled_nmse"], path["matched_nmse"], strict=True)
    ratio = [math.log(max(shuffled, TINY) / max(matched, TINY)) for shuffled, matched in sides]
    against = {"state_margin": path["state_margin"], "log_ratio": ratio, "node_win": path["node_win"]}
    return {
        "lowest quartile": {score: [values[place] for place in lowest] for score, values in path.items()},
        "Spearman": {name: spearman(cosines, values) for name, values in against.items()},
    }
