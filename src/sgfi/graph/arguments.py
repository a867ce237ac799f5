"""How a model is called: the tensor that is inverted, side inputs that belong to each sample, and fixed arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sgfi.errors import CaptureError, QueryError, did_you_mean, whole

Example = Tensor | Mapping[str, Any] | tuple
"""One batch: the tensor itself, or every argument of the forward by name or in order."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """One call of a model. All tensors of samples are batch first, ``(B, ...)``, whatever the model takes."""

    x: Tensor
    """(B, ...) what is inverted."""
    invert: str = ""
    """Its name: a forward argument, or a dotted path into one (``batch.image``). Empty: the first argument."""
    sides: Mapping[str, Tensor] | None = None
    """(B, ...) by name: what belongs to each sample beside it."""
    fixed: Mapping[str, Any] | None = None
    """By name: the same for every sample."""
    structure: Any = None
    """How the named values nest in the forward's arguments (a pytree specification), and their names in order."""
    axes: Mapping[str, int] | None = None
    """Where the model has its batch axis, by name; 0 where nothing is said. The inverted tensor is the empty name."""

    @property
    def plain(self) -> bool:
        """Whether the model is called with the one tensor and nothing else."""
        return not (self.invert or self.sides or self.fixed or any((self.axes or {}).values()))

    def first(self, count: int) -> Arguments:
        """The first samples, repeated where there are fewer."""
        x, sides = _first(self.x, count), {name: _first(side, count) for name, side in (self.sides or {}).items()}
        return Arguments(x, self.invert, sides, self.fixed, self.structure, self.axes)

    def repeated(self, times: int) -> Arguments:
        """Every side input once more for each of ``times`` batches."""
        sides = {name: torch.cat([side] * times) for name, side in (self.sides or {}).items()}
        return Arguments(self.x, self.invert, sides, self.fixed, self.structure, self.axes)


def _first(tensor: Tensor, count: int) -> Tensor:
    tensor = tensor.detach()
    return tensor[:count] if len(tensor) >= count else torch.cat([tensor[:1]] * count)


def arguments(
    model: nn.Module,
    example: Example,
    invert: str | int | None,
    bound: Mapping[str, Any] | None,
    batch_axis: int | Mapping[str, int],
) -> Arguments:
    """The call that an example asks for, checked."""
    bound = {name: _copied(own) for name, own in (bound or {}).items()}
    if isinstance(example, Tensor) or (not isinstance(example, (Mapping, tuple)) and not hasattr(example, "keys")):
        if invert is not None:
            raise CaptureError(
                "invert= beside a mapping of the forward's arguments",
                type(example).__name__,
                "Pass {name: tensor, ...} as the example.",
            )
        return Arguments(example, fixed=bound, axes=_axes(batch_axis, [""]))  # type: ignore[arg-type]
    named = _by_name(model, example)
    twice = sorted(set(named) & set(bound))
    if twice:
        raise CaptureError("each argument once", f"{twice[0]!r} in the example and in bound", "Leave one out.")
    leaves, structure = pytree.tree_flatten_with_path(named)
    flat = {".".join(key_name(key) for key in path): leaf for path, leaf in leaves}
    places = dict(enumerate(named))
    chosen = _chosen(flat, places.get(invert, str(invert)) if isinstance(invert, int) else invert)
    batch = len(flat[chosen]) if flat[chosen].dim() else 0
    sides, fixed = dict[str, Tensor](), dict[str, Any]()
    for name, leaf in flat.items():
        if name == chosen:
            continue
        if not isinstance(leaf, Tensor):
            fixed[name] = leaf
        elif leaf.dim() and len(leaf) == batch:
            sides[name] = leaf
        else:
            raise CaptureError(
                f"one {name!r} for each of the {batch} samples, ({batch}, ...)",
                str(tuple(leaf.shape)),
                f"What is the same for every sample goes into bound={{{name!r}: ...}}.",
            )
    axes = _axes(batch_axis, ["", *sides], chosen)
    return Arguments(flat[chosen], chosen, sides, fixed | bound, (structure, tuple(flat), tuple(bound)), axes)


def _copied(value: Any) -> Any:
    """A value, or a nest of values, with tensors that the caller does not write to."""
    return pytree.tree_map_only(Tensor, lambda own: own.detach().clone(), value)


