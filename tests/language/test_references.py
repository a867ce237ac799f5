from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import QueryError
from sgfi.language import embedding_model, references


def test_the_direct_map_finds_a_linear_relation() -> None:
    torch.manual_seed(0)
    features, weights = torch.randn(200, 5), torch.randn(5, 12)
    embeddings = (features @ weights).reshape(200, 4, 3)
    direct = references.direct_map(features, embeddings, ridge=1e-9)
    torch.testing.assert_close(direct(features[:7]), embeddings[:7].double(), atol=1e-5, rtol=1e-5)


def test_attention_is_the_models_own_and_the_model_is_left_alone(lm) -> None:
    x = lm.get_input_embeddings()(torch.randint(0, 20, (3, 8)))
    before = lm.config._attn_implementation
    profile = references.attention(lm, x, layer=2, position=5)
    assert lm.config._attn_implementation == before
    assert not profile[:, 6:].any()
    torch.testing.assert_close(profile.sum(1), torch.ones(3, dtype=torch.float64))
    normed = lm.transformer.h[0].ln_1(x + lm.transformer.wpe(torch.arange(8)))
    q, k, _ = lm.transformer.h[0].attn.c_attn(normed).view(3, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
    scores = (q @ k.mT / 8**0.5)[:, :, 5, :6].softmax(-1).mean(1)
    first = references.attention(lm, x, layer=1, position=5)[:, :6]
    torch.testing.assert_close(first.float(), scores, atol=1e-5, rtol=1e-4)


def test_gradients_by_hand(lm) -> None:
    x = lm.get_input_embeddings()(torch.randint(0, 20, (2, 8)))
    graph = sgfi.capture(embedding_model(lm, layers=2), x)
    name = "lm.transformer.h.1.attn"
    leaf = x.clone().requires_grad_()
    graph.program(("input",), (graph.nodes.canonical(name),))(leaf)[0][:, 5].square().sum().backward()
    by_hand = (leaf.grad * x).sum(-1).abs().double()
    profile = references.gradient_times_input(graph, name, x, 5)
    torch.testing.assert_close(profile, by_hand / by_hand.sum(1, keepdim=True), atol=1e-6, rtol=1e-4)
    along = references.integrated_gradients(graph, name, x, 5)
    assert not along[:, 6:].any() and not torch.allclose(along, profile, atol=1e-2)


def test_what_is_out_of_range_is_told(lm) -> None:
    x = lm.get_input_embeddings()(torch.randint(0, 20, (2, 8)))
    graph = sgfi.capture(embedding_model(lm, layers=2), x)
    with pytest.raises(QueryError, match="a layer from 1 to 4"):
        references.attention(lm, x, layer=5)
    for method in (references.gradient_times_input, references.integrated_gradients):
        with pytest.raises(QueryError, match="a position from 0 to 7"):
            method(graph, "lm.transformer.h.1.attn", x, 8)
