"""Models whose weights are kept elsewhere and brought to the device as they are needed.

Accelerate's ``cpu_offload``, ``disk_offload`` and ``dispatch_model`` (``device_map`` in Hugging Face's loaders) leave
weights in memory, on disk or on other devices, and put hooks around modules that fetch them. Here such a model is
traced without its hooks, with weights that have a shape and no values; whoever runs a piece of the graph fetches what
the piece reads. Hooks are known by the name of their class, so that the library is not imported for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from sgfi.errors import CaptureError

HOOK, CHAIN = "accelerate.hooks.AlignDevicesHook", "accelerate.hooks.SequentialHook"
Fetch = Callable[[], Tensor]


class Homes(Mapping[str, Tensor]):
    """Weights by name where they are kept; those on disk are read at every access."""

    def __init__(self, fetch: Mapping[str, Fetch]) -> None:
        self._fetch = fetch

    def __getitem__(self, name: str) -> Tensor:
        return self._fetch[name]().detach()

    def __contains__(self, name: object) -> bool:
        return name in self._fetch

    def __iter__(self) -> Iterator[str]:
        return iter(self._fetch)

    def __len__(self) -> int:
        return len(self._fetch)

    def renamed(self, names: Mapping[str, str], others: Mapping[str, Tensor]) -> Homes:
        """Under other names, ``{new: old}``; what has no home here is one of ``others``, by its new name."""
        known = {new: self._fetch[old] for new, old in names.items() if old in self._fetch}
        return Homes({new: known.get(new) or partial(others.__getitem__, new) for new in others})


def homes(model: nn.Module, device: torch.device) -> Homes:
    """The weights that are not on the device, by qualified name; none of a model without hooks."""
    fetch: dict[str, Fetch] = {}
    hooked = [
        (path, module, hook) for path, module in model.named_modules(remove_duplicate=False) for hook in _hooks(module)
    ]
    for path, module, hook in hooked:
        if hook.offload and hook.weights_map is not None:
            for name, _ in _own_tensors(module, hook.place_submodules):
                fetch[_joined(path, name)] = partial(hook.weights_map.__getitem__, name)
    elsewhere = [(name, own) for name, own in _own_tensors(model, True) if hooked and own.device != device]
    missing = next((name for name, own in elsewhere if own.is_meta and name not in fetch), None)
    if missing is not None:
        raise CaptureError("weights with values", f"{missing!r} on the device meta", "Load the weights first.")
    return Homes({name: partial(_itself, own) if not own.is_meta else fetch[name] for name, own in elsewhere})


def stand_in(model: nn.Module, device: torch.device) -> nn.Module:
    """The model without its hooks, to be traced: weights from elsewhere are on the device, and have no values."""
    return _Copy(device).of(model)


class _Copy:
    """A copy of a tree of modules; what was shared by two of them is shared again."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._mode = device, FakeTensorMode(allow_non_fake_inputs=True)
        self._modules: dict[nn.Module, nn.Module] = {}
        self._tensors: dict[int, Tensor] = {}

    def of(self, module: nn.Module) -> nn.Module:
        if module in self._modules:
            return self._modules[module]
        own = self._modules[module] = copied(module)
        own._modules = {name: None if child is None else self.of(child) for name, child in module._modules.items()}
        own._parameters = {name: None if each is None else self._hollow(each) for name, each in own._parameters.items()}
        own._buffers = {name: None if each is None else self._hollow(each) for name, each in own._buffers.items()}
        return own

    def _hollow(self, tensor: Tensor) -> Any:
        if tensor.device == self._device:
            return tensor
        if id(tensor) not in self._tensors:
            with self._mode:
                empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self._device)
                parameter = isinstance(tensor, nn.Parameter)
                self._tensors[id(tensor)] = nn.Parameter(empty, requires_grad=False) if parameter else empty
        return self._tensors[id(tensor)]


def _hooks(module: nn.Module) -> list[Any]:
    """Those that place a module's weights."""
    hook = getattr(module, "_hf_hook", None)
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(hook).__mro__}
    parts = hook.hooks if hook is not None and CHAIN in names else [hook] if HOOK in names else []
    return [part for part in parts if hasattr(part, "weights_map")]


def copied(module: nn.Module) -> nn.Module:
    """A shallow copy without the hook, which stands in the place of the forward and is bound to the original."""
    own = copy.copy(module)
    if not _hooks(module):
        return own
    state = vars(own)
    inner = state.pop("_old_forward", None)
    if inner is None or getattr(inner, "__func__", None) is not type(module).forward:
        raise CaptureError(
            "an offloaded model whose modules have the forward of their class",
            f"another one in a {type(module).__name__}",
            "Capture it before it is offloaded, in one piece.",
        )
    del state["forward"], state["_hf_hook"]
    return own


def _own_tensors(module: nn.Module, recurse: bool) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(recurse=recurse, remove_duplicate=False)
    yield from module.named_buffers(recurse=recurse, remove_duplicate=False)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _itself(tensor: Tensor) -> Tensor:
    return tensor
