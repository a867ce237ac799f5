"""Models that accelerate keeps in memory or on disk: the answers of the model in one piece, segment by segment."""

from __future__ import annotations

import copy
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import CaptureError
from sgfi.graph import onloading
from sgfi.language import embedding_model
from sgfi.storage.graphs import UnstorableGraph, save_graph

accelerate = pytest.importorskip("accelerate")
CPU = torch.device("cpu")
CHANNELS, BLOCKS = 8, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.tanh(self.norm(self.first(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def net() -> Net:
    return Net().eval()


@pytest.fixture
def inputs() -> list[Tensor]:
    return list(torch.randn(6, 3, 6, 6).split(3))


def offloaded(model: nn.Module, kind: str, folder: Path) -> nn.Module:
    own = copy.deepcopy(model)
    if kind == "memory":
        return accelerate.cpu_offload(own, execution_device=CPU, offload_buffers=True)
    if kind == "disk":
        accelerate.disk_offload(own, folder, execution_device=CPU)
        return own
    places: dict[str, Any] = {"stem": "cpu"} | {f"blocks.{i}": "disk" if i % 2 else "cpu" for i in range(BLOCKS)}
    return accelerate.dispatch_model(own, places, main_device="cpu", offload_dir=folder)


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily) -> None:
    assert first.fingerprint == second.fingerprint and first.maps.keys() == second.maps.keys()
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            assert all(torch.equal(left.weights[key], right.weights[key]) for key in left.weights)


@pytest.mark.parametrize("children", ["true", "online"])
@pytest.mark.parametrize("kind", ["memory", "disk", "spread"])
def test_answers_are_those_of_the_model_in_one_piece(
    kind: str, children: str, net: Net, inputs: list[Tensor], tmp_path: Path
) -> None:
    away = offloaded(net, kind, tmp_path)
    hollow = [name for name, weight in away.named_parameters() if weight.is_meta]
    plans = [sgfi.plan(sgfi.capture(model, inputs[0])) for model in (net, away)]
    assert hollow and plans[0].description == plans[1].description
    whole, fetched = (sgfi.calibrate(plan, inputs, children=children, progress=False) for plan in plans)
    agree(whole, fetched)
    for target in whole.targets[::2]:
        assert torch.equal(
            sgfi.invert(fetched, inputs[0], target, channels=[1]).value,
            sgfi.invert(whole, inputs[0], target, channels=[1]).value,
        )
    output = whole.plan.target
    runs = [family.graph.program(("input",), (output,))(inputs[0])[0] for family in (whole, fetched)]
    assert torch.equal(*runs) and torch.equal(away(inputs[0]), net(inputs[0]))
    assert hollow == [name for name, weight in away.named_parameters() if weight.is_meta]


class Live:
    """Bytes of fetched weights that somebody still holds."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def fetched(self, tensor: Tensor) -> Tensor:
        own = tensor.clone()
        self.now += own.nbytes
        self.most = max(self.most, self.now)
        weakref.finalize(own.untyped_storage(), self.gone, own.nbytes)
        return own

    def gone(self, size: int) -> None:
        self.now -= size


def test_one_segment_of_weights_at_a_time(
    net: Net, inputs: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, live, get = offloaded(net, "disk", tmp_path), Live(), onloading.Homes.__getitem__
    monkeypatch.setattr(onloading.Homes, "__getitem__", lambda self, name: live.fetched(get(self, name)))
    block = sum(tensor.nbytes for tensor in (*net.blocks[0].parameters(), *net.blocks[0].buffers()))
    family = sgfi.calibrate(sgfi.plan(sgfi.capture(away, inputs[0])), inputs, progress=False)
    sgfi.invert(family, inputs[0])
    assert 0.9 * block < live.most < 1.1 * block  # those of the others were let go
    assert live.now == 0


def test_a_family_of_the_whole_model_loads_on_an_offloaded_one(net: Net, inputs: list[Tensor], tmp_path: Path) -> None:
    family = sgfi.calibrate(sgfi.plan(sgfi.capture(net, inputs[0])), inputs, progress=False)
    sgfi.save(family, tmp_path / "maps")
    away = sgfi.capture(offloaded(net, "disk", tmp_path / "weights"), inputs[0])
    loaded = sgfi.load(tmp_path / "maps", away)
    assert torch.equal(sgfi.invert(loaded, inputs[0]).value, sgfi.invert(family, inputs[0]).value)
    with pytest.raises(UnstorableGraph, match="kept elsewhere"):
        save_graph(away, tmp_path / "graph.safetensors")


def test_weights_that_change_where_they_are_kept_are_seen(net: Net, inputs: list[Tensor], tmp_path: Path) -> None:
    away = offloaded(net, "memory", tmp_path)
    family = sgfi.calibrate(sgfi.plan(sgfi.capture(away, inputs[0])), inputs, progress=False)
    away.stem._hf_hook.weights_map["weight"].add_(0.1)
    with pytest.raises(sgfi.errors.QueryError, match="weights that have changed since"):
        sgfi.invert(family, inputs[0])


def test_a_layer_that_is_used_twice_is_the_same_layer(tmp_path: Path) -> None:
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    model = nn.Sequential(layer, nn.Tanh(), layer).eval()
    whole, away = (sgfi.capture(each, x) for each in (model, offloaded(model, "memory", tmp_path)))
    assert whole.fingerprint == away.fingerprint and whole.constants.keys() == away.constants.keys()


def test_a_language_model_that_device_map_spreads(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 40, "num_hidden_layers": 3}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "lm")
    build = transformers.AutoModelForCausalLM.from_pretrained
    places: dict[str, Any] = dict.fromkeys(["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"], "cpu")
    places |= {f"model.layers.{layer}": "disk" if layer else "cpu" for layer in range(3)}
    away = build(tmp_path / "lm", device_map=places, offload_folder=tmp_path / "weights").eval()
    whole, x = build(tmp_path / "lm").eval(), torch.randn(3, 5, 16)
    assert any(weight.is_meta for weight in away.parameters())
    for layers in (None, 2):
        graphs = [sgfi.capture(embedding_model(lm, layers=layers), x) for lm in (whole, away)]
        first, second = (sgfi.calibrate(sgfi.plan(graph), [x], progress=False) for graph in graphs)
        agree(first, second)
        assert torch.equal(sgfi.invert(second, x).value, sgfi.invert(first, x).value)


def test_what_cannot_be_fetched_is_refused(net: Net, inputs: list[Tensor], tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="weights with values"):
        sgfi.capture(copy.deepcopy(net).to("meta"), inputs[0])
    own = copy.deepcopy(net)
    own.stem.forward = lambda x: nn.Conv2d.forward(own.stem, x)  # type: ignore[method-assign]
    accelerate.cpu_offload(own, execution_device=CPU)
    with pytest.raises(CaptureError, match="forward of their class; got another one in a Conv2d"):
        sgfi.capture(own, inputs[0])
