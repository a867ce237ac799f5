"""Inverses, and a saved family, as the code before the rooms made them (commit 1812896): numbers, not old code."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from tests.analytic import captured, tiny

DATA = Path(__file__).parent / "data"
EXPECTED: dict[str, list[float]] = json.loads((DATA / "inverses-of-1812896.json").read_text())
"""``model/mode/answer`` -> length, and inner product with the cosines of 0, 1, 2, ..."""
MODES: dict[str, dict[str, Any]] = {
    "true": {"children": "true"},
    "online": {"children": "online"},
    "honest": {"children": "cross-fitted"},
    "auto": {"children": "online", "ridge": "auto", "stages": "auto"},
    "rank": {"children": "true"},
}


@cache
def family(model: str, mode: str) -> sgfi.MapFamily:
    net = tiny(model)
    inner = [name for name in net.boundaries if name != net.target]
    operator = "diagonal+rank2" if mode == "rank" else "full"
    plan = sgfi.plan(captured(model), target=net.target, boundaries=inner, operator=operator)
    batches = list(net.inputs(21, seed=5).split([4, 5, 3, 4, 5]))
    return sgfi.calibrate(plan, batches, progress=False, **MODES[mode])


def digest(value: Tensor) -> list[float]:
    flat = value.double().flatten()
    return [float(flat.norm()), float(flat @ torch.cos(torch.arange(len(flat), dtype=torch.float64)))]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_inverses_are_as_before(name: str) -> None:
    model, mode, answer = name.split("/")
    query: dict[str, Any] = {"channels": [0]} if answer == "channel" else {"stage": answer}
    value = sgfi.invert(family(model, mode), tiny(model).inputs(3, seed=6), **query).value
    length = EXPECTED[name][0]
    assert digest(value) == pytest.approx(EXPECTED[name], rel=1e-6, abs=1e-6 * length)


def test_a_family_saved_before_loads() -> None:
    loaded = sgfi.load(DATA / "family-of-1812896", captured("chain"))
    assert loaded.children == "cross-fitted"
    value = sgfi.invert(loaded, tiny("chain").inputs(3, seed=6)).value
    assert digest(value) == pytest.approx(EXPECTED["chain/honest/final"], rel=1e-6)
