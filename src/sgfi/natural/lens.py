"""The natural inverse of a captured model: no calibration, one linear solve for each query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, reduce
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries.recipes import RecipeBoundaries, recipe_boundaries
from sgfi.errors import QueryError, whole
from sgfi.graph import Node, TensorGraph, check_input, full_precision
from sgfi.graph.axes import read_axis
from sgfi.inversion import JointSelection, Query, Selection, Selections, checked_query
from sgfi.inversion.estimator import checked_terminal, target_or_own
from sgfi.natural.answer import NaturalAnswer
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian, activations, jacobian
from sgfi.natural.joint import joint_problem
from sgfi.natural.path import POINT, Path, path_of, straight
from sgfi.natural.photographs import default_prior
from sgfi.natural.posterior import adjoint, estimated_shares, exact_shares, perturbations
from sgfi.natural.recent import Recent, contents
from sgfi.natural.reference import centred, registered
from sgfi.natural.solution import Shares, Solution, Solver
from sgfi.natural.solve import ROWS_MEMORY, Problem

Piece = tuple[list[Tensor], Solution, "Shares | None"]
ACTIVATIONS = 2**31
"""Bytes of activations kept for derivatives: larger batches are answered one part after another."""
TARGET_VALUES = ("tangent", "difference", "centred")
RIDGE = 1.0
"""Chosen by removal on held-out photographs, see docs/natural.md."""
CORRECTION_RIDGE = 0.01
"""Of corrected samples: small, so that a step reaches its target where the prior lets it."""
CORRECTION_PARTS = (0.25, 1.0)
"""Of a correcting step, tried."""
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
    feature registered, ``"tangent"``, ``J (x - mu)`` (with ``"point"``), ``"difference"``, ``H(x) - H(mu)`` (with any
    path; the tangent comes to it along many midpoints of the whole line), or ``"centred"``, ``H(x)`` less its mean over
    the prior: what is special about x among inputs. Of tokens the difference is centred too, see
    :mod:`sgfi.natural.reference`.
    """
    if not isinstance(graph, TensorGraph):
        raise QueryError("a captured graph", type(graph).__name__, "Pass sgfi.capture(model, example).")
    known = prior if isinstance(prior, Prior) else default_prior(graph, prior)
    solver = Solver() if solver is None else solver
    path = path_of(jacobian, points)
    value = target_value or ("tangent" if path.is_point else "difference")
    return NaturalInverse(graph, known, path, ridge, value, solver)


