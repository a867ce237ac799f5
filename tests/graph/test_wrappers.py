"""Wrapped models: the model inside is captured, under its own names."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import CaptureError
from sgfi.graph import capture
from sgfi.graph.wrappers import unwrapped


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).eval()


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel, lambda model: nn.DataParallel(torch.compile(model))])
def test_compiled_and_parallel_models_have_the_names_inside(wrap: Any) -> None:
    model = net()
    graph = sgfi.capture(wrap(model), torch.randn(2, 4))
    assert list(graph.nodes) == ["input", "0", "1", "2"] and graph.model is not None and graph.model() is model


def test_look_and_embedding_models_take_wrapped_ones() -> None:
    model, x = net(), torch.randn(1, 4)
    prior = sgfi.prior([torch.randn(20, 4)])
    torch.testing.assert_close(
        sgfi.look(torch.compile(model), x, "2:1", prior).value, sgfi.look(model, x, "2:1", prior).value
    )


def gpt2() -> tuple[nn.Module, Tensor]:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval(), torch.randn(2, 5, 16)


def logits_of(model: Any, x: Tensor) -> tuple[set[str], Tensor]:
    graph = capture(model, {"inputs_embeds": x, "use_cache": False})
    return set(graph.nodes), graph.program(("input",), (graph.nodes["logits"].name,))(x)[0]


def test_a_peft_model_has_its_adapters_under_the_names_inside() -> None:
    peft = pytest.importorskip("peft")
    model, x = gpt2()
    settings = peft.LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for a deprecated attribute
        adapted = peft.get_peft_model(model, settings).eval()
    names, logits = logits_of(adapted, x)
    assert {"transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_attn.lora_B.default"} <= names
    torch.testing.assert_close(logits, adapted(inputs_embeds=x).logits)


def test_learnt_prompts_are_refused() -> None:
    class PeftModel(nn.Module):
        """Stands for PEFT's class, which is known by its name."""

    PeftModel.__module__, PeftModel.__qualname__ = "peft.peft_model", "PeftModel"
    model = PeftModel()
    model.peft_config = {"default": SimpleNamespace(is_prompt_learning=True)}  # type: ignore[assignment]
    with pytest.raises(CaptureError, match="prompt learning in the adapter 'default'"):
        unwrapped(model)


def test_an_nnsight_model_is_the_one_inside() -> None:
    nnsight = pytest.importorskip("nnsight")
    model, x = gpt2()
    names, logits = logits_of(nnsight.NNsight(model), x)
    assert "transformer.h.0.attn.c_attn" in names
    torch.testing.assert_close(logits, model(inputs_embeds=x).logits)


def test_a_hooked_transformer_starts_at_its_residual_stream() -> None:
    lens = pytest.importorskip("transformer_lens")
    if not hasattr(lens, "HookedTransformer"):
        pytest.skip("this release of TransformerLens has bridges only")
    config = lens.HookedTransformerConfig(
        n_layers=1, d_model=16, n_ctx=8, d_head=8, n_heads=2, d_mlp=32, d_vocab=50, act_fn="gelu"
    )
    model, x = lens.HookedTransformer(config).eval(), torch.randn(2, 5, 16)
    graph = sgfi.capture(model, x)
    (logits,) = graph.program(("input",), (graph.nodes["logits"].name,))(x)
    torch.testing.assert_close(logits, model(x, start_at_layer=0))
    assert {"blocks.0.attn.hook_pattern", "blocks.0.hook_resid_post"} < {
        alias for node in graph.nodes.values() for alias in node.aliases
    }


def test_a_bridge_gives_its_components_back() -> None:
    """TransformerBridge puts components into the model that have the original ones inside."""

    class TransformerBridge(nn.Module):
        compatibility_mode = False

        def __init__(self, original_model: nn.Module) -> None:
            super().__init__()
            self.__dict__["original_model"] = original_model

    class Component(nn.Module):
        def __init__(self, original: nn.Module) -> None:
            super().__init__()
            self._original_component = original
            self.add_module("in", nn.Identity())  # a name that torch.export cannot write down

    TransformerBridge.__module__ = "transformer_lens.model_bridge.transformer_bridge"
    TransformerBridge.__qualname__ = "TransformerBridge"
    first, x = nn.Linear(4, 3), torch.randn(2, 4)
    bridge = TransformerBridge(nn.Sequential(Component(first), nn.Tanh())).eval()
    inside = unwrapped(bridge)
    assert inside is unwrapped(bridge) and inside[0] is not first  # type: ignore[index]
    assert inside[0].weight is first.weight  # type: ignore[index]
    inside.eval()
    graph = sgfi.capture(bridge, x)
    assert list(graph.nodes) == ["input", "0", "1"]
    torch.testing.assert_close(graph.program(("input",), ("1",))(x)[0], torch.tanh(first(x)))
    bridge.compatibility_mode = True  # type: ignore[assignment]
    with pytest.raises(CaptureError, match="compatibility mode"):
        unwrapped(bridge)
