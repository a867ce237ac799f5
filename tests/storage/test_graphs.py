"""Captured graphs as files: the same answers, and nothing in a file that could run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import sgfi
from sgfi.errors import StoreError
from sgfi.storage.graphs import UnstorableGraph, load_graph, save_graph
from tests.analytic import tiny
from tests.natural.dense import fitted_prior


@pytest.mark.parametrize("name", ["chain", "gate", "tokens", "causal", "channels_last", "vector"])
def test_a_stored_graph_answers_as_the_captured_one(name: str, tmp_path: Path) -> None:
    model, file = tiny(name), tmp_path / "graph.safetensors"
    graph = sgfi.capture(model, model.inputs(2), attention="open")
    save_graph(graph, file)
    again = load_graph(file)
    assert list(again.nodes.values()) == list(graph.nodes.values()) and again.fingerprint == graph.fingerprint
    assert [own and own.name for own in again.exported.outputs] == [own and own.name for own in graph.exported.outputs]
    assert again.model_class == graph.model_class and again.weight_names == graph.weight_names
    x, lenses = model.inputs(3, seed=3), [sgfi.natural(own, fitted_prior(name)) for own in (graph, again)]
    assert lenses[0].targets == lenses[1].targets
    expected, answer = (sgfi.invert(lens, x, model.target) for lens in lenses)
    # where weights lie decides the last bit
    torch.testing.assert_close(answer.value, expected.value, rtol=0, atol=1e-12)
    torch.testing.assert_close(answer.share, expected.share, rtol=0, atol=1e-12)


def altered(file: Path, change: dict) -> None:
    with safe_open(file, framework="pt") as opened:
        record = json.loads(opened.metadata()["graph"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    call = next(op for op in record["ops"] if op["op"] == "call_function")
    call.update(change)
    save_file(tensors, file, {"graph": json.dumps(record)})


@pytest.mark.parametrize(
    "change",
    [
        {"target": "os.system"},
        {"target": "aten.__class__.mro"},
        {"target": "builtins.eval.default"},
        {"target": "aten.nowhere.default"},
        {"args": [{"node": "nowhere"}]},
        {"args": [{"dtype": "torch.load"}]},
        {"args": [{"module": "os"}]},
        {"value": {"shape": [-1], "dtype": "torch.float32"}},
        {"name": "import os"},
    ],
)
def test_a_strangers_file_is_refused(change: dict, tmp_path: Path) -> None:
    file = tmp_path / "graph.safetensors"
    save_graph(sgfi.capture(tiny("vector"), tiny("vector").inputs(2)), file)
    altered(file, change)
    with pytest.raises(StoreError, match="captured graph"):
        load_graph(file)


def test_files_that_are_no_graphs_are_refused(tmp_path: Path) -> None:
    for number, content in enumerate([b"", b"\x80\x04pickle", b"{}"]):
        (tmp_path / f"{number}.safetensors").write_bytes(content)
    save_file({"a": torch.ones(2)}, tmp_path / "plain.safetensors")
    for file in (*tmp_path.iterdir(), tmp_path / "missing.safetensors"):
        with pytest.raises(StoreError):
            load_graph(file)


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] * 2, -1).reshape(x.shape[0], -1)


def test_sizes_that_depend_on_the_batch_survive(tmp_path: Path) -> None:
    graph = sgfi.capture(nn.Sequential(nn.Linear(4, 4), Sizes(), nn.Linear(4, 3)).eval(), torch.randn(2, 4))
    save_graph(graph, tmp_path / "graph.safetensors")
    again, x = load_graph(tmp_path / "graph.safetensors"), torch.randn(5, 4)
    names = (("input",), (graph.nodes["logits"].name,))
    assert again.program(*names)(x)[0].equal(graph.program(*names)(x)[0])
    assert issubclass(UnstorableGraph, ValueError)
