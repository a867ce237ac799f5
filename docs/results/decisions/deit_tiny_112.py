"""DeiT-tiny (ImageNet weights) at 112 pixels: 7x7 patches and one class token.

The weights file is named by the environment variable DEIT_TINY (a safetensors file with timm's names); its 14x14
position embedding is resampled to 7x7, which timm does when it loads a checkpoint into another image size.
"""

from __future__ import annotations

import os

import timm
from safetensors.torch import load_file
from timm.models.vision_transformer import checkpoint_filter_fn

INPUT_SHAPE = (3, 112, 112)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def build():
    model = timm.create_model("deit_tiny_patch16_224", img_size=112)
    state = {name: value.float() for name, value in load_file(os.environ["DEIT_TINY"]).items()}
    model.load_state_dict(checkpoint_filter_fn(state, model))
    return model
