"""Attention written out: the same numbers, its weights as a tensor, heads and queries and keys as features."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import sgfi
from sgfi.derivatives import capture_with
from sgfi.errors import SgfiError
from sgfi.graph.attention import FUSED, OPENED, plain_attention
from sgfi.natural.prior import prior
from tests.analytic import tiny


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MASKS: list[dict[str, Any]] = [
    {},
    {"scale": 0.3},
    {"is_causal": True},
    {"attn_mask": heads(5, 7, seed=4)},
    {"attn_mask": heads(5, 7, seed=4) > 0},
    {"attn_mask": (heads(5, 7, seed=4) > 0) & (torch.arange(5) > 1).unsqueeze(1)},  # rows without any key
    {"enable_gqa": True},
]


@pytest.mark.parametrize("settings", MASKS)
def test_written_out_is_the_fused_op(settings: dict[str, Any]) -> None:
    few = 2 if settings.get("enable_gqa") else 4
    keys = 5 if settings.get("is_causal") else 7
    arguments = heads(2, 4, 5, 3), heads(2, few, keys, 3, seed=1), heads(2, few, keys, 3, seed=2)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = F.scaled_dot_product_attention(*arguments, **settings)
    torch.testing.assert_close(OPENED[FUSED](*arguments, **settings), expected, rtol=0, atol=1e-12)


def weights(model: nn.Module, x: Tensor, causal: bool) -> Tensor:
    """(B, 2, N, N) by the definition."""
    block = model.block
    q, k, _ = block.qkv(block.norm1(model.embed(x))).unflatten(-1, (3, 2, 3)).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / math.sqrt(3)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return torch.softmax(scores, -1)


@pytest.mark.parametrize("name", ["tokens", "causal"])
def test_heads_queries_and_keys_are_the_dense_answer(name: str) -> None:
    """Value and share of one attention weight, one head's row, and a direction over heads."""
    model = tiny(name)
    x = model.inputs(1, seed=3)
    graph = sgfi.capture(model, model.inputs(2), attention="open")
    node = next(node for node in graph.nodes.values() if node.op == "softmax")
    assert node.shape == (None, 2, x.shape[1], x.shape[1]) and node.channel_axis == 1 and node.coord_axes == (2, 3)
    (probabilities,) = graph.program(("input",), (node.name,))(x)
    torch.testing.assert_close(probabilities, weights(model, x, name == "causal"))
    lens = sgfi.natural(graph, prior([model.inputs(24, seed=7)]), "point", ridge=0.01)

    def flat(inputs: Tensor) -> Tensor:
        return weights(model, inputs.reshape(x.shape), name == "causal").flatten()

    jacobian = torch.autograd.functional.jacobian(flat, x.flatten())
    covariance, deviation = lens.prior.dense(), (x - lens.prior.mean).flatten()
    mix = torch.tensor([[3.0, -1.0]])
    for query in (
        sgfi.Query(node.name, [1], [(3, 2)]),
        sgfi.Query(node.name, [0], [(4, None)]),
        sgfi.Query(node.name, None, [(4, 1)], mix),
    ):
        selection = query.selection(lens.node(node.name))
        rows = selection.rows(torch.arange(selection.count), x).flatten(1) @ jacobian
        (answer,) = lens.answer(x, [query])
        system = rows @ covariance @ rows.mT + float(answer.ridge) * torch.eye(len(rows), dtype=torch.float64)
        gain = covariance @ rows.mT @ torch.linalg.inv(system)
        torch.testing.assert_close(answer.value.flatten(), gain @ rows @ deviation, rtol=0, atol=1e-8)
        explained = (gain @ rows @ covariance).diagonal().reshape(x[0].shape).sum(-1)
        share = explained / covariance.diagonal().reshape(x[0].shape).sum(-1)
        torch.testing.assert_close(answer.share[0], share, rtol=0, atol=1e-8)


def test_attention_is_opened_where_a_name_asks_for_it() -> None:
    model, x = tiny("tokens"), tiny("tokens").inputs(2)
    closed = capture_with(model, x, ["block"])
    assert "block.softmax" not in closed.nodes
    assert "block.softmax" in capture_with(model, x, ["block", "block.softmax"]).nodes
    assert "block.softmax" not in capture_with(model, x, ["nowhere"]).nodes
    with pytest.raises(SgfiError, match="fused"):
        sgfi.capture(model, x, attention="none")


def test_a_star_stands_for_every_place_along_an_axis() -> None:
    query = sgfi.Query.parse("block.softmax:1@0,*;*,2")
    assert query.coords == ((0, None), (None, 2)) and str(query) == "block.softmax:1@0,*;*,2"
    graph = sgfi.capture(tiny("tokens"), tiny("tokens").inputs(2), attention="open")
    with pytest.raises(SgfiError, match="repeated"):  # cell (0, 2) twice
        query.mask(graph.nodes["block.softmax"])
    mask = sgfi.Query.parse("block.softmax:1@0,*").mask(graph.nodes["block.softmax"])
    assert mask.sum() == 5 and mask[1, 0].all()
    with pytest.raises(SgfiError, match="2 number"):
        sgfi.Query.parse("block.softmax@*").mask(graph.nodes["block.softmax"])


def test_heads_of_a_real_vision_transformer(assets: Path) -> None:
    """DeiT-tiny: opened attention gives the model's own logits, and one attention row is answered."""
    from safetensors.torch import load_file

    timm = pytest.importorskip("timm")
    model = timm.create_model("deit_tiny_patch16_224").eval().requires_grad_(False)
    stored = load_file(assets / "weights" / "deit_tiny_patch16_224_imagenet_fp16.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in stored.items()})
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    graph = capture_with(model, torch.cat([x, x]), ["blocks.5.attn.softmax"])
    (logits,) = graph.program(("input",), (graph.nodes["logits"].name,))(x)
    torch.testing.assert_close(logits, model(x), rtol=1e-4, atol=1e-4)
    lens = sgfi.natural(graph, jacobian="point")
    answer = sgfi.invert(lens, x, sgfi.Query.parse("blocks.5.attn.softmax:1@61,67"))
    assert torch.isfinite(answer.value).all() and answer.value.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"scale": 0.0},
        {"mask": "bool"},
        {"mask": "float"},
        {"enable_gqa": True},
    ],
    ids=str,
)
def test_the_plain_kernel_gives_the_numbers_of_the_math_backend(options: dict, dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 4, 5, 8, dtype=dtype) for _ in range(3))
    options = dict(options)
    kind = options.pop("mask", None)
    mask = {None: None, "bool": torch.rand(5, 5) > 0.3, "float": torch.randn(5, 5, dtype=dtype)}[kind]
    if options.get("enable_gqa"):
        k, v = k[:, :2], v[:, :2]
    with sdpa_kernel(SDPBackend.MATH):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)
    assert torch.equal(plain_attention(q, k, v, mask, **options), expected)
