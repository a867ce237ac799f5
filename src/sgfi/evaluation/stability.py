"""Finite-DAG diagnostics: how local defects travel to the input (app:finite_dag_stability).

At a fixed input every local update is linear in its children's states, ``y_v = K_v z``. With ``delta_v = y_v - H_v``
and the local defect ``epsilon_v = K_v H - H_v`` the recursion ``delta_v = epsilon_v + K_v delta`` is exact; the gains
``kappa_vu = ||K_vu||`` bound it along every path. The bound is a diagnostic, not a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sgfi.derivatives import LocalMap
from sgfi.evaluation.metrics import relative_error
from sgfi.evaluation.paths import trace
from sgfi.evaluation.rows import Rows
from sgfi.evaluation.stacks import lengths, noise, scaled
from sgfi.inversion import MapFamily
from sgfi.inversion.update import estimates
from sgfi.spectral import WienerMap


class LinearUpdate:
    """``K_v`` of one node at one batch, and its adjoint."""

    def __init__(self, local: LocalMap, maps: Sequence[WienerMap], divisors: Sequence[float]) -> None:
        self._local, self._maps, self._divisors = local, maps, divisors
        self._adjoints = [wiener.adjoint() for wiener in maps]

    def __call__(self, children: Sequence[Tensor]) -> Tensor:
        seeds = [z / divisor for z, divisor in zip(children, self._divisors, strict=True)]
        *_, state = estimates(self._local, children, seeds, self._maps)
        return state

    def adjoint(self, y: Tensor) -> list[Tensor]:
        """``K_v* y``, one tensor per child."""
        total = [torch.zeros_like(output) for output in self._local.outputs]
        for correction in reversed(self._adjoints[1:]):  # y += D J*(z - J y), read backwards
            pushed = self._local.jvp(correction(y))
            total = [so_far + more for so_far, more in zip(total, pushed, strict=True)]
            y = y - self._local.vjp(pushed)
        pushed = self._local.jvp(self._adjoints[0](y))  # y = G J*(z / C)
        return [so_far + more / c for so_far, more, c in zip(total, pushed, self._divisors, strict=True)]

    def gains(self, iterations: int = 20, seed: int = 0) -> list[Tensor]:
        """``||K_vu||`` of every child block, (B,) each, by power iteration: from below, and close after some steps."""
        outputs = [output.detach() for output in self._local.outputs]
        gains = []
        for child, like in enumerate(outputs):
            z = noise(like, seed)
            gain = torch.zeros(len(z), dtype=like.dtype)
            for _ in range(iterations):
                z = scaled(z, torch.ones_like(gain))
                y = self([z if index == child else torch.zeros_like(other) for index, other in enumerate(outputs)])
                gain = lengths(y, 1)
                z = self.adjoint(y)[child]
            gains.append(gain)
        return gains


@torch.no_grad()
def stability(family: MapFamily, x: Tensor, iterations: int = 20) -> Rows:
    """At every node: error, local defect, both relative; how exactly the recursion holds; gain and path bound."""
    plan = family.plan
    bound = {plan.target: x.new_zeros(len(x))}
    depth, errors = {plan.target: 0}, {plan.target: x.new_zeros(())}
    rows: Rows = {}
    for update, truth in trace(family, x):
        name, children, true_children = update.name, update.children, update.local.outputs
        linear = LinearUpdate(update.local, family.maps[name], [plan.boundary[u].channels for u in children])
        defect = linear(true_children) - truth
        errors[name] = update.state - truth
        carried = linear([errors[u].expand_as(h) for u, h in zip(children, true_children, strict=True)])
        gains = linear.gains(iterations)
        size, missed, local = (lengths(tensor, 1) for tensor in (truth, errors[name], defect))
        bound[name] = local + sum(gain * bound[u] for gain, u in zip(gains, children, strict=True))
        depth[name] = 1 + max(depth[u] for u in children)
        rows[name] = {
            "depth": torch.full_like(size, depth[name]),
            "error": missed / size,
            "defect": local / size,
            "recursion_error": relative_error(defect + carried, errors[name]),
            "gain": torch.stack(gains).sum(0),
            "bound": bound[name] / size,
            "within_bound": (missed <= bound[name] * (1 + 1e-4)).to(size),
        }
    return rows


def node_means(rows: Mapping[str, Mapping[str, Sequence[float]]], score: str) -> list[float]:
    """The mean of every node."""
    return [sum(row[score]) / len(row[score]) for row in rows.values() if score in row]
