"""Kept derivatives change no answer, and are kept for exactly what they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import sgfi
from sgfi.natural import Recent
from sgfi.natural import lens as module
from sgfi.natural.path import POINT
from tests.analytic import tiny
from tests.natural.dense import lens_of

NAME = "chain"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Targets whose derivative was made."""
    plain, targets = module.jacobian, []

    def counted(graph, target, *rest):
        targets.append(target)
        return plain(graph, target, *rest)

    monkeypatch.setattr(module, "jacobian", counted)
    return targets


def test_queries_on_one_tensor_share_its_derivative_and_their_answers_are_the_same(made: list[str]) -> None:
    plain, x = lens_of(NAME, "path"), tiny(NAME).inputs(2, seed=3)
    lens = replace(plain, recent=Recent())
    node = lens.node()
    queries = [sgfi.Query(node.name, channel) for channel in range(2)]
    for stage in ("final", "raw"):
        for query in queries:
            ours, theirs = (sgfi.sweep(each, x, [query], stage=stage)[0] for each in (lens, plain))
            torch.testing.assert_close(ours.value, theirs.value, rtol=0, atol=0)
            torch.testing.assert_close(ours.ridge, theirs.ridge, rtol=0, atol=0, equal_nan=True)
    assert len(made) == 1 + 4


@pytest.mark.parametrize("change", ["input", "path", "ridge", "prior"])
def test_another_question_is_never_answered_by_what_is_kept(change: str, made: list[str]) -> None:
    lens, x = replace(lens_of(NAME, "path"), recent=Recent()), tiny(NAME).inputs(2, seed=3)
    query = sgfi.Query(lens.node().name, 0)
    sgfi.sweep(lens, x, [query])
    if change == "input":
        x = x + 0.1
    else:
        others = {"path": POINT, "ridge": 0.3, "prior": lens_of(NAME, "path").prior}
        lens = replace(lens, **{change: others[change]})
    again = sgfi.sweep(lens, x, [query])[0].value
    assert len(made) == 2
    torch.testing.assert_close(again, sgfi.sweep(replace(lens, recent=None), x, [query])[0].value, rtol=0, atol=0)


def test_no_more_than_allowed_is_held() -> None:
    recent = Recent(most=100)
    sizes = {"a": 60, "b": 30, "c": 60, "d": 500}
    for key, size in sizes.items():
        recent.get(key, lambda key=key: key.upper(), lambda _, size=size: size)
    assert recent.held == 500  # the last one stays, whatever its size
    recent.get("e", lambda: "E", lambda _: 40)
    assert recent.held == 40
    assert recent.get("e", lambda: "made again", lambda _: 40) == "E"


class Square(torch.nn.Module):
    """The derivative of ``x * x`` reads x."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


def small(jacobian: str = "path") -> tuple[torch.nn.Sequential, torch.Tensor, sgfi.NaturalInverse]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Square(), torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)).eval()
    x, prior = torch.randn(2, 4), sgfi.prior([torch.randn(16, 4)])
    return model, x, replace(sgfi.natural(sgfi.capture(model, x), prior, jacobian), recent=Recent())


@pytest.mark.parametrize("write", [lambda weight: weight.mul_(-2), lambda weight: weight.data.mul_(-2)])
@torch.no_grad()
def test_weights_written_in_place_are_another_question(write: Callable[[torch.Tensor], object]) -> None:
    model, x, lens = small()
    sgfi.invert(lens, x, "2")
    write(model[1].weight)
    kept, fresh = (sgfi.invert(each, x, "2").value for each in (lens, replace(lens, recent=None)))
    torch.testing.assert_close(kept, fresh, rtol=0, atol=0)


@pytest.mark.parametrize("jacobian", ["point", "path"])
def test_a_caller_who_writes_to_the_input_changes_nothing_that_is_kept(jacobian: str) -> None:
    _, x, lens = small(jacobian)
    same = x.clone()
    sgfi.invert(lens, x, "2", channels=[0])
    x.zero_()
    kept, fresh = (sgfi.invert(each, same, "2", channels=[1]).value for each in (lens, replace(lens, recent=None)))
    torch.testing.assert_close(kept, fresh, rtol=0, atol=0)


def test_a_background_written_in_place_is_another_question() -> None:
    _, x, lens = small()
    background = torch.randn(6, 4)
    lens = lens.centred(background)
    sgfi.invert(lens, x, "2")
    background += 3
    kept, fresh = (sgfi.invert(each, x, "2").value for each in (lens, replace(lens, recent=None)))
    torch.testing.assert_close(kept, fresh, rtol=0, atol=0)
