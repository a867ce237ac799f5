"""A batch norm with fixed statistics fused into the convolution before it: nothing changes but the work."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.derivatives.rules.cpu import plain_kernels


class Net(nn.Module):
    """Three convolutions with norms; the last one's own output is read a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 6, 3, bias=False), nn.Conv2d(6, 6, 3, groups=2, padding=1)
        self.three = nn.Conv2d(6, 4, 1)
        self.norm1, self.norm2 = nn.BatchNorm2d(6), nn.BatchNorm2d(6, affine=False)
        self.norm3 = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm1(self.one(x)))
        x = torch.relu(self.norm2(self.two(x)))
        x = self.three(x)
        return self.norm3(x) * x


def model() -> Net:
    net = Net().double().eval()
    for norm in (net.norm1, net.norm2, net.norm3):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.2, 3)
    for norm in (net.norm1, net.norm3):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return net


X = torch.randn(2, 3, 6, 6, dtype=torch.float64)


def point(net: nn.Module, keep: tuple[str, ...] = ()) -> Linearisation:
    return Linearisation(sgfi.capture(net, X), {"input": ["norm2"], "norm2": ["mul"]}, X, keep=keep)


def test_values_and_derivatives_are_those_of_the_two_ops() -> None:
    net = model()
    fused = point(net)
    with plain_kernels():
        plain = point(net)
    assert [str(conv) for conv in fused._fused] == ["conv2d", "conv2d_1"] and not plain._fused
    for name, value in plain.values.items():
        torch.testing.assert_close(fused.values[name], value)
    ours, theirs = fused.at("input"), plain.at("input")
    tangent, cotangent = torch.randn_like(X), torch.randn_like(ours.outputs[0])
    torch.testing.assert_close(ours.jvp(tangent), theirs.jvp(tangent))
    torch.testing.assert_close(ours.vjp([cotangent]), theirs.vjp([cotangent]))


def test_an_output_that_is_wanted_is_the_convolution_s_own() -> None:
    net = model()
    wanted = point(net, keep=("one",))
    torch.testing.assert_close(wanted.values["one"], net.one(X).detach())
    assert [str(conv) for conv in wanted._fused] == ["conv2d_1"]


def test_weights_that_change_are_fused_again() -> None:
    net = model()
    graph = sgfi.capture(net, X)
    for _ in range(2):
        changed = Linearisation(graph, {"input": ["norm2"]}, X)
        torch.testing.assert_close(
            changed.values["norm2"], net.norm2(net.two(torch.relu(net.norm1(net.one(X))))).detach()
        )
        with torch.no_grad():
            net.norm1.running_var.mul_(2)
            net.one.weight.add_(1)
