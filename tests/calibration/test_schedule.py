"""What fits into memory together, and in which precision."""

from __future__ import annotations

import torch
from torch import nn

import sgfi
from sgfi.calibration.schedule import MemoryPlan
from sgfi.calibration.settings import FitSettings
from tests.calibration.test_calibrate import plan


def memory(budget: int, planned: sgfi.Plan, **settings: str) -> MemoryPlan:
    return MemoryPlan.within(planned, FitSettings(**settings), 8, budget)


def test_a_round_never_holds_more_than_the_budget() -> None:
    planned = plan("residual")
    names, whole = list(planned.fitted), memory(10**9, planned)
    assert len(whole.packed(names)) == 1
    largest = max(map(whole.need, names))
    for budget in (largest, 2 * largest):
        rounds = memory(budget, planned).packed(names)
        assert [name for round in rounds for name in round] == names and len(rounds) > 1
        assert all(sum(map(whole.need, round)) <= budget for round in rounds)


def test_rounds_start_with_the_deepest_node_and_leave_out_the_finished() -> None:
    names = list(plan("residual").fitted)
    assert memory(10**9, plan("residual")).rounds(names[-1:]) == [names[-2::-1]]
    online = memory(10**9, plan("residual"), children="online")
    assert online.rounds(names[-1:]) == [[name] for name in names[-2::-1]]
    assert online.passes(names[-1:]) == 1 + 2 * (len(names) - 1) and online.passes(names) == 0


def test_moments_are_summed_in_double_where_that_takes_no_further_pass() -> None:
    graph = sgfi.capture(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval(), torch.zeros(2, 3, 9, 9)
    )
    planned = sgfi.plan(graph, target="2", boundaries=["0"])
    small, large = (memory(budget, planned) for budget in (1, 10**9))
    assert not small.double and large.double
    assert large.moment_bytes("0") == 2 * small.moment_bytes("0")
    moments = large.moments("0", range(1))
    assert large.moment_bytes("0", 1) == moments.xx.nbytes + moments.yx.nbytes
    together = sum(map(small.need, planned.fitted))  # both nodes in one pass, in single precision
    assert not memory(together, planned).double
    assert [each.sums("0") for each in (small, large)] == [torch.complex64, torch.complex128]


def test_buffered_states_and_the_largest_fit_share_the_budget() -> None:
    online = memory(10**6, plan(), children="online")
    largest = max(map(online.need, plan().fitted))
    assert online.spare() == 10**6 - largest
    assert memory(largest - 1, plan(), children="online").spare() == 0
