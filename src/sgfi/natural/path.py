"""Where the Jacobian is taken: points between the prior's mean and the input, with weights that sum to one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgfi.errors import QueryError, whole

Curve = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x (B, ...), mu (...), nodes (m,) in [0, 1]) -> points (m, B, ...): from mu at node 0 to x at node 1."""


def straight(x: Tensor, mu: Tensor, nodes: Tensor) -> Tensor:
    """``mu + s (x - mu)``: the only curve on which the averaged J sends ``x - mu`` to ``H(x) - H(mu)``."""
    return mu + nodes.reshape(-1, *[1] * x.dim()) * (x - mu)


@dataclass(frozen=True)
class Path:
    """A curve from mu to x and the rule by which derivatives along it are averaged."""

    points: int = 3
    rule: str = "half"
    """``"half"``: x itself counts half, the midpoints of equal parts of the curve share the other half; ``"midpoint"``,
    ``"gauss"`` (Gauss-Legendre): the whole curve; ``"end"``: x alone."""
    curve: Curve = straight

    def __post_init__(self) -> None:
        if not whole(self.points, 1):
            raise QueryError("at least one point on the path", repr(self.points), "Three are usual.")
        if self.rule == "half" and self.points < 2:
            todo = 'Give two or more; jacobian="point" is x alone.'
            raise QueryError('two points or more for the rule "half": x and the line before it', "one", todo)
        if self.rule not in RULES:
            raise QueryError(f"a quadrature rule among {list(RULES)}", repr(self.rule), "Choose one of these.")
        if not callable(self.curve):
            raise QueryError(
                "a curve: a function of x, mu and nodes", type(self.curve).__name__, "See sgfi.natural.path."
            )

    @property
    def is_point(self) -> bool:
        """Whether x is the only point."""
        return self.rule == "end"

    @property
    def curve_name(self) -> str:
        """Where its function stands, with a digest of its code: two may have one name."""
        code = getattr(self.curve, "__code__", None)
        digest = hashlib.sha256(repr((code.co_code, code.co_consts)).encode()).hexdigest()[:8] if code else ""
        return f"{getattr(self.curve, '__qualname__', type(self.curve).__qualname__)} {digest}".strip()

    @property
    def count(self) -> int:
        """Points that derivatives are taken at."""
        return len(RULES[self.rule](self.points)[0])

    def at(self, x: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        """Points ``(m, B, ...)`` and weights ``(m,)`` of a batch of inputs ``(B, ...)``."""
        numbers = RULES[self.rule](self.points)
        nodes, weights = (torch.as_tensor(part, dtype=x.dtype, device=x.device) for part in numbers)
        if self.rule == "end":
            return x.unsqueeze(0), weights
        points = self.curve(x, mu, nodes)
        if points.shape != (len(nodes), *x.shape) or points.dtype != x.dtype:
            raise QueryError(
                f"a curve that gives {x.dtype} {(len(nodes), *x.shape)}",
                f"{points.dtype} {tuple(points.shape)}",
                "Return one batch of inputs for every node.",
            )
        return points, weights


def _half(points: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = _midpoint(points - 1)
    return np.append(nodes, 1.0), np.append(weights / 2, 0.5)


def _midpoint(points: int) -> tuple[np.ndarray, np.ndarray]:
    return (np.arange(points) + 0.5) / points, np.full(points, 1 / points)


def _gauss(points: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2


def _end(points: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(1), np.ones(1)


RULES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "half": _half,
    "midpoint": _midpoint,
    "gauss": _gauss,
    "end": _end,
}
"""By name: nodes in [0, 1] and weights, from the number of points."""

POINT = Path(points=1, rule="end")
"""The derivative at the input itself."""


def path_of(jacobian: str | Path, points: int | None) -> Path:
    """By name, with the number of points, or as it is."""
    if isinstance(jacobian, Path):
        if points is not None:
            raise QueryError("points once", "points beside a Path", "Give them to the Path.")
        return jacobian
    if jacobian == "point":
        if points is not None:
            raise QueryError('points with jacobian="path"', 'points beside "point"', "Leave one of them out.")
        return POINT
    if jacobian == "path":
        return Path() if points is None else Path(points)
    raise QueryError('a Jacobian "path", "point" or a Path', repr(jacobian), "Choose one of these.")
