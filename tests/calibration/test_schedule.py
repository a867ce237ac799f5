"""What fits into memory together, and in which precision."""

from __future__ import annotations

import torch
from torch import nn

import sgfi
from sgfi.calibration.batches import Batches
from sgfi.calibration.schedule import Job
from tests.test_calibration import batches, plan


def test_waves_never_hold_more_than_the_budget() -> None:
    found = plan("residual")
    whole = Job(found, Batches(found, batches("residual")), 0.01, "true", 2, 10**9)
    need = {name: whole.held(name) + whole.moment_bytes(name) for name in found.fitted}
    assert len(whole.waves(list(found.fitted))) == 1
    for budget in (max(need.values()), 2 * max(need.values())):
        job = Job(found, whole.data, 0.01, "true", 2, budget)
        waves = job.waves(list(found.fitted))
        assert [name for wave in waves for name in wave] == list(found.fitted) and len(waves) > 1
        assert all(sum(need[name] for name in wave) <= budget for wave in waves)


def test_moments_are_summed_in_double_where_that_takes_no_further_pass() -> None:
    graph = sgfi.capture(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval(), torch.zeros(2, 3, 9, 9)
    )
    found = sgfi.plan(graph, target="2", boundaries=["0"])
    data = Batches(found, [torch.randn(4, 3, 9, 9)])
    jobs = [Job(found, data, 0.01, "true", 2, budget) for budget in (1, 10**9)]
    assert [job.exact for job in jobs] == [False, True]
    small, large = (job.moment_bytes("0") for job in jobs)
    assert large == 2 * small
    need = sum(jobs[0].held(name) + jobs[0].moment_bytes(name) for name in found.fitted)  # both in one pass, in single
    assert not Job(found, data, 0.01, "true", 2, need).exact
    assert [job.sums("0") for job in jobs] == [torch.complex64, torch.complex128]


def test_carried_states_and_the_largest_fit_share_the_budget() -> None:
    job = Job(plan(), Batches(plan(), batches()), 0.01, "online", 2, 10**6)
    largest = max(job.held(name) + job.moment_bytes(name) for name in plan().fitted)
    assert job.spare() == 10**6 - largest
    assert Job(plan(), job.data, 0.01, "online", 2, largest - 1).spare() == 0
