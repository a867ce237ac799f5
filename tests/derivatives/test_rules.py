"""Rules: every op's derivative both ways, against autograd's own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sgfi
from sgfi.derivatives import Linearisation, LocalMap
from sgfi.derivatives.rules import autograd
from sgfi.derivatives.rules.ops import rule
from sgfi.errors import PlanError

MAP, TOKENS, VECTOR = (2, 4, 6, 6), (2, 5, 6), (2, 6)


def noise(*shape: int) -> Tensor:
    """Irregular numbers between -1.5 and 1.5 that can be made inside a captured op."""
    return 1.5 * torch.arange(1, math.prod(shape) + 1, dtype=torch.float64).square().mul(0.71).sin().reshape(shape)


def attention(x: Tensor, **options: object) -> Tensor:
    q, k, v = x.unflatten(-1, (2, 3)).transpose(1, 2), (x * x).unflatten(-1, (2, 3)).transpose(1, 2), x.sin()
    return F.scaled_dot_product_attention(q, k, v.unflatten(-1, (2, 3)).transpose(1, 2), **options)  # type: ignore[arg-type]


CASES: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "reshape": (MAP, lambda x: x.flatten(2).unsqueeze(1).squeeze(1).reshape(x.shape[0], 6, -1)),
    "permute": (MAP, lambda x: x.permute(0, 3, 1, 2).transpose(-1, 1).contiguous()),
    "expand": (TOKENS, lambda x: x.mean(1, keepdim=True).expand(-1, 3, -1)),
    "slice": (TOKENS, lambda x: x[:, 1:4:2] * x[:, -1:]),
    "select": (TOKENS, lambda x: x[:, 0] - 2 * x[:, -1]),
    "split": (TOKENS, lambda x: x.split(2, -1)[1] + x.chunk(3, 2)[0]),
    "unbind": (TOKENS, lambda x: x.unflatten(-1, (3, 2)).permute(2, 0, 1, 3).unbind(0)[1]),
    "cat": (TOKENS, lambda x: torch.cat([x, noise(1, 1, 6).expand(x.shape[0], -1, -1), x * x], 1)),
    "roll": (MAP, lambda x: torch.roll(x, (1, -2), (2, 3))),
    "pad": (MAP, lambda x: F.pad(x, (1, 2, 0, 1))),
    "masked_fill": (TOKENS, lambda x: x.masked_fill(noise(5, 6) > 0, 3.0)),
    "mean": (MAP, lambda x: x.mean((2, 3), keepdim=True) + x.mean(-1, keepdim=True)),
    "sum": (MAP, lambda x: x.sum(2)),
    "add": (TOKENS, lambda x: torch.add(x, x[:, :1], alpha=2) - noise(6)),
    "sub": (TOKENS, lambda x: noise(5, 6) - torch.sub(x, x * x, alpha=0.5)),
    "mul": (TOKENS, lambda x: x * x[:, :1] * 3),
    "div": (TOKENS, lambda x: x / (x[..., :1].square() + 1) / 2),
    "linear": (TOKENS, lambda x: F.linear(x, noise(3, 6), noise(3))),
    "matmul": (TOKENS, lambda x: x @ noise(6, 3) + (x @ x.mT) @ x[..., :3]),
    "matmul, broadcast": (TOKENS, lambda x: noise(4, 1, 3, 5) @ x),
    "bmm": (TOKENS, lambda x: torch.bmm(x, x.transpose(1, 2))),
    "conv1d": (TOKENS, lambda x: F.conv1d(x, noise(3, 5, 2), noise(3), padding=1)),
    "conv2d": (MAP, lambda x: F.conv2d(x, noise(6, 2, 3, 3), noise(6), stride=2, padding=1, groups=2)),
    "convolution": (MAP, lambda x: torch.convolution(x, noise(3, 4, 2, 2), None, [1], [1], [2], False, [0], 1)),
    "conv2d, few channels": (MAP, lambda x: F.conv2d(x, noise(6, 4, 3, 3), noise(6), stride=2, padding=1)),
    "conv2d of single cells": (MAP, lambda x: F.conv2d(x, noise(5, 4, 1, 1), noise(5), stride=(4, 3))),
    "patches": (MAP, lambda x: F.conv2d(x, noise(5, 4, 3, 2), noise(5), stride=(3, 2))),
    "relu": (MAP, torch.relu),
    "gelu": (MAP, lambda x: F.gelu(x) + F.gelu(x, approximate="tanh")),
    "silu": (MAP, lambda x: F.silu(x) * torch.sigmoid(x) + torch.tanh(x)),
    "hardswish": (MAP, lambda x: F.hardswish(x) + F.hardsigmoid(x) + F.relu6(x) + F.leaky_relu(x)),
    "pow": (MAP, lambda x: x.pow(3) + x.abs().clamp(min=0.1).rsqrt() + x.exp()),
    "batch_norm": (MAP, lambda x: F.batch_norm(x, noise(4), noise(4).exp(), noise(4), noise(4))),
    "layer_norm": (TOKENS, lambda x: F.layer_norm(x, (6,), noise(6), noise(6)) + F.layer_norm(x, (5, 6))),
    "softmax": (TOKENS, lambda x: torch.softmax(x, 1) * torch.softmax(x, -1)),
    "scaled_dot_product_attention": (TOKENS, attention),
    "attention, causal": (TOKENS, lambda x: attention(x, is_causal=True, scale=0.3)),
    "attention, masked": (TOKENS, lambda x: attention(x, attn_mask=noise(5, 5) > -1.2)),
    "max_pool2d": (MAP, lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d": (MAP, lambda x: F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 3)),
}


class Applied(nn.Module):
    """A learnt layer, the op, and something after it that is the output."""

    def __init__(self, op: Callable[[Tensor], Tensor], channels: int) -> None:
        super().__init__()
        self.start, self.op = nn.Linear(channels, channels), op

    def forward(self, x: Tensor) -> Tensor:
        return self.op(self.start(x)).sin()


def local_map(module: nn.Module, shape: tuple[int, ...], source: str = "start") -> LocalMap:
    x = noise(*shape)
    graph = sgfi.capture(module.double().eval(), x)
    return Linearisation(graph, {source: [list(graph.nodes)[-1]]}, x).at(source)


def check(local: LocalMap) -> None:
    """Stacked and alone, both ways, as torch.func says."""

    def run(h: Tensor) -> Tensor:
        return local.segment.program(h)[0]

    torch.testing.assert_close(local.outputs[0], run(local.source))
    tangents, cotangents = noise(3, *local.source.shape), noise(3, *local.outputs[0].shape)
    pushed, pulled = local.jvp(tangents)[0], local.vjp([cotangents])
    _, back = torch.func.vjp(run, local.source)
    for t, c, there, here in zip(tangents, cotangents, pushed, pulled, strict=True):
        torch.testing.assert_close(here, back(c)[0], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(local.vjp([c]), here, rtol=1e-9, atol=1e-11)
        assert ((there * c).sum() - (t * here).sum()).abs() < 1e-9, "adjoint"
        torch.testing.assert_close(local.jvp(t)[0], there, rtol=1e-9, atol=1e-11)
    step = 1e-6
    with torch.no_grad():
        above, below = (run(local.source + sign * step * tangents[0]) for sign in (1, -1))
    torch.testing.assert_close(pushed[0], (above - below) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_a_rule_is_autograds_derivative(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, op = CASES[case]
    monkeypatch.setattr(autograd, "by_autograd", lambda call, *_: pytest.fail(f"{call.name} has no rule"))
    check(local_map(Applied(op, shape[-1]), shape))


def test_two_rules_for_one_op_are_refused() -> None:
    with pytest.raises(ValueError, match="second derivative rule"):
        rule("relu")(lambda *_: None)


# ------------------------------------------------------------------- ops without a rule


class Distances(nn.Module):
    """``cdist`` has double backward but no forward-mode rule."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(3, 4), nn.Linear(5, 2)
        self.register_buffer("centres", torch.randn(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cdist(torch.tanh(self.fc(x)), self.centres.expand(x.shape[0], -1, -1)))


class Gate(nn.Module):
    """``hardsigmoid`` has no double backward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.hardsigmoid(self.fc(x)))


class Warp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 2, 1)
        self.register_buffer("turn", torch.tensor([[[1.0, 0.2, 0.0], [-0.1, 0.9, 0.1]]]))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.fc(x))
        grid = F.affine_grid(self.turn.expand(x.shape[0], 2, 3), list(h.shape), align_corners=False)
        return self.out(F.grid_sample(h, grid, align_corners=False))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lstm, self.out = nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(torch.tanh(self.fc(x)))[0])


class Deaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.floor(self.fc(x)))


@pytest.mark.parametrize(
    ("kind", "shape"), [(Distances, (2, 4, 3)), (Gate, (2, 3)), (Warp, (2, 2, 5, 6)), (Recurrent, (2, 4, 3))]
)
def test_awkward_ops_are_left_to_autograd(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    check(local_map(kind(), shape, "fc"))


def test_a_missing_forward_rule_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autograd, "_without_forward_mode", set())
    tries = []
    real = autograd._forward_mode
    monkeypatch.setattr(autograd, "_forward_mode", lambda *given: tries.append(1) or real(*given))
    local = local_map(Distances(), (2, 4, 3), "fc")
    for _ in range(3):
        local.jvp(torch.randn_like(local.source))
    assert len(tries) == 1


def test_an_error_that_is_not_a_missing_rule_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Tensor:
        raise RuntimeError("out of luck")

    local = local_map(Distances(), (2, 4, 3), "fc")
    monkeypatch.setattr(autograd, "_without_forward_mode", set())
    monkeypatch.setattr(autograd, "_forward_mode", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        local.jvp(torch.randn_like(local.source))


def test_a_constant_local_map_has_zero_derivatives() -> None:
    local = local_map(Deaf(), (2, 3), "fc")
    assert not local.jvp(torch.randn_like(local.source))[0].any()
    assert not local.vjp([torch.randn_like(local.outputs[0])]).any()


class Mixed(nn.Module):
    """A float32 model with a float64 constant, as numpy makes them."""

    def __init__(self, op: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.out, self.op = nn.Linear(5, 6), nn.Linear(6, 3), op
        self.register_buffer("constant", noise(6))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.op(self.fc(x), self.constant).float())


PROMOTING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": lambda h, c: h * c,
    "add": lambda h, c: torch.add(h, c, alpha=2) + h,
    "div": lambda h, c: c / (h * h + 1) + h / (c.abs() + 1),
    "cat": lambda h, c: torch.cat([h, c.expand(h.shape[0], 6), h * c], 1).unflatten(1, (3, 6)).sum(1),
    "sum": lambda h, c: h * h.sum(1, keepdim=True, dtype=torch.float64),
    "maximum": torch.maximum,
}


@pytest.mark.parametrize("name", PROMOTING)
def test_constants_of_another_dtype(name: str) -> None:
    torch.manual_seed(0)
    model, x = Mixed(PROMOTING[name]).eval(), torch.randn(3, 5)
    local = Linearisation(sgfi.capture(model, x), {"input": ["out"]}, x).at("input")
    _, pull = torch.func.vjp(model, x)
    _, pushed = torch.func.jvp(model, (x,), (x.sin(),))
    ours, (theirs,) = local.vjp([torch.ones(3, 3)]), pull(torch.ones(3, 3))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(local.jvp(x.sin())[0], pushed)


def test_questions_about_a_tensor_of_another_dtype() -> None:
    torch.manual_seed(0)
    model, x = Mixed(PROMOTING["mul"]).eval(), torch.randn(3, 5)
    graph, query = sgfi.capture(model, x), sgfi.Query("mul", [0, 1])
    lens = sgfi.natural(graph, sgfi.prior([torch.randn(40, 5)]))
    fc = sgfi.invert(lens, x, "fc", [0, 1])
    answer = sgfi.invert(lens, x, query, terminal=lens.state(x, "mul"))
    assert answer.value.dtype == torch.float32 and answer.states["mul"].dtype == torch.float64
    assert torch.cosine_similarity(answer.value, fc.value).min() > 0.8  # the same two features in other units
    assert sgfi.sweep(lens, x, [query + sgfi.Query("fc", [2])])[0].value.dtype == torch.float32
    with pytest.raises(PlanError, match=r"torch\.float64 at 'mul'"):
        sgfi.plan(graph, "out", ["mul"])
