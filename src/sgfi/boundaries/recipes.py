"""Where the stage boundaries of a model stand: one small entry per architecture family, and one for all others.

A recipe applies when the graph holds a module of one of its classes (so a wrapped model is still recognised) and
the blocks it looks for. It yields names; the last one is its default target. Recipes read structure (residual sums,
block classes, the trunk), never fixed paths: torchvision, timm and transformers variants share an entry wherever
their structure is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from sgfi.boundaries.frontier import boundary_dag, idle
from sgfi.boundaries.structure import ACTIVATIONS, POOLS, Block, Structure
from sgfi.errors import PlanError, PluginError, did_you_mean, first_line
from sgfi.graph import TensorGraph
from sgfi.plugins import Registry


@dataclass(frozen=True)
class RecipeBoundaries:
    """The name of a recipe, its boundaries in topological order (input first) and default target (mostly the last)."""

    recipe: str
    boundaries: tuple[str, ...]
    target: str
    stem: tuple[str, ...]
    """Inside the first segment, on every path: outputs of its layers (before norm, offset and activation) and what is
    pooled there. No recipe has them by default; docs/method.md says what they are worth."""


Finder = Callable[[Structure], list[str]]


@dataclass(frozen=True)
class Recipe:
    """A finder for the models that hold a module whose class name a regular expression matches in full."""

    classes: str
    find: Finder
    """Names of boundaries, those upstream first or in any order; an empty answer means "not mine"."""

    def __post_init__(self) -> None:
        re.compile(self.classes)
        if not callable(self.find):
            raise TypeError(f"find is a function of a Structure, not a {type(self.find).__name__}")

    def applies(self, structure: Structure) -> bool:
        return any(re.fullmatch(self.classes, kind) for kind in structure.kinds)


def _accepted(name: str, given: Any) -> Recipe:
    if not isinstance(given, Recipe):
        raise TypeError(f"a recipe is a sgfi.boundaries.recipes.Recipe, not a {type(given).__name__}")
    return given


GENERIC = "generic"
RECIPES: Registry[Recipe] = Registry("recipe", "sgfi.recipes", _accepted, lambda: [GENERIC])
"""By name, those of plug-ins last: one of sgfi's own that applies is asked before them."""


def recipe(name: str, classes: str) -> Callable[[Finder], Finder]:
    """Register a finder for the module classes that a regular expression matches in full."""

    def register(find: Finder) -> Finder:
        RECIPES.register(name, Recipe(classes, find))
        return find

    return register


def recipe_boundaries(graph: TensorGraph, name: str | None = None) -> RecipeBoundaries:
    """The answer of the first recipe that applies, the generic one applying to every model; or of the one named."""
    structure = Structure(graph)
    if name is not None and name != GENERIC:
        return _with_stem(structure, name, _named_recipe(structure, name))
    for known in RECIPES if name is None else ():
        recipe = RECIPES.usable(known)
        if recipe is not None and recipe.applies(structure):
            try:
                names = _answer(structure, known, recipe)
            except PluginError as error:
                RECIPES.warn(error)
                continue
            if names:
                return _with_stem(structure, known, names)
    names = _usable(structure, generic(structure))
    if not names:
        raise PlanError(
            "a tensor downstream of the input with a channel axis",
            f"none in {graph!r}",
            "Name boundaries, a target and their axes yourself: plan(graph, target, [names], axes={...}).",
        )
    return _with_stem(structure, GENERIC, names, before_skips_end(structure, names))


def _named_recipe(structure: Structure, name: str) -> tuple[str, ...]:
    if name not in RECIPES:
        known = [*RECIPES, GENERIC]
        todo = did_you_mean(name, known) or f"There are {', '.join(known)}."
        raise PlanError("the name of a recipe", repr(name), todo)
    names = _answer(structure, name, RECIPES[name])
    if not names:
        got = f"none in a {structure.graph.model_class}"
        raise PlanError(f"boundaries by the recipe {name!r}", got, 'Leave the name out: boundaries="stage".')
    return names


def _answer(structure: Structure, name: str, recipe: Recipe) -> tuple[str, ...]:
    """Its boundaries, checked where they come from a plug-in."""
    plugin = RECIPES.plugin(name)
    if plugin is None:
        return _usable(structure, recipe.find(structure))
    try:
        return _usable(structure, [structure.graph.nodes.canonical(each) for each in recipe.find(structure)])
    except Exception as error:  # whatever a plug-in does
        todo = "Correct or uninstall that package, or name the boundaries yourself."
        got = f"{type(error).__name__}: {first_line(error)}"
        raise PluginError(f"the recipe {plugin} to name tensors of the graph", got, todo) from error


