"""Independent interventions on the original representation, and what they do to the decision.

An edit replaces a channel set at a coordinate set of one tensor by zero, by the calibration mean of each channel, or
by given values, and runs the rest of the original model. The class pair of the margin stays that of the unedited
input. No inverse is involved anywhere in this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sgfi.decisions.readout import Split, margin
from sgfi.errors import QueryError, did_you_mean
from sgfi.graph import Node
from sgfi.inversion import Query, along_channels
from sgfi.inversion.query import Coord

PROTOCOLS = ("mean", "zero")
CHUNK = 64
"""Edited copies run at a time."""


@dataclass(frozen=True)
class Edit:
    """What is replaced: a channel set and a coordinate set (``None``: all of them)."""

    channels: Sequence[int] | None = None
    coords: Sequence[Coord] | None = None


@dataclass(frozen=True, eq=False)
class Effects:
    """What n edits did to the decisions on B inputs."""

    drop: Tensor
    """(n, B) margin before minus margin after: positive where the edit hurt the predicted class."""
    flipped: Tensor
    """(n, B) bool: the predicted class is no longer first."""
    before: Tensor
    """(B,) margin of the unedited inputs."""

    @property
    def normalised(self) -> Tensor:
        """(n, B) drop in units of the input's own margin."""
        return self.drop / self.before


@torch.no_grad()
def intervene(split: Split, edits: Sequence[Edit], value: Tensor | float = 0.0, chunk: int = CHUNK) -> Effects:
    """Run every edit on every input of a split.

    ``value`` is a number, one value per channel (C,) such as the calibration means, or a tensor that broadcasts to the
    state (B, ...). Law: an edit that replaces entries by themselves changes nothing.
    """
    if not edits:
        raise QueryError("at least one edit", "none", "Give a list of Edit.")
    replacement = _replacement(split, value)
    count = max(1, chunk // len(split.x))
    drops, flips = [], []
    for start in range(0, len(edits), count):
        part = edits[start : start + count]
        masks = torch.stack([_mask(split.node, edit, split.state) for edit in part]).unsqueeze(1)  # (n, 1, ...)
        edited = torch.where(masks, replacement, split.state)  # (n, B, ...)
        logits = split.logits(edited.flatten(0, 1))  # (n*B, classes)
        top, second = (pick.repeat(len(part)) for pick in (split.decision.top, split.decision.second))
        after = margin(logits, top, second).reshape(len(part), -1)
        drops.append(split.decision.margin - after)
        flips.append((logits.argmax(1) != top).reshape(len(part), -1))
    return Effects(torch.cat(drops), torch.cat(flips), split.decision.margin)


def replacement_of(protocol: str, means: Mapping[str, Tensor] | None, node: str) -> Tensor | float:
    """The value of a named protocol at a tensor: ``zero``, or ``mean`` from the calibration means."""
    if protocol == "zero":
        return 0.0
    if protocol != "mean":
        raise QueryError(f"a protocol among {list(PROTOCOLS)}", repr(protocol), did_you_mean(protocol, PROTOCOLS))
    if means is None or node not in means:
        raise QueryError(
            f"calibration means of {node!r}",
            "none" if means is None else f"means of {list(means)[:5]}",
            "Collect them with sgfi.decisions.activation_means.",
        )
    return means[node]


@dataclass(frozen=True)
class Curve:
    """Margin left, as a fraction of the unedited margin, while channels are deleted in some order."""

    deleted: tuple[float, ...]
    """Fraction of the channels deleted, from 0."""
    left: tuple[float, ...]

    @property
    def area(self) -> float:
        """Area under the curve over the fraction deleted, divided by its range: 1 where nothing is lost."""
        span = self.deleted[-1] - self.deleted[0]
        return float(torch.trapezoid(torch.tensor(self.left), torch.tensor(self.deleted)) / span)


def deletion_counts(channels: int, points: int = 9) -> list[int]:
    """How many channels are deleted at each point of a curve: 0, then doubling up to all of them."""
    counts = [round(channels * 2.0 ** -(points - 2 - i)) for i in range(points - 1)]
    return [0, *dict.fromkeys(max(1, count) for count in counts)]


def deletion(
    split: Split, orders: Sequence[Sequence[int]], value: Tensor | float = 0.0, counts: Sequence[int] | None = None
) -> list[Curve]:
    """One curve per order (a sequence of channels, most important first) for the one input of a split."""
    if len(split.x) != 1:
        raise QueryError("one input", str(len(split.x)), "Pass x[i : i + 1].")
    total = split.node.channels
    counts = list(counts or deletion_counts(total))
    edits = [Edit(sorted(order[:count])) for order in orders for count in counts if count]
    left = iter((1 - intervene(split, edits, value).normalised[:, 0]).tolist())
    deleted = tuple(count / total for count in counts)
    return [Curve(deleted, tuple(next(left) if count else 1.0 for count in counts)) for _ in orders]


@contextmanager
def intervened(
    model: nn.Module,
    module: str,
    edit: Edit,
    value: Tensor | float = 0.0,
    *,
    channel_axis: int = 1,
) -> Iterator[nn.Module]:
    """The user's own model with one module's output edited; as it was on leaving, whatever happens inside.

    For code that must run the model itself. Everything in this package uses :func:`intervene`, which touches nothing.
    """
    modules = dict(model.named_modules())
    if module not in modules:
        raise QueryError(
            "the name of a module", repr(module), did_you_mean(module, modules) or "See model.named_modules()."
        )

    def replace(_module: nn.Module, _inputs: object, output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise QueryError(f"a tensor from {module!r}", type(output).__name__, "Choose a module that returns one.")
        axis = channel_axis % output.dim()
        coords = tuple(dim for dim in range(1, output.dim()) if dim != axis)
        node = Node(module, (None, *output.shape[1:]), "", module, axis, coords, output.dtype)
        shaped = along_channels(value, axis, output.dim()) if isinstance(value, Tensor) and value.dim() == 1 else value
        filled = torch.as_tensor(shaped, dtype=output.dtype, device=output.device)
        return torch.where(_mask(node, edit, output), filled, output)

    handle = modules[module].register_forward_hook(replace)
    try:
        yield model
    finally:
        handle.remove()


def _mask(node: Node, edit: Edit, state: Tensor) -> Tensor:
    return Query(node.name, edit.channels, edit.coords).mask(node, state.device)


def _replacement(split: Split, value: Tensor | float) -> Tensor:
    state, node = split.state, split.node
    if not isinstance(value, Tensor):
        return state.new_tensor(float(value))
    value = value.to(state)
    if value.dim() == 1 and len(value) == node.channels:
        return along_channels(value, node.channel_axis, state.dim())
    by_position = value.dim() == 1 and len(value) > 1  # a vector of other numbers than channels
    if by_position or not _broadcasts(value, state):
        expected = f"a number, ({node.channels},) channel values or values that broadcast to {tuple(state.shape)}"
        raise QueryError(expected, str(tuple(value.shape)), "Match the tensor's shape.")
    return value.expand_as(state)


def _broadcasts(value: Tensor, state: Tensor) -> bool:
    sizes = zip(reversed(value.shape), reversed(state.shape), strict=False)
    return value.dim() <= state.dim() and all(own in (1, size) for own, size in sizes)
