"""Presets: what the words stand for, what overrides them, and what is recorded."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.calibration import PRESETS
from sgfi.calibration.presets import preset_named
from sgfi.errors import CalibrationError


@cache
def graph() -> sgfi.TensorGraph:
    """The generic recipe puts boundaries at both pools; its stem is the first convolution and what is pooled."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU())
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Conv2d(6, 3, 1)).double().eval()
    return sgfi.capture(model, torch.zeros(2, 2, 12, 12, dtype=torch.float64))


@cache
def batches() -> list[Tensor]:
    return list(torch.randn(20, 2, 12, 12, generator=torch.Generator().manual_seed(1)).double().split(8))


def calibrate(planned: sgfi.Plan, **options) -> sgfi.MapFamily:
    return sgfi.calibrate(planned, batches(), progress=False, **options)


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily) -> None:
    assert first.plan.description == second.plan.description and first.samples == second.samples
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            assert all(torch.equal(left.weights[key], right.weights[key]) for key in left.weights)


def test_the_default_is_the_paper() -> None:
    planned, paper = sgfi.plan(graph()), PRESETS["paper"]
    assert (paper.settings.ridge, paper.settings.children, paper.settings.maps) == (0.01, "true", 2)
    family = calibrate(planned)
    agree(family, calibrate(planned, preset="paper"))
    agree(family, calibrate(planned, ridge=0.01, children="true", stages=2))
    assert family.plan is planned and family.settings["preset"] == "paper"


def test_aligned_opens_the_stem_and_ties_bins_of_a_plain_recipe_plan() -> None:
    planned = sgfi.plan(graph())
    family = calibrate(planned, preset="aligned")
    by_hand = sgfi.plan(graph(), boundaries=["stage", "stem"], partition="blocks2")
    assert set(planned.fitted) < set(family.plan.fitted) and family.target == planned.target
    agree(family, calibrate(by_hand, ridge="auto", children="online", stages="auto"))
    assert family.settings == {
        "preset": "aligned",
        "ridge": "auto",
        "children": "online",
        "stages": "auto",
        "length": True,
        "refined": True,
    }


def test_a_shallower_target_and_axes_are_kept() -> None:
    shallow = sgfi.plan(graph(), target="3", axes={"input": 2})
    refined = PRESETS["aligned"].refine(shallow)
    assert refined.target == "3" and refined.boundary["input"].node.channel_axis == 2
    assert set(shallow.fitted) < set(refined.fitted)


@pytest.mark.parametrize(
    "options",
    [
        {"boundaries": ["stage", "0"]},
        {"boundaries": ["0"], "target": "3"},
        {"partition": "shared"},
        {"operator": "diagonal"},
    ],
    ids=str,
)
def test_a_custom_plan_is_left_as_it_is(options: dict) -> None:
    planned = sgfi.plan(graph(), **options)
    assert PRESETS["aligned"].refine(planned) is planned


def test_single_options_override_the_preset() -> None:
    custom = sgfi.plan(graph(), target="3", boundaries=["0"])
    family = calibrate(custom, preset="aligned", ridge=0.1, stages=1)
    agree(family, calibrate(custom, ridge=0.1, children="online", stages=1, length=True))
    resolved = {"ridge": 0.1, "children": "online", "stages": 1, "length": True}
    assert family.settings == {"preset": "aligned", **resolved, "refined": False}
    tangents = calibrate(custom, preset="aligned", ridge=0.1, stages=1, on="tangents1")
    assert not tangents.lengths
    with pytest.raises(CalibrationError, match=r'"online" or "cross-fitted" with ridge="auto"'):
        calibrate(custom, preset="aligned", children="true")


def test_the_manifest_records_the_preset(tmp_path: Path) -> None:
    family = calibrate(sgfi.plan(graph()), preset="aligned", checkpoint=tmp_path / "maps")
    recorded = json.loads((tmp_path / "maps" / "manifest.json").read_text())["calibration"]
    assert recorded["settings"] == family.settings and recorded["ridge"] == "auto"
    loaded = sgfi.load(tmp_path / "maps", graph())
    assert loaded.settings == family.settings and loaded.plan.fitted == family.plan.fitted
    sgfi.save(loaded, tmp_path / "copy")
    assert sgfi.load(tmp_path / "copy", graph()).settings == family.settings


def test_an_unknown_word_names_the_choices() -> None:
    with pytest.raises(CalibrationError, match=r"\['paper', 'aligned'\]; got 'fast'"):
        preset_named("fast")
