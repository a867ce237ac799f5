"""Models of Hugging Face, open_clip, segmentation_models_pytorch and diffusers, each with its own preprocessing."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sgfi.errors import DataError, did_you_mean
from sgfi.inputs import preprocessing
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.optional import need

LISTED = 8
"""Models of a scheme that an error names."""


def language_model(name: str, lm: Any, tokenizer: Any) -> LoadedModel:
    """A causal language model seen from its input embeddings."""
    from sgfi.language import embedding_model

    embed = lm.get_input_embeddings()
    shape = (64, embed.weight.shape[1])
    return LoadedModel(name, embedding_model(lm), input_shape=shape, tokenizer=tokenizer, embed=embed)


def hugging_face(name: str, pretrained: bool) -> LoadedModel:
    """A vision tower, a classifier of images, or a language model, whichever the configuration describes."""
    from sgfi.language.loading import causal_lm

    transformers = need("transformers", "language")
    folder, file = folder_and_file(name)
    # Never code from a repository: without this, one that has some makes the library ask.
    options: dict[str, Any] = {"trust_remote_code": False, **({"gguf_file": file} if file else {})}
    config = transformers.AutoConfig.from_pretrained(folder, **options)
    kind = type(config)
    pooling = _sentence_pooling(folder)
    both_ways = kind in transformers.MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    encodes = getattr(config, "is_encoder_decoder", False)
    if pooling or encodes or (both_ways and not hasattr(config, "vision_config")):
        return encoder(name, config if not pretrained else None, pooling)
    if kind in transformers.MODEL_FOR_CAUSAL_LM_MAPPING and not hasattr(config, "vision_config"):
        return language_model(name, *causal_lm(folder, file, None if pretrained else config))
    return _vision(name, config, pretrained)


def folder_and_file(name: str) -> tuple[str, str | None]:
    """A hub name or folder, and the file in it when a single ``.gguf`` file is named."""
    path = Path(name)
    return (str(path.parent), path.name) if path.suffix == ".gguf" else (name, None)


def _sentence_pooling(folder: str) -> str | None:
    """How a folder in the layout of sentence-transformers pools tokens; ``None`` for any other."""
    file = Path(folder) / "1_Pooling" / "config.json"
    if not file.is_file():
        return None
    modes = json.loads(file.read_text())
    chosen = modes.get("pooling_mode") or next((key for key, on in modes.items() if "mode" in key and on is True), "")
    pooling = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}.get(chosen, chosen)
    if pooling not in ("mean", "cls"):
        raise DataError("a sentence encoder that pools by mean or cls", str(chosen), "Load it in a file of your own.")
    return pooling


def encoder(name: str, config: Any = None, pooling: str | None = None) -> LoadedModel:
    """A bidirectional language model from its input embeddings; with pooling a sentence encoder.

    Without pooling it gives the scores of a masked language model, of an encoder-decoder model the encoder's states.
    ``config`` asks for random weights.
    """
    from sgfi.language import EncoderModel

    transformers = need("transformers", "language")
    settings = config or transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    masked = not pooling and not getattr(settings, "is_encoder_decoder", False)
    build = transformers.AutoModelForMaskedLM if masked else transformers.AutoModel
    lm = build.from_pretrained(name) if config is None else build.from_config(config)
    lm = lm.get_encoder() if getattr(settings, "is_encoder_decoder", False) else lm
    embed = lm.get_input_embeddings()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError):
        if config is None:
            raise
        tokenizer = None  # random weights need no text
    shape = (64, embed.weight.shape[1])
    return LoadedModel(name, EncoderModel(lm, pooling), input_shape=shape, tokenizer=tokenizer, embed=embed)


def _vision(name: str, config: Any, pretrained: bool) -> LoadedModel:
    transformers = need("transformers", "language")
    two_towers = hasattr(config, "vision_config")
    classifies = any("ForImageClassification" in each for each in config.architectures or [])
    unknown = not config.architectures and type(config) in transformers.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING
    build = (
        transformers.AutoModelForImageClassification
        if (classifies or unknown) and not two_towers
        else transformers.AutoModel
    )
    model = build.from_pretrained(name) if pretrained else build.from_config(config)
    if two_towers:
        model, config = model.vision_model, config.vision_config
    try:
        prepared = preprocessing.from_transformers(transformers.AutoImageProcessor.from_pretrained(name))
    except (OSError, ValueError):
        if pretrained:
            raise
        side = getattr(config, "image_size", 224)
        prepared = Preprocessing(size=(side, side) if isinstance(side, int) else tuple(side))
    return LoadedModel(name, model, prepared, prepared.input_shape)


def open_clip_tower(name: str, pretrained: bool) -> LoadedModel:
    """The image tower of ``NAME`` or ``NAME/TAG``, TAG being one of open_clip's sets of weights (or the first)."""
    open_clip = need("open_clip", "models")
    architecture, _, tag = name.partition("/")
    if architecture not in open_clip.list_models():
        raise unknown_model("open_clip", architecture, open_clip.list_models())
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if pretrained and (tag or not tags) and tag not in tags:
        raise unknown_model("open_clip", f"{architecture}/{tag}", [f"{architecture}/{each}" for each in tags])
    quiet = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it warns of random weights, which were asked for
    try:
        model = open_clip.create_model(architecture, pretrained=(tag or tags[0]) if pretrained else None)
    finally:
        logging.disable(quiet)
    settings = open_clip.get_model_preprocess_cfg(model)
    side = settings["size"] if isinstance(settings["size"], (tuple, list)) else (settings["size"],) * 2
    prepared = Preprocessing(
        size=tuple(side),
        resize=min(side),
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
        interpolation=settings.get("interpolation", "bicubic"),
        squash=settings.get("resize_mode") == "squash",
        source="open_clip preprocess config",
    )
    return LoadedModel(name, model.visual, prepared, prepared.input_shape)


