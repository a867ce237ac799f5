"""Names of other libraries: torchvision's nodes, timm's feature_info, TransformerLens' hooks, wrapped models."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.language import embedding_model
from tests.analytic import tiny


def value(graph: sgfi.TensorGraph, name: str, x: Tensor) -> Tensor:
    return x if graph.nodes[name].name == "input" else graph.program(("input",), (graph.nodes[name].name,))(x)[0]


def test_torchvision_nodes_are_found_and_hold_the_same_numbers() -> None:
    extraction = pytest.importorskip("torchvision.models.feature_extraction")
    from torchvision.models import resnet18

    model, x = resnet18().eval().requires_grad_(False), torch.randn(2, 3, 32, 32)
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False  # the extractor would hand out overwritten tensors
    graph = sgfi.capture(model, x)
    names = [name for name in extraction.get_graph_node_names(model)[1] if name != "x"]
    features = extraction.create_feature_extractor(model, names)(x)
    assert "flatten" in names and len(names) > 60
    for name in names:
        torch.testing.assert_close(value(graph, name, x), features[name], rtol=1e-4, atol=1e-4)


def test_timm_indices() -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model("resnet18").eval().requires_grad_(False)
    graph = sgfi.capture(model, torch.randn(2, 3, 32, 32))
    for index, entry in enumerate(model.feature_info):
        assert graph.nodes[f"feature_info.{index}"] is graph.nodes[entry["module"]]


MODELS = {
    "gpt2": ("GPT2", {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}),
    "llama": (
        "Llama",
        {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"num_key_value_heads": 2, "vocab_size": 50},
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_transformer_lens_hooks_are_what_the_library_itself_returns(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    name, settings = MODELS[kind]
    heads = {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM"}
    lm = getattr(transformers, heads[name])(getattr(transformers, f"{name}Config")(**settings))
    lm = lm.eval().requires_grad_(False)
    x = torch.randn(2, 6, 32)
    graph = sgfi.capture(embedding_model(lm), x, attention="open")
    lm.set_attn_implementation("eager")
    with torch.no_grad():
        out = lm(inputs_embeds=x, output_hidden_states=True, output_attentions=True, use_cache=False)
    torch.testing.assert_close(value(graph, "logits", x), out.logits, rtol=1e-4, atol=1e-4)
    for layer in range(2):
        pattern = value(graph, f"blocks.{layer}.attn.hook_pattern", x)
        torch.testing.assert_close(pattern, out.attentions[layer], rtol=1e-4, atol=1e-5)
        before = value(graph, f"blocks.{layer}.hook_resid_pre", x)
        torch.testing.assert_close(before, out.hidden_states[layer], rtol=1e-4, atol=1e-4)
        inside = {hook: value(graph, f"blocks.{layer}.{hook}", x) for hook in ("hook_attn_out", "hook_mlp_out")}
        middle = value(graph, f"blocks.{layer}.hook_resid_mid", x)
        torch.testing.assert_close(middle, before + inside["hook_attn_out"], rtol=1e-4, atol=1e-4)
        after = value(graph, f"blocks.{layer}.hook_resid_post", x)
        torch.testing.assert_close(after, middle + inside["hook_mlp_out"], rtol=1e-4, atol=1e-4)
        q, k, v, z = (value(graph, f"blocks.{layer}.attn.hook_{letter}", x) for letter in "qkvz")
        torch.testing.assert_close(pattern @ v, z, rtol=1e-4, atol=1e-4)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(pattern == 0, float("-inf"))
        torch.testing.assert_close(torch.softmax(scores, -1), pattern, rtol=1e-4, atol=1e-4)
        assert graph.nodes[f"blocks.{layer}.mlp.hook_pre"].channels > 32
    path = "transformer.h.1" if kind == "gpt2" else "model.layers.1"
    assert graph.nodes[path] is graph.nodes[f"lm.{path}"]  # the wrapper's own component may be left out


def test_no_name_is_given_twice_and_models_without_blocks_have_no_hooks() -> None:
    graph = sgfi.capture(tiny("chain"), tiny("chain").inputs(2))
    names = [name for node in graph.nodes.values() for name in (node.name, *node.aliases)]
    assert len(names) == len(set(names)) and not any("hook" in name for name in names)
    table = graph.names().splitlines()
    assert table[0].split() == ["name", "also"] and len(table) == len(graph.nodes) + 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc(x)


def test_a_module_path_finds_what_the_module_returns() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Block(), Block()).eval()
    graph = sgfi.capture(model, torch.randn(2, 4))
    assert graph.nodes["2"] is graph.nodes["2.add"] and graph.nodes["2"] is graph.nodes["logits"]
    assert graph.nodes["1"].op == "add"
