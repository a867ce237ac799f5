"""Recipes: the counts and names of the nine reference models, family variants, and models nobody foresaw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sgfi
from sgfi.boundaries.recipes import RECIPES, RecipeBoundaries, recipe, recipe_boundaries
from sgfi.errors import PlanError
from sgfi.graph import TensorGraph, capture

pytest.importorskip("torchvision")
pytest.importorskip("timm")
pytest.importorskip("transformers")
import timm
import torchvision.models as tv
import transformers


def fitted(graph: TensorGraph, chosen: RecipeBoundaries) -> list[str]:
    """The boundaries upstream of the target."""
    upstream = graph.ancestors(chosen.target)
    return [name for name in chosen.boundaries if name in upstream]


def check_form(graph: TensorGraph, chosen: RecipeBoundaries) -> None:
    """What every answer keeps to: canonical names in order, input first, target last, an axis for each."""
    order = list(graph.nodes)
    assert chosen.boundaries[0] == "input"
    assert chosen.boundaries[-1] == chosen.target
    assert [order.index(name) for name in chosen.boundaries] == sorted(map(order.index, chosen.boundaries))
    assert len(set(chosen.boundaries)) == len(chosen.boundaries)
    assert all(graph.nodes[name].channel_axis is not None for name in chosen.boundaries)
    assert fitted(graph, chosen) == list(chosen.boundaries[:-1])


def each(pattern: str, *depths: int, start: int = 0, step: int = 1) -> list[str]:
    """``pattern`` for every stage s and block b of given depths."""
    return [pattern.format(s=start + step * s, b=b) for s, depth in enumerate(depths) for b in range(depth)]


def opened(path: str, *inside: str) -> list[str]:
    return [f"{path}.{name}" for name in inside]


def mobilenet_v2() -> list[str]:
    inside = {1: ("conv.0.0", "conv.2")} | dict.fromkeys((2, 4, 7, 11, 14, 17), ("conv.0.0", "conv.1.0", "conv.3"))
    names = ["features.0.2"]
    for i in range(1, 18):
        names += opened(f"features.{i}", *inside[i]) if i in inside else [f"features.{i}"]
    return names


def efficientnet_b0() -> list[str]:
    names = ["features.0.2", *opened("features.1.0.block", "0.2", "2.1")]
    for s, depth in enumerate((2, 2, 3, 3, 4, 1), start=2):
        names += opened(f"features.{s}.0.block", "0.2", "1.2", "3.1")
        names += [f"features.{s}.{b}" for b in range(1, depth)]
    return names


def densenet121() -> list[str]:
    inner = [name for b in (1, 2, 3) for name in (f"features.denseblock{b}", f"features.transition{b}.pool")]
    return ["features.pool0", *inner, "features.denseblock4", "features.norm5"]


def swin_t() -> list[str]:
    blocks = each("features.{s}.{b}", 2, 2, 6, 2, start=1, step=2)
    return ["features.0.2", *(name for block in blocks for name in (f"{block}.add", block)), "norm"]


@dataclass(frozen=True)
class Reference:
    """One model of the table: recipe, fitted nodes, terminal shape without the batch, names after the input."""

    model: str
    recipe: str
    fitted: int
    shape: tuple[int, ...]
    names: list[str]
    channel_axis: int = 1


REFERENCES = [
    Reference("resnet18", "resnet", 9, (512, 7, 7), ["maxpool", *each("layer{s}.{b}.add", 2, 2, 2, 2, start=1)]),
    Reference("resnet50", "resnet", 17, (2048, 7, 7), ["maxpool", *each("layer{s}.{b}.add", 3, 4, 6, 3, start=1)]),
    Reference("densenet121", "densenet", 9, (1024, 7, 7), densenet121()),
    Reference("mobilenet_v2", "mobilenetv2", 31, (320, 7, 7), mobilenet_v2()),
    Reference("efficientnet_b0", "efficientnet", 30, (320, 7, 7), efficientnet_b0()),
    Reference(
        "regnet_y_1_6gf",
        "regnet",
        28,
        (888, 7, 7),
        ["stem.2", *each("trunk_output.block{s}.block{s}-{b}.add", 2, 6, 17, 2, start=1)],
    ),
    Reference(
        "convnext_base",
        "convnext",
        37,
        (1024, 7, 7),
        ["features.0.1", *each("features.{s}.{b}", 3, 3, 27, 3, start=1, step=2)],
    ),
    Reference("swin_t", "swin", 26, (7, 7, 768), swin_t(), channel_axis=3),
    Reference(
        "vit_b_32",
        "vit",
        14,
        (50, 768),
        ["encoder.add", *each("encoder.layers.encoder_layer_{b}", 12), "encoder.ln"],
        channel_axis=2,
    ),
]


def weightless(name: str) -> TensorGraph:
    """A torchvision model at 224 pixels on meta tensors: structure needs no weights (RegNet reads its widths)."""
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        model = tv.get_model(name, weights=None).eval()
    return capture(model.to("meta"), torch.randn(2, 3, 224, 224, device="meta"))


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.model)
def test_reference_model(reference: Reference) -> None:
    graph = weightless(reference.model)
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    assert chosen.recipe == reference.recipe
    assert list(chosen.boundaries) == ["input", *reference.names]
    assert len(fitted(graph, chosen)) == reference.fitted
    target = graph.nodes[chosen.target]
    assert (target.shape, target.channel_axis) == ((None, *reference.shape), reference.channel_axis)


def test_the_paper_s_storage_of_vit_b_32_is_that_of_another_first_boundary() -> None:
    """2.99 GiB (docs/paper.md): the patch convolution has two more stored bins than the embedded tokens."""
    graph = weightless("vit_b_32")
    recipe_s = sgfi.plan(graph)
    patches = sgfi.plan(graph, target=recipe_s.target, boundaries=["conv_proj", *recipe_s.fitted[2:]])
    assert len(recipe_s.fitted) == len(patches.fitted) == 14
    first = recipe_s.boundary["encoder.add"], patches.boundary["conv_proj"]
    assert [(boundary.channels, boundary.partition.count) for boundary in first] == [(768, 26), (768, 28)]
    assert [round(plan.map_bytes / 2**30, 4) for plan in (recipe_s, patches)] == [2.9741, 2.9917]


class FromEmbeddings(nn.Module):
    """A language model seen from its embeddings (B, L, D)."""

    def __init__(self, lm: nn.Module) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.lm(inputs_embeds=embeddings, use_cache=False)[0]


def gpt2(layers: int) -> nn.Module:
    config = transformers.GPT2Config(
        n_embd=16, n_head=2, n_layer=layers, vocab_size=20, n_positions=12, bos_token_id=0, eos_token_id=0
    )
    return FromEmbeddings(transformers.GPT2LMHeadModel(config))


def test_gpt2_small() -> None:
    model = gpt2(12).eval()
    graph = capture(model, torch.randn(2, 8, 16))
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    prefix = "lm.transformer.h"
    assert chosen.recipe == "gpt2"
    assert list(chosen.boundaries) == ["input", f"{prefix}.1", f"{prefix}.3", graph.nodes.canonical(f"{prefix}.5.attn")]
    assert len(fitted(graph, chosen)) == 3
    assert (graph.nodes[chosen.target].shape, graph.nodes[chosen.target].channel_axis) == ((None, 8, 16), 2)
    assert graph.nodes.canonical(f"{prefix}.5.add") not in graph.ancestors(chosen.target)


@pytest.mark.parametrize("library", ["efficientnet_lite_pytorch", "timm"])
def test_efficientnet_lite0_is_a_chain_of_thirty(library: str) -> None:
    if library == "timm":
        model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    else:
        model = pytest.importorskip(library).EfficientNet.from_name("efficientnet-lite0")
    planned = sgfi.plan(capture(model.eval(), torch.randn(2, 3, 64, 64)))
    assert planned.mode == "stage:efficientnet"
    assert len(planned.fitted) == 30
    assert planned.graph.nodes[planned.target].shape == (None, 320, 2, 2)
    assert [planned.children(name) for name in planned.fitted] == [(name,) for name in planned.boundaries[1:]]


# Family members at toy size, with random weights: each is also run against the eager model.

Build = Callable[[], nn.Module]


def tiny_efficientnet(*settings: object) -> nn.Module:
    return tv.EfficientNet(list(settings), dropout=0.2, num_classes=5, last_channel=16)


MBCONV = tv.efficientnet.MBConvConfig
FUSED = tv.efficientnet.FusedMBConvConfig


def tiny_swin_v2() -> nn.Module:
    later = {
        "block": tv.swin_transformer.SwinTransformerBlockV2,
        "downsample_layer": tv.swin_transformer.PatchMergingV2,
    }
    return tv.SwinTransformer([4, 4], 8, [1, 2], [1, 2], [4, 4], num_classes=5, **later)


def tiny_regnet(**more: float) -> nn.Module:
    params = tv.regnet.BlockParams.from_init_params(depth=3, w_0=8, w_a=8, w_m=2, group_width=8, **more)
    return tv.RegNet(params, num_classes=5, stem_width=8)


def hugging_face(name: str, **config: object) -> nn.Module:
    """A transformers image classifier that returns its logits."""
    settings = getattr(transformers, f"{name}Config")(num_labels=5, **config)
    return Logits(getattr(transformers, f"{name}ForImageClassification")(settings))


class Logits(nn.Module):
    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(x)[0]


def tiny_timm(name: str, **options: object) -> nn.Module:
    return timm.create_model(name, pretrained=False, num_classes=5, **options)


TOKENS = {"depth": 2, "embed_dim": 16, "num_heads": 2, "img_size": 32, "patch_size": 8}
WINDOWS = {"depths": (1, 2), "embed_dim": 8, "num_heads": (1, 2), "img_size": 32, "window_size": 4}
VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
VIT |= {"image_size": 32, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2}
MOBILE = [[1, 8, 1, 1], [6, 16, 2, 2]]

FAMILIES: dict[str, tuple[Build, str, int, str]] = {
    "torchvision resnet": (
        partial(tv.ResNet, tv.resnet.BasicBlock, [1, 1, 1, 1]),
        *("resnet", 5, "layer4.0.add"),
    ),
    "torchvision resnext": (
        partial(tv.ResNet, tv.resnet.Bottleneck, [1, 1, 1, 1], groups=4, width_per_group=4),
        *("resnet", 5, "layer4.0.add"),
    ),
    "torchvision densenet": (partial(tv.DenseNet, 4, (2, 2), 8), "densenet", 5, "features.norm5"),
    "torchvision mobilenetv2": (
        partial(tv.MobileNetV2, width_mult=0.5, inverted_residual_setting=MOBILE),
        *("mobilenetv2", 7, "features.3"),
    ),
    "torchvision efficientnet": (
        partial(tiny_efficientnet, MBCONV(1, 3, 1, 8, 8, 1, 1, 1), MBCONV(6, 5, 2, 8, 16, 2, 1, 1)),
        *("efficientnet", 6, "features.2.1"),
    ),
    "torchvision efficientnetv2": (
        partial(tiny_efficientnet, FUSED(1, 3, 1, 8, 8, 1), FUSED(4, 3, 2, 8, 16, 1), MBCONV(4, 3, 2, 16, 24, 1)),
        *("efficientnet", 7, "features.3.0.block.3.1"),
    ),
    "torchvision mobilenetv3": (
        partial(
            tv.MobileNetV3,
            [
                tv.mobilenetv3.InvertedResidualConfig(8, 3, 8, 8, False, "RE", 1, 1, 1),
                tv.mobilenetv3.InvertedResidualConfig(8, 5, 24, 16, True, "HS", 2, 1, 1),
            ],
            last_channel=16,
        ),
        *("efficientnet", 5, "features.2.block.3.1"),
    ),
    "torchvision regnetx": (tiny_regnet, "regnet", 4, "trunk_output.block3.block3-0.add"),
    "torchvision regnety": (partial(tiny_regnet, se_ratio=0.25), "regnet", 4, "trunk_output.block3.block3-0.add"),
    "torchvision convnext": (
        partial(tv.ConvNeXt, [tv.convnext.CNBlockConfig(8, 16, 1), tv.convnext.CNBlockConfig(16, None, 2)]),
        *("convnext", 4, "features.3.1"),
    ),
    "torchvision swin v2": (tiny_swin_v2, "swin", 8, "norm"),
    "torchvision vit": (partial(tv.VisionTransformer, 32, 8, 2, 2, 16, 32), "vit", 4, "encoder.ln"),
    "timm resnet": (
        partial(tiny_timm, "resnet18", layers=(1, 1, 1, 1), channels=(8, 8, 16, 16)),
        *("resnet", 5, "layer4.0.add"),
    ),
    "timm densenet": (
        partial(tiny_timm, "densenet121", growth_rate=4, block_config=(2, 2)),
        *("densenet", 5, "features.norm5.batch_norm"),
    ),
    "timm efficientnet": (partial(tiny_timm, "test_efficientnet"), "efficientnet", 11, "blocks.4.0.bn3"),
    "timm convnext": (partial(tiny_timm, "test_convnext"), "convnext", 10, "stages.3.blocks.1"),
    "timm vit": (partial(tiny_timm, "vit_tiny_patch16_224", **TOKENS), "vit", 4, "norm"),
    "timm vit, pooled": (
        partial(tiny_timm, "vit_tiny_patch16_224", global_pool="avg", **TOKENS),
        *("vit", 3, "blocks.1"),
    ),
    "timm distilled deit": (partial(tiny_timm, "deit_tiny_distilled_patch16_224", **TOKENS), "vit", 4, "norm"),
    "timm swin": (partial(tiny_timm, "swin_tiny_patch4_window7_224", **WINDOWS), "swin", 8, "norm"),
    "transformers vit": (partial(hugging_face, "ViT", **VIT), "vit", 4, "classifier.vit.layernorm"),
    "transformers resnet": (
        partial(hugging_face, "ResNet", embedding_size=8, layer_type="basic", **STAGES),
        *("resnet", 4, "classifier.resnet.encoder.stages.1.layers.1.add"),
    ),
    "transformers convnext": (
        partial(hugging_face, "ConvNext", **STAGES),
        *("convnext", 4, "classifier.convnext.encoder.stages.1.layers.1"),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_family_member(family: str) -> None:
    build, name, count, target = FAMILIES[family]
    model = build().eval()
    x = torch.randn(3, 3, 32, 32)
    graph = capture(model, x[:2])
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    assert (chosen.recipe, len(chosen.boundaries) - 1, chosen.target) == (name, count, target)
    (output,) = graph.program(("input",), (list(graph.nodes)[-1],))(x)
    torch.testing.assert_close(output, model(x), rtol=1e-4, atol=1e-5)


STEMS = {
    "torchvision mobilenetv3": ["features.0.0"],
    "torchvision convnext": ["features.0.0"],
    "torchvision vit": ["conv_proj"],
    "timm resnet": ["conv1", "act1"],
    "timm densenet": ["features.conv0", "features.norm0.act"],
    "timm vit": ["patch_embed.proj"],
    "timm swin": ["patch_embed.proj"],
}


@pytest.mark.parametrize("family", STEMS)
def test_the_stem_is_what_the_first_segment_hides(family: str) -> None:
    graph = capture(FAMILIES[family][0]().eval(), torch.randn(2, 3, 32, 32))
    assert list(recipe_boundaries(graph).stem) == STEMS[family]


def test_a_first_boundary_right_after_the_input_hides_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    chosen = recipe_boundaries(capture(model.eval(), torch.randn(2, 3, 9, 9)))
    assert chosen.boundaries[1] == "0" and chosen.stem == ()


@pytest.mark.parametrize(("kernel", "name", "first"), [(3, "mobilenetv2", "conv_dw"), (5, "efficientnet", "bn1.act")])
def test_timm_makes_mobilenetv2_and_efficientnet_from_one_class(kernel: int, name: str, first: str) -> None:
    """The one with 3x3 kernels and no gates is MobileNetV2, and is opened before its activations."""
    decode = timm.models._efficientnet_builder.decode_arch_def
    blocks = decode([["ds_r1_k3_s1_c16"], [f"ir_r2_k{kernel}_s2_e6_c24"]])
    model = timm.models.efficientnet.EfficientNet(blocks, num_classes=5, num_features=16, stem_size=8)
    graph = capture(model.eval(), torch.randn(2, 3, 32, 32))
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    inside = ["conv_pw", "conv_dw", "bn3"] if kernel == 3 else ["bn1.act", "bn2.act", "bn3"]
    expected = ["input", "bn1.act", *opened("blocks.0.0", first, "bn2"), *opened("blocks.1.0", *inside), "blocks.1.1"]
    assert (chosen.recipe, list(chosen.boundaries)) == (name, expected)


def test_wrapped_model_is_still_recognised() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tv.ResNet(tv.resnet.BasicBlock, [1, 1, 1, 1])

        def forward(self, x: Tensor) -> Tensor:
            return self.net((x - 0.5) / 0.2).softmax(1)

    chosen = recipe_boundaries(capture(Normalised().eval(), torch.randn(2, 3, 32, 32)))
    assert (chosen.recipe, chosen.target) == ("resnet", "net.layer4.0.add")


def test_gpt2_of_one_layer_has_its_attention_for_target() -> None:
    graph = capture(gpt2(1).eval(), torch.randn(2, 8, 16))
    assert recipe_boundaries(graph).boundaries == ("input", graph.nodes.canonical("lm.transformer.h.0.attn"))


# Models without a recipe.


def generic(model: nn.Module, *shape: int) -> list[str]:
    graph = capture(model.eval(), torch.randn(2, *shape))
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    assert chosen.recipe == "generic"
    return list(chosen.boundaries)


class OptionA(nn.Module):
    """A CIFAR block: where the shape changes, the shortcut takes every second pixel and pads with zero channels."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.stride = outside // inside
        self.conv1 = nn.Conv2d(inside, outside, 3, self.stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.pad = (outside - inside) // 2

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(out + x)


def test_the_full_dag_of_resnet18_has_the_paper_s_49_nodes_without_its_relus() -> None:
    graph = capture(tv.resnet18(weights=None).eval(), torch.randn(2, 3, 32, 32))
    full = sgfi.plan(graph, "layer4.1.add", boundaries="full")
    relus = [name for name in full.fitted if graph.nodes[name].op == "relu"]
    assert (len(full.fitted), len(relus)) == (65, 16)
    rest = [name for name in full.fitted if name not in ("input", *relus)]
    assert len(sgfi.plan(graph, "layer4.1.add", boundaries=rest).fitted) == 49


def test_cifar_resnet_with_option_a_shortcuts() -> None:
    head = [nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    model = nn.Sequential(*head, OptionA(4, 4), OptionA(4, 8), OptionA(8, 16), OptionA(16, 16), *tail)
    assert generic(model, 3, 32, 32) == ["input", "2", "3.add", "4.add", "5.add", "6.add"]


def test_mixer_has_its_stem_both_sums_of_every_block_and_its_norm() -> None:
    mixer = timm.models.mlp_mixer.MlpMixer(num_classes=5, img_size=32, patch_size=8, num_blocks=2, embed_dim=16)
    expected = ["input", "stem", "blocks.0.add", "blocks.0", "blocks.1.add", "blocks.1", "norm"]
    graph = capture(mixer.eval(), torch.randn(2, 3, 32, 32))
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    assert (chosen.recipe, list(chosen.boundaries)) == ("generic", expected)
    assert {graph.nodes[name].channel_axis for name in expected[1:]} == {2}


def test_bert_encoder_from_embeddings() -> None:
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    layers = [f"lm.encoder.layer.{i}.{part}.add" for i in range(2) for part in ("attention.output", "output")]
    encoder = FromEmbeddings(transformers.BertModel(config, add_pooling_layer=False))
    expected = ["input", "lm.embeddings.LayerNorm", *layers, "lm.encoder.layer.1.output.LayerNorm"]
    assert generic(encoder, 8, 16) == expected


def test_a_language_model_without_an_entry_has_no_stem_and_ends_in_a_norm_written_out() -> None:
    config = transformers.HeliumConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        head_dim=8,
    )
    layers = [f"lm.model.layers.{i}{end}" for i in range(2) for end in (".add", "")]
    model = FromEmbeddings(transformers.HeliumForCausalLM(config))
    assert generic(model, 8, 16) == ["input", *layers, "lm.model.norm"]


PLAIN = {
    "vgg11": ["features.2", "features.5", "features.10", "features.15", "features.20"],
    "alexnet": ["features.2", "features.5", "features.12"],
    # Fire modules, a pool in place of the Fire module right before it; the classifier is a convolution.
    "squeezenet1_1": [f"features.{i}" for i in (2, 3, 5, 6, 8, 9, 10, 11, 12)],
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_networks_stand_at_their_pools_and_concatenations(name: str) -> None:
    graph = weightless(name)
    chosen = recipe_boundaries(graph)
    check_form(graph, chosen)
    assert chosen.recipe == "generic"
    assert [graph.nodes[alias].name for alias in PLAIN[name]] == list(chosen.boundaries[1:])


def test_small_plain_networks_stand_at_their_layers_but_the_head() -> None:
    mlp = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3))
    assert generic(mlp, 6) == ["input", "0", "2"]
    convs = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3, 2), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)]
    assert generic(nn.Sequential(*convs, *head), 3, 16, 16) == ["input", "1", "3"]


