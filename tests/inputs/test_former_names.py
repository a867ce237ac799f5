"""``sgfi.vision``, the former name of ``sgfi.inputs``: it warns and gives the same objects."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import sgfi.inputs
from sgfi.figures import display
from sgfi.inputs import data, models, photographs, preprocessing, text, weights


@pytest.fixture(autouse=True)
def _not_imported_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a fresh process: the warning comes with the first import."""
    for name in [name for name in sys.modules if name.split(".")[:2] == ["sgfi", "vision"]]:
        monkeypatch.delitem(sys.modules, name)


def test_names_of_the_package() -> None:
    with pytest.warns(DeprecationWarning, match=r"sgfi\.vision is now sgfi\.inputs"):
        from sgfi.vision import load_model
    assert load_model is models.load_model
    former = sys.modules["sgfi.vision"]
    assert all(getattr(former, name) is getattr(sgfi.inputs, name) for name in sgfi.inputs.__all__)
    assert former.signed_view is display.signed_view


def test_names_of_its_modules() -> None:
    with pytest.warns(DeprecationWarning, match=r"sgfi\.vision is now sgfi\.inputs"):
        from sgfi.vision.photographs import held_out_images
    assert held_out_images is photographs.held_out_images
    for module in (data, models, photographs, preprocessing, text, weights, display):
        name = module.__name__.rpartition(".")[2]
        assert import_module(f"sgfi.vision.{name}") is module is getattr(sys.modules["sgfi.vision"], name)
