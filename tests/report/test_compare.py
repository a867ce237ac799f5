"""``sgfi.compare``: inputs, features and methods in one figure."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.inputs.preprocessing import Preprocessing


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, 2)).eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_values_are_those_of_the_methods(x: torch.Tensor) -> None:
    model, queries = network(), ["0:2", "2:1@2,3"]
    methods = ["natural, path", "natural, point", "raw VJP"]
    shown = sgfi.compare(model, x, queries, methods)
    lens = sgfi.natural(sgfi.capture(model, x))
    for number, query in enumerate(queries):
        expected = sgfi.invert(lens, x, sgfi.Query.parse(query)).value
        assert torch.allclose(shown.values["natural, path"][number], expected, atol=1e-5)
        leaf = x.clone().requires_grad_()
        state = model[0](leaf) if query.startswith("0") else model(leaf)
        chosen = sgfi.Query.parse(query).mask(lens.graph.nodes[query[0]])
        (raw,) = torch.autograd.grad(state, leaf, torch.where(chosen, state.detach(), 0))
        assert torch.allclose(shown.values["raw VJP"][number], raw, atol=1e-5)
    assert shown.cosine("raw VJP", "raw VJP").allclose(torch.ones(2, 2, dtype=torch.float64))
    assert "2:1@2,3: raw VJP against natural, path, cosine " in str(shown)
    assert repr(shown) == "<Comparison of 2 inputs, 2 queries, 3 methods>"


def test_one_figure_for_inputs_queries_and_methods(x: torch.Tensor, tmp_path: Path) -> None:
    shown = sgfi.compare(network(), x, ["0:2", "2:1@2,3"])
    figure = shown.figure()
    assert len(figure.axes) == 2 * (1 + 2 * 2)
    texts = [text.get_text() for text in figure.texts]
    assert "2:1@2,3\nraw VJP" in texts and "input 1" in texts
    assert shown.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png;base64," in shown._repr_html_()


def test_files_and_estimators(x: torch.Tensor, tmp_path: Path) -> None:
    for name, colour in (("cat", "red"), ("dog", "blue")):
        Image.new("RGB", (9, 9), colour).save(tmp_path / f"{name}.png")
    model = network()
    family = sgfi.calibrate(sgfi.plan(sgfi.capture(model, x), "2", ["0"]), [x], progress=False)
    prepared = Preprocessing(size=(8, 8))
    files = [tmp_path / "cat.png", tmp_path / "dog.png"]
    shown = sgfi.compare(model, files, "2:1", {"maps": family, "ours": "natural, point"}, preprocessing=prepared)
    assert shown.names == ("cat", "dog") and list(shown.values) == ["maps", "ours"]
    assert torch.equal(shown.values["maps"][0], sgfi.invert(family, shown.x, "2", 1).value)


def test_vectors_have_values_and_no_figure() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).eval()
    inputs = torch.randn(32, 5, generator=torch.Generator().manual_seed(0))
    shown = sgfi.compare(model, [inputs[0], inputs[1]], "0:2", prior=sgfi.prior([inputs]))
    assert shown.values["raw VJP"][0].shape == (2, 5) and "<img" not in shown._repr_html_()
    with pytest.raises(QueryError, match="a picture"):
        shown.figure()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["natural path"]}, "Did you mean 'natural, path'"),
        ({"methods": []}, "at least one method"),
        ({"methods": {"mine": 3}}, "an estimator"),
        ({"queries": []}, "at least one query"),
        ({"queries": "0:1 + 2:1"}, "one tensor each"),
        ({"inputs": []}, "at least one input"),
        ({"inputs": [torch.zeros(3, 8, 8), torch.zeros(3, 9, 9)]}, "one shape"),
    ],
)
def test_what_cannot_be_compared(x: torch.Tensor, changes: dict, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        sgfi.compare(**{"model": network(), "inputs": x, "queries": "2:1", **changes})


def test_inputs_that_are_no_pictures_go_by_their_prior() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2), nn.Tanh(), nn.Conv1d(4, 3, 3)).eval(), torch.randn(3, 2, 20)
    prior = sgfi.prior([torch.randn(50, 2, 20).cumsum(2)], kind="grid", channel_axis=1)
    shown = sgfi.compare(model, x, "2:1", ["natural, path"], prior=prior)
    expected = sgfi.invert(sgfi.natural(sgfi.capture(model, x), prior), x, "2", 1).value
    torch.testing.assert_close(shown.values["natural, path"][0], expected)


def test_what_cannot_be_compared_is_said(x: torch.Tensor) -> None:
    for inputs in (None, 5):
        with pytest.raises(QueryError, match="at least one input"):
            sgfi.compare(network(), inputs, "0:2")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="names of methods"):
        sgfi.compare(network(), x, "0:2", 5)  # type: ignore[arg-type]
    model, other = network(), network()
    named = sgfi.capture(model, {"input": x}, invert="input")  # its weights have other names
    family = sgfi.calibrate(sgfi.plan(named, "2", ["0"]), [{"input": x}], progress=False)
    assert "maps" in sgfi.compare(model, x, "2:1", {"maps": family}).values
    nn.init.ones_(other[0].weight)
    family = sgfi.calibrate(sgfi.plan(sgfi.capture(other, x), "2", ["0"]), [x], progress=False)
    with pytest.raises(QueryError, match="of another model"):
        sgfi.compare(network(), x, "2:1", {"maps": family})
