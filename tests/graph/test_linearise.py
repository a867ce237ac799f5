"""Local maps: the derivatives of every segment at one forward point."""

from __future__ import annotations

import gc
import weakref
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sgfi
from sgfi.graph import Linearisation, LocalMap
from sgfi.graph.linearise import backpropagate
from tests.analytic import tiny

CASES = {
    "chain": ("chain", {"input": ["act1"], "act1": ["conv2"], "conv2": ["conv3"]}, "act1"),
    "nested": ("nested", {"input": ["v"], "v": ["add"], "w": ["add"], "add": ["last"]}, "v"),
    "externals held": ("nested", {"input": ["v"], "v": ["add"], "w": ["add"], "add": ["last"]}, "w"),
    "fork": ("fork", {"input": ["v"], "v": ["a", "b"], "a": ["out"], "b": ["out"]}, "v"),
    "join": ("fork", {"input": ["v"], "v": ["a", "b"], "a": ["out"], "b": ["out"]}, "a"),
    "attention": ("tokens", {"input": ["embed"], "embed": ["block.add"], "block.add": ["norm"]}, "embed"),
    "pooled": ("pooled", {"input": ["conv1"], "conv1": ["pool"], "pool": ["fc"]}, "conv1"),
}


@cache
def graph(name: str) -> sgfi.TensorGraph:
    return sgfi.capture(tiny(name), tiny(name).inputs(2))


def point(case: str, batch: int = 3) -> Linearisation:
    name, frontiers, _ = CASES[case]
    return Linearisation(graph(name), frontiers, tiny(name).inputs(batch, seed=5))


def local_map(case: str, batch: int = 3) -> LocalMap:
    return point(case, batch).at(CASES[case][2])


def like(tensors: tuple[Tensor, ...] | list[Tensor], stack: tuple[int, ...] = ()) -> list[Tensor]:
    return [torch.randn(*stack, *tensor.shape, dtype=tensor.dtype) for tensor in tensors]


def inner(left: list[Tensor] | tuple[Tensor, ...], right: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return torch.stack([(one * two).sum() for one, two in zip(left, right, strict=True)]).sum()


@pytest.mark.parametrize("case", CASES)
def test_jvp_and_vjp_are_adjoint(case: str) -> None:
    local = local_map(case)
    (tangent,), cotangents = like([local.source]), like(local.outputs)
    left, right = inner(local.jvp(tangent), cotangents), (tangent * local.vjp(cotangents)).sum()
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)
    assert left.abs() > 1e-6


