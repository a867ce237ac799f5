"""Maps fitted on tangents: the dense oracle, the law of linear models, and everything a calibration keeps."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.calibration.schedule import MemoryPlan
from sgfi.calibration.tangents import differences
from sgfi.errors import CalibrationError, QueryError, StoreError
from sgfi.evaluation.paths import mechanism
from sgfi.storage.manifest import sealed
from tests.analytic import captured, tiny
from tests.calibration.test_calibrate import Fragile, agree, counted
from tests.oracle import Oracle, Setting, evaluate

SIZES, TANGENTS = [4, 5], 2


@cache
def plan(name: str = "chain") -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(captured(name), model.target, list(model.boundaries), axes=model.channel_axis)


def batches(name: str = "chain") -> list[Tensor]:
    return list(tiny(name).inputs(sum(SIZES)).split(SIZES))


def calibrate(planned: sgfi.Plan | None = None, data: Any = None, **more: Any) -> sgfi.MapFamily:
    return sgfi.calibrate(planned or plan(), data or batches(), **{"progress": False, "on": "tangents2"} | more)


@cache
def reference(children: str = "true") -> sgfi.MapFamily:
    return calibrate(children=children)


# ------------------------------------------------------------------- which differences


@pytest.mark.parametrize("size", [3, 4, 7])
def test_all_differences_together_are_the_centred_inputs(size: int) -> None:
    """Every two inputs equally often, none of them the operating point."""
    x = torch.randn(size, 4, dtype=torch.float64)
    count = (size - 1) * (size - 2) // 2
    drawn = [differences(torch.eye(size), number) for number in range(count)]
    for rows in drawn:
        assert torch.equal(rows.diagonal(), torch.zeros(size)), "the operating point is left out"
        assert torch.equal(rows.abs().sum(1), torch.full((size,), 2.0)) and not rows.sum(1).any()
    assert len({tuple(rows.abs().flatten().tolist()) for rows in drawn}) == count, "different pairs"
    assert torch.equal(differences(x, count), differences(x, 0)), "then they come again"
    dx, centred = torch.cat([differences(x, number) for number in range(count)]), x - x.mean(0)
    torch.testing.assert_close(dx.mT @ dx, size * (size - 2) * centred.mT @ centred)


def test_two_inputs_leave_no_difference() -> None:
    with pytest.raises(CalibrationError, match=r"at least 3 inputs with on=.tangents.; got one of 2"):
        calibrate(data=list(tiny("chain").inputs(5).split([3, 2])))


# ------------------------------------------------------------------- the dense oracle


@pytest.mark.parametrize("children", ["true", "online"])
@pytest.mark.parametrize("name", ["chain", "nested", "tokens"])
def test_maps_and_answers_are_those_of_dense_formulas(name: str, children: str) -> None:
    model, data = tiny(name), batches(name)
    points = [(x, differences(x, number)) for x in data for number in range(TANGENTS)]
    x, dx = (torch.cat(parts) for parts in zip(*points, strict=True))
    expected = Oracle(model, Setting(children=children)).fit(x, dx)
    family = calibrate(plan(name), data, children=children)
    for v, maps in expected.maps.items():
        for ours, dense in zip(family.maps[v], maps, strict=True):
            gain = ours.weights["gain"]
            assert (gain.reshape(dense.shape) - dense).norm() <= 1e-8 * dense.norm(), v
    at = model.inputs(2, seed=3)
    mean = torch.as_tensor(family.origin).unsqueeze(0)
    terminal = (evaluate(model, at)[model.target] - evaluate(model, mean)[model.target]).detach()
    torch.testing.assert_close(family.state(at), terminal)
    for query in ({}, {"channels": [1]}):
        answer = sgfi.invert(family, at, **query)
        for v, state in expected.invert(at, terminal=terminal, **query).items():
            torch.testing.assert_close(answer.states[v], state, rtol=1e-8, atol=1e-10)


# ------------------------------------------------------------------- linear models


@pytest.mark.parametrize("children", ["true", "online"])
def test_of_an_affine_model_they_are_the_maps_of_centred_inputs(children: str) -> None:
    """With all tangents of a batch: those that its linear part gives for ``x - mean(x)``, whatever the offsets.

    The paper's maps of the affine model itself are others: the mean and the offsets are part of their states.
    """
    x = 2 + torch.randn(5, 2, 4, 5, dtype=torch.float64)
    families = {}
    for offsets in (True, False):
        torch.manual_seed(3)
        layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1))
        model = nn.Sequential(*layers).double().eval().requires_grad_(False)
        for layer in layers if not offsets else ():
            layer.bias.zero_()
        planned = sgfi.plan(sgfi.capture(model, x), "1", ["0"])
        data, on = ([x], "tangents6") if offsets else ([x - x.mean(0)], "states")
        families[on] = calibrate(planned, data, on=on, children=children)
        if offsets:
            paper = calibrate(planned, data, on="states", children=children).maps["input"]
    agree(families["tangents6"], families["states"])
    gains = [maps[0].weights["gain"] for maps in (paper, families["states"].maps["input"])]
    assert (gains[0] - gains[1]).norm() > 0.01 * gains[1].norm()

    origin = families["tangents6"].origin
    torch.testing.assert_close(origin, x.mean((0, 2, 3)).reshape(2, 1, 1).expand(2, 4, 5))
    at = x[:2] + torch.randn(2, 2, 4, 5, dtype=torch.float64)
    answers = [
        sgfi.invert(families["tangents6"], at, channels=[1]),
        sgfi.invert(families["states"], at - origin, channels=[1]),
    ]
    torch.testing.assert_close(answers[0].value, answers[1].value)


# ------------------------------------------------------------------- answers


def test_a_target_from_elsewhere_stands_for_a_tangent() -> None:
    family, model = reference(), tiny("chain")
    x, other = model.inputs(2, seed=1), model.inputs(2, seed=2)
    own, theirs = family.state(x), family.state(other)
    torch.testing.assert_close(sgfi.invert(family, x, terminal=own).value, sgfi.invert(family, x).value)
    both = sgfi.invert(family, x, terminal=own - 2 * theirs).value
    parts = [sgfi.invert(family, x, terminal=terminal).value for terminal in (own, theirs)]
    torch.testing.assert_close(both, parts[0] - 2 * parts[1])
    assert not sgfi.invert(family, x, terminal=torch.zeros_like(own)).value.any()
    raw = sgfi.invert(family, x, stage="raw").states["conv3"]
    torch.testing.assert_close(raw, own)


def test_at_the_mean_input_there_is_nothing_to_tell() -> None:
    family = reference()
    mean = torch.as_tensor(family.origin).unsqueeze(0)
    assert sgfi.invert(family, mean).value.abs().max() < 1e-12


def test_diagnostics_of_states_are_refused() -> None:
    with pytest.raises(QueryError, match="fitted on tangents"):
        mechanism(reference(), tiny("chain").inputs(2))


# ------------------------------------------------------------------- what a calibration keeps


@pytest.mark.parametrize("children", ["true", "online"])
def test_the_same_maps_every_time_and_for_any_budget(children: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agree(calibrate(children=children), reference(children), exactly=True)
    monkeypatch.setattr(MemoryPlan, "packed", lambda memory, names: [[name] for name in names])
    agree(calibrate(children=children), reference(children))


@pytest.mark.parametrize("children", ["true", "online"])
def test_an_interrupted_calibration_resumes(children: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryPlan, "packed", lambda memory, names: [[name] for name in names])
    expected, data, folder = calibrate(children=children), batches(), tmp_path / "maps"
    passes = 2 + (children == "online") + 2  # digests, the mean, starting states, both stages of the deepest node
    with pytest.raises(KeyboardInterrupt):
        calibrate(data=Fragile(data, passes * len(data) + 1, KeyboardInterrupt()), children=children, checkpoint=folder)
    fitted = counted(monkeypatch)
    resumed = calibrate(data=data, children=children, checkpoint=folder)
    assert fitted == ["act1", "input"]
    agree(resumed, expected, exactly=True)
    for other in ({"on": "states"}, {"on": "tangents3"}):
        with pytest.raises(StoreError, match="another model, plan, data or setting"):
            calibrate(data=data, children=children, checkpoint=folder, **other)


def test_a_stored_family_keeps_its_mean(tmp_path: Path) -> None:
    family, x = reference(), tiny("chain").inputs(2)
    assert family.samples == TANGENTS * sum(SIZES) and "18 tangents" in repr(family)
    for precision in ("full", "half"):
        sgfi.save(family, tmp_path / precision, precision=precision)
        loaded = sgfi.load(tmp_path / precision, captured("chain"))
        assert loaded.mean == family.mean and loaded.precision == precision
        assert loaded.settings["on"] == "tangents2" and loaded.describe()["on"] == "tangents"
    assert torch.equal(
        sgfi.invert(sgfi.load(tmp_path / "full", captured("chain")), x).value, sgfi.invert(family, x).value
    )
    file = tmp_path / "full" / "manifest.json"
    manifest = json.loads(file.read_text())
    assert manifest["format"] == 3, "older readers must not take the maps for maps of states"
    for wrong in ({"format": 1}, {"calibration": {**manifest["calibration"], "mean": [0.5]}}):
        file.write_text(json.dumps(sealed(manifest | wrong)))
        with pytest.raises(StoreError, match="a mean of 2 input channels with format 3"):
            sgfi.load(tmp_path / "full", captured("chain"))


# ------------------------------------------------------------------- settings


@pytest.mark.parametrize("word", ["tangent", "tangents0", "tangents-1", "tangents1.5", "tangents999", "", 4])
def test_unknown_words(word: Any) -> None:
    with pytest.raises(CalibrationError, match="tangents<k>"):
        calibrate(on=word)


@pytest.mark.parametrize("options", [{"children": "cross-fitted"}, {"children": "online", "stages": "auto"}])
def test_options_that_leave_samples_out(options: dict) -> None:
    with pytest.raises(CalibrationError, match="leave no sample out"):
        calibrate(**options)


def test_states_are_the_default() -> None:
    family = calibrate(on=None)
    assert family.mean is None and family.origin == 0.0 and "on" not in family.settings
    agree(family, calibrate(on="states"), exactly=True)
