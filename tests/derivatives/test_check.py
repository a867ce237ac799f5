"""Capture checks itself: wrong or missing derivatives are refused by name, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchvision.ops import DeformConv2d, roi_align

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.derivatives.check import Noise
from sgfi.derivatives.rules.ops import RULES, Linear, Rule
from sgfi.errors import DerivativeError
from sgfi.graph import RandomModel


class Net(nn.Module):
    """A linear layer and what a test puts after it."""

    def __init__(self, op: Callable[[Tensor], Tensor], features: int = 6) -> None:
        super().__init__()
        self.fc, self.op = nn.Linear(features, features), op

    def forward(self, x: Tensor) -> Tensor:
        return self.op(self.fc(x))


def captured(op: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float64, **options: bool) -> sgfi.TensorGraph:
    return sgfi.capture(Net(op).to(dtype).eval(), torch.randn(2, 4, 6, dtype=dtype), **options)


def both_ways(graph: sgfi.TensorGraph, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``<J t, c>``, ``<t, J* c>`` and the finite difference, along one random pair."""
    local = Linearisation(graph, {"input": [list(graph.nodes)[-1]]}, x).at("input")
    tangent, cotangent, step = torch.randn_like(x), torch.randn_like(local.outputs[0]), 1e-6
    run = local.segment.program
    with torch.no_grad():
        quotient = (run(x + step * tangent)[0] - run(x - step * tangent)[0]) / (2 * step)
    pushed, pulled = local.jvp(tangent)[0], local.vjp([cotangent])
    return (pushed * cotangent).sum(), (tangent * pulled).sum(), (quotient * cotangent).sum()


# ------------------------------------------------------------------- what used to be wrong in silence


@torch.library.custom_op("sgfi_tests::square", mutates_args=())
def square(x: Tensor) -> Tensor:
    """Its author registered a backward and no forward mode."""
    return x * x


square.register_fake(torch.empty_like)
square.register_autograd(
    lambda ctx, c: 2 * c * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@torch.library.custom_op("sgfi_tests::closed", mutates_args=())
def closed(x: Tensor) -> Tensor:
    return x * x


closed.register_fake(torch.empty_like)


@torch.library.custom_op("sgfi_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return 2 * x


twice.register_fake(torch.empty_like)
twice.register_autograd(lambda ctx, c: 3 * c, setup_context=lambda ctx, inputs, output: None)


def rotary(x: Tensor) -> Tensor:
    turn = torch.polar(torch.ones(3, dtype=torch.float64), torch.arange(3, dtype=torch.float64))
    return x + torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (3, 2))) * turn).flatten(-2)


AWKWARD = {
    "a filter in the frequency domain": lambda x: x + torch.fft.irfft2(torch.fft.rfft2(x) * (1 + 2j), s=(4, 6)),
    "token mixing by Fourier transforms": lambda x: x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    "rotary embeddings with complex numbers": rotary,
    "complex absolute value": lambda x: torch.fft.rfft(x).abs(),
    "attention with scale zero": lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.0),
    "a custom op with a backward": lambda x: x + square(x),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_both_derivatives_are_the_finite_difference(name: str) -> None:
    ahead, back, quotient = both_ways(captured(AWKWARD[name]), torch.randn(2, 4, 6, dtype=torch.float64))
    torch.testing.assert_close(ahead, back, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ahead, quotient, rtol=1e-5, atol=1e-5)


