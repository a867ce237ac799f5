"""Groups: several tensors answered by one solve, against the stacked dense formula, and the laws of a group."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import SgfiError
from sgfi.evaluation.removal import removal_of
from sgfi.evaluation.trust import trust
from sgfi.inversion import Query
from sgfi.natural.solution import Solver
from tests.analytic import tiny
from tests.natural.dense import TIGHT, averaged_jacobian, fitted_prior, lens_of
from tests.test_engine_against_oracle import engine

ROUTES = {"exact": Solver(), "conjugate gradients": TIGHT}
MIX = torch.tensor([[1.0, -2.0, 0.5, 0.0, 3.0]])
GROUPS = {
    "chain": [
        Query("act1", [0]) + Query("conv3", [1, 3]),
        Query("conv3", [2], [(0, 1)]) + Query("act1", [1]),
        Query("act1", [0], [(1, 1)]) + Query("conv3", directions=MIX),
    ],
    "tokens": [Query("embed", None, [2]) + Query("block", [3], [1]) + Query("norm", [0], [4])],
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", GROUPS)
def test_value_and_share_are_those_of_the_stacked_rows(name: str, route: str) -> None:
    """Rows of every tensor over the root of the lambda it has alone, unit noise."""
    x, lens = tiny(name).inputs(2, seed=3), lens_of(name, solver=ROUTES[route])
    for query in GROUPS[name]:
        (answer,) = lens.answer(x, [query])
        for number in range(len(x)):
            sample = x[number : number + 1]
            rows, targets = [], []
            for part in query.parts:
                node = lens.node(part.target)
                matrix = averaged_jacobian(
                    tiny(name), node.name, sample, lens.prior.mean, lens.path.rule, lens.path.points
                )
                selection = part.selection(node)
                selected = selection.rows(torch.arange(selection.count), sample).flatten(1)
                noise = float(lens.answer(sample, [part])[0].ridge[0])
                rows.append(selected @ matrix / noise**0.5)
                targets.append(selected @ lens.state(sample, node.name).flatten() / noise**0.5)
                state = answer.states[node.name][number].flatten()
                torch.testing.assert_close(selected @ state, targets[-1] * noise**0.5, rtol=0, atol=1e-9)
            stacked, t = torch.cat(rows), torch.cat(targets)
            covariance = lens.prior.dense()
            system = stacked @ covariance @ stacked.mT + torch.eye(len(stacked), dtype=torch.float64)
            gain = covariance @ stacked.mT @ torch.linalg.inv(system)
            torch.testing.assert_close(answer.value[number].flatten(), gain @ t, rtol=0, atol=1e-8)
            axis = lens.prior.channel_axis - 1
            known, whole = (
                m.diagonal().reshape(sample[0].shape).sum(axis) for m in (gain @ stacked @ covariance, covariance)
            )
            torch.testing.assert_close(answer.share[number], known / whole, rtol=0, atol=1e-8)


def test_a_group_explains_no_less_than_its_parts_and_order_does_not_matter() -> None:
    x, lens = tiny("chain").inputs(1, seed=3), lens_of("chain")
    query = GROUPS["chain"][0]
    (whole,), (turned,) = lens.answer(x, [query]), lens.answer(x, [query.parts[1] + query.parts[0]])
    torch.testing.assert_close(turned.value, whole.value, rtol=0, atol=1e-9)
    for part in query.parts:
        assert (whole.share - lens.answer(x, [part])[0].share).min() > -1e-9


class Scaled(nn.Module):
    """Two readings of one input, the first in other units."""

    def __init__(self, units: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(6, 4).double(), nn.Linear(4, 3).double()
        self.units = units

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(x)) * self.units / self.units) + 0 * (self.one(x) * self.units).sum()


def test_units_do_not_matter() -> None:
    x, fitted = torch.randn(2, 6, dtype=torch.float64), sgfi.prior([torch.randn(40, 6, dtype=torch.float64)])
    values = []
    for units in (1.0, 1e4):
        lens = sgfi.natural(sgfi.capture(Scaled(units).eval(), x), fitted)
        first = next(name for name, node in lens.graph.nodes.items() if node.op == "mul" and node.shape == (None, 4))
        values.append(lens.answer(x, [Query(first, [1, 2]) + Query("two", [0])])[0].value)
    torch.testing.assert_close(values[1], values[0], rtol=1e-8, atol=1e-10)


def test_text_sweeps_terminals_controls_and_samples() -> None:
    x, lens = tiny("chain").inputs(2, seed=3), lens_of("chain")
    query = Query.parse("act1:0 + conv3:1,3")
    assert query == GROUPS["chain"][0] and str(query) == "act1:0 + conv3:1,3" and len(query.parts) == 2
    other = GROUPS["chain"][2]
    together = sgfi.sweep(lens, x, [query, Query("conv3", [1]), other])
    for asked, answer in zip([query, Query("conv3", [1]), other], together, strict=True):
        torch.testing.assert_close(answer.value, lens.answer(x, [asked])[0].value, rtol=0, atol=1e-10)
    state = torch.cat([lens.state(x, part.target).flatten(1) for part in query.parts], 1)
    (same,) = lens.answer(x, [query], state)
    torch.testing.assert_close(same.value, together[0].value, rtol=0, atol=1e-10)
    several = sgfi.sweep(lens, x, [query, query], terminal=torch.stack([state, 2 * state]))
    torch.testing.assert_close(several[1].value, 2 * several[0].value, rtol=0, atol=1e-9)
    controls = trust(lens, x, query)
    assert controls.random is not None and controls.swapped is not None and controls.neighbours is None
    assert lens.samples(x, query, 2).shape == (2, *x.shape)


def test_who_cannot_answer_a_group_says_who_can() -> None:
    x, query = tiny("chain").inputs(1, seed=3), GROUPS["chain"][0]
    with pytest.raises(SgfiError, match=r"sgfi\.natural"):
        sgfi.sweep(engine("chain"), x, [query])
    lens = lens_of("chain")
    for terminal, got in (([torch.zeros(1)], "got list"), (torch.zeros(3, 1, 2, dtype=torch.float64), r"\(3, 1, 2\)")):
        for queries in ([query], [query, query]):
            with pytest.raises(SgfiError, match=f"a terminal of the target's .*{got}"):
                sgfi.sweep(lens, x, queries, terminal=terminal)  # type: ignore[arg-type]
    with pytest.raises(SgfiError, match="different tensors"):
        lens.answer(x, [Query("conv3", [1]) + Query("conv3", [2])])
    with pytest.raises(SgfiError, match="one tensor"):
        removal_of(lens, x, [query], fitted_prior("chain"))
