"""Pictures of a feature by the methods of other libraries, for the same tensor, input and query.

A query q at ``x`` is turned into one number that these methods can explain, ``s_q(x') = <P_q H(x'), d_q>`` with the
deviation ``d_q = P_q (H(x) - H(mu))`` held fixed. captum and zennit compute the attributions, Horama the accentuation;
nothing of theirs is written again here. Every method returns one input-shaped tensor a query, ``(Q, B, *input)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError, did_you_mean
from sgfi.graph import TensorGraph
from sgfi.inversion import Query
from sgfi.optional import need

INTEGRATION_STEPS, NOISE_SAMPLES, NOISE = 16, 16, 0.1
"""Of integrated gradients; of SmoothGrad, and its deviation as a share of the input's range."""
ACCENTUATION_STEPS = 64


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
    target: str
    masks: Tensor
    """(Q, *target)"""
    state: Tensor
    """(B, *target) H(x)"""
    deviation: Tensor
    """(B, *target) H(x) - H(mu)"""

    @classmethod
    def of(
        cls, graph: TensorGraph, x: Tensor, mean: Tensor, queries: Sequence[Query], model: nn.Module | None = None
    ) -> Scene:
        target = graph.nodes.canonical(str(queries[0].target))
        masks = torch.stack([query.mask(graph.nodes[target], x.device) for query in queries])
        with torch.no_grad():
            states = Linearisation(graph, {}, torch.cat([x, mean.unsqueeze(0)]), keep=[target]).values[target]
        return cls(graph, model, x, mean, target, masks, states[:-1], states[:-1] - states[-1])

    def directions(self) -> Iterator[Tensor]:
        """(B, *target) ``d_q`` of every query."""
        return (self.deviation * mask for mask in self.masks)

    def score(self, direction: Tensor) -> Callable[[Tensor], Tensor]:
        """``s_q``: inputs, in one or more whole batches, -> (B,)."""
        program = self.graph.program(("input",), (self.target,))

        def scored(inputs: Tensor) -> Tensor:
            repeats = len(inputs) // len(direction)
            wanted = direction.repeat_interleave(repeats, 0) if repeats > 1 else direction
            return (program(inputs)[0] * wanted).flatten(1).sum(1)

        return scored

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
    """(B,) ``<output of one module, direction>``; the rest of the forward is cut short."""

    def __init__(self, model: nn.Module, path: str, direction: Tensor) -> None:
        super().__init__()
        self.model, self.path, self._direction = model, path, direction

    def forward(self, x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        handle = self.model.get_submodule(self.path).register_forward_hook(lambda *call: outputs.append(call[2]))
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
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        return METHODS[name](scene).detach()


@method("raw VJP")
def _raw(scene: Scene) -> Tensor:
    """The paper's uncalibrated reference: ``J* P H(x)``."""
    local = Linearisation(scene.graph, {"input": [scene.target]}, scene.x).at("input")
    return local.vjp([scene.masks.unsqueeze(1) * scene.state])


@method("gradient")
def _gradient(scene: Scene) -> Tensor:
    attribute = _captum().Saliency
    return torch.stack([attribute(scene.score(d)).attribute(_leaf(scene.x), abs=False) for d in scene.directions()])


@method("gradient x input")
def _gradient_input(scene: Scene) -> Tensor:
    attribute = _captum().InputXGradient
    return torch.stack([attribute(scene.score(d)).attribute(_leaf(scene.x)) for d in scene.directions()])


@method("integrated gradients")
def _integrated(scene: Scene) -> Tensor:
    attribute, start = _captum().IntegratedGradients, scene.mean.expand_as(scene.x)
    return torch.stack(
        [
            _one_by_one(scene, d, lambda score, x: attribute(score).attribute(x, start[:1], n_steps=INTEGRATION_STEPS))
            for d in scene.directions()
        ]
    )


@method("SmoothGrad")
def _smooth(scene: Scene) -> Tensor:
    captum = _captum()
    spread = NOISE * float(scene.x.max() - scene.x.min())

    def attribute(score: Any, x: Tensor) -> Tensor:
        tunnel = captum.NoiseTunnel(captum.Saliency(score))
        return tunnel.attribute(x, nt_samples=NOISE_SAMPLES, stdevs=spread, abs=False)

    return torch.stack([_one_by_one(scene, d, attribute) for d in scene.directions()])


@method("guided backpropagation")
def _guided(scene: Scene) -> Tensor:
    """captum rewrites ``nn.ReLU`` modules; other activations keep their gradient."""
    attribute = _captum().GuidedBackprop
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting backward hooks")  # captum announces what it is meant to do
        return torch.stack([attribute(scene.module(d)).attribute(_leaf(scene.x)) for d in scene.directions()])


@method("LRP")
def _relevance(scene: Scene) -> Tensor:
    """zennit's epsilon-plus rules with batch norms merged; sums that are no module split like gradients."""
    zennit = need("zennit.composites", "comparisons")
    canonizers = need("zennit.canonizers", "comparisons")
    composite = zennit.EpsilonPlus(canonizers=[canonizers.SequentialMergeBatchNorm()])
    relevances = []
    for direction in scene.directions():
        module = scene.module(direction)
        leaf = _leaf(scene.x)
        with composite.context(module) as changed:
            relevances.append(torch.autograd.grad(changed(leaf).sum(), leaf)[0])
    return torch.stack(relevances)


@method("activation x input")
def _activation(scene: Scene) -> Tensor:
    """The feature's deviation, summed over channels and brought to the input's size, as a mask on ``x - mu``."""
    node = scene.graph.nodes[scene.target]
    if len(node.coord_shape) != 2 or scene.x.dim() != 4:
        raise QueryError("a target with two coordinate axes", f"{node.shape}", "Leave this method out here.")
    maps = torch.stack([d.abs().sum(node.channel_axis or 1) for d in scene.directions()])  # (Q, B, h, w)
    masks = F.interpolate(maps, scene.x.shape[-2:], mode="bilinear", align_corners=False)
    return masks.unsqueeze(2) * (scene.x - scene.mean)


@method("accentuation")
def _accentuated(scene: Scene) -> Tensor:
    """Horama's feature accentuation, seeded with the input; what it adds to the input."""
    horama = need("horama.feature_accentuation", "comparisons")
    changed = []
    for direction in scene.directions():
        for index, image in enumerate(scene.x):
            score = scene.score(direction[index : index + 1])
            accented, _ = horama.accentuation(
                lambda crops, score=score: -score(crops).mean(),
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
    return torch.stack(changed).unflatten(0, (len(scene.masks), len(scene.x)))


def _one_by_one(scene: Scene, direction: Tensor, attribute: Callable[[Any, Tensor], Tensor]) -> Tensor:
    """Methods that repeat their input, one input at a time, so that each copy meets its own direction."""
    rows = [attribute(scene.score(direction[i : i + 1]), _leaf(scene.x[i : i + 1])) for i in range(len(scene.x))]
    return torch.cat(rows)


def _leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()


def _captum() -> Any:
    return need("captum.attr", "comparisons")