def test_an_assignment_to_a_slice() -> None:
    def assigned(x: Tensor) -> Tensor:
        x = x * 1
        x[:, 0] = 2 * x[:, 1]
        x[..., 3] = 0
        return x

    ahead, back, quotient = both_ways(captured(assigned), torch.randn(2, 4, 6, dtype=torch.float64))
    torch.testing.assert_close(ahead, back)
    torch.testing.assert_close(ahead, quotient, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------- refused by name


class Rounded(torch.autograd.Function):
    """Straight through."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: object, c: Tensor) -> Tensor:
        return c


def partly_without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        held = x.sin()
    return x * held


REFUSED = {
    "closed": (lambda x: x + closed(x), r"sgfi_tests\.closed"),
    "twice": (lambda x: x + twice(x), r"sgfi_tests\.twice.*(finite differences|\<J t, c\>)"),
    "detach": (lambda x: x * x.detach(), r"Tensor\.detach \(test_check\.py:\d+\)"),
    "no_grad": (partly_without_gradient, r"sin under no_grad \(test_check\.py:\d+\)"),
    "straight through": (lambda x: x.sin() + Rounded.apply(x), r"autograd\.Function Rounded"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", REFUSED)
def test_a_derivative_that_is_not_one_is_refused_by_name(name: str, dtype: torch.dtype) -> None:
    op, message = REFUSED[name]
    with pytest.raises(DerivativeError, match=message):
        captured(op, dtype)


def test_without_the_check_it_is_the_derivative_of_what_is_computed() -> None:
    graph = captured(lambda x: x * x.detach(), check=False)
    ahead, back, quotient = both_ways(graph, torch.randn(2, 4, 6, dtype=torch.float64))
    torch.testing.assert_close(ahead, back)
    torch.testing.assert_close(ahead, quotient, rtol=1e-5, atol=1e-5)


def planted(push: float, pull: float) -> Rule:
    def of(call: object, argument: object, item: object) -> Linear:
        slope = 1 - call.out.square()  # type: ignore[attr-defined]
        return Linear(lambda t: push * slope * t, lambda c: pull * slope * c)

    return Rule(of=of)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("push", "pull", "message"), [(1.0, 1.1, "<J t, c>"), (1.1, 1.1, "finite differences"), (0.0, 0.0, "finite")]
)
def test_a_planted_error_is_found(
    push: float, pull: float, message: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "tanh", planted(push, pull))
    with pytest.raises(DerivativeError, match=rf"aten\.tanh.*{message}"):
        captured(torch.tanh, dtype)
    monkeypatch.setitem(RULES, "tanh", planted(1.0, 1.0))
    captured(torch.tanh, dtype)


def test_the_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "tanh", planted(1.0, 2.0))
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())).eval()
    with pytest.raises(DerivativeError, match=r"tanh\.default in '1\.1'"):
        sgfi.capture(model, torch.randn(2, 3))


# ------------------------------------------------------------------- no false alarms


def overflowing(x: Tensor) -> Tensor:
    return x.masked_fill(x > 0.2, -torch.inf).softmax(-1)


HARMLESS = {
    "rectifiers at zero": lambda x: F.relu(F.relu(x) * (x > 0.5)) + F.hardtanh(x.round()),
    "ties": lambda x: F.max_pool1d(F.relu(x), 2) + F.relu(x).amax(-1, keepdim=True),
    "steps": lambda x: x + x.floor() + x.sign() + (x > 0).to(x.dtype),
    "integers": lambda x: x + torch.gather(x, 1, x.argmax(1, keepdim=True)) + x.argsort(-1),
    "sorted": lambda x: x.sort(-1).values + x.topk(6, -1).values,
    "roots at zero": lambda x: (x - x).abs().sqrt() + x,
    "infinite scores": overflowing,
    "tiny": lambda x: 1e-20 * x,
    "nearly constant": lambda x: F.layer_norm(1000 + 1e-2 * x, (6,)),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, False),
    "symmetric matrices": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4, dtype=x.dtype)).sum(-1),
    "a detached copy of a weight": lambda x: x + torch.ones(6, dtype=x.dtype, requires_grad=True).detach(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", HARMLESS)
def test_kinks_and_steps_are_not_errors(name: str, dtype: torch.dtype) -> None:
    captured(HARMLESS[name], dtype)


@pytest.mark.parametrize("op", [lambda x: F.dropout(x, 0.5, True), lambda x: x + torch.randn_like(x)])
def test_random_numbers_are_no_error_and_are_named(op: Callable[[Tensor], Tensor]) -> None:
    with pytest.warns(RandomModel, match="dropout|randn"):
        captured(op)


class Strided(nn.Module):
    """PyTorch's backward of batch norm in evaluation is wrong for a cotangent with other strides (2.15, CPU)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm2d(3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(x).flatten(2).transpose(1, 2)).sin()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_error_of_pytorch_is_not_ours(dtype: torch.dtype) -> None:
    sgfi.capture(Strided().to(dtype).eval(), torch.randn(2, 3, 4, 4, dtype=dtype))


class Checkpointed(nn.Module):
    """A layer whose activations are computed again in the backward, which sees the layer's own weights."""

    def __init__(self, op: Callable[[Tensor], Tensor], reentrant: bool) -> None:
        super().__init__()
        self.fc, self.out, self.op, self.reentrant = nn.Linear(5, 6), nn.Linear(6, 3), op, reentrant

    def part(self, x: Tensor) -> Tensor:
        return self.op(self.fc(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(checkpoint(self.part, x, use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoints(reentrant: bool) -> None:
    torch.manual_seed(0)
    model, x = Checkpointed(torch.tanh, reentrant).double().eval(), torch.randn(2, 5, dtype=torch.float64)
    graph = sgfi.capture(model, x)
    local = Linearisation(graph, {"input": ["out"]}, x).at("input")
    plain = nn.Sequential(model.fc, nn.Tanh(), model.out)
    _, expected = torch.func.vjp(plain, x)
    torch.testing.assert_close(local.vjp([torch.ones(2, 3).double()]), expected(torch.ones(2, 3).double())[0])
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


def test_a_detach_inside_a_checkpoint_is_seen() -> None:
    with pytest.raises(DerivativeError, match=r"Tensor\.detach"):
        sgfi.capture(Checkpointed(lambda h: h * h.detach(), False).eval(), torch.randn(2, 5))


@pytest.mark.parametrize("name", ["detach", "straight through"])
def test_attention_and_dropout_do_not_hide_what_is_wrong(name: str) -> None:
    """Ops that may draw random numbers, and here do not."""
    op, message = REFUSED[name]
    with pytest.raises(DerivativeError, match=message):
        captured(lambda x: F.dropout(F.scaled_dot_product_attention(op(x), x, x), 0.1, False))


def test_a_kink_close_by_is_not_an_error() -> None:
    """Entries nearer to a kink than a step along the line is long, most of them moving slowly."""
    x = torch.cat([torch.full((1, 300), 1e-9), torch.ones(1, 20)], 1).double() * torch.randn(1, 320).double()
    sgfi.capture(nn.Sequential(nn.ReLU6(), nn.Linear(320, 2)).double().eval(), torch.cat([x, x]))


def test_a_zero_example_is_checked_too() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
    sgfi.capture(model.eval(), torch.zeros(1, 3, 8, 8))


def test_value_and_derivative_of_a_random_op_are_of_one_draw() -> None:
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    with pytest.warns(RandomModel):
        graph = captured(lambda x: F.dropout(x, 0.5, True))
    local = Linearisation(graph, {"fc": [list(graph.nodes)[-1]]}, x).at("fc")
    kept = local.jvp(torch.ones_like(local.source))[0]
    torch.testing.assert_close(local.outputs[0], local.source * kept)
    assert set(kept.unique().tolist()) == {0.0, 2.0}


def test_the_callers_random_state_and_the_models_notes_are_left_alone() -> None:
    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.note = nn.Linear(3, 3), None
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.note = self.fc(x)
            self.new = x
            return self.note

    model, state = Noting().eval(), torch.get_rng_state()
    sgfi.capture(model, torch.ones(2, 3))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.note is None and not hasattr(model, "new") and not model.calls


def test_noise_is_the_same_every_time() -> None:
    assert torch.equal(Noise().like(torch.zeros(3)), Noise().like(torch.zeros(3)))
    assert Noise().like(torch.full((100,), 5.0), scaled=True).std() > 3


class Deformed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.offset, self.conv = nn.Conv2d(2, 8, 1), DeformConv2d(2, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x, self.offset(x)[..., :3, :3])


class Cropped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return roi_align(x.sin(), torch.tensor([[0.0, 0.0, 0.0, 3.0, 3.0]]), 2)


@pytest.mark.parametrize(("kind", "op"), [(Deformed, "deform_conv2d"), (Cropped, "roi_align")])
def test_ops_of_torchvision_that_lose_the_tangent_are_refused_by_name(kind: type[nn.Module], op: str) -> None:
    with pytest.raises(DerivativeError, match=rf"torchvision\.{op}"):
        sgfi.capture(kind().eval(), torch.randn(2, 2, 4, 4))
