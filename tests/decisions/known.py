"""Tiny models whose decision depends on known channels and positions by construction."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PRO, CONTRA, PLACE, BIAS = 3, 7, (1, 2), 0.5


class Known(nn.Module):
    """16x16 picture -> 4x4 cells of 48 channels by an orthogonal patch embedding -> two logits.

    The first logit reads channel PRO at PLACE with weight one and CONTRA at PLACE with weight minus one, plus BIAS; the
    second is zero. With ``mirror`` the two channels always hold the same value, so they cancel and the margin is BIAS.
    """

    def __init__(self, mirror: bool = False) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 48, 4, stride=4, bias=False)
        self.mirror = mirror
        g = torch.Generator().manual_seed(0)
        basis = torch.linalg.qr(torch.randn(48, 48, generator=g, dtype=torch.float64)).Q
        if mirror:
            basis[CONTRA] = basis[PRO]
        self.double()
        with torch.no_grad():
            self.embed.weight.copy_(basis.reshape(48, 3, 4, 4))
        weight = torch.zeros(2, 48, 4, 4, dtype=torch.float64)
        weight[0][(PRO, *PLACE)], weight[0][(CONTRA, *PLACE)] = 1.0, -1.0
        self.register_buffer("weight", weight.flatten(1))
        self.register_buffer("bias", torch.tensor([BIAS, 0.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.embed(x).flatten(1), self.weight, self.bias)


def pictures(count: int, seed: int = 1) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 16, 16, generator=g, dtype=torch.float64)


class Around(nn.Module):
    """A residual path goes around ``inner``, so the rest of the model reads more than the edited tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.inner = nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).relu()
        return self.head((y + self.inner(y).tanh()).mean((2, 3)))
