"""Maps remember the forward they were fitted on, and say what is different."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import StoreError
from sgfi.graph.signature import signature
from sgfi.storage import read_manifest
from sgfi.storage.forward import forward_record, probe_input, versions
from sgfi.storage.manifest import sealed


class Net(nn.Module):
    """What a library calls ``Net``; another version may compute something else with the same weights."""

    def __init__(self, eps: float = 1e-5, slope: float = 1.0, twice: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.start, self.norm, self.end = nn.Linear(4, 6), nn.LayerNorm(6, eps=eps), nn.Linear(6, 3)
        self.slope, self.twice = slope, twice

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.start(x))
        h = torch.tanh(h) if not self.twice else 2 * torch.sigmoid(2 * h) - 1
        return self.end(h * self.slope)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = sgfi.capture(Net().eval(), torch.randn(2, 5, 4))
    family = sgfi.calibrate(sgfi.plan(graph, "end", ["norm"]), torch.randn(32, 5, 4).split(16), progress=False)
    return sgfi.save(family, tmp_path_factory.mktemp("maps") / "net")


def test_the_same_forward_is_loaded(folder: Path) -> None:
    record = read_manifest(folder)["forward"]
    assert set(record["probes"]) == {"norm", "end"} and len(record["ops"]) == 5 and record["attention"] == "math"
    assert sgfi.load(folder, Net().eval()).target == "end"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": 1e-6}, r"layer_norm\.default at 'norm' has other attributes"),
        ({"slope": 1.001}, r"mul\.Tensor at 'mul' has other attributes"),
        ({"slope": 3.0}, r"other attributes; activations of 'end' differ by"),
    ],
)
def test_the_same_weights_with_another_forward_are_refused_and_the_op_is_named(
    folder: Path, change: dict[str, float], message: str
) -> None:
    with pytest.raises(StoreError, match=message):
        sgfi.load(folder, Net(**change).eval())
    assert sgfi.load(folder, Net(**change).eval(), force=True).forced


def test_a_kernel_that_computes_something_else_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ops are the same; what one of them returns is not."""
    model = Net().eval()
    graph = sgfi.capture(model, torch.randn(2, 5, 4))
    sgfi.load(folder, graph)
    node = next(node for node in graph.exported.graph.nodes if "tanh" in str(node.target))
    real = node.target

    class Changed:
        """Goes by the op's name."""

        def __call__(self, x: Tensor) -> Tensor:
            return 1.01 * real(x)

        def __str__(self) -> str:
            return str(real)

        _schema, _opname = real._schema, "tanh_of_another_version"

    node.target = Changed()
    with pytest.raises(StoreError, match=r"activations of 'end' differ by 0\.0"):
        sgfi.load(folder, graph)


def test_other_ops_with_the_same_result_are_a_warning(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"traced otherwise .*its activations agree"):
        sgfi.load(folder, Net(twice=True).eval())


def test_other_library_versions_are_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "net"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    manifest = read_manifest(copy)
    manifest["versions"]["timm"] = "0.1.0"
    (copy / "manifest.json").write_text(json.dumps(sealed(manifest)))
    sgfi.load(copy, Net().eval())  # the version alone changes nothing
    with pytest.raises(StoreError, match=r"timm 0\.1\.0 -> "):
        sgfi.load(copy, Net(eps=1e-3).eval())
    del manifest["forward"]
    (copy / "manifest.json").write_text(json.dumps(sealed(manifest)))
    sgfi.load(copy, Net(eps=1e-6).eval())  # folders of earlier versions have no record


def test_the_record_does_not_depend_on_weights_names_or_defaults() -> None:
    class Named(Net):
        def forward(self, x: Tensor) -> Tensor:
            other = torch.nn.functional.layer_norm(self.start(x), (6,), self.norm.weight, self.norm.bias, 1e-5)
            return self.end(torch.tanh(other) * 1.0)

    graphs = [sgfi.capture(kind().eval(), torch.randn(2, 5, 4)) for kind in (Net, Named)]
    assert signature(graphs[0].exported) == signature(graphs[1].exported)
    with torch.no_grad():
        graphs[0].constants[next(iter(graphs[0].constants))].mul_(2)
    assert signature(graphs[0].exported) == signature(graphs[1].exported)


def test_probes_and_versions() -> None:
    graph = sgfi.capture(Net().eval(), torch.randn(2, 5, 4))
    assert torch.equal(probe_input(graph), probe_input(graph)) and probe_input(graph).shape == (1, 5, 4)
    (probe,) = forward_record(graph, ["input", "end"])["probes"].values()
    out = Net().eval()(probe_input(graph)).detach()
    assert probe[0] == pytest.approx(float(out.square().mean().sqrt()), rel=1e-5)
    assert probe[1] == pytest.approx(float(out.flatten()[0]), rel=1e-5)
    assert {"python", "sgfi", "torch", "torchvision", "timm", "transformers"} <= set(versions())


def test_maps_of_weights_that_have_changed_are_saved_without_a_forward(tmp_path: Path) -> None:
    model = Net().eval()
    graph = sgfi.capture(model, torch.randn(2, 5, 4))
    family = sgfi.calibrate(sgfi.plan(graph, "end", ["norm"]), [torch.randn(32, 5, 4)], progress=False)
    model.start.weight.data.mul_(2)
    assert "forward" not in read_manifest(sgfi.save(family, tmp_path / "net"))
