"""Models of further libraries by name, at tiny sizes: which part is taken, how it is fed, other input sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import sgfi
from benchmarks.models import Entry, build
from sgfi.errors import DataError
from sgfi.experiments import declare
from sgfi.graph import capture
from sgfi.inputs import load_model
from sgfi.inputs.models import reload_model
from sgfi.inputs.preprocessing import from_detector
from sgfi.inputs.resizing import resize_model


def runs(loaded: Any) -> Any:
    with torch.no_grad():
        return loaded.model(loaded.example)


def test_deit_at_112_pixels_has_its_positions_resampled() -> None:
    loaded = load_model("timm:deit_tiny_patch16_224", "none", size=112)
    assert loaded.model.pos_embed.shape == (1, 1 + 7 * 7, 192) and runs(loaded).shape == (2, 1000)
    again = reload_model(loaded.provenance)
    torch.testing.assert_close(again.model.pos_embed, loaded.model.pos_embed)
    own = load_model("timm:deit_tiny_patch16_224", "none").model
    own.set_input_size(img_size=(112, 112))
    torch.testing.assert_close(own.pos_embed, loaded.model.pos_embed)
    with pytest.raises(DataError, match="pictures of 10 x 10"):
        load_model("timm:deit_tiny_patch16_224", "none", size=10)


def test_a_torchvision_vit_at_another_size() -> None:
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=3).eval()
    with torch.no_grad():
        model.encoder.pos_embedding[:, 1:] = 0.25
    first = model.encoder.pos_embedding[:, :1].clone()
    resize_model(model, (48, 48))
    positions = model.encoder.pos_embedding
    assert positions.shape == (1, 37, 16) and model(torch.randn(2, 3, 48, 48)).shape == (2, 3)
    torch.testing.assert_close(positions[:, 1:], torch.full((1, 36, 16), 0.25))
    torch.testing.assert_close(positions[:, :1], first)
    with pytest.raises(DataError, match="multiple of its patch size"):
        resize_model(model, (50, 50))


@pytest.mark.parametrize(("name", "size"), [("clip", None), ("siglip", 48), ("dinov2", 48), ("vit", 48), ("beit", 48)])
def test_hugging_face_towers_from_their_configuration(name: str, size: int | None, tmp_path: Path) -> None:
    loaded = build(Entry(f"hf:{name}", size), tmp_path)
    side = size or 32
    assert loaded.input_shape == (3, side, side) and "Text" not in type(loaded.model).__name__
    returned = runs(loaded)
    states = returned.logits if "logits" in returned else returned.last_hidden_state
    assert len(states) == 2 and states.isfinite().all()


def test_encoders_are_bidirectional_and_decoders_causal(tmp_path: Path) -> None:
    both, causal = build(Entry("hf:bert", 6), tmp_path / "bert"), build(Entry("hf:llama", 6), tmp_path / "llama")
    for loaded, changes in ((both, True), (causal, False)):
        x = loaded.example
        other = x.clone()
        other[:, -1] = torch.arange(16.0)
        with torch.no_grad():
            assert (loaded.model(x)[:, 0] - loaded.model(other)[:, 0]).abs().max().gt(1e-6).item() is changes


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_folder_with_pooling_is_a_sentence_encoder(pooling: str, tmp_path: Path) -> None:
    build(Entry("hf:bert", 6), tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    key = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}[pooling]
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, key: True}))
    loaded = load_model(f"hf:{tmp_path}", "none", size=6)
    states = loaded.model.lm(inputs_embeds=loaded.example).last_hidden_state
    torch.testing.assert_close(runs(loaded), states.mean(1) if pooling == "mean" else states[:, 0])


def tiny_clip(folder: Path, name: str, vision: dict[str, Any]) -> None:
    open_clip = pytest.importorskip("open_clip")
    text = {"context_length": 4, "vocab_size": 20, "width": 8, "heads": 1, "layers": 1}
    record = {"embed_dim": 8, "vision_cfg": {"image_size": 32, **vision}, "text_cfg": text}
    (folder / f"{name}.json").write_text(json.dumps(record))
    open_clip.add_model_config(folder / f"{name}.json")


def test_open_clip_s_towers_and_the_experiment_that_names_them(tmp_path: Path) -> None:
    tiny_clip(tmp_path, "sgfi-vit", {"layers": 6, "width": 8, "head_width": 8, "patch_size": 16})
    loaded = load_model("open_clip:sgfi-vit", "none", size=48)
    assert loaded.preprocessing is not None and loaded.preprocessing.source == "open_clip preprocess config"
    graph = capture(loaded.model, loaded.example)
    plan = sgfi.plan(graph)
    assert plan.mode == "stage:vit" and plan.boundaries[2:-1] == tuple(f"transformer.resblocks.{i}" for i in range(6))
    file = declare("clip")
    for variant in file.variants.values():
        assert str(variant["model"]["spec"]).startswith("open_clip:")
        target = variant.get("plan", {}).get("target")
        assert target is None or isinstance(target, int) or target in plan.boundaries
    native = load_model("open_clip:sgfi-vit", "none").model.state_dict()
    save_file({f"visual.{name}": tensor.clone() for name, tensor in native.items()} | {"logit_scale": torch.ones(1)},
              tmp_path / "clip.safetensors")  # fmt: skip
    again = load_model("open_clip:sgfi-vit", tmp_path / "clip.safetensors", size=48)
    torch.testing.assert_close(again.model.positional_embedding, loaded.model.positional_embedding)
    with pytest.raises(DataError, match="open_clip knows"):
        load_model("open_clip:sgfi-vitt", "none")


def test_open_clip_s_resnet_with_its_attention_pool_at_another_size(tmp_path: Path) -> None:
    tiny_clip(tmp_path, "sgfi-rn", {"layers": [1, 1, 1, 1], "width": 8})
    loaded = load_model("open_clip:sgfi-rn", "none", size=64)
    assert loaded.model.attnpool.positional_embedding.shape[0] == 1 + 2 * 2 and runs(loaded).shape == (2, 8)


def test_detectors_give_their_backbone_s_preparation() -> None:
    from torchvision.models.detection.transform import GeneralizedRCNNTransform

    transform = GeneralizedRCNNTransform(320, 640, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert from_detector(transform).input_shape == (3, 320, 320) and from_detector(transform).std == (0.4, 0.5, 0.6)
    fixed = GeneralizedRCNNTransform(320, 640, [0.5] * 3, [0.5] * 3, fixed_size=(300, 300))
    assert from_detector(fixed).size == (300, 300)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torchvision:r3d_18", "of videos"),
        ("smp:Unett-resnet18", "Unet-resnet18"),
        ("smp:Unet-resnet19", "resnet18"),
        ("diffusers:nowhere@x", "a time step"),
    ],
)
def test_unknown_names_are_errors_with_a_hint(spec: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_model(spec, "none")


def test_an_autoencoder_is_no_denoiser(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "AutoencoderKL"}))
    with pytest.raises(DataError, match="UNet2DModel"):
        load_model(f"diffusers:{tmp_path}", "none")


def test_models_without_a_size_of_their_own_stay_as_they_are() -> None:
    model = nn.Conv2d(3, 4, 3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    resize_model(model, (20, 20))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
