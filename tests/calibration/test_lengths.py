"""The length of every node's state, from samples that were held out: against dense algebra, and its laws."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.calibration import fit_lengths
from sgfi.calibration.settings import FitSettings
from sgfi.calibration.splits import HELD_OUT
from sgfi.errors import CalibrationError, StoreError
from tests.analytic import captured, tiny
from tests.oracle import Oracle, calibrated, evaluate

NAMES = ["chain", "fork", "nested", "residual", "vector", "tokens"]
"""Fork and nested have nodes with several children."""


def planned(name: str) -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(captured(name), model.target, list(model.boundaries), model.channel_axis)


@cache
def family(name: str, children: str = "true", length: bool = True) -> sgfi.MapFamily:
    batches = list(tiny(name).inputs(40, seed=3).split([9, 16, 15]))
    return sgfi.calibrate(planned(name), batches, children=children, length=length, progress=False)


def bare(name: str) -> sgfi.MapFamily:
    return replace(family(name), lengths={})


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    held = torch.arange(len(x)) % HELD_OUT == HELD_OUT - 1
    return x[~held], x[held]


def dense_lengths(oracle: Oracle, held: Tensor, target: str) -> dict[str, float]:
    """From inverses by dense Jacobians."""
    true, states = evaluate(oracle.model, held), oracle.invert(held, target)
    return {v: float((y * true[v]).sum() / (y * y).sum()) for v, y in states.items() if v != target}


def short(estimate: Tensor, truth: Tensor) -> float:
    return float((estimate - truth).square().sum() / truth.square().sum())


@pytest.mark.parametrize("children", ["true", "online"])
@pytest.mark.parametrize("name", NAMES)
def test_lengths_are_those_of_dense_algebra(name: str, children: str) -> None:
    fit, held = split(tiny(name).inputs(40, seed=3))
    oracle, lengthened = calibrated(tiny(name), fit, children=children), family(name, children)
    assert set(lengthened.lengths) == set(lengthened.targets)
    for target, lengths in lengthened.lengths.items():
        assert lengths == pytest.approx(dense_lengths(oracle, held, target), rel=1e-6)
    assert any(abs(length - 1) > 1e-3 for length in lengthened.lengths[lengthened.target].values())


@pytest.mark.parametrize("name", NAMES)
def test_held_out_states_are_nearer_than_without(name: str) -> None:
    _, held = split(tiny(name).inputs(40, seed=3))
    truth = evaluate(tiny(name), held)
    for target in family(name).targets:
        with_, without = (sgfi.invert(f, held, target=target).states for f in (family(name), bare(name)))
        for node in family(name).plan.toward(target).fitted:
            assert short(with_[node], truth[node]) <= short(without[node], truth[node]) * (1 + 1e-9)
            missed = truth[node] - with_[node]
            assert abs(float((missed * with_[node]).sum() / with_[node].square().sum())) < 1e-8  # least squares


def test_a_length_is_not_fitted_to_the_samples_of_the_maps() -> None:
    fit, held = split(tiny("chain").inputs(40, seed=3))
    plain = sgfi.calibrate(planned("chain"), [fit], progress=False)
    target, fitted = plain.target, family("chain")
    assert fitted.samples == len(fit)
    assert fit_lengths(plain, [held])[target] == pytest.approx(fitted.lengths[target], rel=1e-9)
    assert fit_lengths(fitted, [held])[target] == pytest.approx(fitted.lengths[target], rel=1e-9)
    assert fit_lengths(plain, [fit])[target] != pytest.approx(fitted.lengths[target], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_no_direction_changes(name: str) -> None:
    x = tiny(name).inputs(5, seed=8)
    for query in ({}, {"channels": [0]}):
        with_, without = (sgfi.invert(f, x, **query).states for f in (family(name), bare(name)))
        for node, length in family(name).lengths[family(name).target].items():
            torch.testing.assert_close(with_[node], length * without[node])
        assert with_["input"].ne(without["input"]).any()


def test_answers_stay_linear_without_intercept() -> None:
    x, lengthened = tiny("fork").inputs(3, seed=8), family("fork")
    state = lengthened.state(x)
    other = torch.flip(state, [0])
    first, second, both = (
        sgfi.invert(lengthened, x, terminal=terminal).value for terminal in (state, other, 2 * state - 3 * other)
    )
    torch.testing.assert_close(both, 2 * first - 3 * second)
    assert not sgfi.invert(lengthened, x, terminal=torch.zeros_like(state)).value.any()


def test_first_maps_and_backpropagation_have_no_length() -> None:
    x = tiny("chain").inputs(3, seed=8)
    for stage in ("raw", "first"):
        with_, without = (sgfi.invert(f, x, stage=stage).value for f in (family("chain"), bare("chain")))
        assert torch.equal(with_, without)


def test_a_dead_estimate_keeps_its_length() -> None:
    plain = bare("chain")
    zero = tuple(replace(w, weights={key: 0 * own for key, own in w.unpacked.items()}) for w in plain.maps["input"])
    dead = replace(plain, maps={**plain.maps, "input": zero})
    lengths = fit_lengths(dead, [tiny("chain").inputs(4, seed=8)])
    assert {own["input"] for own in lengths.values()} == {1.0}
    assert all(length > 0 for own in lengths.values() for length in own.values())


@pytest.mark.parametrize("precision", ["full", "half"])
def test_a_saved_family_has_its_lengths(tmp_path: Path, precision: str) -> None:
    x = tiny("chain").inputs(3, seed=8)
    path = sgfi.save(family("chain"), tmp_path / "maps", precision=precision)
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["format"] == 4
    for stream in (False, True):
        loaded = sgfi.load(path, captured("chain"), stream=stream)
        assert loaded.lengths == family("chain").lengths
        tolerance = 1e-12 if precision == "full" else 1e-2
        assert float((sgfi.invert(loaded, x).value - sgfi.invert(family("chain"), x).value).abs().max()) < tolerance
    sgfi.save(family("chain", length=False), tmp_path / "plain")
    assert json.loads((tmp_path / "plain" / "manifest.json").read_text())["format"] == 1


def test_lengths_under_another_format_are_refused(tmp_path: Path) -> None:
    path = sgfi.save(family("chain"), tmp_path / "maps")
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["checksum"]
    for broken in ({**manifest, "format": 1}, {**manifest, "format": 5}):
        (path / "manifest.json").write_text(json.dumps(broken))
        with pytest.raises(StoreError, match="format"):
            sgfi.load(path, captured("chain"))
    manifest["calibration"]["lengths"]["nobody"] = {"input": 2.0}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="nobody"):
        sgfi.load(path, captured("chain"))


def test_a_resumed_calibration_has_the_same_lengths(tmp_path: Path) -> None:
    batches = list(tiny("chain").inputs(40, seed=3).split([9, 16, 15]))
    for _ in range(2):  # the second time everything is there
        fitted = sgfi.calibrate(planned("chain"), batches, length=True, checkpoint=tmp_path / "maps", progress=False)
        assert fitted.lengths[tiny("chain").target] == pytest.approx(family("chain").lengths[tiny("chain").target])
    assert sgfi.load(tmp_path / "maps", captured("chain")).lengths == fitted.lengths


def test_what_lengths_cannot_go_with() -> None:
    x = tiny("chain").inputs(40, seed=3)
    with pytest.raises(CalibrationError, match="length=True"):
        sgfi.calibrate(planned("chain"), [x], length=True, on="tangents", progress=False)
    with pytest.raises(CalibrationError, match="8 samples"):
        sgfi.calibrate(planned("chain"), [x[:7]], length=True, progress=False)
    with pytest.raises(CalibrationError, match="length"):
        sgfi.calibrate(planned("chain"), [x], length=2, progress=False)  # type: ignore[arg-type]
    with pytest.raises(CalibrationError, match="seed"):
        FitSettings(length=True, seed=lambda state, boundary: state)
    tangents = sgfi.calibrate(planned("chain"), [x], on="tangents", progress=False)
    with pytest.raises(CalibrationError, match="tangents"):
        fit_lengths(tangents, [x])


def test_the_paper_has_no_length() -> None:
    assert not family("chain", length=False).lengths
    assert sgfi.calibration.PRESETS["paper"].settings.length is False


def test_data_that_cannot_be_judged_are_refused() -> None:
    x = tiny("chain").inputs(12, seed=1)
    family = sgfi.calibrate(sgfi.plan(captured("chain")), [x], progress=False)
    for wrong in ([], [x[:0]], [x * float("nan")], [x[:, :1]], [x.to(torch.float16)], x, 3):
        with pytest.raises(CalibrationError):
            fit_lengths(family, wrong)  # type: ignore[arg-type]
    assert fit_lengths(family, [(x, torch.zeros(12))]) == fit_lengths(family, [x])
    assert fit_lengths(family, iter([x])) == fit_lengths(family, [x])
    with pytest.raises(CalibrationError, match="map family"):
        fit_lengths(family.plan, [x])  # type: ignore[arg-type]
