"""Models of several arguments: which tensor is inverted, what belongs to each sample, what is fixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.errors import CaptureError, QueryError
from sgfi.graph import TensorGraph


def float64(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Gated(nn.Module):
    """tanh(W x) times a gate of each sample, plus an embedding of its label."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.label = nn.Linear(4, 5), nn.Embedding(3, 5)
        self.second = nn.Linear(5, 2)

    def forward(self, x: Tensor, gate: Tensor, label: Tensor | None = None, scale: float = 1.0) -> Any:
        hidden = torch.tanh(self.first(x)) * gate
        hidden = hidden if label is None else hidden + self.label(label)
        return self.second(torch.tanh(hidden)) * scale


def gated() -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    model = Gated().double().eval()
    return model, {"x": float64((3, 4)), "gate": float64((3, 5), 1), "label": torch.tensor([0, 2, 1])}


@cache
def captured() -> TensorGraph:
    return sgfi.capture(*gated(), invert="x")


def jacobian_error(graph: TensorGraph, model: nn.Module, x: Tensor, **sides: Any) -> float:
    """Of the graph's derivative to its output, sample by sample, against autograd's of the model itself."""
    name, worst = graph.nodes["logits"].name, 0.0
    for index in range(len(x)):
        own = {key: side[index : index + 1] for key, side in sides.items()}
        local = Linearisation(graph.bind(own), {"input": [name]}, x[index : index + 1]).at("input")
        dense = torch.autograd.functional.jacobian(lambda t, own=own: model(t, **own), x[index : index + 1])
        cotangents = torch.eye(local.outputs[0].numel(), dtype=torch.float64).reshape(-1, *local.outputs[0].shape)
        worst = max(worst, float((local.vjp([cotangents]).flatten() - dense.flatten()).abs().max()))
    return worst


def test_the_named_tensor_is_inverted_and_the_others_belong_to_each_sample() -> None:
    (model, inputs), graph = gated(), captured()
    assert graph.sides == ("gate", "label") and graph.invert == "x" and {"first", "second"} <= set(graph.nodes)
    bound = graph.bind({"gate": inputs["gate"], "label": inputs["label"]})
    (out,) = bound.program(("input",), ("second",))(inputs["x"])
    torch.testing.assert_close(out, model(**inputs))
    assert jacobian_error(graph, model, **inputs) < 1e-12


def test_side_inputs_of_one_sample_hold_for_any_batch() -> None:
    model, inputs = gated()
    graph = captured().bind({"gate": inputs["gate"][1:2], "label": inputs["label"][1:2]})
    x = float64((5, 4), 7)
    expected = model(x, inputs["gate"][1:2].expand(5, -1), inputs["label"][1:2].expand(5))
    torch.testing.assert_close(graph.program(("input",), ("second",))(x)[0], expected)


def test_arguments_in_order_and_fixed_ones() -> None:
    model, inputs = gated()
    graph = sgfi.capture(model, (inputs["x"], inputs["gate"]), invert=0, bound={"scale": 2.0})
    assert graph.sides == ("gate",) and graph.bound == ("gate", "scale")
    (out,) = graph.bind({"gate": inputs["gate"]}).program(("input",), (graph.nodes["logits"].name,))(inputs["x"])
    torch.testing.assert_close(out, model(inputs["x"], inputs["gate"], scale=2.0))


