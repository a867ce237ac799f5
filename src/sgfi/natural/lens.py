"""The natural inverse of a captured model: no calibration, one linear solve for each query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Boundary
from sgfi.errors import QueryError
from sgfi.graph import Linearisation, TensorGraph, check_input
from sgfi.inversion import STAGES, Query, mask
from sgfi.natural.answer import NaturalAnswer
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian, activations, jacobian
from sgfi.natural.path import POINT, Path
from sgfi.natural.photographs import default_prior
from sgfi.natural.posterior import estimated_share, exact_share, perturbations
from sgfi.natural.solution import Solution, Solver, projected
from sgfi.natural.solve import Problem
from sgfi.spectral import Basis, Partition, operator_named

ACTIVATIONS = 2**31
"""Bytes of activations kept for derivatives: larger batches are answered one part after another."""
TARGET_VALUES = ("tangent", "difference")
SHARE_DRAWS, SHARE_SEED = 16, 1000
SHARE_EXACT = 256
"""Numbers of a query up to which its share is exact: as many VJPs take no longer than a good estimate."""


def natural(
    graph: TensorGraph,
    prior: Prior | Any | None = None,
    jacobian: str | Path = "path",
    points: int | None = None,
    ridge: float = 0.01,
    target_value: str = "tangent",
    solver: Solver | None = None,
) -> NaturalInverse:
    """The natural inverse of a model under an input prior.

    ``prior``: from ``sgfi.prior(batches)``; for models of colour images also their preprocessing (anything with
    ``mean`` and ``std``) or nothing, which takes the statistics of natural photographs, normalised as for ImageNet.
    ``jacobian``: ``"point"`` (at x), ``"path"`` (averaged over ``points`` on the line from the mean to x) or a
    :class:`Path`. ``ridge``: lambda relative to the mean response. ``target_value``: ``"tangent"``, what the feature
    registered is ``J (x - mu)``, or ``"difference"``, ``H(x) - H(mu)``.
    """
    if not isinstance(graph, TensorGraph):
        raise QueryError("a captured graph", type(graph).__name__, "Pass sgfi.capture(model, example).")
    known = prior if isinstance(prior, Prior) else default_prior(graph, prior)
    solver = Solver() if solver is None else solver
    return NaturalInverse(graph, known, _path(jacobian, points), ridge, target_value, solver)


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
            raise QueryError("a positive ridge", repr(self.ridge), "0.01 of the mean response is usual.")
        if self.target_value not in TARGET_VALUES:
            raise QueryError(f"a target value among {list(TARGET_VALUES)}", repr(self.target_value), "Choose one.")
        if not isinstance(self.solver, Solver):
            raise QueryError("a Solver", type(self.solver).__name__, "Build one: from sgfi.natural import Solver.")

    @torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
    @torch.no_grad()
    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[NaturalAnswer]:
        """Many queries on one batch; those on one target share its forward pass and derivatives.

        ``terminal`` (B, *target) replaces what the feature registered, before masking. ``stage``: ``"final"``, or to
        compare with ``"raw"``, ``J* P t``, and ``"first"``, ``S J* P t``.
        """
        check_input(self.graph, x)
        if stage not in STAGES:
            raise QueryError(f"a stage among {list(STAGES)}", repr(stage), "Choose one of these.")
        queries = _checked_queries(queries)
        sites = [self._site(query) for query in queries]
        answers: dict[int, NaturalAnswer] = {}
        for name in dict.fromkeys(site.name for site in sites):
            numbers = [number for number, site in enumerate(sites) if site.name == name]
            site, some = sites[numbers[0]], [queries[number] for number in numbers]
            for number, answer in zip(numbers, self._on_target(x, site, some, terminal, stage), strict=True):
                answers[number] = answer
        return [answers[number] for number in range(len(queries))]

    @torch.inference_mode(False)
    @torch.no_grad()
    def samples(self, x: Tensor, query: Query, count: int, seed: int = 0) -> Tensor:
        """(count, B, ...) inputs that the queried feature cannot tell from ``x``, to first order: posterior draws."""
        check_input(self.graph, x)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise QueryError("at least one sample", repr(count), "Give a whole number.")
        (value,) = (answer.value for answer in self.answer(x, [query]))
        site = self._site(query)
        chosen, drawn = mask(site, query, x.device), []
        for start, part in self._parts(x, site.name):
            problem = self._problem(part, site)
            draws, explained = perturbations(problem, chosen, count, seed)
            drawn.append(value[start : start + len(part)] + draws - explained)
        return self.prior.mean_like(x) + torch.cat(drawn, 1)

    def _on_target(
        self, x: Tensor, site: Boundary, queries: Sequence[Query], terminal: Tensor | None, stage: str
    ) -> list[NaturalAnswer]:
        masks = torch.stack([mask(site, query, x.device) for query in queries])
        if terminal is not None:
            terminal = _checked_terminal(terminal, (len(x), *site.basis.shape), x)
        pieces: list[list[tuple[Tensor, Solution, Tensor | None]]] = [[] for _ in queries]
        for start, part in self._parts(x, site.name):
            problem = self._problem(part, site)
            given = None if terminal is None else terminal[start : start + len(part)]
            registered = self._registered(part, problem.jacobian, site.name) if given is None else given
            targets = projected(masks.unsqueeze(1), registered)  # (Q, B, *target)
            solved = problem.solve(masks, targets) if stage == "final" else _pulled(problem, targets, stage)
            for number, (solution, share) in enumerate(solved):
                pieces[number].append((targets[number], solution, share))
        return [self._answer(x, site, query, stage, piece) for query, piece in zip(queries, pieces, strict=True)]

    def _answer(
        self,
        x: Tensor,
        site: Boundary,
        query: Query,
        stage: str,
        pieces: Sequence[tuple[Tensor, Solution, Tensor | None]],
    ) -> NaturalAnswer:
        """The parts of a batch put together again."""
        targets, solutions, shares = zip(*pieces, strict=True)
        value = torch.cat([solution.value[0] for solution in solutions])
        ridge, residual, steps = (
            torch.cat([getattr(solution, name)[0] for solution in solutions]) for name in ("ridge", "residual", "steps")
        )
        states = {"input": value, site.name: torch.cat(targets)}
        known = torch.cat(shares) if all(share is not None for share in shares) else None
        exact = known is not None or int(mask(site, query, x.device).sum()) <= SHARE_EXACT

        def share() -> Tensor:
            return known if known is not None else self._share(x, query, exact, ridge if stage == "final" else None)

        return NaturalAnswer(value, states, query, stage, ridge, residual, steps, exact, share)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _share(self, x: Tensor, query: Query, exact: bool, ridge: Tensor | None) -> Tensor:
        """Exact, at a given lambda if there is one, or estimated.

        Computed again from the input, so that an answer does not keep the derivatives of a whole model.
        """
        site = self._site(query)
        chosen, shares = mask(site, query, x.device), []
        for start, part in self._parts(x, site.name):
            problem = self._problem(part, site)
            if exact:
                given = None if ridge is None else ridge[start : start + len(part)]
                shares.append(exact_share(problem, chosen, given))
            else:
                shares.append(estimated_share(problem, chosen, SHARE_DRAWS, SHARE_SEED))
        return torch.cat(shares)

    def _problem(self, x: Tensor, site: Boundary) -> Problem:
        derivative = jacobian(self.graph, site.name, x, self.prior.mean_like(x), self.path)
        axis = site.basis.channel_axis
        return Problem(derivative, self.prior, float(self.ridge), self.solver, axis)

    def _registered(self, x: Tensor, derivative: Jacobian, target: str) -> Tensor:
        """t before masking: ``J (x - mu)`` or ``H(x) - H(mu)``, (B, *target)."""
        mu = self.prior.mean_like(x)
        if self.target_value == "tangent":
            return derivative.push((x - mu).unsqueeze(0))[0]
        both = torch.cat([x, mu.unsqueeze(0)])
        values = Linearisation(self.graph, {}, both, keep=[target]).values[target]
        return values[:-1] - values[-1]

    def _parts(self, x: Tensor, target: str) -> Iterable[tuple[int, Tensor]]:
        """Parts of a batch whose activations fit into memory, each with the place where it begins."""
        points = 1 if self.path.rule == "end" else self.path.points
        most = max(1, ACTIVATIONS // (sum(activations(self.graph, target)) * points * x.element_size()))
        return [(start, x[start : start + most]) for start in range(0, len(x), most)]

    def _site(self, query: Query) -> Boundary:
        """The queried tensor, as the mask machinery knows tensors."""
        if query.target is None:
            raise QueryError("a target", "none", "Name one of graph.nodes: a natural inverse has no default target.")
        node = self.graph.nodes[query.target]
        plain = node.shape[0] is None and all(isinstance(size, int) for size in node.shape[1:])
        if node.channel_axis is None or not plain or "input" not in self.graph.ancestors(node.name):
            raise QueryError(
                "a target downstream of the input with a batch axis and a known channel axis",
                f"{node.name!r} of shape {node.shape}",
                "print(graph) lists every tensor.",
            )
        basis = Basis(node.channel_axis, node.coord_axes, tuple(node.shape[1:]))  # type: ignore[arg-type]
        return Boundary(
            node, basis, Partition.of("shared", basis.bins, node.name, basis.blocks), operator_named("full")
        )


def _pulled(problem: Problem, targets: Tensor, stage: str) -> list[tuple[Solution, Tensor | None]]:
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


def _checked_queries(queries: Sequence[Query]) -> list[Query]:
    if isinstance(queries, Query) or not isinstance(queries, Iterable):
        raise QueryError("a list of sgfi.Query", type(queries).__name__, "Put every query into one list.")
    queries = list(queries)
    strange = [type(query).__name__ for query in queries if not isinstance(query, Query)]
    if strange or not queries:
        raise QueryError(
            "a list of sgfi.Query", f"a {strange[0]}" if strange else "none", "Build each with sgfi.Query."
        )
    return queries


def _checked_terminal(terminal: Tensor, shape: tuple[int, ...], x: Tensor) -> Tensor:
    if not isinstance(terminal, Tensor) or tuple(terminal.shape) != shape or terminal.dtype != x.dtype:
        got = f"{terminal.dtype} {tuple(terminal.shape)}" if isinstance(terminal, Tensor) else type(terminal).__name__
        raise QueryError(f"a terminal of the target's {x.dtype} {shape}", got, "Shape and dtype must match.")
    if not torch.isfinite(terminal).all():
        raise QueryError("a finite terminal", "NaN or infinity", "Clean it first.")
    return terminal.detach().to(x.device)
