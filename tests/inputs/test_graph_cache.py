"""Captured models on disk: found again by what they were made from, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import sgfi
from sgfi.errors import DataError
from sgfi.inputs import graph_cache
from sgfi.inputs.graph_cache import cache_folder, captured_model, recorded_graph
from sgfi.inputs.models import load_model, reload_model

SPEC = "torchvision:squeezenet1_1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def test_the_second_call_builds_and_traces_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, graph = captured_model(SPEC, "none", 32, True, {"features.0"})
    assert graph is not None and len(list(folder.glob("*.safetensors"))) == 1
    with monkeypatch.context() as patch:
        for name in ("load_model", "capture"):
            patch.setattr(graph_cache, name, lambda *_, **__: pytest.fail("built again"))
        again, same = captured_model(SPEC, "none", 32, True, {"features.0"})
    assert same is not None and same.fingerprint == graph.fingerprint
    assert (again.preprocessing, again.input_shape) == (first.preprocessing, first.input_shape)
    x = torch.randn(1, 3, 32, 32)
    original, other = (sgfi.look(own, x, "features.3:1", preprocessing=again.preprocessing) for own in (graph, same))
    assert original.value.equal(other.value)
    weights = tmp_path / "weights.safetensors"
    state = load_model(SPEC, "none").model.state_dict()
    save_file(state, weights)
    captured_model(SPEC, str(weights), 32, True, ())
    assert len(list(folder.glob("*.safetensors"))) == 2
    save_file({name: tensor + 1 for name, tensor in state.items()}, weights)  # the same name, other contents
    _, changed = captured_model(SPEC, str(weights), 32, True, ())
    assert changed is not None and changed.fingerprint != graph.fingerprint
    next(folder.glob("*.safetensors")).write_bytes(b"broken")
    assert captured_model(SPEC, "none", 32, True, ())[1] is not None
    monkeypatch.setattr(graph_cache, "KEPT", 1)
    captured_model(SPEC, "none", 48, True, ())
    assert len(list(folder.iterdir())) == 2  # one graph and its record


def test_a_recorded_model_is_captured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = load_model(SPEC, "none", size=32).provenance
    graph = recorded_graph(record, ["features.0"])
    loaded = reload_model(record)
    assert graph.fingerprint == sgfi.capture(loaded.model, loaded.example).fingerprint
    with monkeypatch.context() as patch:
        for name in ("load_model", "reload_model", "capture"):
            patch.setattr(graph_cache, name, lambda *_, **__: pytest.fail("built again"))
        assert recorded_graph(record, ["features.0"]).fingerprint == graph.fingerprint
    broad = {**record, "input_shape": [3, 32, 48], "preprocessing": {**record["preprocessing"], "size": [32, 48]}}
    assert recorded_graph(broad).input.shape == (None, 3, 32, 48)  # not kept: built from its record
    with pytest.raises(DataError, match="a record without 'weights'"):
        recorded_graph({**record, "weights": None})


def test_downloads_files_of_code_and_token_models_are_not_kept(folder: Path) -> None:
    for spec, weights in [("timm:resnet18", None), ("hf:gpt2", "none"), ("net.py:build", None)]:
        assert graph_cache._keys(spec, weights, None, True) is None
    assert graph_cache._keys("timm:resnet18", "none", None, True) is not None