def test_a_last_layer_that_has_places_is_no_head() -> None:
    three = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 1))
    assert generic(three, 3, 16, 16) == ["input", "0", "2", "4"]
    assert generic(three[:3], 3, 16, 16) == ["input", "0", "2"]


def test_one_layer_or_none_still_has_a_target() -> None:
    assert generic(nn.Sequential(nn.Linear(6, 3), nn.Tanh()), 6) == ["input", "0"]
    assert generic(nn.Sequential(nn.Tanh()), 6) == ["input", "0"]


def test_u_net_stands_at_its_pools_and_skips() -> None:
    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.low = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 6, 3, 1, 1), nn.Conv2d(6, 6, 1)
            self.up2, self.up1, self.out = nn.Conv2d(12, 4, 3, 1, 1), nn.Conv2d(8, 4, 3, 1, 1), nn.Conv2d(4, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            level1 = self.down1(x).relu()
            level2 = self.down2(F.max_pool2d(level1, 2)).relu()
            low = F.interpolate(self.low(F.max_pool2d(level2, 2)).relu(), scale_factor=2)
            high = F.interpolate(self.up2(torch.cat([level2, low], 1)).relu(), scale_factor=2)
            return self.out(self.up1(torch.cat([level1, high], 1)).relu())

    chosen = recipe_boundaries(capture(UNet().eval(), torch.randn(2, 3, 16, 16)))
    assert chosen.boundaries == ("input", "max_pool2d", "max_pool2d_1", "cat", "cat_1")
    assert chosen.target == "max_pool2d_1"  # the bottom: skips lead around it to whatever comes later


def test_no_tensor_with_a_channel_axis_is_an_error() -> None:
    class Total(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum()

    with pytest.raises(PlanError, match="channel axis"):
        recipe_boundaries(capture(Total().eval(), torch.randn(2, 3)))


def test_the_registry_refuses_a_second_recipe_of_one_name() -> None:
    before = dict(RECIPES)
    with pytest.raises(ValueError, match="resnet"):
        recipe("resnet", r"Other")(lambda structure: [])
    assert before == RECIPES


def test_a_class_that_only_shares_a_name_falls_back_to_the_graph() -> None:
    class EfficientNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.two(self.one(x).relu())

    assert generic(EfficientNet(), 6) == ["input", "one"]
