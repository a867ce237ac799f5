"""Devices without double precision, played by the processor: nothing in the engine may make a double there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sgfi
from sgfi.spectral import precision, wide


class NoDouble(TorchDispatchMode):
    """Refuses every operation that gives a double, as a device without them would."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.dtype in (torch.float64, torch.complex128):
                raise TypeError(f"{function} made a {leaf.dtype}")
        return result


@pytest.fixture
def single_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "WITHOUT_DOUBLE", {"cpu"})


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 50, 3, padding=1), nn.Conv2d(50, 6, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(x)))


def graph() -> sgfi.TensorGraph:
    return sgfi.capture(Net().eval(), torch.randn(2, 2, 6, 6))


@pytest.mark.parametrize(
    "settings",
    [
        {"children": "true"},
        {"children": "online", "ridge": "auto"},
        {"children": "cross-fitted", "ridge": "auto", "stages": "auto"},
    ],
    ids=lambda settings: settings["children"],
)
def test_the_engine_makes_no_double_where_there_is_none(settings: dict, single_only: None, tmp_path: Path) -> None:
    plan = sgfi.plan(graph(), target="two", boundaries=["one"])
    batches = list(torch.randn(24, 2, 6, 6).split(8))
    with NoDouble():
        family = sgfi.calibrate(plan, batches, progress=False, **settings)
        value = sgfi.invert(family, batches[0], channels=[1, 2]).value
        kept = sgfi.load(sgfi.save(family, tmp_path / "maps", precision="int8"), plan.graph)
        sgfi.invert(kept, batches[0])
    assert value.dtype == torch.float32 and torch.isfinite(value).all()


def test_the_guard_would_notice() -> None:
    with NoDouble(), pytest.raises(TypeError, match=r"float64|complex128"):
        sgfi.calibrate(sgfi.plan(graph(), target="two", boundaries=["one"]), [torch.randn(8, 2, 6, 6)], progress=False)


def test_single_precision_solves_are_close_to_double_ones(single_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sgfi.plan(graph(), target="two", boundaries=["one"])
    batches = [torch.randn(64, 2, 6, 6)]
    assert wide(torch.float32, "cpu") == torch.float32
    single = sgfi.calibrate(plan, batches, progress=False)
    monkeypatch.setattr(precision, "WITHOUT_DOUBLE", set())
    double = sgfi.calibrate(plan, batches, progress=False)
    for name in plan.fitted:
        for left, right in zip(single.maps[name], double.maps[name], strict=True):
            gap = left.unpacked["gain"] - right.unpacked["gain"]
            assert float(gap.norm() / right.unpacked["gain"].norm()) < 1e-3
