"""What a feature is compared with: the mean input's state, of tokens the mean state over the prior."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.removal import Trial
from sgfi.natural import Prior, embedding_prior, from_tensors, reference_state, registered
from sgfi.natural.reference import PAIRS, SEED

LENGTH, WIDTH = 6, 4


class Sink(nn.Module):
    """Where all positions are alike, every one is driven far off, as by the attention of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spread = (x - x.mean(1, keepdim=True)).square().mean((1, 2), keepdim=True)
        return self.mix(x) + 100 * torch.exp(-100 * spread)


def setting() -> tuple[Sink, sgfi.TensorGraph, torch.Tensor, Prior]:
    torch.manual_seed(0)
    table = torch.randn(50, WIDTH, dtype=torch.float64)
    x, model = table[torch.randint(50, (3, LENGTH))], Sink().eval()
    return model, sgfi.capture(model, x), x, embedding_prior(table, LENGTH)


def test_of_a_linear_tensor_it_is_the_mean_inputs_state() -> None:
    model, graph, x, prior = setting()
    torch.testing.assert_close(reference_state(graph, "mix", x, prior), model.mix(prior.mean).detach())


def test_of_tokens_it_is_the_mean_state_over_the_prior() -> None:
    model, graph, x, prior = setting()
    draws = prior.draw(PAIRS, x, SEED)
    expected = model(torch.cat([prior.mean + draws, prior.mean - draws])).mean(0).detach()
    reference = reference_state(graph, "add", x, prior)
    torch.testing.assert_close(reference, expected)
    at_mean = model(prior.mean.unsqueeze(0))[0].detach()
    assert (at_mean - reference).min() > 90 and (model(x) - reference).abs().max() < 20
    torch.testing.assert_close(registered(graph, "add", x, prior), (model(x) - expected).detach())
    torch.testing.assert_close(sgfi.natural(graph, prior).state(x, "add"), (model(x) - expected).detach())
    torch.testing.assert_close(
        Trial.of(graph, x, [sgfi.Query("add")], prior).deviations[0], (model(x) - expected).detach()
    )


def test_of_pictures_and_vectors_it_is_the_mean_inputs_state() -> None:
    for layer, x in ((nn.Conv2d(3, 2, 3), torch.randn(4, 3, 8, 8)), (nn.Linear(5, 2), torch.randn(4, 5))):
        model = nn.Sequential(layer, nn.ReLU()).eval()
        graph, prior = sgfi.capture(model, x), sgfi.prior([x])
        expected = model(prior.mean.unsqueeze(0))[0].detach()
        torch.testing.assert_close(reference_state(graph, "1", x, prior), expected)
        torch.testing.assert_close(registered(graph, "1", x, prior), (model(x) - expected).detach())


def test_a_centred_target_is_less_the_mean_state_over_the_prior() -> None:
    """Of pictures too; equal to the difference where the model is linear, and not where it is not."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Tanh()).double().eval()
    x = 2 * torch.randn(4, 3, 8, 8, dtype=torch.float64)
    graph, prior = sgfi.capture(model, x), sgfi.prior([x])
    lens = sgfi.natural(graph, prior, target_value="centred")
    draws = prior.draw(PAIRS, x, SEED)
    expected = model(torch.cat([prior.mean + draws, prior.mean - draws])).mean(0).detach()
    torch.testing.assert_close(lens.state(x, "1"), model(x).detach() - expected)
    plain = sgfi.natural(graph, prior)
    torch.testing.assert_close(lens.state(x, "0"), plain.state(x, "0"))
    assert (lens.state(x, "1") - plain.state(x, "1")).abs().max() > 0.01
    usual = lens.centred(x[:3])
    torch.testing.assert_close(usual.state(x, "1"), (model(x) - model(x[:3]).mean(0)).detach())
    assert usual.describe()["background"] == 3 and plain.centred().state(x, "1").equal(lens.state(x, "1"))
    with pytest.raises(QueryError, match="inputs of shape"):
        lens.centred(x[0])
    own = sgfi.invert(lens, x, "1", channels=[1]).value
    torch.testing.assert_close(own, sgfi.invert(plain, x, "1", channels=[1], terminal=lens.state(x, "1")).value)
    assert lens.describe()["target_value"] == "centred"


def test_weights_that_change_are_seen() -> None:
    model, graph, x, prior = setting()
    before = reference_state(graph, "mix", x, prior).clone()
    with torch.no_grad():
        model.mix.bias.add_(1)
    torch.testing.assert_close(reference_state(graph, "mix", x, prior), before + 1)


def test_what_is_read_does_not_depend_on_later_positions() -> None:
    _, graph, x, prior = setting()
    (first,) = sgfi.sweep(sgfi.natural(graph, prior), x, [sgfi.Query("mix", None, [(2,)])])
    changed = x.clone()
    changed[:, 3:] += 1
    (second,) = sgfi.sweep(sgfi.natural(graph, prior), changed, [sgfi.Query("mix", None, [(2,)])])
    torch.testing.assert_close(first.value, second.value)


def test_a_stored_prior_keeps_what_it_is_of() -> None:
    *_, prior = setting()
    assert from_tensors(prior.tensors()).of_tokens
    older = {name: tensor for name, tensor in prior.tensors().items() if name != "of_tokens"}
    assert not from_tensors(older).of_tokens and prior.resized((3, WIDTH)).of_tokens


def test_what_is_kept_can_be_differentiated_through() -> None:
    _, graph, x, prior = setting()
    with torch.inference_mode():
        reference_state(graph, "add", x, prior)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    (weight * reference_state(graph, "add", x, prior)).sum().backward()
    assert weight.grad is not None
