"""The tests of this room can fail: known mistakes, planted one at a time, turn them red."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from sgfi.inversion import Selections
from sgfi.natural import cosine
from sgfi.natural.channels import ChannelPrior
from sgfi.natural.exact import ExactSystem, Rows
from sgfi.natural.grid import GridPrior
from sgfi.natural.iterative import Systems
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.solution import NotConverged, Solver
from sgfi.natural.solve import Problem
from tests.analytic import tiny
from tests.natural.dense import TIGHT, dense_of, lens_of, query_of
from tests.natural.test_laws import (
    test_numbers_outside_the_query_are_not_read as outside_law,
)
from tests.natural.test_laws import (
    test_the_answer_is_linear_in_the_target as linear_law,
)
from tests.natural.test_prior import (
    test_borders_reflect_and_do_not_wrap_around as border_law,
)
from tests.natural.test_prior import (
    test_the_grid_prior_is_the_sum_over_cosines as cosine_law,
)

ROUTES = {"exact": Solver(), "conjugate gradients": TIGHT}


@cache
def expected(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Dense value and share at the lambda of the exact route, and this lambda; made before anything is planted."""
    lens, query, x = lens_of(name, target_value="tangent"), query_of(name, 1), tiny(name).inputs(1, seed=3)
    dense = dense_of(lens, name, query, x)
    value = (dense.estimator @ dense.J @ (x - lens.prior.mean).flatten()).reshape(x.shape)
    return value, dense.share(x.shape[1:], lens.prior.channel_axis), torch.tensor([dense.ridge], dtype=torch.float64)


def check(name: str, solver: Solver) -> None:
    """What the dense tests assert."""
    lens, query, x = (
        lens_of(name, solver=solver, target_value="tangent"),
        query_of(name, 1),
        tiny(name).inputs(1, seed=3),
    )
    (answer,) = lens.answer(x, [query])
    value, share, absolute = expected(name)
    torch.testing.assert_close(answer.ridge, absolute, rtol=1e-9, atol=0)
    torch.testing.assert_close(answer.value, value, rtol=0, atol=1e-8)
    if answer.share_is_exact:
        torch.testing.assert_close(answer.share[0], share, rtol=0, atol=1e-8)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["chain", "tokens"])
def test_nothing_planted_is_green(name: str, route: str) -> None:
    check(name, ROUTES[route])


@pytest.mark.parametrize("method", ["apply", "root"])
@pytest.mark.parametrize(("name", "kind"), [("chain", GridPrior), ("tokens", ChannelPrior)])
def test_a_missing_prior_is_seen(monkeypatch: pytest.MonkeyPatch, name: str, kind: type, method: str) -> None:
    route = "exact" if method == "root" else "conjugate gradients"
    monkeypatch.setattr(kind, method, lambda self, tensor: tensor)
    with pytest.raises(AssertionError):
        check(name, ROUTES[route])


@pytest.mark.parametrize("route", ROUTES)
def test_a_lambda_that_depends_on_the_target_is_seen(monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    solve = Problem.solve
    monkeypatch.setattr(
        Problem,
        "solve",
        lambda self, masks, t: solve(replace(self, relative=self.relative * float(t.norm())), masks, t),
    )
    with pytest.raises(AssertionError):
        linear_law("chain", route)


def test_a_projector_forgotten_on_the_way_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator leaks numbers that were not asked for."""
    masked, calls = Systems.masked, []

    def first_only(self: Systems, stack: Tensor) -> Tensor:
        calls.append(1)
        return masked(self, stack) if len(calls) == 1 else stack

    monkeypatch.setattr(Systems, "masked", first_only)
    with pytest.raises(AssertionError):
        check("chain", TIGHT)


def test_a_projector_forgotten_on_the_way_in_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole target is pulled back."""
    masked, solve = Systems.masked, Systems.solve

    def all_but_first(self: Systems, targets: Tensor, solver: Solver) -> object:
        calls: list[int] = []

        def late(self: Systems, stack: Tensor) -> Tensor:
            calls.append(1)
            return stack.clone() if len(calls) == 1 else masked(self, stack)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Systems, "masked", late)
            return solve(self, targets, solver)

    monkeypatch.setattr(Systems, "solve", all_but_first)
    project = Selections.project

    def only_inside(self: Selections, stack: Tensor) -> Tensor:
        outside = stack.dim() == self.masks.dim()  # (B, *target): before the solve
        return stack.expand(len(self), *stack.shape) if outside else project(self, stack)

    monkeypatch.setattr(Selections, "project", only_inside)
    with pytest.raises((AssertionError, NotConverged)):
        outside_law()


def test_rows_of_other_numbers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """P forgotten in the written-out rows: the query's numbers are read at the wrong end of the target."""
    system = Rows.system

    def shifted(self: Rows, number: int, ridge: Tensor) -> ExactSystem:
        made = system(self, number, ridge)
        return replace(made, selection=replace(made.selection, mask=made.selection.mask.roll(1, 0)))

    monkeypatch.setattr(Rows, "system", shifted)
    with pytest.raises(AssertionError):
        check("chain", Solver())


def test_a_path_without_its_weights_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    averaged = Jacobian._averaged
    monkeypatch.setattr(Jacobian, "_averaged", lambda self, stack, w: averaged(self, stack, torch.ones_like(w)))
    with pytest.raises(AssertionError):
        check("chain", Solver())


def test_wrap_around_of_a_fourier_basis_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fourier(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Real and orthonormal: cosine plus sine (Hartley)."""
        angle = 2 * torch.pi / size * torch.outer(torch.arange(size), torch.arange(size)).double()
        return ((angle.cos() + angle.sin()) / size**0.5).to(dtype)

    monkeypatch.setattr(cosine, "matrix", fourier)
    with pytest.raises(AssertionError):
        cosine_law()
    with pytest.raises(AssertionError):
        border_law()
