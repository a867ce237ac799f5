"""Two families whose answers are known without running anything."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

import sgfi
from tests.analytic import Line


class Square(nn.Module):
    """``y = x ** 2``: the target forgets the signs, which only the operating point (J = 2x) knows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.square()


def signs(count: int, seed: int = 0, shape: tuple[int, ...] = (3, 4, 4)) -> Tensor:
    """Images of +-1 with a little spread: two of them are almost orthogonal, their squares almost equal."""
    g = torch.Generator().manual_seed(seed)
    sign = torch.randint(0, 2, (count, *shape), generator=g, dtype=torch.float64) * 2 - 1
    return sign * (1 + 0.05 * torch.rand(count, *shape, generator=g, dtype=torch.float64))


@cache
def square_family() -> sgfi.MapFamily:
    graph = sgfi.capture(Square().eval(), signs(2))
    plan = sgfi.plan(graph, target="square", boundaries=[], axes={"square": 1, "input": 1})
    return sgfi.calibrate(plan, [signs(64, 1), signs(64, 2)], progress=False)


@cache
def orthogonal_family() -> sgfi.MapFamily:
    """``y = Q x`` with a vanishing ridge: the inverse of channel i is ``q_i <q_i, x>``, of all channels x itself."""
    q = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)).Q
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    plan = sgfi.plan(sgfi.capture(Line(q).eval(), x[:2]), target="fc", boundaries=[])
    return sgfi.calibrate(plan, [x], ridge=1e-12, progress=False)