@pytest.mark.parametrize("case", CASES)
def test_jvp_is_the_finite_difference_with_the_rest_held(case: str) -> None:
    local = local_map(case)
    (tangent,), step = like([local.source]), 1e-6
    run, held = local.segment.program, local.externals
    with torch.no_grad():
        above, below = (run(local.source + sign * step * tangent, *held) for sign in (1, -1))
    for pushed, up, down in zip(local.jvp(tangent), above, below, strict=True):
        torch.testing.assert_close(pushed, (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_both_routes_of_the_jvp_agree(case: str) -> None:
    local = local_map(case)
    for stack in ((), (4,)):
        (tangent,) = like([local.source], stack)
        for one, two in zip(local._forward_mode(tangent), local._double_backward(tangent), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_stack_is_its_members_one_by_one(case: str) -> None:
    local = local_map(case)
    (tangents,), cotangents = like([local.source], (4,)), like(local.outputs, (4,))
    pushed, pulled = local.jvp(tangents), local.vjp(cotangents)
    for q in range(4):
        torch.testing.assert_close(pulled[q], local.vjp([c[q] for c in cotangents]), rtol=1e-10, atol=1e-12)
        for stacked, alone in zip(pushed, local.jvp(tangents[q]), strict=True):
            torch.testing.assert_close(stacked[q], alone, rtol=1e-10, atol=1e-12)


def test_a_nested_boundary_does_not_cut_the_way_through_it() -> None:
    """v reaches add by the skip and through w, which is a boundary itself: both ways count."""
    model, local = tiny("nested"), local_map("nested")

    def whole(v: Tensor) -> Tensor:
        h = model.v_act(v)
        return model.inner(model.w_act(model.w(h))) + model.skip(h)

    (tangent,) = like([local.source])
    _, expected = torch.func.jvp(whole, (local.source.detach(),), (tangent,))
    torch.testing.assert_close(local.jvp(tangent)[0], expected)
    leaf = local.source.detach().requires_grad_()
    (cotangent,) = like(local.outputs)
    (pulled,) = torch.autograd.grad(whole(leaf), leaf, cotangent)
    torch.testing.assert_close(local.vjp([cotangent]), pulled)


def test_what_is_not_downstream_is_held() -> None:
    """w's map to add does not see the skip around it."""
    model, local = tiny("nested"), local_map("externals held")
    (tangent,) = like([local.source])
    _, expected = torch.func.jvp(lambda w: model.inner(model.w_act(w)), (local.source.detach(),), (tangent,))
    torch.testing.assert_close(local.jvp(tangent)[0], expected)


def test_values_are_the_models_own() -> None:
    model, x = tiny("fork"), tiny("fork").inputs(3, seed=5)
    values = point("fork").values
    v = model.act(model.v(x))
    torch.testing.assert_close(values["v"], model.v(x))
    torch.testing.assert_close(values["a"], model.a(v))
    torch.testing.assert_close(values["out"], model(x))
    assert not any(value.requires_grad for value in values.values())


# ------------------------------------------------------------------- ops with one derivative route only


class Distances(nn.Module):
    """``cdist`` has double backward but no forward-mode rule."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(3, 4), nn.Linear(5, 2)
        self.register_buffer("centres", torch.randn(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cdist(torch.tanh(self.fc(x)), self.centres.expand(x.shape[0], -1, -1)))


class Gate(nn.Module):
    """``hardsigmoid`` has a forward-mode rule but no double backward."""

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


def awkward(model: nn.Module, shape: tuple[int, ...]) -> tuple[sgfi.TensorGraph, Tensor]:
    x = torch.randn(2, *shape, dtype=torch.float64)
    return sgfi.capture(model.double().eval(), x), x


@pytest.mark.parametrize(("kind", "shape"), [(Distances, (4, 3)), (Gate, (3,)), (Warp, (2, 5, 6)), (Recurrent, (4, 3))])
def test_awkward_ops_have_a_right_jvp(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    found, x = awkward(kind(), shape)
    local = Linearisation(found, {"fc": ["out"]}, x).at("fc")
    (tangent,), step = like([local.source]), 1e-6
    with torch.no_grad():
        above, below = (local.segment.program(local.source + sign * step * tangent)[0] for sign in (1, -1))
    torch.testing.assert_close(local.jvp(tangent)[0], (above - below) / (2 * step), rtol=1e-5, atol=1e-6)


def test_a_missing_forward_rule_falls_back_and_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    found, x = awkward(Distances(), (4, 3))
    tries = []
    real = LocalMap._forward_mode
    monkeypatch.setattr(LocalMap, "_forward_mode", lambda self, t: tries.append(1) or real(self, t))
    for _ in range(3):
        local = Linearisation(found, {"fc": ["out"]}, x).at("fc")
        local.jvp(torch.randn_like(local.source))
    assert found.segment("fc", ["out"]).route == "reverse" and len(tries) == 1


def test_the_forward_route_is_remembered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found, x = awkward(Gate(), (3,))
    local = Linearisation(found, {"fc": ["out"]}, x).at("fc")
    monkeypatch.setattr(LocalMap, "_double_backward", lambda *_: pytest.fail("hardsigmoid has no double backward"))
    local.jvp(torch.randn_like(local.source))
    assert found.segment("fc", ["out"]).route == "forward"


def test_an_error_that_is_not_a_missing_rule_is_not_hidden() -> None:
    local = local_map("chain")
    with pytest.raises(RuntimeError):
        local.jvp(torch.randn(1, 1, dtype=torch.float64))
    assert local.segment.route != "reverse"


def test_a_constant_local_map_has_zero_derivatives() -> None:
    class Deaf(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.floor(self.fc(x)))

    found, x = awkward(Deaf(), (3,))
    local = Linearisation(found, {"fc": ["out"]}, x).at("fc")
    tangent = torch.randn_like(local.source)
    assert not local.jvp(tangent)[0].any() and not local._double_backward(tangent)[0].any()
    assert not local.vjp([torch.randn_like(local.outputs[0])]).any()


# ------------------------------------------------------------------- memory, modes, raw


def test_release_lets_go_of_the_graph_behind_a_frontier() -> None:
    found = point("fork")
    kept, gone = weakref.ref(found.at("v").outputs[0]), weakref.ref(found.at("a").outputs[0])
    assert kept() is not None and gone() is not None
    found.release("a")
    gc.collect()
    assert gone() is not None, "b still reads the same output"
    found.release("b")
    gc.collect()
    assert gone() is None and kept() is not None
    assert found.values["out"].isfinite().all()
    assert found.at("v").vjp(like(found.at("v").outputs)).isfinite().all()


def test_a_released_frontier_is_no_longer_at_hand() -> None:
    found = point("chain")
    found.release("conv2")
    with pytest.raises(KeyError):
        found.at("conv2")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inputs_from_other_modes(mode: type) -> None:
    """A tensor made under inference mode, or a caller that turned gradients off."""
    with mode():
        x = tiny("chain").inputs(2)
    with torch.no_grad():
        local = Linearisation(graph("chain"), {"input": ["act1"]}, x).at("input")
        assert local.vjp(like(local.outputs)).abs().sum() > 0
        assert local.jvp(torch.randn(local.source.shape, dtype=torch.float64))[0].abs().sum() > 0


def test_backpropagation_is_autograd() -> None:
    model, x = tiny("chain"), tiny("chain").inputs(3).requires_grad_()
    middle = model.conv2(model.act1(model.conv1(x)))
    end = model.conv3(model.act2(middle))
    (cotangent,) = like([end])
    expected = torch.autograd.grad(end, [x, middle], cotangent)
    found = backpropagate(graph("chain"), "conv3", ["input", "conv2"], x, cotangent)
    assert set(found) == {"input", "conv2"}
    torch.testing.assert_close(found["input"], expected[0])
    torch.testing.assert_close(found["conv2"], expected[1])
    stacked = backpropagate(graph("chain"), "conv3", ["conv2"], x, torch.stack([cotangent, 2 * cotangent]))
    torch.testing.assert_close(stacked["conv2"][1], 2 * expected[1])
