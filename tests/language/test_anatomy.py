"""The same door for four kinds of language model."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import PlanError
from sgfi.language import FAMILIES, anatomy, embedding_model, token_plan

transformers = pytest.importorskip("transformers")
COMMON = {"vocab_size": 32, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
BODY = {"num_hidden_layers": 6, "num_attention_heads": 2, "hidden_size": 8, "max_position_embeddings": 16}
CONFIGS = {
    "gpt2": lambda t: t.GPT2Config(n_layer=6, n_head=2, n_embd=8, n_positions=16, **COMMON),
    "neox": lambda t: t.GPTNeoXConfig(**BODY, intermediate_size=16, **COMMON),
    "llama": lambda t: t.LlamaConfig(**BODY, num_key_value_heads=1, intermediate_size=16, **COMMON),
    "opt": lambda t: t.OPTConfig(**BODY, ffn_dim=16, word_embed_proj_dim=8, **COMMON),
}


def captured(kind: str) -> sgfi.TensorGraph:
    torch.manual_seed(0)
    lm = transformers.AutoModelForCausalLM.from_config(CONFIGS[kind](transformers)).eval().requires_grad_(False)
    return sgfi.capture(embedding_model(lm), torch.randn(2, 5, 8))


@pytest.mark.parametrize("kind", CONFIGS)
def test_layers_parts_and_plans(kind: str) -> None:
    graph = captured(kind)
    body = anatomy(graph)
    assert len(body.blocks) == 6
    for part in ("attention", "residual", *(["mlp"] if kind != "opt" else [])):  # OPT flattens its MLP's output
        plan = token_plan(graph, 6, part)
        assert plan.boundaries[:-1] == ("input", body.tensor(2), body.tensor(4))
        assert plan.target == body.tensor(6, part)
        assert plan.boundary[plan.target].basis.coords == (5,)
    stage = sgfi.plan(graph)
    assert stage.boundaries == ("input", body.tensor(2), body.tensor(3, "attention"))
    family = sgfi.calibrate(token_plan(graph, 4), [torch.randn(8, 5, 8)], progress=False)
    value = sgfi.invert(family, torch.randn(2, 5, 8), coords=[2]).value
    assert not value[:, 3:].any() and value[:, :3].all()


def test_families_and_what_is_refused() -> None:
    graph = captured("gpt2")
    for family, setting in FAMILIES.items():
        boundary = token_plan(graph, 4, family=family).boundary["input"]
        kind = "custom" if setting["partition"] == "first-apart" else setting["partition"]
        assert boundary.operator.name == setting["operator"] and boundary.partition.kind == kind
    groups = token_plan(graph, 4, family="causal-first-apart").boundary["input"].partition.groups
    assert groups.tolist() == [0, 1, 1, 1, 1]
    assert token_plan(graph, 4, family="causal+3").boundary["input"].width == 32
    for wrong, message in (
        ({"layer": 7}, "from 1 to 6"),
        ({"layer": "6"}, "from 1 to 6"),
        ({"part": "head"}, "attention"),
        ({"part": ["mlp"]}, "a part among"),
        ({"spacing": 0}, "one layer or more"),
        ({"family": None}, "a family among"),
        ({"family": "causl"}, "causal"),
    ):
        with pytest.raises(PlanError, match=message):
            token_plan(graph, **wrong)
    with pytest.raises(PlanError, match="captured graph"):
        token_plan(torch.nn.Linear(2, 2))  # type: ignore[arg-type]
