"""Capture: the graph computes what the model computes, and the model leaves as it came."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.errors import CaptureError, QueryError
from tests.analytic import tiny


class Net(nn.Module):
    """Convolution, batch norm, in-place activation, an integer index, a counter buffer and a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True)
        self.out = nn.Conv2d(3, 4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.cache = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.cache = x
        h = self.relu(self.norm(self.conv(x)))
        h = h * (h > 0.1)
        best = h.argmax(1, keepdim=True)
        return self.out(h + torch.gather(h, 1, best))


def net() -> Net:
    model = Net().eval()
    model.norm.running_mean.normal_()
    return model


@cache
def captured() -> tuple[Net, sgfi.TensorGraph]:
    torch.manual_seed(4)
    model = net()
    return model, sgfi.capture(model, torch.randn(1, 2, 8, 8))


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
        h = self.fc(x)
        if attention_mask is not None:
            h = h * attention_mask.unsqueeze(-1)
        return self.out(torch.tanh(h)) * scale


class Attention(nn.Module):
    """``nn.MultiheadAttention`` beside a plain ``scaled_dot_product_attention``."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attn = nn.Linear(4, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        mixed, _ = self.attn(h, h, h, need_weights=False)
        fused = F.scaled_dot_product_attention(h.unsqueeze(1), h.unsqueeze(1), mixed.unsqueeze(1), is_causal=True)
        return self.out(fused.squeeze(1) + mixed)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def choose_sign(self, h: Tensor) -> Tensor:
        return h if h.sum() > 0 else -h

    def forward(self, x: Tensor) -> Tensor:
        return self.choose_sign(self.fc(x))


@cache
def attention() -> tuple[nn.Module, sgfi.TensorGraph]:
    torch.manual_seed(3)
    model = Attention().double().eval()
    return model, sgfi.capture(model, torch.randn(2, 5, 4, dtype=torch.float64))


def last(graph: sgfi.TensorGraph, x: Tensor) -> Tensor:
    return graph.program(("input",), (list(graph.nodes)[-1],))(x)[0]


# ------------------------------------------------------------------- the model is left as it came


def test_the_model_is_left_exactly_as_it_came() -> None:
    model = net()
    model.conv.weight.requires_grad_(False)
    seen = []
    handle = model.norm.register_forward_hook(lambda *_: seen.append(1))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    storages = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    modes = {name: module.training for name, module in model.named_modules()}
    hooks = {name: dict(module._forward_hooks) for name, module in model.named_modules()}

    sgfi.capture(model, torch.randn(3, 2, 8, 8))

    assert state.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]) and tensor.data_ptr() == storages[name], name
    assert flags == {name: p.requires_grad for name, p in model.named_parameters()}
    assert modes == {name: module.training for name, module in model.named_modules()}
    assert hooks == {name: dict(module._forward_hooks) for name, module in model.named_modules()}
    assert model.cache is None and all(p.grad is None for p in model.parameters())
    handle.remove()


def test_a_failed_capture_leaves_the_model_too() -> None:
    model = Branching().eval()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CaptureError):
        sgfi.capture(model, torch.randn(2, 4))
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert not model.training and model.fc.weight.requires_grad
    assert torch.isfinite(model(torch.randn(2, 4))).all()


def test_weights_are_shared_with_the_model_and_told_by_the_fingerprint() -> None:
    model = net()
    graph = sgfi.capture(model, torch.randn(2, 2, 8, 8))
    held = {graph.weight_names[key]: tensor for key, tensor in graph.constants.items()}
    assert held["conv.weight"].data_ptr() == model.conv.weight.data_ptr()
    before = graph.fingerprint
    with torch.no_grad():
        model.conv.bias[0] += 1
    assert sgfi.capture(model, torch.randn(2, 2, 8, 8)).fingerprint != before


# ------------------------------------------------------------------- what is captured


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_outputs_equal_eager_for_any_batch(batch: int) -> None:
    model, graph = captured()
    x = torch.randn(batch, 2, 8, 8)
    kept = x.clone()
    torch.testing.assert_close(last(graph, x), model(x))
    assert torch.equal(x, kept)


def test_in_place_operations_do_not_overwrite_earlier_nodes() -> None:
    model = tiny("relu")
    x = model.inputs(3)
    graph = sgfi.capture(model, x)
    before, after = graph.program(("input",), ("conv1", "relu1"))(x)
    torch.testing.assert_close(before, model.conv1(x))
    assert (before < 0).any() and torch.equal(after, before.clamp(min=0))


def test_integer_and_boolean_tensors_are_not_nodes() -> None:
    _, graph = captured()
    assert all(node.dtype.is_floating_point for node in graph.nodes.values())
    assert not {node.op for node in graph.nodes.values()} & {"gt", "argmax", "lt"}
    assert graph.nodes["gather"].shape == (None, 1, 8, 8)


def test_a_tensor_that_hears_the_input_only_through_a_mask_is_not_a_node() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = self.fc(x)
            share = (h > 0).float().mean(1, keepdim=True)
            return torch.tanh(h) / (1 + share)

    graph = sgfi.capture(Counted().eval(), torch.randn(2, 3))
    assert [node.op for node in graph.nodes.values()] == ["input", "linear", "tanh", "div"]


def test_shapes_ops_and_modules() -> None:
    _, graph = captured()
    assert next(iter(graph.nodes)) == "input" and graph.input.shape == (None, 2, 8, 8)
    node = graph.nodes["norm"]
    assert (node.shape, node.op, node.module, node.channel_axis, node.coord_axes) == (
        (None, 3, 8, 8),
        "batch_norm",
        "norm",
        1,
        (2, 3),
    )


def test_the_table_and_print_name_every_tensor_with_its_shape() -> None:
    _, graph = captured()
    table = graph.table()
    for name in graph.nodes:
        assert any(line.split()[0] == name for line in table.splitlines()[2:])
    assert "Bx3x8x8" in table and str(graph).endswith(table) and "Net" in str(graph)
    assert "Net" in repr(graph) and str(len(graph.nodes)) in repr(graph)


@pytest.mark.parametrize("batch", [1, 3])
def test_bound_arguments_are_held(batch: int) -> None:
    model, mask = Masked().eval(), torch.tensor([[1.0, 1.0, 0.0, 1.0, 0.0]])
    graph = sgfi.capture(model, torch.randn(2, 5, 4), bound={"attention_mask": mask, "scale": 0.5})
    x = torch.randn(batch, 5, 4)
    torch.testing.assert_close(last(graph, x), model(x, attention_mask=mask, scale=0.5))
    assert graph.bound == ("attention_mask", "scale")
    assert {"fc", "out"} <= set(graph.nodes), "names as without bound arguments"


def test_another_bound_tensor_is_another_fingerprint() -> None:
    def fingerprint(mask: Tensor) -> str:
        return sgfi.capture(model, torch.randn(2, 5, 4), bound={"attention_mask": mask}).fingerprint

    model = Masked().eval()
    assert fingerprint(torch.ones(1, 5)) == fingerprint(torch.ones(1, 5)) != fingerprint(torch.zeros(1, 5))


@pytest.mark.parametrize("batch", [1, 3])
def test_fused_attention_is_captured(batch: int) -> None:
    model, graph = attention()
    x = torch.randn(batch, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(last(graph, x), model(x))


def test_fused_attention_has_both_derivatives() -> None:
    _, graph = attention()
    local = Linearisation(graph, {"embed": ["out"]}, torch.randn(3, 5, 4, dtype=torch.float64)).at("embed")
    tangent, cotangent = torch.randn_like(local.source), torch.randn_like(local.outputs[0])
    (pushed,) = local.jvp(tangent)
    torch.testing.assert_close((pushed * cotangent).sum(), (tangent * local.vjp([cotangent])).sum())
    assert pushed.abs().sum() > 0


def test_capture_under_inference_mode() -> None:
    model = net()
    with torch.inference_mode():
        graph = sgfi.capture(model, torch.randn(2, 2, 8, 8))
    x = torch.randn(2, 2, 8, 8)
    torch.testing.assert_close(last(graph, x), model(x))


# ------------------------------------------------------------------- errors


def test_a_model_that_cannot_be_exported_names_the_failing_call() -> None:
    with pytest.raises(CaptureError, match=r"choose_sign \(test_capture\.py:\d+\)") as refused:
        sgfi.capture(Branching().eval(), torch.randn(2, 4))
    assert "control flow" in refused.value.todo


def test_a_missing_argument_is_named() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, other: Tensor) -> Tensor:
            return x * other

    with pytest.raises(CaptureError, match="other") as refused:
        sgfi.capture(Two().eval(), torch.randn(2, 4))
    assert "bound" in refused.value.todo


def test_a_bound_tensor_of_the_batch_s_size_is_refused() -> None:
    with pytest.raises(CaptureError, match="broadcast over the batch"):
        sgfi.capture(Masked().eval(), torch.randn(3, 5, 4), bound={"attention_mask": torch.ones(3, 5)})


def test_a_bound_tensor_is_fixed_at_capture() -> None:
    torch.manual_seed(0)
    model, x, mask = Masked().eval(), torch.randn(2, 5, 4), torch.ones(1, 5)
    graph = sgfi.capture(model, x, bound={"attention_mask": mask})
    before, fingerprint = last(graph, x), graph.fingerprint
    mask.zero_()
    assert torch.equal(last(graph, x), before) and graph.fingerprint == fingerprint


def test_training_mode_is_refused_and_named() -> None:
    model = net()
    model.norm.train()
    with pytest.raises(CaptureError, match="'norm'") as refused:
        sgfi.capture(model, torch.randn(2, 2, 8, 8))
    assert "eval()" in refused.value.todo and model.norm.training and not model.conv.training


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (torch.randn(2, 2, 8, 8, dtype=torch.float64), "float64"),
        (torch.randn(2, 2, 8, 8).half(), "float16"),
        (torch.zeros(2, 2, 8, 8, dtype=torch.int64), "int64"),
        (torch.zeros(2, 2, 8, 8, device="meta"), "meta"),
        (torch.zeros(0, 2, 8, 8), r"\(0, 2, 8, 8\)"),
        (torch.zeros(3), r"\(3,\)"),
        ([1.0, 2.0], "list"),
    ],
)
def test_a_wrong_example_is_refused(example: object, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        sgfi.capture(net(), example)  # type: ignore[arg-type]


def test_a_function_is_not_a_module() -> None:
    with pytest.raises(CaptureError, match=r"nn\.Module"):
        sgfi.capture(torch.tanh, torch.randn(2, 4))  # type: ignore[arg-type]


def test_samples_that_influence_each_other_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False)).eval()
    with pytest.raises(CaptureError, match="influence each other"):
        sgfi.capture(model, torch.randn(2, 2, 6, 6))


def test_samples_that_influence_each_other_are_seen_at_every_output() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(5, 6), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.first(x)
            return h / h.mean(0), self.second(x)

    with pytest.raises(CaptureError, match=r"influence each other; got 'div'"):
        sgfi.capture(Two().eval(), torch.randn(2, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused_before_anything_fails(dtype: torch.dtype) -> None:
    with pytest.raises(CaptureError, match=r"model\.float\(\)"):
        sgfi.capture(nn.Linear(3, 3).to(dtype).eval(), torch.zeros(2, 3, dtype=dtype))


# ------------------------------------------------------------------- forwards that are not quite plain


class Applied(nn.Module):
    def __init__(self, op: object) -> None:
        super().__init__()
        self.fc, self.op = nn.Linear(4, 4), op

    def forward(self, x: Tensor) -> object:
        return self.op(self.fc(x))


def under_autocast(h: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return (h @ h.mT).float()


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda h: torch.cond(h.sum() > 0, torch.sin, torch.cos, (h,)), r"torch\.cond"),
        (under_autocast, "bfloat16 at"),
        (lambda h: h.half(), "float16 at"),
        (lambda h: h + h[1], "any number of samples"),
        (lambda h: None, "none that depends on it"),
        (lambda h: torch.ones(3), "none that depends on it"),
        (lambda h: "text", "none that depends on it"),
        (lambda h: {h}, "set"),
        (lambda h: h * float(h.sum()), "data-dependent"),
        (lambda h: h.reshape(len(h), -1), r"Use x\.shape\[0\] in place of len\(x\)"),
        (lambda h: h.reshape(int(h.shape[0]), -1), r"Use x\.shape\[0\] in place of len\(x\)"),
        (lambda h: h / 0 if h.sum() > 0 else h, r"<lambda> \(test_capture\.py"),
    ],
)
def test_odd_forwards_are_refused_in_one_sentence(op: object, message: str, capfd: pytest.CaptureFixture) -> None:
    with pytest.raises(CaptureError, match=message) as refused:
        sgfi.capture(Applied(op).eval(), torch.randn(2, 3, 4))
    assert len(str(refused.value)) < 1000
    assert capfd.readouterr() == ("", ""), "torch's own dump"


@pytest.mark.parametrize(
    "returned", [lambda h: [[h * 2], (h * 3, None)], lambda h: {"a": h * 2, "b": 3, "c": "text"}, lambda h: (h, h)]
)
def test_nested_outputs_are_captured(returned: object) -> None:
    assert len(sgfi.capture(Applied(returned).eval(), torch.randn(2, 3, 4)).nodes) > 1


def test_a_squeeze_keeps_the_batch_of_one_sample() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 4), Squeezed(), nn.Linear(3, 5)).eval()
    graph = sgfi.capture(model, torch.randn(1, 2, 4, 4))
    x = torch.randn(2, 2, 4, 4)
    torch.testing.assert_close(last(graph, x), model(x))
    torch.testing.assert_close(last(graph, x[:1]), model(x)[:1])


class Squeezed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze().squeeze(0)


def test_autocast_around_the_calls_changes_nothing() -> None:
    model, x = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Conv2d(3, 2, 3)).eval(), torch.randn(2, 2, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        graph = sgfi.capture(model, x)
        inside = last(graph, x)
    assert inside.dtype == torch.float32 and torch.equal(inside, last(sgfi.capture(model, x), x))


@pytest.mark.parametrize(
    ("weight", "message"),
    [(torch.eye(4).to_sparse(), "'weight', torch.sparse_coo"), (torch.eye(4, device="meta"), "'weight' on the device")],
)
def test_weights_without_dense_values_are_refused(weight: Tensor, message: str) -> None:
    model = nn.Linear(4, 4).eval()
    model.weight = nn.Parameter(weight)
    with pytest.raises(CaptureError, match=message):
        sgfi.capture(model, torch.randn(2, 4))


def test_a_sparse_example_is_refused() -> None:
    with pytest.raises(CaptureError, match="to_dense"):
        sgfi.capture(nn.Linear(4, 4).eval(), torch.randn(2, 4).to_sparse())


class Large(nn.Module):
    """Takes another way from 64 samples on."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if x.shape[0] >= 64 else torch.tanh(self.fc(x))


def test_a_bound_of_the_batch_is_kept() -> None:
    model = Large().eval()
    graph = sgfi.capture(model, torch.randn(2, 3))
    x = torch.randn(63, 3)
    torch.testing.assert_close(last(graph, x), model(x))
    with pytest.raises(QueryError, match="at most 63 inputs at once"):
        last(graph, torch.randn(64, 3))
    with pytest.raises(QueryError, match="at most 63 inputs at once"):
        Linearisation(graph, {"input": ["tanh"]}, torch.randn(64, 3))


def test_one_sample_that_a_kernel_lays_out_otherwise() -> None:
    """AlexNet at 64 pixels: of a 1x1 map, pooling leaves strides for which the traced view is none."""
    head = nn.Sequential(nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten(), nn.Linear(4 * 36, 2))
    model, x = head.eval(), torch.randn(2, 4, 3, 3)
    torch.testing.assert_close(last(sgfi.capture(model, x), x[:1]), model(x[:1]))


def test_a_model_that_makes_no_numbers_is_named() -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).eval(), torch.randn(2, 4)
    for example in (x * float("nan"), x / 0):
        with pytest.raises(CaptureError, match="a finite example"):
            sgfi.capture(model, example)
    with torch.no_grad():
        model[2].weight[0, 0] = float("nan")
    with pytest.raises(CaptureError, match="NaN in '2'"):
        sgfi.capture(model, x)


def test_what_torch_prints_before_it_raises_is_not_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError, match="a batch axis"):
        sgfi.capture(nn.Sequential(nn.Linear(5, 3)).eval(), torch.randn(4, 9))
    assert capfd.readouterr().err == ""