def _by_name(model: nn.Module, example: Any) -> dict[str, Any]:
    """The forward's arguments by name; positional ones are named by the forward's signature."""
    if not isinstance(example, tuple):
        return dict(example)
    try:
        given = inspect.signature(model.forward).bind_partial(*example).arguments
    except TypeError as error:
        raise CaptureError("arguments that the forward takes", str(error), "Give them by name.") from error
    if any(isinstance(each, tuple) and each and each[0] is example[-1] for each in given.values()):
        raise CaptureError("arguments with names", "a forward that takes *args", "Wrap it in one that names them.")
    return dict(given)


def key_name(key: Any) -> str:
    """One step into a nest of arguments or outputs."""
    return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))


def _chosen(flat: Mapping[str, Any], invert: str | None) -> str:
    """The path of the inverted tensor; without a choice the only floating tensor."""
    floating = [name for name, leaf in flat.items() if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if invert is None and len(floating) == 1:
        return floating[0]
    if invert in floating:
        return str(invert)
    raise CaptureError(
        "the name of the tensor to invert, invert=" + " or ".join(map(repr, floating or ["a floating tensor"])),
        "none" if invert is None else repr(invert),
        (did_you_mean(str(invert), floating) if invert else "") or "Name the one that pictures should be of.",
    )


def _axes(batch_axis: int | Mapping[str, int], names: list[str], chosen: str = "") -> dict[str, int]:
    """The batch axis of the inverted tensor (the empty name) and of every side input."""
    if isinstance(batch_axis, Mapping):
        given = {"" if name == chosen else name: axis for name, axis in batch_axis.items()}
    else:
        given = dict.fromkeys(names, batch_axis)
    for name, axis in given.items():
        if name not in names or not whole(axis):
            raise CaptureError(
                f"batch axes from 0 up for {[each or chosen for each in names]}",
                f"{name or chosen!r}: {axis!r}",
                "Give one number for all tensors, or a mapping from name to number.",
            )
    return given


class Call(nn.Module):
    """A model called by :class:`Arguments`; module paths gain a prefix, which capture takes away again."""

    def __init__(self, model: nn.Module, how: Arguments) -> None:
        super().__init__()
        self.model, self.how = model, how
        self.training = model.training

    def forward(self, x: Tensor, *sides: Tensor) -> Any:
        how, axes = self.how, self.how.axes or {}
        x = x.movedim(0, axes.get("", 0)) if axes.get("") else x
        if not how.invert:
            return plain_outputs(self.model(x, **(how.fixed or {})))
        values = {**(how.fixed or {}), how.invert: x}
        for name, side in zip(how.sides or {}, sides, strict=True):
            values[name] = side.movedim(0, axes[name]) if axes.get(name) else side
        structure, names, bound = how.structure
        given = pytree.tree_unflatten([values[name] for name in names], structure)
        return plain_outputs(self.model(**given, **{name: values[name] for name in bound}))


def plain_outputs(returned: Any) -> Any:
    """Dataclasses that torch does not know as dictionaries of their fields; all else as it is."""
    leaves = pytree.tree_leaves(returned)
    if is_dataclass(returned) and len(leaves) == 1 and leaves[0] is returned:
        return {field.name: plain_outputs(getattr(returned, field.name)) for field in fields(returned)}
    return returned


def split_inputs(inputs: Tensor | Mapping[str, Any], invert: str, sides: tuple[str, ...]) -> tuple[Tensor, dict]:
    """The inverted tensor and the side inputs of a batch, which may nest as the model's arguments do."""
    if isinstance(inputs, Tensor) or not (isinstance(inputs, Mapping) or hasattr(inputs, "keys")):
        return inputs, {}  # type: ignore[return-value]
    flat = {".".join(map(key_name, path)): leaf for path, leaf in pytree.tree_flatten_with_path(dict(inputs))[0]}
    wanted = (invert, *sides)
    wrong = [f"none called {name!r}" for name in wanted if not isinstance(flat.get(name), Tensor)]
    wrong += [f"{name!r} too" for name in flat if name not in wanted]
    if wrong:
        raise QueryError(
            f"the tensors {', '.join(wanted)} of every sample",
            wrong[0],
            "Pass these and no others: what was fixed at capture stays.",
        )
    return flat[invert], {name: flat[name] for name in sides}
