"""Networks of the result page whose weights need more than a file name.

``SGFI_ASSETS`` names the folder with ``weights/``.
"""

from __future__ import annotations

import os
from pathlib import Path

INPUT_SHAPE = (3, 224, 224)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _state(name: str) -> dict:
    from safetensors.torch import load_file

    file = Path(os.environ["SGFI_ASSETS"]) / "weights" / name
    return {key: value.float() for key, value in load_file(file).items()}


def resnet50_v1():
    """ResNet50 with the stride in the first 1x1 convolution of a stage, as its first version had it."""
    from torchvision.models import resnet50

    model = resnet50(weights=None)
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    model.load_state_dict(_state("resnet50_v1_imagenet_fp16.safetensors"))
    return model


def resnet18_to_layer3():
    """ResNet18 whose last stage has no weights: targets up to layer3.1.add are genuine."""
    from torchvision.models import resnet18

    model = resnet18(weights=None)
    model.load_state_dict(_state("resnet18_imagenet_through_layer3_fp16.safetensors"), strict=False)
    return model


def deit_tiny_112():
    """DeiT-tiny at 112 pixels: its 14x14 position embedding is resampled to 7x7, as timm does for other sizes."""
    import timm
    from timm.models.vision_transformer import checkpoint_filter_fn

    model = timm.create_model("deit_tiny_patch16_224", img_size=112)
    model.load_state_dict(checkpoint_filter_fn(_state("deit_tiny_patch16_224_imagenet_fp16.safetensors"), model))
    return model
