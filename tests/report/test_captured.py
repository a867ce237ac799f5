"""Kept graphs: a second look is quick, and never at a model that is no longer there."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sgfi
from sgfi.report.attribution import NaturalAttribution
from sgfi.report.captured import _settled, captured


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.array, self.options = np.ones(1, np.float32), SimpleNamespace(shift=0.0)
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 4, 2, 2)
        self.factor, self.settings, self.mask = 2.0, {"power": 2}, torch.ones(6, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = torch.tanh(self.one(x) * self.factor * self.mask + self.options.shift) + float(self.array[0])
        return self.two(inside.abs() ** self.settings["power"])


def hooked(model: Scaled) -> None:
    model.one.register_forward_hook(lambda module, given, result: result.square())


def prehooked(model: Scaled) -> None:
    model.two.register_forward_pre_hook(lambda module, given: (given[0].tanh(),))


def attribute(model: Scaled) -> None:
    model.factor = 0.5


def setting(model: Scaled) -> None:
    model.settings["power"] = 3


def tensor(model: Scaled) -> None:
    model.mask = torch.full((6, 1, 1), 0.5)


def array(model: Scaled) -> None:
    model.array[0] = 2.0


def options(model: Scaled) -> None:
    model.options.shift = 1.0


def patched(model: Scaled) -> None:
    own = model.one.forward
    model.one.forward = lambda x: own(x).square()  # type: ignore[method-assign]


CHANGES = (hooked, prehooked, attribute, setting, tensor, array, options, patched)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_model_that_computes_something_else_is_captured_again(change: Callable[[Scaled], None]) -> None:
    x, model, other = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)), Scaled().eval(), Scaled()
    before = sgfi.look(model, x, "two:1").value
    answers = NaturalAttribution(model, "two")
    answers.attribute(x, 1)
    change(model)
    change(other)
    fresh = sgfi.invert(sgfi.natural(sgfi.capture(other.eval(), x)), x, "two", 1).value
    for now in (sgfi.look(model, x, "two:1").value, answers.attribute(x, 1)):
        torch.testing.assert_close(now, fresh)
        assert not torch.allclose(now, before)


def test_a_model_that_is_as_it_was_is_not() -> None:
    x, model = torch.randn(2, 3, 8, 8), Scaled().eval()
    assert captured(model, x, ["two"]) is captured(model, x[:1], ["one"])
    model.train().eval()
    assert captured(model, x, ["two"]) is captured(model, x[:1], ["one"])


def test_attributes_of_any_shape_have_a_key() -> None:
    """One that contains itself, a long list and an object are known by identity."""
    own: dict[str, object] = {}
    own["own"] = own
    for value in (own, list(range(10**6)), object(), {1, 2}, np.array([object()])):
        assert hash(_settled(value)) == hash(_settled(value))
    assert _settled([1, [2.0, "a"]]) == _settled((1, (2.0, "a"))) != _settled([1, [2.0, "b"]])