@dataclass(frozen=True, eq=False, repr=False)
class NaturalInverse:
    """``value = S J* P (P J S J* P + lambda I)^-1 t`` for any query on any tensor with a channel axis."""

    graph: TensorGraph
    prior: Prior
    path: Path
    ridge: float
    target_value: str
    solver: Solver
    background: Tensor | None = None
    """(N, *input) inputs that a centred target is compared with, see :meth:`centred`."""
    recent: Recent | None = None
    """Where derivatives are kept for the next query on the same tensor of the same input."""

    def __post_init__(self) -> None:
        if tuple(self.graph.input.shape[1:]) != self.prior.shape:
            raise QueryError(
                f"a prior of inputs of shape {tuple(self.graph.input.shape[1:])}",
                str(self.prior.shape),
                "Fit it on inputs of this model, or use prior.resized(shape).",
            )
        axis = read_axis(self.graph.exported.tensors["input"])  # a guess would be no reason to refuse
        if axis and len(self.prior.shape) > 1 and self.prior.channel_axis != axis:
            raise QueryError(
                f"a prior with the channels of this model's input, axis {axis} (the batch is axis 0)",
                f"axis {self.prior.channel_axis}",
                f"sgfi.prior(batches, channel_axis={axis}); for pictures, sound and volumes also kind='grid'.",
            )
        if isinstance(self.ridge, bool) or not isinstance(self.ridge, (int, float)) or not 0 < self.ridge < 1e6:
            raise QueryError("a positive ridge", repr(self.ridge), "1, the mean response of the tensor, is usual.")
        if self.target_value not in TARGET_VALUES:
            raise QueryError(f"a target value among {list(TARGET_VALUES)}", repr(self.target_value), "Choose one.")
        several = [name for name, side in self.graph.side_values.items() if len(side) != 1]
        if several and not self.path.is_point:  # its points would be paired with other samples' side inputs
            todo = "Pass inputs together with their side inputs, or bind one sample's."
            raise QueryError("side inputs of one sample along a path", f"{several[0]!r} of several", todo)
        if not isinstance(self.solver, Solver):
            raise QueryError("a Solver", type(self.solver).__name__, "Build one: from sgfi.natural import Solver.")

    def __repr__(self) -> str:
        return f"<NaturalInverse {self.path.count} points, ridge {self.ridge:g}, {self.target_value}, {self.prior}>"

    @property
    def _recipe(self) -> RecipeBoundaries:
        return self.graph.cache.get("recipe", lambda: recipe_boundaries(self.graph))

    def on(self, graph: TensorGraph) -> NaturalInverse:
        """The same prior and settings on the same model with other side inputs bound."""
        return replace(self, graph=graph)

    def centred(self, background: Tensor | None = None) -> NaturalInverse:
        """With features compared with their mean over ``background`` inputs (N, *input), or over draws of the prior."""
        if background is not None:
            check_input(self.graph, background)
        return replace(self, target_value="centred", background=background)

    @property
    def target(self) -> str:
        return self._recipe.target

    @property
    def targets(self) -> tuple[str, ...]:
        """The recipe's boundaries, shallow to deep; any other tensor with a channel axis can be named too."""
        return self._recipe.boundaries[1:]

    def node(self, target: str | None = None) -> Node:
        node = self.graph.nodes[target_or_own(target, self.target)]
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
    @full_precision()
    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        """What the feature registered, ``J (x - mu)`` or ``H(x) - H(mu)``."""
        check_input(self.graph, x)
        node = self.node(target)
        return torch.cat([self._registered(part, node) for _, part in self._parts(x, Query(node.name))])

    def describe(self) -> dict[str, Any]:
        return {
            "estimator": "natural inverse",
            "jacobian": "point" if self.path.is_point else "path",
            "points": self.path.count,
            "rule": self.path.rule,
            **({} if self.path.curve is straight else {"curve": self.path.curve_name}),
            "ridge": self.ridge,
            "target_value": self.target_value,
            **({} if self.background is None else {"background": len(self.background)}),
            "solver": asdict(self.solver),
            "prior": type(self.prior).__name__,
        }

    @torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
    @torch.no_grad()
    @full_precision()
    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[NaturalAnswer]:
        """Queries on one target share its forward pass and derivatives.

        ``terminal`` replaces what the feature registered, before it is projected: (B, *target), or one for each query.
        ``stage``: ``"final"``, or ``"raw"``, ``J* P t``, and ``"first"``, ``S J* P t``. :class:`NotConverged` warns.
        """
        answers = self._answers(x, queries, terminal, stage)
        residuals = torch.stack([answer.residual for answer in answers])  # type: ignore[misc]
        self.solver.check(residuals, f"{len(queries)} queries" if len(queries) > 1 else str(queries[0]))
        return answers

    def _answers(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None, stage: str = "final"
    ) -> list[NaturalAnswer]:
        rank = 2 if queries[0].also else len(self.node(queries[0].target).shape)
        selections = {number: self._selection(query, x.device) for number, query in {id(q): q for q in queries}.items()}
        chosen = Selections.of(selections[id(query)] for query in queries)
        if terminal is not None:
            dtype = reduce(torch.promote_types, [self.node(part.target).dtype for part in queries[0].parts])
            like = x.new_empty(len(x), *chosen.masks.shape[1:], dtype=dtype)
            terminal = checked_terminal(terminal, like, len(queries))
        if queries[0].also and len(queries) > 1:  # the noise of a group is that of its own queries
            own = [None] * len(queries) if terminal is None else terminal.expand(len(queries), *terminal.shape[-2:])
            return [self._answers(x, [query], t, stage)[0] for query, t in zip(queries, own, strict=True)]
        pieces: list[list[Piece]] = [[] for _ in queries]
        for start, part in self._parts(x, *queries):
            problem = self._problem_of(part, queries[0])
            if terminal is None:
                registered = self._registered_of(part, queries[0], problem.jacobian)
            else:
                registered = terminal.movedim(-rank, 0)[start : start + len(part)].movedim(0, -rank)
                registered = problem.jacobian.scaled(registered)
            targets = chosen.project(registered)  # (Q, B, *target)
            if not torch.isfinite(targets).all():
                todo = "Look for overflow in the model there."
                raise QueryError("a finite feature", f"NaN or infinity at {queries[0].target!r}", todo)
            solved = problem.solve(chosen, targets) if stage == "final" else problem.pulled(targets, stage)
            for number, (solution, share) in enumerate(solved):
                states = problem.jacobian.parted(problem.jacobian.scaled(targets[number], 0.5))
                pieces[number].append((states, solution, share))
        kept, weights = x.clone(), self.graph.fingerprint  # shares are worked out when they are asked for, at these
        return [self._answer(kept, weights, query, stage, piece) for query, piece in zip(queries, pieces, strict=True)]

    def factorised(self, query: Query) -> bool:
        """Whether a query is solved exactly, so that further targets of it cost next to nothing."""
        work = sum(activations(self.graph, self.node(query.target).name)) * self.path.count
        return not query.also and self.solver.exact(self._selection(query).count, work)

    @torch.inference_mode(False)
    @torch.no_grad()
    @full_precision()
    def adjoint(self, x: Tensor, query: Query, pictures: Tensor) -> Tensor:
        """(B, *target) ``M* p`` of pictures (B, *input), where the answer to a target t is ``M t``."""
        chosen, parts = self._selection(query, x.device), self._parts(x, query)
        problems = ((at, len(part), self._problem_of(part, query)) for at, part in parts)
        return torch.cat([adjoint(problem, chosen, pictures[at : at + size]) for at, size, problem in problems])

    @torch.inference_mode(False)
    @torch.no_grad()
    @full_precision()
    def samples(self, x: Tensor, query: str | Query, count: int, seed: int = 0, corrections: int = 0) -> Tensor:
        """(count, B, ...) inputs that the queried feature cannot tell from ``x``, to first order: posterior draws.

        ``corrections``: Gauss-Newton steps that bring the feature of each draw back to that of ``x`` through the
        network, ``x' + S J'* P (P J' S J'* P + lambda' I)^-1 P (H(x) - H(x'))`` with J' at x' and a small lambda'.
        """
        check_input(self.graph, x)
        query = checked_query(query, self.graph)
        asked = (count, 1, "at least one sample"), (corrections, 0, "corrections from zero up"), (seed, 0, "a seed")
        for number, least, what in asked:
            if not whole(number, least):
                raise QueryError(what, repr(number), "Give a whole number.")
        if corrections and len(query.parts) > 1:
            raise QueryError("one tensor where samples are corrected", str(query), "Ask about each tensor by itself.")
        (answer,) = self._answers(x, [query], None)
        chosen, drawn, residuals = self._selection(query, x.device), [], [answer.residual]
        for start, part in self._parts(x, query):
            problem = self._problem_of(part, query)
            draws, explained = perturbations(problem, chosen, count, seed)
            residuals.append(explained.residual.flatten())
            drawn.append(answer.value[start : start + len(part)] + draws - explained.value)
        self.solver.check(torch.cat(residuals), f"samples of {query}")  # type: ignore[arg-type]
        drawn_inputs = self.prior.mean_like(x) + torch.cat(drawn, 1)
        for _ in range(corrections):
            drawn_inputs = self._corrected(x, query, drawn_inputs)
        return drawn_inputs

    def _corrected(self, x: Tensor, query: Query, drawn_inputs: Tensor) -> Tensor:
        """One Gauss-Newton step of inputs (count, B, ...) toward the queried feature of ``x`` (B, ...).

        Each input goes the whole step, a part of it or nowhere, whichever misses the feature least.
        """
        here = replace(self, path=POINT, ridge=min(self.ridge, CORRECTION_RIDGE))
        program = self.graph.program(("input",), (self.node(query.target).name,))
        selection, flat = self._selection(query, x.device), drawn_inputs.flatten(0, 1)
        wanted = program(x)[0]

        def missed(inputs: Tensor) -> Tensor:
            return torch.cat([wanted - program(part)[0] for part in inputs.split(len(x))])

        (step,) = here._answers(flat, [query], missed(flat))  # a step that is not solved is one of those tried
        tried = torch.stack([flat + part * step.value for part in (0.0, *CORRECTION_PARTS)])
        lengths = torch.stack([selection.select(missed(each)).flatten(1).norm(dim=1) for each in tried])
        return tried[lengths.argmin(0), torch.arange(len(flat))].unflatten(0, drawn_inputs.shape[:2])

    def _answer(self, x: Tensor, weights: str, query: Query, stage: str, pieces: Sequence[Piece]) -> NaturalAnswer:
        """The parts of a batch put together again."""
        targets, solutions, shares = zip(*pieces, strict=True)
        value = torch.cat([solution.value[0] for solution in solutions])
        ridge, residual, steps = (
            torch.cat([getattr(solution, name)[0] for solution in solutions]) for name in ("ridge", "residual", "steps")
        )
        names = [self.node(part.target).name for part in query.parts]
        states = {"input": value, **dict(zip(names, map(torch.cat, zip(*targets, strict=True)), strict=True))}
        known = None if None in shares else Shares(*map(torch.cat, zip(*shares, strict=True)))
        exact = known is not None or self._selection(query).count <= SHARE_EXACT

        @cache
        def measured() -> Shares:
            if known is None and self.graph.fingerprint != weights:
                todo = "Read .share before they change, or ask again."
                raise QueryError("the weights that this answer is of", "weights changed since this answer", todo)
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
    @full_precision()
    def _shares(self, x: Tensor, query: Query, exact: bool) -> Shares:
        """Computed again from the input, so that an answer does not keep the derivatives of a whole model."""
        selected = self._selection(query, x.device)
        problems = (self._problem_of(part, query) for _, part in self._parts(x, query))
        shares = [
            exact_shares(problem, selected) if exact else estimated_shares(problem, selected, SHARE_DRAWS, SHARE_SEED)
            for problem in problems
        ]
        return Shares(*map(torch.cat, zip(*shares, strict=True)))

    def _selection(self, query: Query, device: torch.device | str = "cpu") -> Selection:
        nodes = [self.node(part.target) for part in query.parts]
        if len({node.name for node in nodes}) < len(nodes):
            todo = "Put channels and coordinates of one tensor into one part."
            raise QueryError("a group of different tensors", str(query), todo)
        parts = [part.selection(node, device) for part, node in zip(query.parts, nodes, strict=True)]
        return JointSelection.of(parts) if query.also else parts[0]

    def _problem_of(self, x: Tensor, query: Query) -> Problem:
        """Of one tensor, or of a group: each of its tensors then has the lambda of its part alone."""
        if not query.also:
            return self._problem(x, self.node(query.target))
        nodes = [self.node(part.target) for part in query.parts]
        alone = [self._problem(x, node) for node in nodes]
        noise = [
            problem.ridge(part.selection(node, x.device))
            for problem, part, node in zip(alone, query.parts, nodes, strict=True)
        ]
        return joint_problem(self.graph, [node.name for node in nodes], x, self.path, alone, noise)

    def _registered_of(self, x: Tensor, query: Query, known: Jacobian) -> Tensor:
        """t of one tensor, or of a group in units of the noise."""
        if not query.also:
            return self._registered(x, self.node(query.target), known)
        return known.scaled(torch.cat([self.state(x, part.target).flatten(1) for part in query.parts], 1))

    def _problem(self, x: Tensor, node: Node) -> Problem:
        def make() -> Problem:
            derivative = jacobian(self.graph, node.name, x, self.prior.mean_like(x), self.path)
            return Problem(derivative, self.prior, float(self.ridge), self.solver, node.channel_axis or 1)

        return self._kept("problem", x, node, make, lambda made: made.jacobian.work * len(x) * x.element_size())

    def _kept(self, what: str, x: Tensor, node: Node, make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """What ``make`` gives, or gave for the same numbers and settings."""
        if self.recent is None:
            return make()
        compared = None if self.background is None else contents(self.background)
        settings = (self.graph, self.prior, self.path, float(self.ridge), self.target_value, compared, self.solver)
        return self.recent.get((what, contents(x), node.name, settings, self.graph.fingerprint), make, size)

    def _registered(self, x: Tensor, node: Node, known: Jacobian | None = None) -> Tensor:
        """t before masking: ``J (x - mu)``, ``H(x) - H(mu)`` or ``H(x)`` less its mean, (B, *target)."""
        return self._kept("registered", x, node, lambda: self._measured(x, node, known), lambda made: made.nbytes)

    def _measured(self, x: Tensor, node: Node, known: Jacobian | None) -> Tensor:
        if self.target_value == "difference":
            return registered(self.graph, node.name, x, self.prior)
        if self.target_value == "centred":
            return centred(self.graph, node.name, x, self.prior, self.background)
        mu = self.prior.mean_like(x)
        derivative = known or jacobian(self.graph, node.name, x, mu, self.path)
        return derivative.push((x - mu).unsqueeze(0))[0]

    def _parts(self, x: Tensor, *queries: Query) -> Iterable[tuple[int, Tensor]]:
        """Parts of a batch whose activations and written-out rows fit into memory, each with where it begins.

        ``queries`` are on one target.
        """
        sizes = [sum(activations(self.graph, self.node(part.target).name)) for part in queries[0].parts]
        most = max(1, ACTIVATIONS // (sum(sizes) * self.path.count * x.element_size()))
        counts = [self._selection(query).count for query in queries]
        rows = max((count for count in counts if count <= SHARE_EXACT), default=0)
        if rows and len(x):
            most = min(most, max(1, ROWS_MEMORY // (rows * x[0].numel() * x.element_size())))
        return [(start, x[start : start + most]) for start in range(0, len(x), most)]
