"""Held-out error over samples: against fits on that many samples, and what `until` does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.calibration.batches import Batches
from sgfi.calibration.curve import FIRST_COUNT, LearningCurve, learning_curve
from sgfi.calibration.probing import drawn_bins
from sgfi.calibration.settings import FitSettings
from sgfi.calibration.splits import HELD_OUT
from sgfi.errors import CalibrationError
from sgfi.evaluation.quality import curve_text
from sgfi.storage import read_manifest
from tests.analytic import captured, tiny
from tests.oracle import calibrated, evaluate


def planned(name: str, **more: Any) -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(captured(name), model.target, list(model.boundaries), model.channel_axis, **more)


def measured(name: str, x: Tensor, sizes: list[int], until: float | None = None, **more: Any) -> LearningCurve:
    plan = planned(name, **more)
    curve = learning_curve(plan, FitSettings(), Batches(plan, list(x.split(sizes))), until)
    assert curve is not None
    return curve


@pytest.mark.parametrize("partition", ["singleton", "shared"])
@pytest.mark.parametrize("name", ["chain", "fork", "vector", "tokens"])
def test_points_are_errors_of_maps_fitted_to_that_many_samples(name: str, partition: str) -> None:
    x = tiny(name).inputs(80, seed=3)
    held = torch.arange(80) % HELD_OUT == HELD_OUT - 1
    curve = measured(name, x, [30, 30, 20], partition=partition)
    assert curve.samples == (FIRST_COUNT, 32, 64, 70) and curve.held_out == 10
    plan, truth = planned(name), evaluate(tiny(name), x[held])
    for index, count in enumerate(curve.samples):
        oracle = calibrated(tiny(name), x[~held][:count], stages=1, partition=partition)
        for node, shares in curve.missed.items():
            js = oracle.jacobians(x[held], tiny(name).target, node)
            seeds = {u: oracle.mean_seed(u, truth[u]) for u in js}
            spectrum = oracle.axes[node].spectrum  # (B, F, C)
            source, state = spectrum(oracle.pull(js, seeds, truth[node])), spectrum(truth[node])
            estimate = torch.einsum("fij,bfj->bfi", oracle.maps[node][0], source)
            bins = drawn_bins(plan.boundary[node], truth[node])
            left, whole = (part[:, bins].abs().square().sum((0, 2)) for part in (state - estimate, state))
            assert shares[index] == pytest.approx(float((left / whole).mean()), rel=1e-6)


def test_drawn_bins_follow_the_energy() -> None:
    boundary = planned("chain").boundary["input"]
    flat = torch.ones(4, *boundary.basis.shape, dtype=torch.float64)  # all of it in the zero frequency
    assert drawn_bins(boundary, flat).unique().tolist() == [0]
    noise = torch.randn(64, *boundary.basis.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert len(drawn_bins(boundary, noise).unique()) > 5


def test_batches_do_not_matter() -> None:
    x = tiny("chain").inputs(50, seed=3)
    first, second = measured("chain", x, [50]), measured("chain", x, [7] * 7 + [1])
    assert first.samples == second.samples
    for node, shares in first.missed.items():
        assert shares == pytest.approx(second.missed[node], rel=1e-9)


def test_the_curve_changes_no_map_and_is_stored(tmp_path: Path) -> None:
    x = tiny("chain").inputs(40, seed=3)
    family = sgfi.calibrate(planned("chain"), list(x.split(10)), progress=False)
    assert family.samples == 40, "held out of the curve alone"
    assert family.curve["samples"] == [16, 32, 35]
    sgfi.save(family, tmp_path / "maps")
    assert read_manifest(tmp_path / "maps")["calibration"]["curve"] == family.curve
    assert sgfi.load(tmp_path / "maps", captured("chain")).curve == family.curve
    text = curve_text(family.curve)
    assert all(f"{shares[-1]:.3f}" in text for shares in family.curve["missed"].values()) and "#" in text
    assert curve_text({}) == ""


@pytest.mark.parametrize("children", ["true", "online"])
def test_until_takes_no_more_samples_than_help(children: str) -> None:
    batches = list(tiny("vector").inputs(400, seed=3).split(20))
    family = sgfi.calibrate(planned("vector"), batches, children=children, until=0.1, progress=False)
    assert family.samples < 400 and family.curve["reason"].startswith("stopped")
    taken = family.curve["samples"][-1]
    assert taken <= family.samples <= taken + 20 + family.curve["held_out"]
    count = family.samples // 20
    again = sgfi.calibrate(planned("vector"), batches[:count], children=children, progress=False)
    for name, maps in again.maps.items():
        for own, expected in zip(family.maps[name], maps, strict=True):
            assert torch.equal(own.unpacked["gain"], expected.unpacked["gain"])
    every = sgfi.calibrate(planned("vector"), batches, children=children, until=1e-9, progress=False)
    assert every.samples == 400 and every.curve["reason"].startswith("all samples")


def test_a_rise_is_no_end() -> None:
    """Errors peak where there are as many samples as channels."""
    rising = LearningCurve((16, 32), {"a": (0.2, 0.9)}, 4, until=0.01)
    assert not rising.converged
    level = LearningCurve((16, 32), {"a": (0.2, 0.201)}, 4, until=0.01)
    assert level.converged
    assert "too few" in LearningCurve((12,), {"a": (0.2,)}, 4, until=0.01).reason


def test_what_until_cannot_mean() -> None:
    x = tiny("chain").inputs(40, seed=3)
    for wrong in (0, 1.5, "0.1", True):
        with pytest.raises(CalibrationError, match="until"):
            sgfi.calibrate(planned("chain"), [x], until=wrong, progress=False)  # type: ignore[arg-type]
    with pytest.raises(CalibrationError, match="tangents"):
        sgfi.calibrate(planned("chain"), [x], until=0.1, on="tangents", progress=False)


def test_few_samples_and_tangents_have_no_curve() -> None:
    x = tiny("chain").inputs(40, seed=3)
    assert not sgfi.calibrate(planned("chain"), [x[:5]], progress=False).curve
    assert not sgfi.calibrate(planned("chain"), [x], on="tangents", progress=False).curve