def _with_stem(
    structure: Structure, recipe: str, names: tuple[str, ...], target: str | None = None
) -> RecipeBoundaries:
    segment = structure.trunk(names[0])
    inside = [name for name in segment if name != names[0]]
    read = {parent for name in segment if structure.node(name).op in POOLS for parent in structure.parents[name]}
    stem = _usable(structure, [name for name in inside if structure.is_layer(name) or name in read])
    return RecipeBoundaries(recipe, ("input", *names), target or names[-1], stem)


def _usable(structure: Structure, names: Iterable[str]) -> tuple[str, ...]:
    """Once each, in topological order, without the input and without tensors that have no channel axis."""
    kept = set(names) - {"input"}
    return tuple(name for name in structure.usable if name in kept)


@recipe("resnet", r"(Modified)?ResNet(Model)?")
@recipe("regnet", r"RegNet(Model)?")
@recipe("convnext", r"ConvNe[Xx]t(V2)?(Model)?")
def residual_network(structure: Structure) -> list[str]:
    """Stem (what the first residual block reads) and every residual sum, before its activation."""
    sums = structure.residual_adds
    return [structure.join_source(sums[0]), *map(structure.laid_out, sums)] if sums else []


@recipe("swin", r"SwinTransformer(V2|V2Cr)?|Swin(v2)?Model")
def residual_network_with_norm(structure: Structure) -> list[str]:
    """Stem, every residual sum (attention and MLP), final norm."""
    names = residual_network(structure)
    return names and [*names, structure.final_norm(names[-1]) or names[-1]]


@recipe("vit", r"VisionTransformer(Distilled)?|(ViT|DeiT|Beit|Dinov2)Model|(CLIP|Siglip)Vision(Model|Transformer)")
def vision_transformer(structure: Structure) -> list[str]:
    """Embedded tokens, every encoder block, final norm: of a block's two sums only the one it returns."""
    sums = structure.residual_adds
    blocks = structure.block_outputs(sums)
    return [structure.join_source(sums[0]), *blocks, structure.final_norm(blocks[-1]) or blocks[-1]] if blocks else []


@recipe("densenet", r"DenseNet")
def densely_connected(structure: Structure) -> list[str]:
    """Stem pool, every dense block, every transition, final batch norm."""
    blocks = structure.blocks("_DenseBlock", "DenseBlock", "_Transition", "DenseTransition")
    ends = [block.output for block in blocks if block.output is not None]
    if not ends:
        return []
    return [structure.block_input(blocks[0]), *ends, structure.final_norm(ends[-1]) or ends[-1]]


INVERTED = (
    *("MBConv", "FusedMBConv", "InvertedResidual", "_InvertedResidual"),  # torchvision
    *("DepthwiseSeparableConv", "EdgeResidual"),  # timm, beside InvertedResidual
    *("MobileNetV2Stem", "MobileNetV2InvertedResidual", "EfficientNetBlock"),  # transformers
    "MBConvBlock",  # efficientnet_lite_pytorch
)


@recipe("mobilenetv2", r"MobileNetV2(Model)?|MNASNet|EfficientNet")
def mobile_network(structure: Structure) -> list[str]:
    """Stem, residual sums, and non-residual blocks opened before their activations.

    timm builds MobileNetV2 from its EfficientNet class; it has no gate and only 3x3 kernels, no EfficientNet does.
    """
    named = "EfficientNet" not in structure.kinds
    plain = structure.largest_kernel == 3 and not any("Squeeze" in kind for kind in structure.kinds)
    return inverted_residuals(structure, _before_activation) if named or plain else []


@recipe("efficientnet", r"EfficientNet(Model)?|MobileNetV3")
def efficient_network(structure: Structure) -> list[str]:
    """Stem, residual sums, and non-residual blocks opened after their activations, gates inside one segment."""
    return inverted_residuals(structure, _after_activation)


def inverted_residuals(structure: Structure, opened: Callable[[Structure, Block], list[str]]) -> list[str]:
    """Residual blocks stay whole and end in their sum; the others, which no shortcut helps, are opened."""
    blocks = structure.blocks(*INVERTED)
    if not blocks:
        return []
    sums = set(structure.residual_adds)
    entries = [block for block in blocks if not sums & set(block.tensors)]
    inside = [name for block in entries for name in opened(structure, block)]
    stems = [structure.block_input(blocks[0]), *map(structure.join_source, structure.residual_adds[:1])]
    return [*stems, *sums, *inside]


