"""``sgfi.look``: one call from a model and an input to an answer that draws itself."""

from __future__ import annotations

import copy
import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from torch import nn

import sgfi
from sgfi.derivatives import capture_with
from sgfi.errors import DataError, QueryError, SgfiError
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.report import captured as kept
from sgfi.report import look as module
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures
BUILDER = """
import torch

INPUT_SHAPE = (3, 8, 8)
MEAN, STD = (0.5,) * 3, (0.25,) * 3


def build():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(6, 4, 2, 2))
"""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, 2)).eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``net.py`` and two pictures, ``a.png`` and ``b.png``."""
    path = tmp_path_factory.mktemp("look")
    (path / "net.py").write_text(BUILDER)
    for name, seed in (("a", 0), ("b", 1)):
        pixels = torch.randint(0, 256, (10, 9, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(path / f"{name}.png")
    return path


def test_look_stands_at_the_front_door() -> None:
    assert sgfi.look is module.look and "look" in sgfi.__all__
    with pytest.raises(AttributeError, match="stare"):
        sgfi.stare  # noqa: B018


def test_importing_it_needs_no_optional_package() -> None:
    code = (
        "import sys\n"
        "for name in ('PIL', 'matplotlib', 'torchvision', 'timm', 'transformers', 'typer', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "import sgfi\n"
        "print(sgfi.look.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "look", done.stderr


def test_a_module_and_a_tensor_give_what_the_natural_inverse_gives(x: torch.Tensor) -> None:
    model = network()
    answer = sgfi.look(model, x, "2:1@2,3")
    lens = sgfi.natural(sgfi.capture(model, torch.cat([x, x])))
    expected = sgfi.invert(lens, x, "2", 1, [(2, 3)])
    assert torch.allclose(answer.value, expected.value, atol=1e-5)
    assert answer.share is not None and answer.share.shape == (1, 8, 8)
    assert torch.equal(sgfi.look(model, x[0], "2:1@2,3").value, answer.value)  # no batch axis


def test_a_captured_graph_with_settings(x: torch.Tensor) -> None:
    graph = sgfi.capture(network(), torch.cat([x, x]))
    path, point = (sgfi.look(graph, x, sgfi.Query("2", 1), jacobian=kind) for kind in ("path", "point"))
    assert point.lens.graph is graph and point.lens.describe()["jacobian"] == "point"
    assert not torch.allclose(path.value, point.value)


def test_a_model_by_name_and_the_path_of_a_picture(files: Path) -> None:
    answer = sgfi.look(f"{files / 'net.py'}:build", files / "a.png", "2:1", other=str(files / "b.png"))
    assert answer.x.shape == (1, 3, 8, 8) and answer.preprocessing is not None
    assert answer.preprocessing.mean == (0.5,) * 3
    assert answer.answers[0].swapped is not None and "another input's target" in answer.answers[0].controls


def test_several_queries_answer_as_they_do_alone(x: torch.Tensor) -> None:
    model = network()
    both = sgfi.look(model, x, ["0:2", sgfi.Query("2")])
    assert [str(answer.inverse.query) for answer in both.answers] == ["0:2", "2"]
    assert torch.allclose(both.answers[1].inverse.value, sgfi.look(model, x, "2").value, atol=1e-6)
    assert str(both).count("\n") == 1 and "0:2" in repr(both)


def test_without_a_query_whole_tensors_from_shallow_to_deep(x: torch.Tensor) -> None:
    answer = sgfi.look(network(), x)
    targets = [trusted.inverse.query.target for trusted in answer.answers]
    assert targets == list(answer.lens.targets)[-len(targets) :] and targets[-1] == answer.lens.target


def test_whole_tensors_are_asked_at_the_point_unless_told_otherwise(x: torch.Tensor) -> None:
    lenses = {
        "none": sgfi.look(network(), x).lens,
        "query": sgfi.look(network(), x, "2:1").lens,
        "path": sgfi.look(network(), x, jacobian="path").lens,
        "points": sgfi.look(network(), x, points=2).lens,
    }
    assert {name: lens.describe()["jacobian"] for name, lens in lenses.items()} == {
        "none": "point",
        "query": "path",
        "path": "path",
        "points": "path",
    }
    assert lenses["none"].solver.tolerance == 0.2 and lenses["query"].solver.tolerance == 0.05


def test_it_draws_itself_in_a_notebook_and_into_a_file(x: torch.Tensor, tmp_path: Path) -> None:
    answer = sgfi.look(network(), x, "2:1")
    html = answer._repr_html_()
    assert "data:image/png;base64," in html and "2:1" in html and "max-width" in html
    assert answer.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SgfiError):
        answer.save(tmp_path / "a.png")
    assert answer.save(tmp_path / "a.png", overwrite=True, share=False).exists()


def test_a_text_by_its_model(folder: Path) -> None:
    answer = sgfi.look(f"hf:{folder}", " ".join(WORDS[:6]), sgfi.Query(coords=[3]))
    assert answer.value.shape == (1, 6, 16) and answer.share is not None and answer.share.shape == (1, 6)
    assert not answer.value[:, 4:].any()  # later tokens
    assert answer.names == tuple(WORDS[:6])
    ticks = [label.get_text() for label in answer.figure().axes[1].get_xticklabels()]
    assert ticks == WORDS[:6] and "<img" in answer._repr_html_()
    with pytest.raises(DataError, match="two tokens"):
        sgfi.look(f"hf:{folder}", WORDS[0])


def test_a_vector_under_a_prior_of_its_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).eval()
    inputs = torch.randn(64, 5)
    answer = sgfi.look(model, inputs[:1], "0:2", sgfi.prior([inputs]))
    assert answer.value.shape == (1, 5) and answer.value.any()
    assert len(answer.figure().axes[1].patches) == 5
    assert sgfi.look(model, inputs[0], "0:2", sgfi.prior([inputs])).value.shape == (1, 5)


@pytest.mark.parametrize(
    ("query", "said"),
    [("2:99", "99"), ("tow:1", "tensor"), ("2:x", "<node>"), ([], "at least one query"), (7, "queries as text")],
)
def test_bad_queries(x: torch.Tensor, query: object, said: str) -> None:
    with pytest.raises(SgfiError, match=said):
        sgfi.look(network(), x, query)  # type: ignore[arg-type]


def test_bad_inputs_and_models(x: torch.Tensor, files: Path) -> None:
    with pytest.raises(QueryError, match="batch of 2"):
        sgfi.look(network(), torch.cat([x, x]), "2")
    with pytest.raises(QueryError, match="a single number"):
        sgfi.look(network(), torch.tensor(1.0), "2")
    with pytest.raises(QueryError, match="preprocessing="):
        sgfi.look(network(), files / "a.png", "2")
    with pytest.raises(QueryError, match="path of a picture"):
        sgfi.look(network(), 3, "2")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="a module, a captured graph"):
        sgfi.look(3, x, "2")  # type: ignore[arg-type]
    prepared = Preprocessing(size=(8, 8))
    assert sgfi.look(network(), files / "a.png", "2", preprocessing=prepared).x.shape == (1, 3, 8, 8)


def test_a_second_look_captures_nothing_unless_weights_were_replaced(x, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = []

    def note(*args: object) -> sgfi.TensorGraph:
        captured.append(args)
        return capture_with(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(kept, "capture_with", note)
    model = network()
    first = sgfi.look(model, x, "2:1")
    sgfi.look(model, x + 1, "0")
    assert len(captured) == 1
    model[2].weight = nn.Parameter(-model[2].weight.detach(), requires_grad=False)
    second = sgfi.look(model, x, "2:1")
    assert len(captured) == 2
    assert torch.allclose(first.value, second.value, atol=1e-5)  # both sign changes cancel
    sgfi.look(model, torch.zeros(3, 12, 12), "2:1")
    assert len(captured) == 3


def test_a_model_that_is_gone_leaves_nothing_behind(x: torch.Tensor) -> None:
    model = network()
    sgfi.look(model, x, "2:1")
    assert model in kept._graphs
    before = len(kept._graphs)
    del model
    gc.collect()
    assert len(kept._graphs) < before


def test_a_module_without_weights_that_is_exchanged_is_another_model(x: torch.Tensor) -> None:
    model = network()
    name = next(name for name, own in model.named_modules() if isinstance(own, nn.ReLU))
    target = [name for name, own in model.named_modules() if isinstance(own, nn.Conv2d)][-1]
    before = sgfi.look(model, x, target).value
    model.set_submodule(name, nn.Tanh().eval())
    after, fresh = (sgfi.look(each, x, target).value for each in (model, copy.deepcopy(model)))
    torch.testing.assert_close(after, fresh)
    assert not torch.allclose(before, after)


def test_a_signal_with_its_batch_axis_under_a_prior_of_its_own() -> None:
    torch.manual_seed(0)
    model, signal = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1)).eval(), torch.randn(1, 3, 16)
    prior = sgfi.prior([torch.randn(32, 3, 16)], kind="grid")
    with_batch, without = (sgfi.look(model, x, "0:1", prior=prior).value for x in (signal, signal[0]))
    torch.testing.assert_close(with_batch, without)


def test_a_look_is_kept_as_numbers_with_its_queries(tmp_path: Path) -> None:
    answer = sgfi.look(network(), torch.randn(1, 3, 8, 8), ["2:1", "2:0-2@1,2"])
    file = answer.save(tmp_path / "look.safetensors")
    with safe_open(file, "pt") as opened:
        assert set(opened.keys()) == {"inverse", "share", "ridge", "residual"}
        assert json.loads(opened.metadata()["queries"]) == ["2:1", "2:0-2@1,2"]
        torch.testing.assert_close(opened.get_tensor("inverse")[:1], answer.value)
        assert opened.get_tensor("residual").shape == (2,)
    with pytest.raises(SgfiError, match="overwrite=True"):
        answer.save(file)
    with pytest.raises(SgfiError, match="overwrite=True"):
        answer.save(answer.save(tmp_path / "look.png"))
    with pytest.raises(DataError, match=r"\.safetensors"):
        answer.save(tmp_path / "look.npz")


def test_what_is_printed_is_short_and_says_whose_the_value_is() -> None:
    answer = sgfi.look(network(), torch.randn(1, 3, 8, 8), ["2:1", "2:0-2@1,2"])
    printed = [repr(answer), *map(repr, (answer.lens, answer.lens.prior, answer.answers[0], answer.inverse))]
    assert all(len(line) < 200 and "tensor(" not in line and "\n" not in line for line in printed)
    assert "value and share are the first one's" in printed[0]


def test_targets_alike_call_for_a_centred_one(x: torch.Tensor) -> None:
    advice = 'ask with target_value="centred"'
    same = x + 0.01 * torch.randn(x.shape, generator=torch.Generator().manual_seed(2))  # its target is this one's
    shown = sgfi.look(network(), x, "2:1", other=same)
    assert shown.answers[0].verdict() == "swapped" and advice in str(shown)
    assert advice not in str(sgfi.look(network(), x, "2:1", other=same, target_value="centred"))
    assert advice not in str(sgfi.look(network(), x, "2:1", other=-x))  # another target, another picture


def test_settings_that_do_not_exist_are_named(x: torch.Tensor) -> None:
    with pytest.raises(QueryError, match="Did you mean 'ridge'"):
        sgfi.look(network(), x, "2:1", rigde=2)
    with pytest.raises(QueryError, match="empty text"):
        sgfi.invert(sgfi.look(network(), x, "2:1").lens, x, "")
