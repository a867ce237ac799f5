"""The Jacobian at a point and along a path, against matrices written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.errors import QueryError, SgfiError
from sgfi.natural import jacobian as module
from sgfi.natural.jacobian import Jacobian, jacobian
from sgfi.natural.path import POINT, Path
from tests.analytic import captured, tiny
from tests.natural.dense import averaged_jacobian, fitted_prior
from tests.oracle import evaluate

PATHS = {"point": POINT, "midpoint": Path(3), "gauss": Path(4, "gauss")}
NAMES = ["chain", "relu", "gate", "channels_last", "tokens", "causal", "vector", "signal", "volume"]


def _made(name: str, path: Path, count: int = 2) -> tuple[Jacobian, Tensor, Tensor]:
    model, mu = tiny(name), fitted_prior(name).mean
    x = model.inputs(count, seed=3)
    return jacobian(captured(name), model.target, x, mu, path), x, mu


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", NAMES)
def test_push_and_pull_are_the_averaged_matrix(name: str, path: str) -> None:
    rule = PATHS[path]
    made, x, mu = _made(name, rule)
    size = x[0].numel()
    unit = torch.eye(size, dtype=torch.float64).reshape(size, 1, *x.shape[1:]).expand(-1, *x.shape)
    pushed = made.push(unit)  # (N, B, *target)
    cotangents = torch.randn(3, *made.target_shape, dtype=torch.float64)
    pulled = made.pull(cotangents)
    for number in range(len(x)):
        dense = averaged_jacobian(tiny(name), tiny(name).target, x[number : number + 1], mu, rule.rule, rule.points)
        torch.testing.assert_close(pushed[:, number].flatten(1).mT, dense, rtol=0, atol=1e-10)
        expected = cotangents[:, number].flatten(1) @ dense
        torch.testing.assert_close(pulled[:, number].flatten(1), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_pull_is_the_adjoint_of_push(name: str) -> None:
    made, _, _ = _made(name, Path(3))
    tangents = torch.randn(2, *made.input_shape, dtype=torch.float64)
    cotangents = torch.randn(2, *made.target_shape, dtype=torch.float64)
    pushed = (made.push(tangents) * cotangents).flatten(1).sum(1)
    pulled = (tangents * made.pull(cotangents)).flatten(1).sum(1)
    torch.testing.assert_close(pushed, pulled, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rule", ["midpoint", "gauss"])
def test_along_the_line_the_difference_is_accounted_for(rule: str) -> None:
    errors = []
    for points in (1, 2, 4, 8):
        made, x, mu = _made("chain", Path(points, rule))
        values = evaluate(tiny("chain"), torch.cat([x, mu.unsqueeze(0)]))[tiny("chain").target]
        missed = made.push((x - mu).unsqueeze(0))[0] - (values[:-1] - values[-1])
        errors.append(float(missed.abs().max()))
    assert errors[3] < errors[2] < errors[1] < errors[0]
    assert errors[3] < (1e-4 if rule == "gauss" else 2e-2)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _, _ = _made("chain", Path(2))
    monkeypatch.setattr(module, "STACK", 1)
    parts, _, _ = _made("chain", Path(2))
    assert parts.chunk == 1 and whole.chunk > 5
    cotangents = torch.randn(5, *whole.target_shape, dtype=torch.float64)
    torch.testing.assert_close(parts.pull(cotangents), whole.pull(cotangents), rtol=0, atol=1e-12)
    tangents = torch.randn(5, *whole.input_shape, dtype=torch.float64)
    torch.testing.assert_close(parts.push(tangents), whole.push(tangents), rtol=0, atol=1e-12)


def test_another_curve_is_a_small_function() -> None:
    def halves(x: Tensor, mu: Tensor, nodes: Tensor) -> Tensor:
        return torch.stack([mu + (node / 2 + 0.5) * (x - mu) for node in nodes])

    near, x, mu = _made("chain", Path(2, "midpoint", halves))
    tangent = torch.randn(1, *x.shape, dtype=torch.float64)
    by_hand = [jacobian(captured("chain"), "conv3", mu + s * (x - mu), mu, POINT).push(tangent) for s in (0.625, 0.875)]
    torch.testing.assert_close(near.push(tangent), (by_hand[0] + by_hand[1]) / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0,), "one point"), ((True,), "one point"), ((3, "simpson"), "rule"), ((3, "gauss", 1), "curve")],
)
def test_unusable_paths_are_named(arguments: tuple, words: str) -> None:
    with pytest.raises(SgfiError, match=words):
        Path(*arguments)


def test_a_curve_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(SgfiError, match="a curve that gives"):
        Path(2, "midpoint", lambda x, mu, nodes: x).at(torch.zeros(1, 2), torch.zeros(2))


def test_a_path_of_its_end_alone_is_the_point_and_half_a_path_needs_two_points() -> None:
    graph = captured("chain")
    prior = fitted_prior("chain")
    lens = sgfi.natural(graph, prior, Path(3, "end"))
    point = sgfi.natural(graph, prior, "point")
    assert lens.target_value == point.target_value == "tangent"
    assert lens.describe() == point.describe() and lens.describe()["points"] == 1
    with pytest.raises(QueryError, match="two points or more"):
        sgfi.natural(graph, prior, points=1)
