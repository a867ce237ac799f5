"""Models whose derivatives are audited: families of torchvision, timm and transformers at tiny sizes, no downloads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

Made = tuple[nn.Module, tuple[int, ...]]
"""A model, and the shape of an example batch."""


def _torchvision(name: str, size: int = 32, **options: Any) -> Made:
    import torchvision

    return getattr(torchvision.models, name)(weights=None, num_classes=7, **options), (1, 3, size, size)


def _torchvision_resnet() -> Made:
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=7), (1, 3, 32, 32)


def _torchvision_densenet() -> Made:
    from torchvision.models.densenet import DenseNet

    return DenseNet(8, (2, 2, 2, 2), 16, num_classes=7), (1, 3, 32, 32)


def _torchvision_vit() -> Made:
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=7), (1, 3, 32, 32)


def _torchvision_swin(version: int) -> Made:
    from torchvision.models import swin_transformer as swin

    block, merging = (
        (swin.SwinTransformerBlock, swin.PatchMerging),
        (swin.SwinTransformerBlockV2, swin.PatchMergingV2),
    )[version - 1]
    model = swin.SwinTransformer(
        [4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=7, block=block, downsample_layer=merging
    )
    return model, (1, 3, 32, 32)


def _torchvision_convnext() -> Made:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=7), (1, 3, 32, 32)


def _timm(name: str, size: int = 32, **options: Any) -> Made:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=7, **options), (1, 3, size, size)


def _timm_convmixer() -> Made:
    from timm.models.convmixer import ConvMixer

    return ConvMixer(24, 2, kernel_size=5, patch_size=4, num_classes=7), (1, 3, 32, 32)


def _timm_mixer() -> Made:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(7, 32, 3, 8, 2, 24), (1, 3, 32, 32)


def _timm_poolformer() -> Made:
    from timm.models.metaformer import MetaFormer

    return MetaFormer(num_classes=7, depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)), (1, 3, 32, 32)


_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}
_SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}


class Embedded(nn.Module):
    """A language model from embeddings to what it returns first."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: Tensor) -> Tensor:
        return self.model(inputs_embeds=x, **self.options)[0]


