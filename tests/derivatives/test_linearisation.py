"""Local maps: the derivatives of every segment at one forward point."""

from __future__ import annotations

import gc
import weakref
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.derivatives import Linearisation, LocalMap
from sgfi.derivatives.linearisation import backpropagate
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
    return torch.stack([(first * second).sum() for first, second in zip(left, right, strict=True)]).sum()


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


def test_a_tangent_of_another_shape_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        local_map("chain").jvp(torch.randn(1, 1, dtype=torch.float64))


def test_values_are_the_models_own() -> None:
    model, x = tiny("fork"), tiny("fork").inputs(3, seed=5)
    values = point("fork").values
    v = model.act(model.v(x))
    torch.testing.assert_close(values["v"], model.v(x))
    torch.testing.assert_close(values["a"], model.a(v))
    torch.testing.assert_close(values["out"], model(x))
    assert not any(value.requires_grad for value in values.values())


# ------------------------------------------------------------------- memory, modes, raw


def test_release_lets_go_of_what_no_other_local_map_reads() -> None:
    linearisation = point("fork")
    kept, gone = (
        weakref.ref(linearisation._derivatives[linearisation._graph.exported.tensors[name]].push)
        for name in ("a", "out")
    )
    linearisation.release("a")
    gc.collect()
    assert gone() is not None, "b still reads the same output"
    linearisation.release("b")
    gc.collect()
    assert gone() is None and kept() is not None
    assert linearisation.values["out"].isfinite().all()
    assert linearisation.at("v").vjp(like(linearisation.at("v").outputs)).isfinite().all()


def test_a_released_frontier_is_no_longer_at_hand() -> None:
    linearisation = point("chain")
    linearisation.release("conv2")
    with pytest.raises(KeyError):
        linearisation.at("conv2")


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
    gradients = backpropagate(graph("chain"), "conv3", ["input", "conv2"], x, cotangent)
    assert set(gradients) == {"input", "conv2"}
    torch.testing.assert_close(gradients["input"], expected[0])
    torch.testing.assert_close(gradients["conv2"], expected[1])
    stacked = backpropagate(graph("chain"), "conv3", ["conv2"], x, torch.stack([cotangent, 2 * cotangent]))
    torch.testing.assert_close(stacked["conv2"][1], 2 * expected[1])


class Rotated(nn.Module):
    """Pairs of numbers turned as complex ones, which must lie beside each other."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x.contiguous()) * 1j)


def test_inputs_with_other_strides() -> None:
    model, x = Rotated().eval(), torch.randn(3, 4, 2)
    graph = sgfi.capture(model, x)
    strided = x.mT.contiguous().mT
    name = list(graph.nodes)[-1]
    torch.testing.assert_close(graph.program(("input",), (name,))(strided)[0], model(x))
    there, here = (Linearisation(graph, {"input": [name]}, each).at("input") for each in (strided, x))
    torch.testing.assert_close(there.vjp([model(x)]), here.vjp([model(x)]))
