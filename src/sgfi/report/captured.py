"""Captured graphs of models that were looked at before, kept while the model lives and is what it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Set
from types import CellType, FunctionType, MethodType, ModuleType
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
"""What every module has of its own: weights and modules are in the key already, models with hooks are not kept."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
LONGEST, MOST = 1000, 50_000
"""Entries of one attribute, and of all of them, that are looked into; what goes beyond is known by being the same
object."""


def captured(model: nn.Module, x: Tensor, names: Collection[str]) -> TensorGraph:
    """The graph of a model at inputs like x (B, ...) that has the named tensors, kept while the model lives."""
    if any(vars(own)[hooks] for own in model.modules() for hooks in _HOOKS):  # a hook may read anything
        return capture_with(model, torch.cat([x[:1], x[:1]]), names)
    graphs = _graphs.setdefault(model, {})
    weights = (*model.parameters(), *model.buffers())
    held = tuple((id(weight), _address(weight)) for weight in weights)
    key = x.shape[1:], x.dtype, x.device, held, _structure(model)
    if key not in graphs or any(name not in graphs[key].nodes for name in names):
        graphs.clear()  # of another size, of weights that were replaced, or with attention closed
        graphs[key] = capture_with(model, torch.cat([x[:1], x[:1]]), names)
    return graphs[key]


def _structure(model: nn.Module) -> Hashable:
    """Changes where a module is exchanged, or its mode, settings, attributes or forward."""
    modules = dict(model.named_modules())
    kinds = tuple((name, type(own), own.training, own.extra_repr()) for name, own in modules.items())
    attributes = [{key: held for key, held in vars(own).items() if key not in _OWN} for own in modules.values()]
    return kinds, _settled(attributes, modules.values())


def _settled(value: Any, known: Iterable[Any] = ()) -> Hashable:
    """All that can be reached from a value, what is near first, each object once and none of the ``known`` ones.

    Plain values, arrays, containers and functions are compared by what they hold, others by which object it is and by
    their attributes.
    """
    numbers = {id(own): number for number, own in enumerate(known)}
    entries: list[Hashable] = []
    waiting = deque([value])
    while waiting:
        own = waiting.popleft()
        if isinstance(own, _PLAIN):
            entries.append((type(own), own))
        elif id(own) in numbers:
            entries.append(numbers[id(own)])
        else:
            numbers[id(own)] = len(numbers)
            contents, parts = _opened(own)
            fits = len(entries) + len(waiting) + len(parts) <= MOST
            entries.append((type(own), contents if fits else id(own), len(parts)))
            waiting.extend(parts if fits else ())
    return tuple(entries)


def _opened(value: Any) -> tuple[Hashable, list[Any]]:
    """What is compared of an object itself, and the objects it holds."""
    if isinstance(value, Tensor):
        return (id(value), _address(value), 0 if value.is_inference() else value._version), []
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (value.dtype.str, value.shape, value.tobytes()), []
    if isinstance(value, (list, tuple, Set, Mapping)):
        if len(value) > LONGEST:
            return id(value), []
        return None, [*value, *value.values()] if isinstance(value, Mapping) else list(value)
    if isinstance(value, FunctionType):
        return value.__code__, [value.__defaults__, value.__kwdefaults__, list(value.__closure__ or ())]
    if isinstance(value, CellType):
        return None, [value.cell_contents] if value != CellType() else []  # an empty one has none
    if isinstance(value, MethodType):
        return None, [value.__self__, value.__func__]
    looked_into = hasattr(value, "__dict__") and not isinstance(value, (type, ModuleType))
    return id(value), [vars(value)] if looked_into else []


def _address(weight: Tensor) -> int:
    """Changes where ``.data`` is exchanged."""
    return weight.data_ptr() if weight.layout == torch.strided else 0
