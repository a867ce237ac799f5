"""A trained decoder learns to read a tensor, answers queries as an estimator, and never sees the operating point."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.decoder import Decoders, Training, train_decoder

TRAINING = Training(steps=120, batch=16, width=24, rate=1e-2)


class Half(nn.Module):
    """Pictures at half the size, and a nonlinear tensor behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.act = nn.AvgPool2d(2), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.pool(x))


@pytest.fixture(scope="module")
def trained() -> tuple[Decoders, torch.Tensor]:
    torch.manual_seed(0)
    flat = torch.randn(64, 3, 2, 2).repeat_interleave(4, 2).repeat_interleave(4, 3)
    graph, prior = sgfi.capture(Half().eval(), flat[:2]), sgfi.prior([flat])
    decoder = train_decoder(graph, "pool", [flat[:40], flat[40:]], prior, TRAINING)
    again = train_decoder(graph, "pool", [flat[:40], flat[40:]], prior, TRAINING)
    assert all(torch.equal(a, b) for a, b in zip(decoder.parameters(), again.parameters(), strict=True))
    return Decoders(graph, prior, {"pool": decoder}), torch.randn(4, 3, 2, 2).repeat_interleave(4, 2).repeat_interleave(
        4, 3
    )


def test_it_reads_inputs_it_has_not_seen(trained: tuple[Decoders, torch.Tensor]) -> None:
    decoders, x = trained
    value = sgfi.invert(decoders, x).value
    error = (decoders.prior.mean + value - x).square().mean() / (x - decoders.prior.mean).square().mean()
    assert value.shape == x.shape and error < 0.5


def test_a_query_is_the_masked_tensor_decoded_whatever_the_input(trained: tuple[Decoders, torch.Tensor]) -> None:
    decoders, x = trained
    state = decoders.state(x)
    here = sgfi.invert(decoders, x, channels=[1], terminal=state).value
    elsewhere = sgfi.invert(decoders, x.roll(1, 0), channels=[1], terminal=state).value
    assert torch.equal(here, elsewhere)  # nothing but the target reaches the picture
    assert not torch.equal(here, sgfi.invert(decoders, x, channels=[2]).value)
    with pytest.raises(QueryError, match="Train a decoder"):
        decoders.node("act")


def test_tokens_and_vectors() -> None:
    x = torch.randn(24, 4, 6)
    graph = sgfi.capture(nn.Sequential(nn.Linear(6, 5), nn.Tanh()).eval(), x[:2])
    prior, name = sgfi.prior([x]), "0"
    decoders = Decoders(graph, prior, {name: train_decoder(graph, name, [x], prior, Training(steps=3, width=4))})
    assert sgfi.invert(decoders, x[:2], coords=[1]).value.shape == (2, 4, 6)
    flat = torch.randn(9, 6)
    graph = sgfi.capture(nn.Sequential(nn.Linear(6, 5), nn.Tanh()).eval(), flat[:2])
    with pytest.raises(QueryError, match="pictures or sequences"):
        train_decoder(graph, "0", [flat], sgfi.prior([flat]), Training(steps=1))
