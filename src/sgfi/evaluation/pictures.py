"""Pictures of a feature by the methods of other libraries, for the same tensor, input and query.

A query q at ``x`` is turned into one number that these methods can explain, ``s_q(x') = <P_q H(x'), d_q>`` with the
deviation ``d_q = P_q (H(x) - H(mu))`` held fixed. captum and zennit compute the attributions, Horama the accentuation;
nothing of theirs is written again here. Every method returns one input-shaped tensor a query, ``(Q, B, *input)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError, did_you_mean
from sgfi.evaluation.stacks import checked_queries
from sgfi.graph import Node, TensorGraph
from sgfi.inversion import Query, Selections, common_target
from sgfi.inversion.query import patch_side
from sgfi.natural import Prior, reference_state
from sgfi.optional import need

NATURAL: Mapping[str, Mapping[str, Any]] = {
    "natural, path": {},
    "natural, path, centred": {"target_value": "centred"},
    "natural, point": {"jacobian": "point"},
}
"""The natural inverse's settings by the names it has beside these methods."""
INTEGRATION_STEPS, NOISE_SAMPLES, NOISE = 16, 16, 0.1
"""Of integrated gradients; of SmoothGrad, and its deviation as a share of the input's range."""
ACCENTUATION_STEPS = 64
NUMBERS = 1 << 19
"""Input numbers in one forward and backward pass: 42 pictures of 64 pixels, 3 of 224."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What every method is given."""

    graph: TensorGraph
    model: nn.Module | None
    """The module itself, for methods that rewrite its layers."""
    x: Tensor
    """(B, *input)"""
    mean: Tensor
    """(*input) the reference input mu."""
    channel_axis: int
    """Of the input, counted with the batch."""
    target: str
    chosen: Selections
    """P_q"""
    state: Tensor
    """(B, *target) H(x)"""
    deviation: Tensor
    """(B, *target) H(x) - H(mu)"""

    @classmethod
    @torch.inference_mode(False)
    def of(
        cls, graph: TensorGraph, x: Tensor, prior: Prior, queries: Sequence[Query], model: nn.Module | None = None
    ) -> Scene:
        queries = checked_queries(graph, x, queries, prior)
        target, x = common_target(graph, queries), x.detach().clone()
        chosen = Selections.of(query.selection(graph.nodes[target], x.device) for query in queries)
        with torch.no_grad():
            state = Linearisation(graph, {}, x, keep=[target]).values[target]
            deviation = state - reference_state(graph, target, x, prior)
        return cls(graph, model, x, prior.mean_like(x), prior.channel_axis, target, chosen, state, deviation)

    def each(self) -> Iterator[Scene]:
        """Every input by itself."""
        for index in range(len(self.x)):
            own = slice(index, index + 1)
            yield replace(self, x=self.x[own], state=self.state[own], deviation=self.deviation[own])

    def directions(self) -> Iterator[Tensor]:
        """(B, *target) ``d_q`` of every query."""
        return (selection.project(self.deviation) for selection in self.chosen)

    def rows(self, copies: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Every query at every input as one long batch, in parts: inputs (R, *input) and directions (R, *target).

        ``copies`` is how often a method repeats each input in one pass.
        """
        inputs = self.x.repeat(len(self.chosen), *[1] * (self.x.dim() - 1))
        directions = torch.cat(list(self.directions()))
        size = max(1, NUMBERS // (copies * self.x[0].numel()))
        return zip(inputs.split(size), directions.split(size), strict=True)

    def by_query(self, rows: Sequence[Tensor]) -> Tensor:
        """The parts put together again: (Q, B, *input)."""
        return torch.cat(list(rows)).unflatten(0, (len(self.chosen), len(self.x)))

    def score(self, inputs: Tensor, directions: Tensor) -> Tensor:
        """(R,) ``s_q`` of each row's own direction."""
        program = self.graph.program(("input",), (self.target,))
        return (program(inputs)[0] * directions).flatten(1).sum(1)

    def module(self, direction: Tensor) -> Feature:
        """``s_q`` as a module around the model itself."""
        names = (self.target, *self.graph.nodes[self.target].aliases)
        modules = dict(self.model.named_modules()) if self.model is not None else {}
        path = next((name for name in names if name in modules), None)
        if self.model is None or path is None:
            raise QueryError(
                "a target that is the output of one of the model's modules",
                repr(self.target),
                "This method rewrites modules; choose another target or leave the method out.",
            )
        return Feature(self.model, path, direction)


class Feature(nn.Module):
    """(B,) ``<output of one module, direction>``, of a copy of it: the next op may work in place."""

    def __init__(self, model: nn.Module, path: str, direction: Tensor) -> None:
        super().__init__()
        self.model, self.path, self._direction = model, path, direction

    def forward(self, x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        handle = self.model.get_submodule(self.path).register_forward_hook(
            lambda *call: outputs.append(call[2].clone())
        )
        try:
            self.model(x)
        finally:
            handle.remove()
        return (outputs[0] * self._direction).flatten(1).sum(1)


Method = Callable[[Scene], Tensor]
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    """Register a way to draw pictures."""

    def register(function: Method) -> Method:
        if name in METHODS:
            raise ValueError(f"a second method {name!r}")
        METHODS[name] = function
        return function

    return register


def pictures(name: str, scene: Scene) -> Tensor:
    """(Q, B, *input) of one of :data:`METHODS`; the caller's random state is left as it was."""
    if name not in METHODS:
        raise QueryError(f"a method among {sorted(METHODS)}", repr(name), did_you_mean(name, METHODS) or "Choose one.")
    devices = [scene.x.device] if scene.x.is_cuda else []
    with torch.inference_mode(False), torch.random.fork_rng(devices=devices), torch.enable_grad():
        torch.manual_seed(0)
        return METHODS[name](scene).detach()


@method("raw VJP")
def _raw(scene: Scene) -> Tensor:
    """The paper's uncalibrated reference: ``J* P H(x)``."""
    local = Linearisation(scene.graph, {"input": [scene.target]}, scene.x).at("input")
    return local.vjp([scene.chosen.project(scene.state)])


@method("gradient")
def _gradient(scene: Scene) -> Tensor:
    saliency = _captum().Saliency(scene.score)
    return _attributed(scene, lambda x, d: saliency.attribute(x, abs=False, additional_forward_args=d))


@method("gradient x input")
def _gradient_input(scene: Scene) -> Tensor:
    product = _captum().InputXGradient(scene.score)
    return _attributed(scene, lambda x, d: product.attribute(x, additional_forward_args=d))


@method("integrated gradients")
def _integrated(scene: Scene) -> Tensor:
    """From the mean input."""
    integrated, start = _captum().IntegratedGradients(scene.score), scene.mean.unsqueeze(0)
    options = {"n_steps": INTEGRATION_STEPS, "internal_batch_size": max(1, NUMBERS // scene.mean.numel())}
    return _attributed(
        scene,
        lambda x, d: integrated.attribute(x, start.expand_as(x), additional_forward_args=d, **options),
        INTEGRATION_STEPS,
    )


@method("SmoothGrad")
def _smooth(scene: Scene) -> Tensor:
    return torch.cat([_smoothed(own) for own in scene.each()], 1)


def _smoothed(scene: Scene) -> Tensor:
    """Of one input, by whose range the noise is measured; the same noise at every input."""
    torch.manual_seed(0)
    captum = _captum()
    tunnel = captum.NoiseTunnel(captum.Saliency(scene.score))
    options = {
        "nt_samples": NOISE_SAMPLES,
        "nt_samples_batch_size": min(NOISE_SAMPLES, max(1, NUMBERS // scene.mean.numel())),
        "stdevs": NOISE * float(scene.x.max() - scene.x.min()),
    }
    return _attributed(
        scene, lambda x, d: tunnel.attribute(x, abs=False, additional_forward_args=d, **options), NOISE_SAMPLES
    )


@method("guided backpropagation")
def _guided(scene: Scene) -> Tensor:
    """zennit's rule at every ReLU and ReLU6 (captum's changes ``nn.ReLU`` alone)."""
    composites, rules = need("zennit.composites", "comparisons"), need("zennit.rules", "comparisons")
    rectifiers = (nn.ReLU, nn.ReLU6)
    if scene.model is not None and not any(isinstance(module, rectifiers) for module in scene.model.modules()):
        raise QueryError("a model with ReLU modules", type(scene.model).__name__, "Leave this method out here.")
    return _rewritten(scene, composites.LayerMapComposite([(rectifiers, rules.ReLUGuidedBackprop())]))


@method("LRP")
def _relevance(scene: Scene) -> Tensor:
    """zennit's epsilon-plus rules started at the query's own feature, as CRP conditions on a concept.

    Batch norms are merged; torchvision's residual sums have a rule, other sums that are no module split like gradients.
    """
    composites, canonizers = need("zennit.composites", "comparisons"), need("zennit.canonizers", "comparisons")
    canonizer = canonizers.SequentialMergeBatchNorm
    if type(scene.model).__module__ == "torchvision.models.resnet":
        canonizer = need("zennit.torchvision", "comparisons").ResNetCanonizer
    return _rewritten(scene, composites.EpsilonPlus(canonizers=[canonizer()]))


@method("activation x input")
def _activation(scene: Scene) -> Tensor:
    """The feature's deviation, summed over channels and brought to the input's size, as a mask on ``x - mu``."""
    _check_pictures(scene)
    node = scene.graph.nodes[scene.target]
    return _masked(scene, torch.stack([as_grid(d, node).abs().sum(1) for d in scene.directions()]))


@method("Grad-CAM")
def _grad_cam(scene: Scene) -> Tensor:
    """captum's, at the target's own tensor: positive parts of its channels weighted by their mean gradient, brought to
    the input's size, as a mask on ``x - mu``."""
    _check_pictures(scene)
    maps = []
    for x, direction in scene.rows():
        feature = scene.module(direction)
        cam = _captum().LayerGradCam(feature, feature.model.get_submodule(feature.path))
        maps.append(cam.attribute(x, relu_attributions=True).detach())
    grids = scene.by_query(maps)  # (Q, B, 1, h, w), where the tensor lies on a grid
    if grids.dim() != 5:
        raise QueryError("a target that lies on a grid", repr(scene.target), "Leave this method out here.")
    return _masked(scene, grids[:, :, 0])


def _check_pictures(scene: Scene) -> None:
    if scene.x.dim() != 4:
        raise QueryError("pictures as inputs", str(tuple(scene.x.shape)), "Leave this method out here.")


def _masked(scene: Scene, maps: Tensor) -> Tensor:
    """(Q, B, h, w), brought to the input's size, times ``x - mu``."""
    height, width = (size for axis, size in enumerate(scene.x.shape) if axis not in (0, scene.channel_axis))
    masks = F.interpolate(maps, (height, width), mode="bilinear", align_corners=False)
    return masks.unsqueeze(scene.channel_axis + 1) * (scene.x - scene.mean)


@method("accentuation")
def _accentuated(scene: Scene) -> Tensor:
    """Horama's feature accentuation, seeded with the input; what it adds to it. Horama maximises."""
    _check_pictures(scene)
    if scene.channel_axis != 1 or scene.x.shape[2] != scene.x.shape[3]:
        raise QueryError("square pictures (B, C, N, N)", str(tuple(scene.x.shape)), "Leave this method out here.")
    horama = need("horama.feature_accentuation", "comparisons")
    changed = []
    for direction in scene.directions():
        for index, image in enumerate(scene.x):
            wanted = direction[index : index + 1]
            accented, _ = horama.accentuation(
                lambda crops, wanted=wanted: scene.score(crops, wanted).mean(),
                image,
                total_steps=ACCENTUATION_STEPS,
                image_size=image.shape[-1],
                model_input_size=image.shape[-1],
                values_range=(float(image.min()), float(image.max())),
                box_size=(0.9, 1.0),
                crops_per_iteration=2,
                device="cpu",
            )
            changed.append(accented.detach() - image)
    return torch.stack(changed).unflatten(0, (len(scene.chosen), len(scene.x)))


def as_grid(state: Tensor, node: Node) -> Tensor:
    """(B, C, h, w): a state with two coordinate axes, or patch tokens on their square behind one class token."""
    state = state.movedim(node.channel_axis or 1, 1)
    if len(node.coord_shape) == 2:
        return state
    side = patch_side(node.coord_shape)
    if not side:
        todo = "Ask about a tensor with two coordinate axes, or with a class token and a square of patches."
        raise QueryError("a target that lies on a grid", f"{node.name!r} of shape {node.shape}", todo)
    return state[..., 1:].unflatten(-1, (side, side))


def _attributed(scene: Scene, attribute: Callable[[Tensor, Tensor], Tensor], copies: int = 1) -> Tensor:
    """captum at every row; each row's direction travels as an argument, which captum repeats as it does the input."""
    return scene.by_query([attribute(_leaf(x), direction) for x, direction in scene.rows(copies)])


def _rewritten(scene: Scene, composite: Any) -> Tensor:
    """The gradient that zennit's rules put in the place of the model's own."""
    parts = []
    for x, direction in scene.rows():
        leaf = _leaf(x)
        with composite.context(scene.module(direction)) as changed:
            parts.append(torch.autograd.grad(changed(leaf).sum(), leaf)[0])
    return scene.by_query(parts)


def _leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()


def _captum() -> Any:
    return need("captum.attr", "comparisons")
