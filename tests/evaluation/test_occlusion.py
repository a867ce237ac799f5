"""Occlusion against a linear model, where covering a window takes out exactly its part of the sum."""

from __future__ import annotations

import math
from math import prod

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.occlusion import occlusion, windowed
from sgfi.natural import reference_state
from sgfi.natural.channels import ChannelPrior
from tests.analytic import Line, captured, tiny
from tests.natural.test_reference import setting

QUERIES = [sgfi.Query("fc", channel) for channel in range(3)]


def flat(x: torch.Tensor, axis: int = 1) -> ChannelPrior:
    """A prior whose mean is zero."""
    size = x.shape[axis]
    return ChannelPrior(x.new_zeros(size), torch.eye(size, dtype=torch.float64), tuple(x.shape[1:]), axis)


def test_covering_an_entry_takes_out_its_part() -> None:
    torch.manual_seed(0)
    matrix, x = torch.rand(3, 5), torch.rand(1, 5) + 1
    occluded = occlusion(sgfi.capture(Line(matrix).float().eval(), x), x, QUERIES, flat(x))
    torch.testing.assert_close(occluded.maps, matrix * x / (x @ matrix.mT).mT)
    torch.testing.assert_close(occluded.maps.sum(1), torch.ones(3))
    assert occluded.agreement([row.sqrt().unsqueeze(0) for row in occluded.maps]) == pytest.approx([1, 1, 1])
    assert occluded.agreement([1 / row.unsqueeze(0) for row in occluded.maps]) == pytest.approx([-1, -1, -1])
    assert all(math.isnan(value) for value in occluded.agreement([torch.ones(1, 5)] * 3))


def test_queries_of_several_targets_keep_their_order() -> None:
    graph, x = captured("chain"), tiny("chain").inputs(1, seed=3)
    queries = [sgfi.Query("conv3", 1), sgfi.Query("act1", 0), sgfi.Query("conv3", None, [(1, 1)])]
    together = occlusion(graph, x, queries, flat(x))
    alone = [occlusion(graph, x, [query], flat(x)).maps for query in queries]
    torch.testing.assert_close(together.maps, torch.cat(alone))
    assert together.window[0] == x.shape[1]
    with pytest.raises(QueryError, match="one input"):
        occlusion(graph, x.repeat(2, 1, 1, 1), queries, flat(x))
    with pytest.raises(QueryError, match="picture for each"):
        together.agreement([x])


@pytest.mark.parametrize(
    ("x", "queries", "size", "words"),
    [
        (torch.randn(1, 5).double(), QUERIES, 5, "dtype"),
        (torch.randn(1, 4), QUERIES, 5, "shape"),
        (None, QUERIES, 5, "a tensor"),
        (torch.full((1, 5), torch.nan), QUERIES, 5, "finite"),
        (torch.randn(1, 5), [1], 5, "sgfi.Query"),
        (torch.randn(1, 5), QUERIES, 6, "a prior of inputs"),
        (torch.randn(1, 5), [], 5, "queries that name"),
        (torch.randn(1, 5), [sgfi.Query("fc") + sgfi.Query("input")], 5, "one tensor"),
    ],
)
def test_misuse_is_named(x: object, queries: list, size: int, words: str) -> None:
    graph = sgfi.capture(Line(torch.randn(3, 5)).float().eval(), torch.randn(2, 5))
    with pytest.raises(QueryError, match=words):
        occlusion(graph, x, queries, flat(torch.zeros(1, size)))  # type: ignore[arg-type]


def test_a_feature_of_tokens_deviates_from_the_mean_state_over_the_prior() -> None:
    _, graph, x, prior = setting()
    x, covered = x[:1], x[:1].repeat(x.shape[1], 1, 1)
    for position in range(x.shape[1]):
        covered[position, position] = prior.mean[position]
    states = graph.program(("input",), ("add",))(torch.cat([x, covered]))[0].detach()[:, 2]  # of one queried position
    deviation = states[0] - reference_state(graph, "add", x, prior)[2]
    expected = (states[0] - states[1:]) @ deviation / deviation.square().sum()
    occluded = occlusion(graph, x, [sgfi.Query("add", None, [(2,)])], prior)
    torch.testing.assert_close(
        occluded.maps[0].double(), expected, rtol=1e-5, atol=1e-6
    )  # captum sums in single precision


def test_windows_are_means() -> None:
    picture = torch.arange(12.0).reshape(1, 3, 4)
    torch.testing.assert_close(windowed(picture, (1, 2, 2)), torch.tensor([2.5, 4.5, 8.5, 10.5]))


def test_channels_are_covered_together_wherever_they_stand() -> None:
    torch.manual_seed(0)
    signal, tokens = torch.nn.Conv1d(3, 2, 3, padding=1).eval(), torch.nn.Linear(5, 4).eval()
    for model, x, target, window, axis in (
        (torch.nn.Sequential(signal).eval(), torch.randn(1, 3, 200), "0", (3, 4), 1),
        (torch.nn.Sequential(tokens).eval(), torch.randn(1, 7, 5), "0", (1, 5), 2),
    ):
        graph = sgfi.capture(model, torch.cat([x, x]))
        covered = occlusion(graph, x, [sgfi.Query(target, 1)], flat(x, axis))
        assert covered.window == window


@pytest.mark.parametrize(("shape", "most"), [((3, 15, 31), 8), ((1, 7, 9), 8), ((3, 100), 64)])
def test_no_axis_has_more_windows_than_said(shape: tuple[int, ...], most: int) -> None:
    model = (nn.Conv2d if len(shape) == 3 else nn.Conv1d)(shape[0], 2, 3).eval()
    x = torch.randn(1, *shape)
    prior = sgfi.prior([torch.randn(6, *shape)], kind="grid", channel_axis=1)
    covered = occlusion(sgfi.capture(model, x), x, [sgfi.Query("conv2d" if len(shape) == 3 else "conv1d", 1)], prior)
    counts = [-(-size // step) for size, step in zip(shape, covered.window, strict=True)]
    assert counts[0] == 1 and max(counts) <= most and covered.maps.shape == (1, prod(counts))
