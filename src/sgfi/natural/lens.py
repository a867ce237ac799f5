"""The natural inverse of a captured model: no calibration, one linear solve for each query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries.recipes import RecipeBoundaries, recipe_boundaries
from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.graph import Node, TensorGraph, check_input
from sgfi.inversion import Query
from sgfi.inversion.estimator import checked_terminal
from sgfi.natural.answer import NaturalAnswer
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian, activations, jacobian
from sgfi.natural.path import POINT, Path
from sgfi.natural.photographs import default_prior
from sgfi.natural.posterior import estimated_shares, exact_shares, perturbations
from sgfi.natural.solution import Shares, Solution, Solver, projected
from sgfi.natural.solve import Problem

ACTIVATIONS = 2**31
"""Bytes of activations kept for derivatives: larger batches are answered one part after another."""
TARGET_VALUES = ("tangent", "difference")
RIDGE = 1.0
"""Chosen by removal on held-out photographs, see docs/natural.md."""
SHARE_DRAWS, SHARE_SEED, SHARE_EXACT = 16, 1000, 256
"""Draws that estimate a share; up to how many selected numbers it is worked out exactly."""


def natural(
    graph: TensorGraph,
    prior: Prior | Any | None = None,
    jacobian: str | Path = "path",
    points: int | None = None,
    ridge: float = RIDGE,
    target_value: str | None = None,
    solver: Solver | None = None,
) -> NaturalInverse:
    """The natural inverse of a model under an input prior.

    ``prior``: from ``sgfi.prior(batches)``; for models of colour images also their preprocessing (anything with
    ``mean`` and ``std``) or nothing, which takes the statistics of natural photographs, normalised as for ImageNet.
    ``jacobian``: ``"point"`` (at x), ``"path"`` (averaged over ``points`` on the line from the mean to x) or a
    :class:`Path`. ``ridge``: lambda relative to the mean response of the target tensor. ``target_value``: what the
    feature registered, ``"tangent"``, ``J (x - mu)`` (with ``"point"``), or ``"difference"``, ``H(x) - H(mu)``, which
    the tangent comes to along a fine path (with any path).
    """
    if not isinstance(graph, TensorGraph):
        raise QueryError("a captured graph", type(graph).__name__, "Pass sgfi.capture(model, example).")
    known = prior if isinstance(prior, Prior) else default_prior(graph, prior)
    solver = Solver() if solver is None else solver
    path = _path(jacobian, points)
    value = target_value or ("tangent" if path == POINT else "difference")
    return NaturalInverse(graph, known, path, ridge, value, solver)


@dataclass(frozen=True, eq=False)
class NaturalInverse:
    """``value = S J* P (P J S J* P + lambda I)^-1 t`` for any query on any tensor with a channel axis."""

    graph: TensorGraph
    prior: Prior
    path: Path
    ridge: float
    target_value: str
    solver: Solver

    def __post_init__(self) -> None:
        if tuple(self.graph.input.shape[1:]) != self.prior.shape:
            raise QueryError(
                f"a prior of inputs of shape {tuple(self.graph.input.shape[1:])}",
                str(self.prior.shape),
                "Fit it on inputs of this model, or use prior.resized(shape).",
            )
        if isinstance(self.ridge, bool) or not isinstance(self.ridge, (int, float)) or not 0 < self.ridge < 1e6:
            raise QueryError("a positive ridge", repr(self.ridge), "1, the mean response of the tensor, is usual.")
        if self.target_value not in TARGET_VALUES:
            raise QueryError(f"a target value among {list(TARGET_VALUES)}", repr(self.target_value), "Choose one.")
        if not isinstance(self.solver, Solver):
            raise QueryError("a Solver", type(self.solver).__name__, "Build one: from sgfi.natural import Solver.")

    @cached_property
    def _recipe(self) -> RecipeBoundaries:
        return recipe_boundaries(self.graph)

    @property
    def target(self) -> str:
        return self._recipe.target

    @property
    def targets(self) -> tuple[str, ...]:
        """The recipe's boundaries, shallow to deep; any other tensor with a channel axis can be named too."""
        return self._recipe.boundaries[1:]

    def node(self, target: str | None = None) -> Node:
        node = self.graph.nodes[target or self.target]
        plain = node.shape[0] is None and all(isinstance(size, int) for size in node.shape[1:])
        if node.channel_axis is None or not plain or "input" not in self.graph.ancestors(node.name):
            raise QueryError(
                "a target downstream of the input with a batch axis and a known channel axis",
                f"{node.name!r} of shape {node.shape}",
                "print(graph) lists every tensor.",
            )
        return node

    @property
    def origin(self) -> Tensor:
        return self.prior.mean

    @torch.inference_mode(False)
    @torch.no_grad()
    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        """What the feature registered, ``J (x - mu)`` or ``H(x) - H(mu)``."""
        node = self.node(target)
        return torch.cat([self._registered(part, node) for _, part in self._parts(x, node.name)])

    def describe(self) -> dict[str, Any]:
        return {
            "estimator": "natural inverse",
            "jacobian": "point" if self.path == POINT else "path",
            "points": self.path.points,
            "rule": self.path.rule,
            "ridge": self.ridge,
            "target_value": self.target_value,
            "solver": asdict(self.solver),
            "prior": type(self.prior).__name__,
        }

    @torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
    @torch.no_grad()
    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[NaturalAnswer]:
        """Queries on one target share its forward pass and derivatives.

        ``terminal`` replaces what the feature registered, before masking: (B, *target), or one for each query.
        ``stage``: ``"final"``, or to compare with ``"raw"``, ``J* P t``, and ``"first"``, ``S J* P t``.
        """
        node = self.node(queries[0].target)
        masks = torch.stack([query.mask(node, x.device) for query in queries])
        pieces: list[list[tuple[Tensor, Solution, Shares | None]]] = [[] for _ in queries]
        if terminal is not None:
            terminal = checked_terminal(terminal, x.new_empty(len(x), *masks.shape[1:]), len(queries))
        for start, part in self._parts(x, node.name):
            problem = self._problem(part, node)
            if terminal is None:
                registered = self._registered(part, node, problem.jacobian)
            else:
                registered = terminal.movedim(-len(node.shape), 0)[start : start + len(part)]
                registered = registered.movedim(0, -len(node.shape))
            targets = projected(masks.unsqueeze(1), registered)  # (Q, B, *target)
            solved = problem.solve(masks, targets) if stage == "final" else _pulled(problem, targets, stage)
            for number, (solution, share) in enumerate(solved):
                pieces[number].append((targets[number], solution, share))
        return [self._answer(x, node, query, stage, piece) for query, piece in zip(queries, pieces, strict=True)]

    @torch.inference_mode(False)
    @torch.no_grad()
    def samples(self, x: Tensor, query: Query, count: int, seed: int = 0) -> Tensor:
        """(count, B, ...) inputs that the queried feature cannot tell from ``x``, to first order: posterior draws."""
        check_input(self.graph, x)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise QueryError("at least one sample", repr(count), "Give a whole number.")
        (value,) = (answer.value for answer in self.answer(x, [query]))
        node = self.node(query.target)
        chosen, drawn = query.mask(node, x.device), []
        for start, part in self._parts(x, node.name):
            problem = self._problem(part, node)
            draws, explained = perturbations(problem, chosen, count, seed)
            drawn.append(value[start : start + len(part)] + draws - explained)
        return self.prior.mean_like(x) + torch.cat(drawn, 1)

    def _answer(
        self,
        x: Tensor,
        node: Node,
        query: Query,
        stage: str,
        pieces: Sequence[tuple[Tensor, Solution, Shares | None]],
    ) -> NaturalAnswer:
        """The parts of a batch put together again."""
        targets, solutions, shares = zip(*pieces, strict=True)
        value = torch.cat([solution.value[0] for solution in solutions])
        ridge, residual, steps = (
            torch.cat([getattr(solution, name)[0] for solution in solutions]) for name in ("ridge", "residual", "steps")
        )
        states = {"input": value, node.name: torch.cat(targets)}
        known = None if None in shares else Shares(*map(torch.cat, zip(*shares, strict=True)))
        exact = known is not None or int(query.mask(node).sum()) <= SHARE_EXACT

        @cache
        def measured() -> Shares:
            return known or self._shares(x, query, exact)

        return NaturalAnswer(
            value,
            states,
            query,
            stage,
            ridge,
            lambda: measured().whole,
            residual,
            steps,
            exact,
            lambda: measured().detail,
        )

    @torch.inference_mode(False)
    @torch.no_grad()
    def _shares(self, x: Tensor, query: Query, exact: bool) -> Shares:
        """Computed again from the input, so that an answer does not keep the derivatives of a whole model."""
        node = self.node(query.target)
        selected = query.mask(node, x.device)
        problems = (self._problem(part, node) for _, part in self._parts(x, node.name))
        shares = [
            exact_shares(problem, selected) if exact else estimated_shares(problem, selected, SHARE_DRAWS, SHARE_SEED)
            for problem in problems
        ]
        return Shares(*map(torch.cat, zip(*shares, strict=True)))

    def _problem(self, x: Tensor, node: Node) -> Problem:
        derivative = jacobian(self.graph, node.name, x, self.prior.mean_like(x), self.path)
        return Problem(derivative, self.prior, float(self.ridge), self.solver, node.channel_axis or 1)

    def _registered(self, x: Tensor, node: Node, known: Jacobian | None = None) -> Tensor:
        """t before masking: ``J (x - mu)`` or ``H(x) - H(mu)``, (B, *target)."""
        mu = self.prior.mean_like(x)
        if self.target_value == "tangent":
            derivative = known or jacobian(self.graph, node.name, x, mu, self.path)
            return derivative.push((x - mu).unsqueeze(0))[0]
        both = torch.cat([x, mu.unsqueeze(0)])
        values = Linearisation(self.graph, {}, both, keep=[node.name]).values[node.name]
        return values[:-1] - values[-1]

    def _parts(self, x: Tensor, target: str) -> Iterable[tuple[int, Tensor]]:
        """Parts of a batch whose activations fit into memory, each with the place where it begins."""
        points = 1 if self.path.rule == "end" else self.path.points
        most = max(1, ACTIVATIONS // (sum(activations(self.graph, target)) * points * x.element_size()))
        return [(start, x[start : start + most]) for start in range(0, len(x), most)]


def _pulled(problem: Problem, targets: Tensor, stage: str) -> list[tuple[Solution, Shares | None]]:
    """Without a solve: ``J* P t``, for ``"first"`` under the prior."""
    pulled = problem.jacobian.pull(targets)
    pulled = problem.prior.apply(pulled) if stage == "first" else pulled
    unknown = pulled.new_full((1, pulled.shape[1]), torch.nan, dtype=torch.float64)
    steps = torch.zeros_like(unknown, dtype=torch.int64)
    return [(Solution(value.unsqueeze(0), unknown, unknown, steps), None) for value in pulled]


def _path(jacobian: str | Path, points: int | None) -> Path:
    if isinstance(jacobian, Path):
        if points is not None:
            raise QueryError("points once", "points beside a Path", "Give them to the Path.")
        return jacobian
    if jacobian == "point":
        return POINT
    if jacobian == "path":
        return Path() if points is None else Path(points)
    raise QueryError('a Jacobian "path", "point" or a Path', repr(jacobian), "Choose one of these.")