class Nested(nn.Module):
    """Takes one dictionary, returns a dictionary with a tuple inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Any]:
        hidden = self.layer(batch["image"])
        return {"parts": (hidden, batch["size"]), "out": torch.tanh(hidden) * batch["size"]}


def test_arguments_may_nest_and_outputs_too() -> None:
    model = Nested().double().eval()
    batch = {"image": float64((2, 4)), "size": float64((2, 1), 1)}
    graph = sgfi.capture(model, {"batch": batch}, invert="batch.image")
    assert graph.sides == ("batch.size",)
    (out,) = graph.bind({"batch.size": batch["size"]}).program(("input",), ("mul",))(batch["image"])
    torch.testing.assert_close(out, model(batch)["out"])
    x, sides = graph.split({"batch": batch})
    assert x is batch["image"] and sides == {"batch.size": batch["size"]}


@dataclass
class Both:
    hidden: Tensor
    out: Tensor


class ReturnsDataclass(Nested):
    def forward(self, x: Tensor) -> Both:  # type: ignore[override]
        hidden = self.layer(x)
        return Both(hidden, torch.tanh(hidden))


def test_a_dataclass_may_be_returned() -> None:
    model, x = ReturnsDataclass().double().eval(), float64((2, 4))
    graph = sgfi.capture(model, x)
    assert list(graph.nodes) == ["input", "layer", "tanh"]
    torch.testing.assert_close(graph.program(("input",), ("tanh",))(x)[0], model(x).out)
    graph.check_weights()
    model.layer.weight = nn.Parameter(torch.zeros(3, 4, dtype=torch.float64))
    with pytest.raises(QueryError, match=r"'layer\.weight', exchanged"):
        graph.check_weights()


def test_a_sequence_first_transformer_has_its_batch_in_front() -> None:
    torch.manual_seed(0)
    batch = 3
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=False)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(4, 3)).double().eval()
    graph = sgfi.capture(model, float64((2, 5, 4)), batch_axis=1)
    x, name = float64((batch, 5, 4), 3), "0.layers.0.norm2"
    assert graph.input.shape == (None, 5, 4)
    node = graph.nodes[name]
    assert (node.shape, node.channel_axis, node.coord_axes, node.op) == ((None, 5, 4), 2, (1,), "layer_norm")
    local = Linearisation(graph, {name: ["1"], "input": [name]}, x)
    torch.testing.assert_close(local.at(name).outputs[0], model(x.transpose(0, 1)).transpose(0, 1))
    head = local.at(name)
    after = model[0].layers[1]  # type: ignore[index]
    dense = torch.autograd.functional.jacobian(
        lambda h: model[1](after(h.transpose(0, 1))).transpose(0, 1), head.source[:1]
    )
    cotangents = torch.eye(15, dtype=torch.float64).reshape(15, 1, 5, 3).expand(-1, batch, -1, -1)
    torch.testing.assert_close(head.vjp([cotangents])[:, 0].flatten(), dense.flatten())
    assert sgfi.plan(graph).mode.startswith("stage") and len(sgfi.plan(graph).fitted) > 2


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")  # nn.Transformer about itself
def test_an_encoder_decoder_from_the_encoder_s_input() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=False).double().eval()
    inputs = {"src": float64((2, 5, 4)), "tgt": float64((2, 3, 4), 1)}
    graph = sgfi.capture(model, inputs, invert="src", batch_axis=1)
    (out,) = graph.bind({"tgt": inputs["tgt"]}).program(("input",), (graph.nodes["logits"].name,))(inputs["src"])
    torch.testing.assert_close(out, model(*(each.transpose(0, 1) for each in inputs.values())).transpose(0, 1))


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {}, "invert='x' or 'gate'"),
        ({}, {"invert": "gaet"}, "'gaet'"),
        ({}, {"invert": "label"}, "'label'"),
        ({"gate": torch.ones(5, dtype=torch.float64)}, {"invert": "x"}, r"one 'gate' for each of the 3 samples"),
        ({}, {"invert": "x", "bound": {"gate": 1.0}}, "in the example and in bound"),
        ({}, {"invert": "x", "batch_axis": {"nothing": 1}}, "batch axes"),
        ({}, {"invert": "x", "batch_axis": -1}, "batch axes"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    model, inputs = gated()
    with pytest.raises(CaptureError, match=message):
        sgfi.capture(model, inputs | change, **options)


def test_a_name_beside_a_plain_tensor_is_refused() -> None:
    with pytest.raises(CaptureError, match="mapping of the forward"):
        sgfi.capture(gated()[0], float64((2, 4)), invert="x")


def test_missing_and_misshapen_side_inputs_are_named() -> None:
    (_, inputs), graph = gated(), captured()
    with pytest.raises(QueryError, match="the side input 'gate'"):
        graph.program(("input",), ("second",))(inputs["x"])
    with pytest.raises(QueryError, match=r"'gate' of torch.float64 \(B, 5\)"):
        graph.bind({"gate": torch.ones(3, 4, dtype=torch.float64)})
    with pytest.raises(QueryError, match="among"):
        graph.bind({"gates": inputs["gate"]})
    with pytest.raises(QueryError, match="of one sample, or of each of 3"):
        graph.bind({"gate": inputs["gate"][:2], "label": inputs["label"][:1]}).program(("input",), ("second",))(
            inputs["x"]
        )
    with pytest.raises(QueryError, match="'scale' too"):
        graph.split({**inputs, "scale": 1.0})
