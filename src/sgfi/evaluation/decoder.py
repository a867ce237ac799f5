"""A small decoder trained to read inputs off one tensor: what a picture can be that never sees the operating point.

It is given the same tensor and the same inputs as the calibrated maps, learns ``P (H(x) - H(mu)) -> x - mu`` by least
squares for whole tensors, single channels and single cells, and answers a query by decoding the masked tensor. Whatever
it draws, it has learnt from other inputs: nothing of the network's Jacobian at x can reach the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.errors import QueryError
from sgfi.evaluation.pictures import as_grid
from sgfi.graph import Node, TensorGraph
from sgfi.inversion import Inverse, Query, Selections
from sgfi.inversion.estimator import target_or_own
from sgfi.natural import Prior, registered

LARGEST = 64
"""Pixels along a side that are decoded; larger pictures are interpolated."""


@dataclass(frozen=True)
class Training:
    """How a decoder is trained."""

    steps: int = 400
    batch: int = 16
    rate: float = 2e-3
    width: int = 96
    """Channels after the first layer; each doubling of the resolution halves them, down to 24."""
    seed: int = 0


class GridDecoder(nn.Module):
    """(B, *target) -> (B, C, H, W): one layer over channels, then doublings of the resolution."""

    def __init__(self, node: Node, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.node, self.shape = node, shape
        side = as_grid(torch.zeros(1, *(int(size) for size in node.shape[1:])), node).shape[-1]  # type: ignore[arg-type]
        doublings = max(0, int(log2(min(LARGEST, shape[-1]) / side)))
        widths = [max(24, width >> level) for level in range(doublings + 1)]
        self.first = nn.Conv2d(node.channels, widths[0], 1)
        self.grown = nn.ModuleList(nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(widths))
        self.last = nn.Conv2d(widths[-1], shape[0], 3, padding=1)

    def forward(self, state: Tensor) -> Tensor:
        drawn = F.relu(self.first(as_grid(state, self.node)))
        for layer in self.grown:
            drawn = F.relu(layer(F.interpolate(drawn, scale_factor=2.0)))
        drawn = self.last(drawn)
        return F.interpolate(drawn, self.shape[1:], mode="bilinear", align_corners=False)


class SequenceDecoder(nn.Module):
    """(B, L, D') -> (B, L, D): channels, positions, channels."""

    def __init__(self, node: Node, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.first, self.mixed = nn.Linear(node.channels, 4 * width), nn.Linear(shape[0], shape[0])
        self.last = nn.Linear(4 * width, shape[1])

    def forward(self, state: Tensor) -> Tensor:
        read = F.relu(self.first(state))
        return self.last(F.relu(read + self.mixed(read.mT).mT))


class Decoder(nn.Module):
    """A decoder of one tensor; the state is brought to one size first, so that zero stays zero."""

    scale: Tensor

    def __init__(self, node: Node, shape: tuple[int, ...], width: int = Training.width) -> None:
        super().__init__()
        kinds: dict[int, type[nn.Module]] = {2: SequenceDecoder, 3: GridDecoder}
        if len(shape) not in kinds:
            raise QueryError("pictures or sequences as inputs", str(shape), "Leave the decoder out here.")
        self.body = kinds[len(shape)](node, shape, width)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, state: Tensor) -> Tensor:
        return self.body(state / self.scale)


def train_decoder(
    graph: TensorGraph, target: str, batches: Iterable[Tensor], prior: Prior, training: Training | None = None
) -> Decoder:
    """Trained on the deviations of all inputs of ``batches``; the same seed gives the same decoder."""
    training = training or Training()
    node = graph.nodes[target]
    states, inputs = _deviations(graph, node, batches, prior)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(training.seed)
        decoder = Decoder(node, prior.shape, training.width)
        decoder.scale.fill_(float(states[: training.batch].float().square().mean().sqrt().clamp_min(1e-30)))
        optimiser = torch.optim.Adam(decoder.parameters(), training.rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, training.rate, training.steps)
        for _ in range(training.steps):
            chosen = torch.randint(len(inputs), (training.batch,))
            masked = states[chosen].float() * _masks(node, training.batch)
            loss = F.mse_loss(decoder(masked), inputs[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return decoder.eval().requires_grad_(False)


@dataclass(frozen=True, eq=False)
class Decoders:
    """Trained decoders as an estimator, so that every control and measure takes them."""

    graph: TensorGraph
    prior: Prior
    by_target: Mapping[str, Decoder]
    """Canonical names, shallow to deep."""

    @property
    def target(self) -> str:
        return self.targets[-1]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.by_target)

    def node(self, target: str | None = None) -> Node:
        name = self.graph.nodes.canonical(target_or_own(target, self.target))
        if name not in self.by_target:
            raise QueryError(f"a target among {list(self.by_target)}", repr(target), "Train a decoder for it.")
        return self.graph.nodes[name]

    @property
    def origin(self) -> Tensor:
        return self.prior.mean

    @torch.no_grad()
    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        """H(x) - H(mu)"""
        return registered(self.graph, self.node(target).name, x, self.prior)

    @torch.no_grad()
    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[Inverse]:
        """The masked state decoded; there is one stage."""
        node = self.node(queries[0].target)
        state = self.state(x, node.name) if terminal is None else terminal
        chosen = Selections.of(query.selection(node, x.device) for query in queries)
        masked = chosen.project(state)  # (Q, B, *target)
        values = self.by_target[node.name](masked.flatten(0, 1)).unflatten(0, masked.shape[:2])
        return [
            Inverse(value, {"input": value, node.name: part}, query, stage)
            for value, part, query in zip(values, masked, queries, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        return {"estimator": "trained decoder", "targets": list(self.by_target)}


@torch.no_grad()
def _deviations(graph: TensorGraph, node: Node, batches: Iterable[Tensor], prior: Prior) -> tuple[Tensor, Tensor]:
    """(N, *target) half precision, to fit into memory, and (N, *input) deviations of all inputs."""
    states, inputs = [], []
    for x in batches:
        states.append(registered(graph, node.name, x, prior).half())
        inputs.append(x - prior.mean_like(x))
    return torch.cat(states), torch.cat(inputs)


def _masks(node: Node, count: int) -> Tensor:
    """(count, *target): half of them whole, a quarter one channel, a quarter one cell."""
    shape = [int(size) for size in node.shape[1:]]  # type: ignore[arg-type]
    masks = torch.ones(count, *shape)
    for row in range(count):
        kind = row % 4
        if kind == 1:
            channel = int(torch.randint(node.channels, ()))
            masks[row] = Query(node.name, channel).mask(node)
        elif kind == 2 and node.coord_shape:
            masks[row] = Query(node.name, None, [tuple(int(torch.randint(s, ())) for s in node.coord_shape)]).mask(node)
    return masks
