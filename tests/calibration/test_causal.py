"""What causal maps promise: nothing after the last queried position, and an answer that no later token changes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.errors import PlanError
from tests.analytic import captured, tiny

FAMILIES = {
    "one matrix": {"operator": "causal", "partition": "shared"},
    "first apart": {"operator": "causal", "partition": "first-apart"},
    "one a position": {"operator": "causal", "partition": "singleton"},
    "kernel": {"operator": "causal+2", "partition": "shared"},
}
LENGTH = 4


@cache
def fitted(name: str, children: str = "online", ridge: float | str = 0.01) -> sgfi.MapFamily:
    """A family of the two-layer causal model; ``paper`` is one complex matrix for all frequencies."""
    setting = FAMILIES.get(name, {"operator": "full", "partition": "shared"})
    plan = sgfi.plan(captured("two layers"), target="second.proj", boundaries=["block"], **setting)
    return sgfi.calibrate(plan, tiny("two layers").inputs(24).split(7), ridge, children, progress=False)


def energy(value: torch.Tensor) -> torch.Tensor:
    return value.square().sum((0, 2))  # (L,)


@pytest.mark.parametrize("stage", ["first", "final"])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_energy_after_the_last_queried_position(name: str, stage: str) -> None:
    x = tiny("two layers").inputs(3, seed=2)
    asked = [sgfi.Query(coords=[p]) for p in range(LENGTH)] + [sgfi.Query(coords=[0, 2], channels=[1, 4])]
    for query, inverse in zip(asked, sgfi.sweep(fitted(name), x, asked, stage=stage), strict=True):
        (last,) = max(query.coords)
        for state in inverse.states.values():
            assert torch.equal(state[:, last + 1 :], torch.zeros_like(state[:, last + 1 :]))
        assert energy(inverse.value)[last] > 0
        alone = sgfi.invert(fitted(name), x, channels=query.channels, coords=query.coords, stage=stage)
        torch.testing.assert_close(alone.value, inverse.value)


def test_the_papers_family_does_leak() -> None:
    x = tiny("two layers").inputs(3, seed=2)
    energies = energy(sgfi.invert(fitted("paper"), x, coords=[1]).value)
    assert energies[2:].sum() > 0.05 * energies.sum()
    assert not energy(sgfi.invert(fitted("paper"), x, coords=[1], stage="raw").value)[2:].any()


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_after_the_query_change_nothing(name: str) -> None:
    x, other = tiny("two layers").inputs(3, seed=2), tiny("two layers").inputs(3, seed=5)
    later = torch.cat([x[:, :2], other[:, 2:]], dim=1)
    value, again = (sgfi.invert(fitted(name), sequence, coords=[1]).value for sequence in (x, later))
    torch.testing.assert_close(value, again)
    leaky, changed = (sgfi.invert(fitted("paper"), sequence, coords=[1]).value for sequence in (x, later))
    assert not torch.allclose(leaky, changed, rtol=1e-3)


def test_a_query_without_coordinates_is_one_of_all_of_them() -> None:
    x = tiny("two layers").inputs(2, seed=2)
    whole = sgfi.invert(fitted("kernel"), x).value
    torch.testing.assert_close(sgfi.invert(fitted("kernel"), x, coords=list(range(LENGTH))).value, whole)


@pytest.mark.parametrize("children", ["cross-fitted", "true"])
def test_every_way_to_fit(children: str) -> None:
    ridge = "auto" if children == "cross-fitted" else 0.01
    x = tiny("two layers").inputs(2, seed=2)
    value = sgfi.invert(fitted("kernel", children, ridge), x, coords=[1]).value
    assert torch.isfinite(value).all() and not value[:, 2:].any() and value[:, :2].all()


def test_maps_on_disk_and_within_a_budget(tmp_path: Path) -> None:
    x = tiny("two layers").inputs(2, seed=2)
    family = fitted("kernel")
    sgfi.save(family, tmp_path / "maps")
    again = sgfi.load(tmp_path / "maps", tiny("two layers"))
    small = sgfi.calibrate(family.plan, tiny("two layers").inputs(24).split(7), 0.01, "online", memory="1MB")
    for other in (again, small):
        assert torch.equal(sgfi.invert(other, x, coords=[2]).value, sgfi.invert(family, x, coords=[2]).value)


def test_positions_must_be_one_axis_of_one_length() -> None:
    with pytest.raises(PlanError, match="no single axis at 'input'"):
        sgfi.plan(captured("chain"), target="conv3", boundaries=["act1"], operator="causal")
    with pytest.raises(PlanError, match=r"causal\+<k>"):
        sgfi.plan(captured("two layers"), target="second.proj", boundaries=["block"], operator="causal+0")
