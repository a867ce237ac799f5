"""Routing, controls and quality of token-resolved inverses."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import sgfi
from sgfi.evaluation import tokens
from sgfi.language.contexts import Context
from tests.analytic import captured, tiny

LENGTH = 4


def context(cluster: str, variant: str, **parts) -> Context:
    return Context("", tuple(range(LENGTH)), ("",) * LENGTH, cluster, variant, **parts)


def test_semantic_routing_of_planted_profiles() -> None:
    contexts = [context(word, "a", cues=(0,)) for word in ("bank", "bank", "bat")]
    profile = torch.tensor([[0.5, 0.1, 0.1, 0.3], [0.7, 0.1, 0.1, 0.1], [0.2, 0.3, 0.1, 0.4]], dtype=torch.float64)
    subsets = [[[1], [2]]] * 3
    routing = tokens.semantic(profile, contexts, subsets)
    assert routing["cue_minus_random"] == pytest.approx([0.4, 0.6, 0.0])
    assert routing["target"] == pytest.approx([0.3, 0.1, 0.4])


def test_syntactic_routing_of_planted_profiles() -> None:
    roles = {"head": 0, "attractor": 1, "auxiliary": 2}
    contexts = [context("key", f"singular {kind}", roles=roles) for kind in ("grammatical", "ungrammatical")]
    profile = torch.tensor([[0.1, 0.2, 0.6, 0.1], [0.1, 0.4, 0.2, 0.3]], dtype=torch.float64)
    masses = tokens.syntactic(profile, contexts)
    assert masses["agreement_minus_attractor"] == pytest.approx([0.4, -0.2])
    assert tokens.by_grammar(contexts) == {"grammatical": [0], "ungrammatical": [1]}


@cache
def fitted(operator: str, seed: int = 1) -> sgfi.MapFamily:
    plan = sgfi.plan(captured("two layers"), "second.proj", ["block"], partition="shared", operator=operator)
    return sgfi.calibrate(plan, [tiny("two layers").inputs(24, seed)], progress=False)


def test_future_energy_is_zero_for_causal_maps_and_not_for_the_papers() -> None:
    x = tiny("two layers").inputs(5, seed=2)
    matrix = tokens.position_matrix(fitted("causal"), x)
    assert matrix.shape == (5, LENGTH, LENGTH)
    assert torch.equal(tokens.future_energy(matrix), torch.zeros(5, dtype=torch.float64))
    assert (tokens.future_energy(tokens.position_matrix(fitted("full"), x)) > 0.01).all()
    torch.testing.assert_close(matrix[:, 2], tokens.profiles(fitted("causal"), x, [2]))


def test_swapping_nothing_is_perfect_and_seeds_agree_with_themselves() -> None:
    x = tiny("two layers").inputs(3, seed=2)
    same = tokens.geometry_swap(fitted("causal"), x, x, [3])
    assert all(value == pytest.approx([1.0] * 3) for value in same.values())
    other = tokens.geometry_swap(fitted("causal"), x, tiny("two layers").inputs(3, seed=9), [3])
    assert max(other["to_target"]) < 0.999
    first, second = (tokens.inverses(fitted("causal", seed), x, [3]) for seed in (1, 5))
    assert tokens.agreement_of(first, first)["cosine"] == pytest.approx([1.0] * 3)
    assert max(tokens.agreement_of(first, second)["cosine"]) < 0.9999


def test_the_input_itself_is_told_apart_by_re_encoding() -> None:
    family, x = fitted("causal"), tiny("two layers").inputs(20, seed=2)
    centre = tokens.features(family, x).mean(0)
    assert tokens.reencoding_auc(family, x, x, centre) == 1.0
    torch.manual_seed(0)
    assert abs(tokens.reencoding_auc(family, x[torch.randperm(20)], x, centre) - 0.5) < 0.2


def test_quality_of_whole_sequences() -> None:
    x = tiny("two layers").inputs(4, seed=2)
    table = x.flatten(0, 1)
    ids = torch.arange(16).reshape(4, 4)
    quality = tokens.sequence_quality(fitted("full"), ids, x, table, "final")
    assert len(quality["embedding_cosine"]) == 4 and all(0 <= rate <= 1 for rate in quality["exact_token"])
