"""The model inside a wrapper: what it adds (compilation, hooks, several devices) is no part of what is computed.

A wrapper is known by the name of one of its classes, so that no library is imported for it. Names of tensors are those
of the model inside.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sgfi.errors import CaptureError

DEEPEST = 8
"""Wrappers inside each other."""


def _adapted(model: Any) -> Any:
    """A PEFT model: its adapters are layers of the model inside. Learnt prompts are not, and would be lost."""
    settings = getattr(model, "peft_config", {})
    prompts = [name for name, own in settings.items() if getattr(own, "is_prompt_learning", False)]
    if prompts:
        raise CaptureError(
            "a PEFT model whose adapters are layers (LoRA, IA3, ...)",
            f"prompt learning in the adapter {prompts[0]!r}",
            "Put the prompt before your input embeddings and capture model.get_base_model().",
        )
    return model.get_base_model()


class ResidualStream(nn.Module):
    """A HookedTransformer from its residual stream before the first block, ``(B, L, D)``, to its logits.

    Its own forward takes tokens, or checks for plain tensors, which tracing does not use. Parts and names are its own.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.blocks, self.unembed = model.blocks, model.unembed
        self.ln_final = model.ln_final if model.cfg.normalization_type is not None else nn.Identity()
        self.cap = float(getattr(model.cfg, "output_logits_soft_cap", -1.0))
        self.training = model.training
        if getattr(model.cfg, "positional_embedding_type", "") == "shortformer":
            raise CaptureError(
                "a HookedTransformer whose positions are in its residual stream",
                "shortformer positions, which every block reads",
                "Capture a block of it.",
            )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        logits = self.unembed(self.ln_final(x))
        return self.cap * torch.tanh(logits / self.cap) if self.cap > 0 else logits


def _restored(module: nn.Module) -> nn.Module:
    """A model without the components that a TransformerBridge put in the place of its own; weights are shared."""
    original = module._modules.get("_original_component")
    if original is not None:
        return _restored(original)
    own = copy.copy(module)
    own._modules = {name: None if child is None else _restored(child) for name, child in module._modules.items()}
    return own


def _bridged(model: Any) -> nn.Module:
    if getattr(model, "compatibility_mode", False):
        raise CaptureError(
            "a TransformerBridge as it was booted",
            "one in compatibility mode, whose weights are rewritten",
            "Capture the Hugging Face model itself.",
        )
    return _once(model, lambda: _restored(model.original_model))


_made: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


def _once(model: nn.Module, make: Callable[[], nn.Module]) -> nn.Module:
    """Made once for each wrapper: graphs refer to what is inside as long as the wrapper lives."""
    if model not in _made:
        _made[model] = make()
    return _made[model]


INSIDE: dict[str, Callable[[Any], Any]] = {
    "torch._dynamo.eval_frame.OptimizedModule": lambda model: model._orig_mod,
    "torch.nn.parallel.data_parallel.DataParallel": lambda model: model.module,
    "torch.nn.parallel.distributed.DistributedDataParallel": lambda model: model.module,
    "peft.peft_model.PeftModel": _adapted,
    "nnsight.intervention.envoy.Envoy": lambda model: model._module,
    "transformer_lens.HookedTransformer.HookedTransformer": lambda model: _once(model, lambda: ResidualStream(model)),
    "transformer_lens.model_bridge.transformer_bridge.TransformerBridge": _bridged,
    "transformer_lens.model_bridge.bridge.TransformerBridge": _bridged,
}
"""By the full name of a class, of which the wrapper may be a subclass."""


def unwrapped(model: Any) -> nn.Module:
    """The model that does the work; anything that is no known wrapper as it is."""
    for _ in range(DEEPEST):
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__]
        inside = next((INSIDE[name] for name in names if name in INSIDE), None)
        if inside is None:
            break
        model = inside(model)
    return model
