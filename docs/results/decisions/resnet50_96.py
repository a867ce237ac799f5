"""ResNet50 (ImageNet weights, version 1) at 96 pixels.

The weights file is named by the environment variable RESNET50 (a safetensors file with torchvision's names). It comes
from a network that halves the resolution in the first 1x1 convolution of a stage, where torchvision does so in the
3x3 one, so the strides are set back.
"""

from __future__ import annotations

import os

import torchvision
from safetensors.torch import load_file

INPUT_SHAPE = (3, 96, 96)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def build():
    model = torchvision.models.resnet50()
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    model.load_state_dict({name: value.float() for name, value in load_file(os.environ["RESNET50"]).items()})
    return model
