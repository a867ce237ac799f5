"""Pictures of other libraries against what they are on a model where everything is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation import pictures as module
from sgfi.evaluation.pictures import METHODS, Scene, pictures
from tests.analytic import Line

QUERIES = [sgfi.Query("fc", channel) for channel in range(3)]


def linear() -> tuple[torch.Tensor, Scene]:
    matrix = torch.randn(3, 5, dtype=torch.float64)
    model = Line(matrix).eval()
    x, prior = torch.randn(2, 5, dtype=torch.float64), sgfi.prior([torch.randn(16, 5, dtype=torch.float64)])
    return matrix, Scene.of(sgfi.capture(model, x), x, prior, QUERIES, model)


def test_gradient_methods_of_a_linear_model() -> None:
    matrix, scene = linear()
    deviation = (scene.x - scene.mean) @ matrix.mT
    for channel in range(3):
        gradient = deviation[:, channel, None] * matrix[channel]
        torch.testing.assert_close(pictures("gradient", scene)[channel], gradient)
        torch.testing.assert_close(pictures("gradient x input", scene)[channel], gradient * scene.x)
        torch.testing.assert_close(pictures("SmoothGrad", scene)[channel], gradient)
        integrated = gradient * (scene.x - scene.mean)
        torch.testing.assert_close(pictures("integrated gradients", scene)[channel], integrated, rtol=1e-6, atol=1e-9)
        state = (scene.x @ matrix.mT)[:, channel, None]
        torch.testing.assert_close(pictures("raw VJP", scene)[channel], state * matrix[channel])


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.act, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.act(self.one(x)))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_draws_on_a_small_network(name: str) -> None:
    model, x = Small().eval(), torch.randn(2, 3, 16, 16)
    weights = [parameter.clone() for parameter in model.parameters()]
    queries = [sgfi.Query("two", 1), sgfi.Query("two", None, [(3, 4)])]
    scene = Scene.of(sgfi.capture(model, x), x, sgfi.prior([torch.randn(8, 3, 16, 16)]), queries, model)
    before = torch.get_rng_state()
    drawn = pictures(name, scene)
    assert drawn.shape == (2, 2, 3, 16, 16) and torch.isfinite(drawn).all()
    assert all(picture.abs().max() > 0 for picture in drawn.flatten(0, 1))
    assert torch.get_rng_state().equal(before)  # the caller's random numbers, and the model, stay as they were
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())


def test_grad_cam_is_the_weighted_activation() -> None:
    model, x = Small().eval(), torch.randn(2, 3, 8, 8)
    prior = sgfi.prior([torch.randn(8, 3, 8, 8)])
    scene = Scene.of(sgfi.capture(model, x), x, prior, [sgfi.Query("two", 1)], model)
    with torch.no_grad():
        own, origin = model(x)[:, 1], model(prior.mean.unsqueeze(0))[:, 1]
    weight = (own - origin).mean((1, 2), keepdim=True)  # the score's gradient is the deviation, zero in other channels
    expected = (weight * own).relu().unsqueeze(1) * (x - scene.mean)
    torch.testing.assert_close(pictures("Grad-CAM", scene)[0], expected, rtol=1e-4, atol=1e-5)


def test_misuse_is_named() -> None:
    _, scene = linear()
    with pytest.raises(QueryError, match="Did you mean"):
        pictures("gradiant", scene)
    bare = Scene.of(scene.graph, scene.x, sgfi.prior([torch.randn(16, 5, dtype=torch.float64)]), QUERIES)
    with pytest.raises(QueryError, match="modules"):
        pictures("LRP", bare)
    with pytest.raises(QueryError, match="pictures as inputs"):
        pictures("activation x input", scene)


@pytest.mark.parametrize("method", ["guided backpropagation", "LRP", "Grad-CAM"])
def test_the_next_op_may_work_in_place(method: str) -> None:
    """``bn`` followed by ``ReLU(inplace=True)``: the picture is of the tensor that was asked for."""
    drawn = []
    for inplace in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(inplace)).eval()
        x, prior = torch.randn(2, 3, 8, 8), sgfi.prior([torch.randn(16, 3, 8, 8)])
        scene = Scene.of(sgfi.capture(model, x), x, prior, [sgfi.Query("2", 1)], model)
        drawn.append(pictures(method, scene))
    torch.testing.assert_close(*drawn)


def test_queries_on_two_targets_are_refused() -> None:
    _, scene = linear()
    prior = sgfi.prior([torch.randn(16, 5, dtype=torch.float64)])
    with pytest.raises(QueryError, match="one target"):
        Scene.of(scene.graph, scene.x, prior, [sgfi.Query("fc", 0), sgfi.Query(None, 1)])


def test_a_caller_in_inference_mode() -> None:
    _, scene = linear()
    with torch.inference_mode():
        prior = sgfi.prior([torch.randn(16, 5, dtype=torch.float64)])
        inside = Scene.of(scene.graph, scene.x.clone(), prior, QUERIES)
        for name in ("gradient", "raw VJP", "integrated gradients"):
            assert torch.isfinite(pictures(name, inside)).all()


def test_accentuation_raises_its_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("horama")
    monkeypatch.setattr(module, "ACCENTUATION_STEPS", 16)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 1)).eval()
    x = torch.rand(2, 3, 1, 1) + 0.1 * torch.rand(2, 3, 16, 16)  # nearly flat: crops are alike
    queries = [sgfi.Query("0", channel) for channel in range(4)]
    scene = Scene.of(sgfi.capture(model, x), x, sgfi.prior([torch.randn(16, 3, 16, 16)]), queries, model)
    for direction, added in zip(scene.directions(), pictures("accentuation", scene), strict=True):
        assert (scene.score(x + added, direction) > scene.score(x, direction)).all()


class ChannelsLast(nn.Module):
    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.one = convolution

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x.movedim(3, 1))


def test_pictures_with_channels_last_are_masked_as_those_with_channels_first() -> None:
    convolution, x = nn.Conv2d(3, 4, 3, 2, 1).double().eval(), torch.randn(2, 8, 6, 3, dtype=torch.float64)
    corpus = torch.randn(8, 8, 6, 3, dtype=torch.float64)
    drawn = []
    for model, axis in ((ChannelsLast(convolution), 3), (nn.Sequential(convolution), 1)):
        inputs, others = (part.movedim(3, axis).contiguous() for part in (x, corpus))
        prior = sgfi.prior([others], kind="grid", channel_axis=axis)
        query = sgfi.Query("one" if axis == 3 else "0", 1)
        scene = Scene.of(sgfi.capture(model.eval(), inputs), inputs, prior, [query])
        drawn.append(pictures("activation x input", scene)[0].movedim(axis, 1))
    torch.testing.assert_close(*drawn)


def test_an_input_is_smoothed_by_its_own_range() -> None:
    x = torch.randn(2, 3, 16, 16) * torch.tensor([1.0, 10.0]).reshape(-1, 1, 1, 1)
    graph, prior = sgfi.capture(Small().eval(), x), sgfi.prior([torch.randn(8, 3, 16, 16)])
    both, alone = (pictures("SmoothGrad", Scene.of(graph, part, prior, [sgfi.Query("two", 1)])) for part in (x, x[:1]))
    torch.testing.assert_close(both[:, :1], alone)


def test_accentuation_of_pictures_that_are_not_square_is_refused() -> None:
    x = torch.randn(1, 3, 16, 12)
    prior = sgfi.prior([torch.randn(8, 3, 16, 12)])
    with pytest.raises(QueryError, match="square"):
        pictures("accentuation", Scene.of(sgfi.capture(Small().eval(), x), x, prior, [sgfi.Query("two", 1)]))
