"""Captured graphs of models that were looked at before, kept while the model lives and is what it was."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from sgfi.derivatives import capture_with
from sgfi.graph import TensorGraph

_graphs: WeakKeyDictionary[nn.Module, dict[Any, TensorGraph]] = WeakKeyDictionary()
"""By input and everything the forward is seen to depend on: a second look at the same model starts at once."""
_OWN = frozenset(vars(nn.Module()))
"""What every module has of its own: weights and modules are in the key already, hooks by their numbers."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
DEPTH, LONGEST = 4, 1000
"""How far attributes are looked into; a longer or deeper one is known by being the same object."""


def captured(model: nn.Module, x: Tensor, names: Collection[str]) -> TensorGraph:
    """The graph of a model at inputs like x (B, ...) that has the named tensors, kept while the model lives."""
    graphs = _graphs.setdefault(model, {})
    weights = (*model.parameters(), *model.buffers())
    held = tuple((id(weight), _address(weight)) for weight in weights)
    key = x.shape[1:], x.dtype, x.device, held, _structure(model)
    if key not in graphs or any(name not in graphs[key].nodes for name in names):
        graphs.clear()  # of another size, of weights that were replaced, or with attention closed
        graphs[key] = capture_with(model, torch.cat([x[:1], x[:1]]), names)
    return graphs[key]


def _structure(model: nn.Module) -> tuple[Hashable, ...]:
    """Changes where a module is exchanged, or its mode, settings, hooks, attributes or forward."""
    return tuple(
        (
            name,
            type(own),
            own.training,
            own.extra_repr(),
            *(tuple(vars(own)[hooks]) for hooks in _HOOKS),
            *((key, _settled(value)) for key, value in vars(own).items() if key not in _OWN),
        )
        for name, own in model.named_modules()
    )


def _settled(value: Any, depth: int = DEPTH) -> Hashable:
    """Plain values, arrays and settings by what they hold; of others, or too deep or long ones, which object it is."""
    if isinstance(value, Tensor):
        return id(value), _address(value), 0 if value.is_inference() else value._version
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value) or isinstance(value, SimpleNamespace):
        value = vars(value) if hasattr(value, "__dict__") else value
    if not depth or (isinstance(value, (list, tuple, Mapping)) and len(value) > LONGEST):
        return id(value)
    if isinstance(value, (list, tuple)):
        return tuple(_settled(own, depth - 1) for own in value)
    if isinstance(value, Mapping):
        return tuple((str(key), _settled(own, depth - 1)) for key, own in value.items())
    return value if isinstance(value, (bool, int, float, complex, str, bytes, type(None))) else id(value)


def _address(weight: Tensor) -> int:
    """Changes where ``.data`` is exchanged."""
    return weight.data_ptr() if weight.layout == torch.strided else 0
