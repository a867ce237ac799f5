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


def resnet20_cifar10():
    """ResNet20 for 32 pixels, trained on CIFAR-10: shortcuts are strided slices padded with zeros."""
    model = resnet20_random()
    model.load_state_dict(_state("resnet20_cifar10.safetensors"))
    return model


def vit_cifar10():
    """A ViT of four blocks, width 128, patches of 4 pixels, trained on CIFAR-10."""
    from timm.models.vision_transformer import VisionTransformer

    sizes = {"embed_dim": 128, "depth": 4, "num_heads": 4, "mlp_ratio": 2, "num_classes": 10}
    model = VisionTransformer(img_size=32, patch_size=4, **sizes)
    model.load_state_dict(_state("vit_d4w128p4_cifar10.safetensors"))
    return model


def resnet20_random():
    """The same network untrained."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.step = 1 if inside == outside else 2
            self.conv1 = nn.Conv2d(inside, outside, 3, self.step, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.pad = (outside - inside) // 2

        def forward(self, x):
            out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            if self.pad:
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
            return F.relu(out + x)

    class SmallResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
            self.layer1 = nn.Sequential(Block(16, 16), Block(16, 16), Block(16, 16))
            self.layer2 = nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
            self.layer3 = nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
            self.linear = nn.Linear(64, 10)

        def forward(self, x):
            x = F.relu(self.bn1(self.conv1(x)))
            x = self.layer3(self.layer2(self.layer1(x)))
            return self.linear(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    return SmallResNet()