def _before_activation(structure: Structure, block: Block) -> list[str]:
    """The outputs of every convolution but the last, then the block's output (the last one's batch norm)."""
    convolutions = [name for name in _line(structure, block) if structure.is_layer(name)]
    return [*convolutions[:-1], _end(block)]


def _after_activation(structure: Structure, block: Block) -> list[str]:
    """The activated outputs of every convolution but the last, then the block's output.

    A squeeze-excite gate and its multiplication are no boundaries: they stay in the segment to the projection.
    """
    return [*(name for name in _line(structure, block) if structure.node(name).op in ACTIVATIONS), _end(block)]


def _line(structure: Structure, block: Block) -> list[str]:
    """The tensors of a block that every path passes through: what happens inside a gate is left out."""
    inside = set(block.tensors)
    return [name for name in structure.trunk(_end(block)) if name in inside]


def _end(block: Block) -> str:
    return block.output or block.tensors[-1]


LANGUAGE_LAYERS = re.compile(r"(GPT2|GPTNeo|GPTJ|Bloom)Block|GPTNeoXLayer|\w+DecoderLayer")
LANGUAGE_ATTENTION = re.compile(r"\w+Attention")
LANGUAGE_MODELS = (
    r"(GPT2|GPTNeoX|GPTJ|Bloom|Falcon|(Llama|Mistral|Mixtral|Qwen|Gemma|Phi|Olmo|Granite|StableLm|SmolLM)\w*)Model"
)


@recipe("gpt2", rf"{LANGUAGE_MODELS}|OPTDecoder")
def causal_language_model(structure: Structure) -> list[str]:
    """The output of every second block before the middle layer, then that layer's attention output.

    Twelve layers: the outputs of blocks 2 and 4, and the attention output of layer 6 before its residual sum.
    """
    blocks, attentions = (
        structure.blocks(*filter(kind.fullmatch, structure.kinds)) for kind in (LANGUAGE_LAYERS, LANGUAGE_ATTENTION)
    )
    middle = max(1, len(blocks) // 2)
    if len(attentions) != len(blocks) or not attentions:
        return []
    return [*(_end(block) for block in blocks[1 : middle - 1 : 2]), _end(attentions[middle - 1])]


def generic(structure: Structure) -> list[str]:
    """For any other model, from the graph alone.

    With residual sums: the first block's input (the stem), every residual sum, and as target the final norm if
    one follows the last sum with the same shape, else the last sum.

    Without: concatenations of branches and pooling outputs, those that every path passes through if there are
    two or more such, else all of them; of two with no layer between, the later. Failing that, the
    outputs of the convolutions and linear layers (after their norm, before their activation), without a last one
    that has no coordinates: the head. The target is the last of these that has coordinates, if any has.
    """
    if structure.residual_adds:
        return residual_network_with_norm(structure)
    end = max(structure.order, key=lambda name: len(structure.graph.ancestors(name)))
    trunk = set(structure.trunk(end))
    joins = set(structure.concatenations)
    marks = [name for name in structure.usable if name in joins or structure.node(name).op in POOLS]
    layers = [structure.normed(name) for name in structure.usable if structure.is_layer(name)]
    body = layers if layers and structure.node(layers[-1]).coord_shape else layers[:-1]
    for names in (_only(marks, trunk), marks, _only(body, trunk), body):
        kept = structure.spatial(_apart(structure, names))
        if len(kept) >= 2:
            return list(kept)
    return list(structure.spatial(body or layers or structure.usable[-1:]))


def before_skips_end(structure: Structure, names: tuple[str, ...]) -> str:
    """Of a network with a way down and a way up, the boundary that has the most others in use when it is the target.

    In a U-Net that is the end of the way down: seen from the way up, skip connections lead around most of what lies
    between. Another target can be named, and has the boundaries that are in use for it. Where nothing is idle, or the
    last boundary is no finer than any other, it is the last.
    """

    def in_use(end: int) -> tuple[int, int]:
        dag = boundary_dag(structure.graph, {"input", *names[:end]}, names[end])
        behind = len(idle(dag))
        return len(dag.fitted) - behind, -behind

    last, places = len(names) - 1, [prod(structure.node(name).coord_shape) for name in names]
    if in_use(last)[1] == 0 or places[last] == min(places):
        return names[last]
    return names[max(range(len(names)), key=lambda end: (*in_use(end), end))]


def _only(names: Iterable[str], kept: set[str]) -> list[str]:
    return [name for name in names if name in kept]


def _apart(structure: Structure, names: list[str]) -> list[str]:
    """Of two neighbours with no parametric layer between, the later."""
    kept = names[-1:]
    for name, following in reversed(list(pairwise(names))):
        if structure.separated(name, following):
            kept.append(name)
    return kept[::-1]
