"""Sizes chosen by held-out samples: measured as fits measure them, cheapest within a tolerance, within a budget."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.calibration import choose_sizes
from sgfi.calibration.probing import drawn_bins, first_sources
from sgfi.calibration.sizes import Candidate, chosen, measure_sizes
from sgfi.calibration.splits import HELD_OUT
from sgfi.errors import CalibrationError, PlanError
from sgfi.inversion.update import mean_seed


@cache
def planned(**how: str) -> sgfi.Plan:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 40, 3, padding=1), nn.Tanh(), nn.Conv2d(40, 72, 2, stride=2), nn.Tanh(), nn.Conv2d(72, 8, 1)]
    graph = sgfi.capture(nn.Sequential(*layers).double().eval(), inputs(2))
    return sgfi.plan(graph, "4", ["1", "3"], **how)  # type: ignore[arg-type]


def inputs(count: int, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, 12, 12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@cache
def candidates() -> dict[str, list[Candidate]]:
    return measure_sizes(planned(), list(inputs(64).split(20)))  # type: ignore[return-value]


def test_candidates_miss_what_their_fits_miss() -> None:
    """Of first maps, true children, at the drawn bins of the held-out samples."""
    x = inputs(64)
    held = torch.arange(64) % HELD_OUT == HELD_OUT - 1
    for name in planned().fitted:
        for candidate in candidates()[name]:
            boundaries = {**planned().boundary, name: candidate.boundary}
            plan = sgfi.Plan(planned().graph, "custom", planned().dag, boundaries)
            wiener = sgfi.calibrate(plan, [x[~held]], stages=1, progress=False).maps[name][0]
            ((_, source, state),) = first_sources(plan, plan.graph, x[held], [name], mean_seed)
            basis = candidate.boundary.basis
            bins = drawn_bins(candidate.boundary, state)
            truth, read = basis.analyse(state), basis.analyse(source)
            left = truth - wiener.operator.apply(wiener.weights, read, wiener.partition)
            share = left[bins].abs().square().sum((1, 2)) / truth[bins].abs().square().sum((1, 2))
            assert candidate.missed == pytest.approx(float(share.mean()), rel=1e-6), (name, str(candidate))


def test_every_kind_is_tried() -> None:
    words = {candidate.partition for each in candidates().values() for candidate in each}
    assert {"singleton", "blocks2", "blocks4", "rings", "shared", "singleton, diagonal+rank16"} <= words
    only = measure_sizes(planned(), list(inputs(64).split(20)), low_rank=False)
    assert {c.boundary.operator.name for each in only.values() for c in each} == {"full"}


def test_the_cheapest_within_the_tolerance_is_taken() -> None:
    for tolerance in (0.0, 0.05, 0.5):
        plan = chosen(planned(), candidates(), tolerance=tolerance)
        for name, each in candidates().items():
            least = min(candidate.missed for candidate in each)
            own = next(c for c in each if c.boundary is plan.boundary[name])
            assert own.missed <= least * (1 + tolerance)
            assert all(c.missed > least * (1 + tolerance) for c in each if c.bytes < own.bytes)
    sizes = [chosen(planned(), candidates(), tolerance=t).map_bytes for t in (0.0, 0.05, 0.5, 0.99)]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]


def test_a_budget_is_kept_and_spent_where_it_saves_most() -> None:
    most = chosen(planned(), candidates(), tolerance=0.0)
    least = sum(min(c.bytes for c in each) for each in candidates().values())
    missed = []
    for share in (0.0, 0.1, 0.3, 0.6, 1.0):
        budget = int(least + share * (most.map_bytes - least))
        plan = chosen(planned(), candidates(), budget, tolerance=0.0)
        assert plan.map_bytes <= budget
        missed.append(sum(c.missed for n, e in candidates().items() for c in e if c.boundary is plan.boundary[n]))
    assert missed[-1] < missed[0] and plan.map_bytes == most.map_bytes
    with pytest.raises(PlanError, match="at least"):
        chosen(planned(), candidates(), least - 1)


def test_a_chosen_plan_calibrates_and_loads(tmp_path: Path) -> None:
    batches = list(inputs(64).split(20))
    plan = choose_sizes(planned(), batches, tolerance=0.3)
    family = sgfi.calibrate(plan, batches, progress=False)
    assert family.bytes == 2 * plan.map_bytes < 2 * planned().map_bytes  # in double precision
    sgfi.save(family, tmp_path / "maps")
    loaded = sgfi.load(tmp_path / "maps", plan.graph)
    assert torch.equal(sgfi.invert(loaded, inputs(2, 9)).value, sgfi.invert(family, inputs(2, 9)).value)


def test_what_was_tied_on_purpose_stays() -> None:
    plan = choose_sizes(planned(partition="blocks2"), list(inputs(16).split(8)))
    assert plan.description == planned(partition="blocks2").description


def test_wrong_use_is_named() -> None:
    with pytest.raises(CalibrationError, match="8 samples"):
        choose_sizes(planned(), [inputs(7)])
    with pytest.raises(PlanError, match="tolerance"):
        chosen(planned(), candidates(), tolerance=2.0)
