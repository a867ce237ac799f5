"""Kept graphs: a second look is quick, and never at a model that is no longer there."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sgfi
from sgfi.report.attribution import NaturalAttribution
from sgfi.report.captured import MOST, _settled, captured


class Plain:
    """A settings object of some library; the model reads it through another one."""

    def __init__(self) -> None:
        self.inner, self.own = Namespace(offset=0.0, options={"squared"}), self


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plain = Plain()
        self.array, self.options = np.ones(1, np.float32), SimpleNamespace(shift=0.0)
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 4, 2, 2)
        self.factor, self.settings, self.mask = 2.0, {"power": 2}, torch.ones(6, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = torch.tanh(self.one(x) * self.factor * self.mask + self.options.shift) + float(self.array[0])
        inside = inside.abs() ** self.settings["power"] + self.plain.inner.offset
        return self.two(inside.square() if "squared" in self.plain.inner.options else inside)


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


def namespace(model: Scaled) -> None:
    model.plain.inner.offset = 1.0


def members(model: Scaled) -> None:
    model.plain.inner.options.clear()


def patched(model: Scaled) -> None:
    own = model.one.forward
    model.one.forward = lambda x: own(x).square()  # type: ignore[method-assign]


CHANGES = (hooked, prehooked, attribute, setting, tensor, array, options, namespace, members, patched)


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


def hooked_by(model: Scaled, settings: dict[str, float]) -> None:
    model.one.register_forward_hook(lambda module, given, result: result * settings["factor"])


def replaced_by(model: Scaled, settings: dict[str, float]) -> None:
    own = model.one.forward
    model.one.forward = lambda x: own(x) * settings["factor"]  # type: ignore[method-assign]


@pytest.mark.parametrize("attach", [hooked_by, replaced_by], ids=lambda attach: attach.__name__)
def test_what_a_hook_or_a_replaced_forward_reads_may_change(attach: Callable[..., None]) -> None:
    x, model, settings = torch.randn(1, 3, 8, 8), Scaled().eval(), {"factor": 1.0}
    attach(model, settings)
    before = sgfi.look(model, x, "two:1").value
    settings["factor"] = 0.1
    now, fresh = sgfi.look(model, x, "two:1").value, sgfi.natural(sgfi.capture(model, x))
    torch.testing.assert_close(now, sgfi.invert(fresh, x, "two", 1).value)
    assert not torch.allclose(now, before)


def test_a_model_that_is_as_it_was_is_not() -> None:
    x, model = torch.randn(2, 3, 8, 8), Scaled().eval()
    assert captured(model, x, ["two"]) is captured(model, x[:1], ["one"])
    model.train().eval()
    assert captured(model, x, ["two"]) is captured(model, x[:1], ["one"])


def test_attributes_of_any_shape_have_a_key() -> None:
    """One that contains itself, a long list, an empty cell and an object that refers to everything."""
    own: dict[str, object] = {}
    own["own"] = own

    def recursive() -> object:
        return later

    if own is None:
        later = 1
    wide = [[[0] * 900 for _ in range(900)] for _ in range(9)]
    for value in (own, list(range(10**6)), wide, object(), {1, 2}, np.array([object()]), recursive, torch, Plain):
        assert hash(_settled(value)) == hash(_settled(value))
    assert len(_settled(wide)) <= MOST + 1  # type: ignore[arg-type]


def test_what_is_held_is_compared_and_not_where_it_is() -> None:
    assert _settled([1, [2.0, "a"]]) == _settled([1, [2.0, "a"]]) != _settled([1, [2.0, "b"]])
    assert _settled([[1], 2]) != _settled([[1, 2]]) and _settled([1]) != _settled([1.0]) != _settled([True])
    shared: list[int] = []
    assert _settled([shared, shared]) != _settled([[], [1]])
