"""Boundaries behind a skip connection: idle ones change nothing, are reported and not fitted."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

import sgfi
from sgfi.boundaries.frontier import idle
from sgfi.graph import TensorGraph, capture


class Down(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.conv(x))


class UNet(nn.Module):
    """Two levels down and two up, with a skip connection at each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 3, 1)
        self.down1, self.down2, self.bottom = Down(3), Down(3), Down(3)
        self.join2, self.join1 = nn.Conv2d(6, 3, 1), nn.Conv2d(6, 3, 1)
        self.up2, self.up1 = Down(3), Down(3)

    def forward(self, x: Tensor) -> Tensor:
        level1 = self.down1(self.stem(x))
        level2 = self.down2(nn.functional.avg_pool2d(level1, 2))
        low = self.bottom(nn.functional.avg_pool2d(level2, 2))
        back = self.up2(self.join2(torch.cat([level2, nn.functional.interpolate(low, scale_factor=2)], 1)))
        return self.up1(self.join1(torch.cat([level1, nn.functional.interpolate(back, scale_factor=2)], 1)))


@cache
def graph() -> TensorGraph:
    torch.manual_seed(0)
    return capture(UNet().double().eval(), torch.randn(2, 2, 8, 8, dtype=torch.float64))


def test_the_generic_plan_of_a_u_net_ends_at_the_bottom_and_uses_everything() -> None:
    plan = sgfi.plan(graph())
    assert plan.target == "bottom" and plan.idle == () and not idle(plan.dag)
    assert plan.fitted == ("input", "stem", "down1", "down2")


def test_idle_boundaries_of_another_target_are_reported_and_not_fitted() -> None:
    plan = sgfi.plan(graph(), "up1")
    assert plan.idle == ("down2", "bottom", "up2") and plan.fitted == ("input", "stem", "down1")
    assert "they change nothing: down2, bottom, up2" in str(plan)
    assert "change nothing" not in str(sgfi.plan(graph()))


def test_idle_boundaries_change_nothing() -> None:
    captured, x = graph(), torch.randn(3, 2, 8, 8, dtype=torch.float64)
    data = [torch.randn(16, 2, 8, 8, dtype=torch.float64)]
    short = sgfi.plan(captured, "up1")
    with_idle = sgfi.plan(captured, "up1", [*short.fitted, *short.idle])  # asked for by name: fitted
    assert with_idle.fitted == ("input", "stem", "down1", "down2", "bottom", "up2")
    inverses = [sgfi.invert(sgfi.calibrate(plan, data), x, channels=[1]).value for plan in (short, with_idle)]
    torch.testing.assert_close(*inverses)
