"""Next-token decisions on a tiny language model, against edits made inside the model itself."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.decisions import tokens
from sgfi.decisions.tokens import TokenSettings
from sgfi.errors import QueryError
from sgfi.language import embedding_model

transformers = pytest.importorskip("transformers")
TARGET = "lm.transformer.h.1.attn"


@pytest.fixture(scope="module")
def lm():
    torch.manual_seed(0)
    sizes = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 16}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, initializer_range=0.3)
    return transformers.GPT2LMHeadModel(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(3, 6, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def graph(lm, x) -> sgfi.TensorGraph:
    return sgfi.capture(embedding_model(lm, last=True), x)


def edited_margin(lm, x: torch.Tensor, channels: list[int], positions: slice) -> torch.Tensor:
    """Top1 - top2 of the untouched input, after zeroing channels inside the model by a hook of our own."""
    before = lm(inputs_embeds=x).logits[:, -1]
    top, second = before.topk(2).indices.unbind(1)

    def cut(_module, _inputs, output):
        output = output.clone()
        output[:, positions, channels] = 0
        return output

    handle = lm.transformer.h[1].attn.c_proj.register_forward_hook(cut)
    after = lm(inputs_embeds=x).logits[:, -1]
    handle.remove()
    rows = torch.arange(len(x))
    return (before[rows, top] - before[rows, second]) - (after[rows, top] - after[rows, second])


def test_interventions_are_exact(lm, x, graph) -> None:
    studies = tokens.decide_tokens(graph, x, TARGET, TokenSettings(edit_at=tokens.REACHES, sizes=(2, 4), repeats=3))
    assert set(studies) == {"terminal", "all"}
    for reach, positions in (("terminal", slice(5, 6)), ("all", slice(None))):
        study = studies[reach]
        for index in range(3):
            for kind in ("positive", "negative"):
                (channels,) = study.groups[index].of(kind, 4)
                expected = edited_margin(lm, x[index : index + 1], channels, positions)
                torch.testing.assert_close(study.drops[kind][4][index], expected[0], atol=1e-4, rtol=1e-4)
        assert study.drops["random"][2].shape == (3, 3)
    assert not torch.allclose(studies["terminal"].drops["positive"][4], studies["all"].drops["positive"][4])


def test_ranking_covers_the_declared_reach(x, graph) -> None:
    (contribution,) = tokens.rank(graph, x, [TARGET]).values()
    torch.testing.assert_close(tokens.scores(contribution, "all"), contribution.value.sum(1))
    assert torch.equal(tokens.scores(contribution, "terminal"), contribution.value[:, -1])
    ranked = tokens.decide_tokens(graph, x, TARGET, TokenSettings(rank_by="all", sizes=(1,), repeats=1))["terminal"]
    assert ranked.groups[0].positive[0] == int(contribution.channels[0].argmax())
    with pytest.raises(QueryError, match="terminal"):
        tokens.positions("middle", 6)


def test_random_groups_apart_from_the_decision_s_own(x, graph) -> None:
    settings = TokenSettings("all", tokens.REACHES, (4,), 5, apart=True)
    for groups in tokens.decide_tokens(graph, x, TARGET, settings)["all"].groups:
        ends = {*groups.positive, *groups.negative}
        assert len(ends) == 8 and all(not ends & set(order) and len(set(order)) == 4 for order in groups.random)
    with pytest.raises(QueryError, match="channels for random groups"):
        tokens.decide_tokens(graph, x, TARGET, TokenSettings(sizes=(6,), apart=True))