def segmentation_model(name: str, pretrained: bool) -> LoadedModel:
    """``Unet-resnet18``: an architecture and an encoder of segmentation_models_pytorch."""
    smp = need("segmentation_models_pytorch", "models")
    architecture, _, backbone = name.partition("-")
    kinds = {kind.lower(): kind for kind in smp.MODEL_ARCHITECTURES_MAPPING}
    if architecture.lower() not in kinds or not backbone:
        raise unknown_model(
            "smp", name, [f"{kind.__name__}-resnet18" for kind in smp.MODEL_ARCHITECTURES_MAPPING.values()]
        )
    if not backbone.startswith("tu-") and backbone not in smp.encoders.get_encoder_names():
        raise unknown_model("smp", name, [f"{architecture}-{each}" for each in smp.encoders.get_encoder_names()])
    weights = "imagenet" if pretrained else None
    model = smp.create_model(architecture.lower(), encoder_name=backbone, encoder_weights=weights)
    prepared = Preprocessing(source="ImageNet, of the encoder")
    return LoadedModel(name, model, prepared, prepared.input_shape)


class Denoiser(nn.Module):
    """A diffusers U-Net at one time step; where it is conditioned on a text, on zeros."""

    def __init__(self, unet: Any, step: int) -> None:
        super().__init__()
        self.unet, self.step = unet, step
        width = getattr(unet.config, "cross_attention_dim", None)
        text = None if width is None else torch.zeros(1, 1, width if isinstance(width, int) else width[0])
        self.text: Tensor | None
        self.register_buffer("text", text, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        text = {} if self.text is None else {"encoder_hidden_states": self.text.expand(x.shape[0], -1, -1)}
        return self.unet(x, self.step, **text).sample


def diffusers_unet(name: str, pretrained: bool) -> LoadedModel:
    """``FOLDER`` or ``FOLDER@STEP``: a U-Net by its ``config.json``, at one time step (0 where none is given)."""
    diffusers = need("diffusers", "models")
    folder, _, step = name.partition("@")
    if step and not step.isdigit():
        raise DataError("a time step like @250", repr(step), "Give a whole number, or none for 0.")
    local = Path(folder) / "config.json"
    config = json.loads(local.read_text()) if local.is_file() else diffusers.UNet2DModel.load_config(folder)
    kind = str(config.get("_class_name", ""))
    if kind not in ("UNet2DModel", "UNet2DConditionModel"):
        todo = "Name the folder of the U-Net itself, PIPELINE/unet."
        raise DataError("the configuration of a UNet2DModel or UNet2DConditionModel", repr(kind), todo)
    build = getattr(diffusers, kind)
    unet = build.from_pretrained(folder) if pretrained else build.from_config(config)
    side = unet.config.sample_size or 64
    size = (side, side) if isinstance(side, int) else tuple(side)
    channels, model = unet.config.in_channels, Denoiser(unet, int(step or 0))
    if channels not in (1, 3):
        return LoadedModel(name, model, None, (channels, *size))
    prepared = Preprocessing(size=size, mean=(0.5,) * channels, std=(0.5,) * channels, source="pixels in -1..1")
    return LoadedModel(name, model, prepared, prepared.input_shape)


def unknown_model(scheme: str, name: str, known: Any) -> DataError:
    """The error about a name that a library does not have."""
    known = list(known)
    few = ": " + ", ".join(sorted(known)) if len(known) <= LISTED else ""
    hint = did_you_mean(name, known) or f"{scheme} lists {len(known)} models{few}."
    return DataError(f"a model that {scheme} knows", repr(name), hint)