class Pictured(nn.Module):
    """A vision model of transformers from pixels to its last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).last_hidden_state


def _text(family: str, kind: str = "Model", call: dict[str, Any] | None = None, **options: Any) -> Made:
    import transformers

    config = getattr(transformers, f"{family}Config")(vocab_size=50, **options)
    width = getattr(config, "hidden_size", None) or config.d_model
    return Embedded(getattr(transformers, f"{family}{kind}")(config), **(call or {})), (1, 5, width)


def _decoder(family: str, **options: Any) -> Made:
    return _text(family, call={"use_cache": False}, **options)


def _pixels(family: str, **options: Any) -> Made:
    import transformers

    config = getattr(transformers, f"{family}Config")(**options)
    return Pictured(getattr(transformers, f"{family}Model")(config)), (1, 3, 32, 32)


_PIXELS = {"image_size": 32, "patch_size": 8, **_SMALL}
_GROUPED = {**_SMALL, "num_key_value_heads": 1, "max_position_embeddings": 64, "head_dim": 8}

MODELS: dict[str, Callable[[], Made]] = {
    "torchvision resnet": _torchvision_resnet,
    "torchvision densenet": _torchvision_densenet,
    "torchvision vit": _torchvision_vit,
    "torchvision swin": partial(_torchvision_swin, 1),
    "torchvision swin v2": partial(_torchvision_swin, 2),
    "torchvision convnext": _torchvision_convnext,
    "torchvision squeezenet1_1": partial(_torchvision, "squeezenet1_1"),
    "torchvision mobilenet_v2": partial(_torchvision, "mobilenet_v2", width_mult=0.25),
    "torchvision mobilenet_v3_small": partial(_torchvision, "mobilenet_v3_small", width_mult=0.5),
    "torchvision shufflenet_v2": partial(_torchvision, "shufflenet_v2_x0_5"),
    "torchvision mnasnet0_5": partial(_torchvision, "mnasnet0_5"),
    "torchvision regnet_y_400mf": partial(_torchvision, "regnet_y_400mf"),
    "torchvision efficientnet_b0": partial(_torchvision, "efficientnet_b0"),
    "torchvision googlenet": partial(_torchvision, "googlenet", 64, aux_logits=False, init_weights=False),
    "timm vit": partial(_timm, "vit_tiny_patch16_224", **_VIT),
    "timm deit": partial(_timm, "deit_tiny_distilled_patch16_224", **_VIT),
    "timm cait": partial(_timm, "cait_xxs24_224", **_VIT),
    "timm beit": partial(_timm, "beit_base_patch16_224", **_VIT),
    "timm eva": partial(_timm, "eva02_tiny_patch14_224", **{**_VIT, "num_heads": 2}),
    "timm mixer": _timm_mixer,
    "timm resmlp": partial(_timm, "resmlp_12_224", img_size=32),
    "timm convmixer": _timm_convmixer,
    "timm convnextv2": partial(_timm, "convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
    "timm resnet": partial(_timm, "resnet10t"),
    "timm seresnet": partial(_timm, "seresnet18"),
    "timm mobileone": partial(_timm, "mobileone_s0"),
    "timm repvgg": partial(_timm, "repvgg_a0"),
    "timm ghostnet": partial(_timm, "ghostnet_050"),
    "timm xcit": partial(_timm, "xcit_nano_12_p16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2),
    "timm poolformer": _timm_poolformer,
    "transformers bert": partial(_text, "Bert", **_SMALL),
    "transformers roberta": partial(_text, "Roberta", **_SMALL),
    "transformers electra": partial(_text, "Electra", embedding_size=16, **_SMALL),
    "transformers distilbert": partial(_text, "DistilBert", n_layers=2, dim=16, hidden_dim=32, n_heads=2),
    "transformers fnet": partial(_text, "FNet", num_hidden_layers=2, hidden_size=16, intermediate_size=32),
    "transformers t5 encoder": partial(
        _text, "T5", "EncoderModel", d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2
    ),
    "transformers gpt2": partial(_decoder, "GPT2", n_layer=2, n_embd=16, n_head=2),
    "transformers gpt neox": partial(_decoder, "GPTNeoX", **_SMALL),
    "transformers opt": partial(
        _decoder, "OPT", num_hidden_layers=2, hidden_size=16, ffn_dim=32, num_attention_heads=2, word_embed_proj_dim=16
    ),
    "transformers bloom": partial(_decoder, "Bloom", n_layer=2, hidden_size=16, n_head=2),
    "transformers llama": partial(_decoder, "Llama", **_GROUPED),
    "transformers mistral": partial(_decoder, "Mistral", **_GROUPED),
    "transformers qwen2": partial(_decoder, "Qwen2", **_GROUPED),
    "transformers gemma": partial(_decoder, "Gemma", **_GROUPED),
    "transformers phi": partial(_decoder, "Phi", **_SMALL),
    "transformers mamba": partial(_decoder, "Mamba", num_hidden_layers=2, hidden_size=16, state_size=4),
    "transformers vit": partial(_pixels, "ViT", **_PIXELS),
    "transformers dinov2": partial(_pixels, "Dinov2", **_PIXELS),
    "transformers clip": partial(_pixels, "CLIPVision", **_PIXELS),
    "transformers siglip": partial(_pixels, "SiglipVision", **_PIXELS),
    "transformers swin": partial(
        _pixels, "Swin", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
    ),
    "transformers convnext": partial(_pixels, "ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
}


def configuration(name: str) -> Any:
    """The tiny configuration of one of the models of transformers above."""
    import transformers

    make: Any = MODELS[name]
    options = {key: given for key, given in make.keywords.items() if key != "call"}
    tokens = {"vocab_size": 50} if make.func in (_text, _decoder) else {}
    return getattr(transformers, f"{make.args[0]}Config")(**tokens, **options)
